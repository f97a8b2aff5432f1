"""Work that a completed task left uncommitted in its tree is listed, or committed if the plan says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from application import call_tool
from deepwork.edge.server.application import Application
from workspaces.make import Plan, commit, create_plan, create_repository, run_git

pytestmark = pytest.mark.usefixtures("project")

CHAIN: dict[str, list[str] | None] = {"one": [], "two": ["one"]}


def leave(plan: Plan, name: str, **files: str) -> Path:
    """Claim the task and write these files, `a_txt` for a.txt; return its tree."""
    tree = Path(plan.claim(name)["workspace_path"])
    for file, text in files.items():
        (tree / file.replace("_", ".")).write_text(text)
    return tree


def test_completing_a_task_lists_what_is_not_committed(app: Application):
    plan = Plan(app, CHAIN)
    tree = leave(plan, "one", a_txt="changed\n", b_txt="new\n")

    answer = plan.complete("one")

    assert answer["uncommitted"] == {"files": ["a.txt", "b.txt"], "total": 2}
    branch = plan.get_branch("one")
    assert answer["warning"].startswith(f"Work in {tree} is not committed: commit it to {branch}.")
    assert "commit" not in answer
    assert (tree / "b.txt").exists()


def test_what_no_snapshot_contains_is_listed_beside_committed_work(
    app: Application, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("deepwork.kernel.git.tree_snapshots.LARGEST_UNTRACKED", 100)
    plan = Plan(app, CHAIN)
    tree = Path(plan.claim("one")["workspace_path"])
    commit(tree, a_txt="changed\n")
    (tree / "large.bin").write_text("x" * 101)
    create_repository(tree / "nested")

    answer = plan.complete("one")

    assert answer["uncommitted"] == {"files": ["large.bin", "nested/"], "total": 2}


def test_many_uncommitted_files_are_counted(app: Application):
    plan = Plan(app, CHAIN)
    leave(plan, "one", **{f"f{number:02}_txt": "x" for number in range(30)})

    left = plan.complete("one")["uncommitted"]

    assert (len(left["files"]), left["total"]) == (20, 30)


def test_completing_a_task_whose_work_is_committed_says_nothing(app: Application):
    plan = Plan(app, CHAIN, commit=True)

    plan.do("one", a_txt="changed\n")

    assert run_git(Path(plan.claims["one"]["workspace_path"]), "log", "-1", "--format=%s") == "one"


def test_a_plan_that_commits_puts_the_work_into_the_branch(app: Application, tmp_path: Path):
    plan = Plan(app, CHAIN, commit=True)
    tree = leave(plan, "one", a_txt="changed\n", b_txt="new\n")

    answer = plan.complete("one")

    branch = plan.get_branch("one")
    assert answer["commit"] == run_git(tmp_path, "rev-parse", branch)
    assert "uncommitted" not in answer
    shown = run_git(tmp_path, "log", "-1", "--format=%an <%ae>|%s|%b", branch)
    assert shown == f"Ada <ada@example.org>|one|Done.\n\nDeepwork-Task: {plan.ids['one']}"
    assert run_git(tree, "status", "--porcelain") == ""
    assert (Path(plan.claim("two")["workspace_path"]) / "b.txt").read_text() == "new\n"
    assert run_git(tmp_path, "status", "--porcelain") == ""


def test_a_claim_commits_the_work_of_its_dependency_if_the_server_died_before(
    app: Application, monkeypatch: pytest.MonkeyPatch
):
    plan = Plan(app, CHAIN, commit=True)
    leave(plan, "one", b_txt="new\n")
    with monkeypatch.context() as patch:
        patch.setattr(app._workspace_service, "finish_task", lambda *_: None)
        plan.complete("one")

    claimed = plan.claim("two")

    assert (Path(claimed["workspace_path"]) / "b.txt").read_text() == "new\n"
    assert claimed["builds_on"] == [plan.get_branch("one")]


@pytest.mark.parametrize("commits_itself", [True, False])
def test_a_claim_leaves_what_came_into_the_tree_of_its_dependency_later(
    app: Application, tmp_path: Path, commits_itself: bool
):
    plan = Plan(app, CHAIN, commit=True)
    if commits_itself:
        plan.do("one", b_txt="new\n")
    else:
        leave(plan, "one", b_txt="new\n")
        plan.complete("one")
    tree, tip = (
        Path(plan.claims["one"]["workspace_path"]),
        run_git(tmp_path, "rev-parse", plan.get_branch("one")),
    )
    (tree / "notes.txt").write_text("of a person\n")

    claimed = plan.claim("two")

    assert run_git(tmp_path, "rev-parse", plan.get_branch("one")) == tip
    assert run_git(tree, "status", "--porcelain") == "?? notes.txt"
    assert sorted(path.name for path in Path(claimed["workspace_path"]).glob("*.txt")) == ["a.txt", "b.txt"]


def test_without_an_author_in_git_s_config_deepwork_is_the_author(
    app: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    plan = Plan(app, CHAIN, commit=True)
    leave(plan, "one", b_txt="new\n")

    answer = plan.complete("one")

    assert "deepwork <deepwork@localhost>" in answer["warning"]
    assert run_git(tmp_path, "log", "-1", "--format=%an", answer["commit"]) == "deepwork"


def test_the_author_of_the_repository_s_config_comes_first(app: Application, tmp_path: Path):
    run_git(tmp_path, "config", "user.name", "Bob")
    run_git(tmp_path, "config", "user.email", "bob@example.org")
    plan = Plan(app, CHAIN, commit=True)
    leave(plan, "one", b_txt="new\n")

    assert run_git(tmp_path, "log", "-1", "--format=%an <%ae>", plan.complete("one")["commit"]) == (
        "Bob <bob@example.org>"
    )


def test_unresolved_conflicts_are_not_committed(app: Application):
    plan = Plan(app, {"one": [], "two": [], "All": ["one", "two"]}, commit=True)
    plan.do("one", a_txt="ours\n")
    plan.do("two", a_txt="theirs\n")
    tree = Path(plan.claim("All")["workspace_path"])
    with pytest.raises(Exception, match="non-zero"):
        run_git(tree, "merge", plan.get_branch("two"))

    answer = plan.complete("All")

    assert answer["uncommitted"] == {"files": ["a.txt"], "total": 1}
    assert "conflicts of a merge that are not resolved" in answer["warning"]
    assert "commit" not in answer


@pytest.mark.parametrize("obstacle", ["branch", "filter"])
def test_work_on_another_branch_or_for_a_filter_is_listed_with_the_reason(app: Application, obstacle: str):
    plan = Plan(app, CHAIN, commit=True)
    tree = leave(plan, "one", b_txt="new\n")
    if obstacle == "branch":
        run_git(tree, "switch", "-q", "-c", "elsewhere")
    else:
        (tree / ".gitattributes").write_text("*.txt filter=lfs\n")

    answer = plan.complete("one")

    assert "commit" not in answer
    assert "b.txt" in answer["uncommitted"]["files"]
    expected = {"branch": "branch 'elsewhere' is checked out", "filter": "b.txt needs a filter"}
    assert expected[obstacle] in answer["warning"]


def test_a_registered_worktree_is_listed_and_never_changed(app: Application, tmp_path: Path):
    run_git(tmp_path, "worktree", "add", "-q", "-b", "own", "own-tree")
    (tmp_path / "own-tree/a.txt").write_text("dirty\n")
    plan = Plan(app, CHAIN, commit=True)
    call_tool(
        app,
        "workspace_create",
        workflow_id=plan.id,
        path="own-tree",
        branch="own",
        task_ids=[plan.ids["one"]],
    )
    plan.claim("one")

    answer = plan.complete("one")

    assert answer["uncommitted"] == {"files": ["a.txt"], "total": 1}
    assert run_git(tmp_path / "own-tree", "status", "--porcelain") == "M a.txt"


@pytest.mark.parametrize("path", ["nowhere", "other", "."])
def test_a_workspace_that_is_only_a_label_is_ignored(app: Application, tmp_path: Path, path: str):
    (create_repository(tmp_path / "other") / "secret.txt").write_text("not yours")
    id, (one,) = create_plan(app, "one")
    call_tool(app, "workspace_create", workflow_id=id, path=path, branch="b", task_ids=[one])

    answer = call_tool(app, "task_update_status", id=one, status="completed", outcome="Done.")

    assert answer == {"success": True, "all_complete": True}
