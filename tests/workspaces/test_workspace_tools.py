"""Workspace tools, on every database and with real git."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from application import NOW, Clock, call_tool, list_event_types, list_events
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import Code, DeepworkError, GitError
from workspaces.make import commit, create_plan, create_repository, list_workspaces, run_git

pytestmark = pytest.mark.usefixtures("project")

TREE = ".deepwork/worktrees/tree"


def expect_error(app: Application, tool: str, **arguments: Any) -> DeepworkError:
    with pytest.raises(DeepworkError) as refused:
        call_tool(app, tool, **arguments)
    return refused.value


def create_workspace(app: Application, workflow_id: str, name: str, **given: Any) -> tuple[str, Path]:
    """A workspace whose tree deepwork made."""
    answer = call_tool(
        app, "workspace_create", workflow_id=workflow_id, path=f".deepwork/worktrees/{name}", branch=name,
        create=True, **given,
    )  # fmt: skip
    return answer["id"], Path(answer["path"])


# workspace_create


def test_an_existing_tree_is_registered_without_changes(app: Application, tmp_path: Path):
    id, (one, two) = create_plan(app, "one", "two")
    (tmp_path / "tree").mkdir()

    answer = call_tool(
        app, "workspace_create", workflow_id=id, path=str(tmp_path / "tree"), branch="feat/x",
        base_branch="main", task_ids=[two, one, two],
    )  # fmt: skip

    assert answer == {"id": answer["id"]}
    assert answer["id"].startswith("ws_")
    assert list_workspaces(app, id) == [
        {
            "id": answer["id"], "workflow_id": id, "path": str(tmp_path / "tree"), "branch": "feat/x",
            "base_branch": "main", "status": "active", "is_made": False, "host": app._host,
            "repository_path": str(tmp_path), "task_ids": [one, two], "created_by": "local",
            "created_at": NOW, "updated_at": NOW,
        }
    ]  # fmt: skip
    assert call_tool(app, "task_get", id=one)["workspace_id"] == answer["id"]
    assert run_git(tmp_path, "worktree", "list").count("\n") == 0
    assert list_event_types(app)[-1] == "workspace:created"


def test_a_missing_folder_is_registered_with_a_warning(app: Application):
    id, _ = create_plan(app)

    answer = call_tool(app, "workspace_create", workflow_id=id, path="/not/there", branch="b")

    assert answer["warning"] == "There is no folder '/not/there' on this machine yet."


def test_create_adds_the_worktree_and_its_branch(app: Application, tmp_path: Path):
    id, _ = create_plan(app)

    workspace, tree = create_workspace(app, id, "feature")

    assert (tree / "a.txt").read_text() == "one\n"
    assert run_git(tree, "branch", "--show-current") == "feature"
    (shown,) = list_workspaces(app, id)
    assert (shown["id"], shown["is_made"]) == (workspace, True)
    assert shown["base_branch"] == "main"
    assert shown["base_commit"] == run_git(tmp_path, "rev-parse", "main")
    assert list_event_types(app)[-2:] == ["workspace:created", "workspace:updated"]
    assert run_git(tmp_path, "status", "--porcelain") == ""


def test_a_long_list_of_conflicts_is_cut_and_says_so(app: Application, tmp_path: Path):
    id, _ = create_plan(app)
    one, tree = create_workspace(app, id, "one")
    commit(tree, **{f"f{number:03}": "ours\n" for number in range(501)})
    commit(tmp_path, **{f"f{number:03}": "theirs\n" for number in range(501)})

    answer = call_tool(app, "workspace_check", id=one)

    assert len(answer["conflicts_with_base"]) == 500
    assert (answer["truncated"], answer["counts"]) == (["conflicts_with_base"], {"conflicts_with_base": 501})


def test_the_branch_starts_at_the_given_base(app: Application, tmp_path: Path):
    run_git(tmp_path, "switch", "-qc", "develop")
    begin = commit(tmp_path, a_txt="develop\n")
    run_git(tmp_path, "switch", "-q", "main")
    id, _ = create_plan(app)

    _, tree = create_workspace(app, id, "feature", base_branch="develop")

    assert run_git(tree, "rev-parse", "HEAD") == begin
    assert list_workspaces(app, id)[0]["base_branch"] == "develop"


def test_a_worktree_may_be_created_next_to_the_repository(app: Application, tmp_path: Path):
    create_repository(tmp_path / "deep" / "shop")
    id, _ = create_plan(app, repository_path="deep/shop")

    answer = call_tool(
        app, "workspace_create", workflow_id=id, path="../shop-trees/x", branch="x", create=True
    )

    assert answer["path"] == str(tmp_path / "deep/shop-trees/x")
    assert (tmp_path / "deep/shop-trees/x/a.txt").exists()


@pytest.mark.parametrize(
    "path",
    [
        "/etc/tree", "../../../../../../tree", ".", "..", "src", ".git/tree", ".deepwork/jobs/x",
        "../other/.git/hooks", "../other/inside", "../bare/.git/hooks", ".deepwork/worktrees",
        "../.ssh", "../.config/autostart", "../x", "../b-trees/.ssh", "../b",
    ],
)  # fmt: skip
def test_a_worktree_elsewhere_is_refused(app: Application, tmp_path: Path, path: str):
    create_repository(tmp_path / "a" / "b")
    create_repository(tmp_path / "a" / "other")
    id, _ = create_plan(app, repository_path="a/b")

    error = expect_error(app, "workspace_create", workflow_id=id, path=path, branch="x", create=True)

    assert error.code is Code.PATH_OUTSIDE_PROJECT
    assert list_workspaces(app, id) == []


@pytest.mark.parametrize("branch", ["-dash", "a..b", "a b", "@", "a.lock", "--upload-pack=x"])
def test_an_invalid_branch_name_is_refused_without_leftovers(app: Application, tmp_path: Path, branch: str):
    id, (task,) = create_plan(app, "one")

    error = expect_error(
        app, "workspace_create", workflow_id=id, path=TREE, branch=branch, create=True, task_ids=[task]
    )

    assert error.code is Code.INVALID_INPUT
    assert repr(branch) in error.message
    assert list_workspaces(app, id) == []
    assert "workspace_id" not in call_tool(app, "task_get", id=task)
    assert not (tmp_path / TREE).exists()
    assert list_event_types(app)[-1] == "workspace:removed"


def test_a_failed_creation_can_be_repeated_under_its_key(app: Application, tmp_path: Path):
    id, _ = create_plan(app)
    asked: dict[str, Any] = {
        "workflow_id": id,
        "path": TREE,
        "branch": "x",
        "base_branch": "later",
        "create": True,
    }
    assert "'later'" in expect_error(app, "workspace_create", key="k", **asked).message
    run_git(tmp_path, "branch", "later")

    answer = call_tool(app, "workspace_create", key="k", **asked)

    assert (tmp_path / TREE / "a.txt").exists()
    assert call_tool(app, "workspace_create", key="k", **asked) == answer
    assert len(list_workspaces(app, id)) == 1


def test_without_a_repository_no_worktree_is_created(app: Application, tmp_path: Path):
    shutil.rmtree(tmp_path / ".git")
    id, _ = create_plan(app)

    error = expect_error(app, "workspace_create", workflow_id=id, path=TREE, branch="x", create=True)

    assert f"{tmp_path} is not a git repository" in error.message


def test_before_the_first_commit_no_worktree_is_created(app: Application, tmp_path: Path):
    shutil.rmtree(tmp_path / ".git")
    run_git(tmp_path, "init", "-q")
    id, _ = create_plan(app)

    error = expect_error(app, "workspace_create", workflow_id=id, path=TREE, branch="x", create=True)

    assert "no commit yet" in error.message
    assert list_workspaces(app, id) == []


def test_a_detached_head_is_a_base_without_a_branch_name(app: Application, tmp_path: Path):
    run_git(tmp_path, "switch", "-q", "--detach")
    id, _ = create_plan(app)

    create_workspace(app, id, "feature")

    (shown,) = list_workspaces(app, id)
    assert "base_branch" not in shown
    assert shown["base_commit"] == run_git(tmp_path, "rev-parse", "HEAD")


def test_a_tree_and_a_branch_belong_to_one_active_workspace(app: Application):
    id, _ = create_plan(app)
    first = call_tool(app, "workspace_create", workflow_id=id, path="one", branch="a")["id"]

    same_path = expect_error(app, "workspace_create", workflow_id=id, path="./one", branch="b")
    same_branch = expect_error(app, "workspace_create", workflow_id=id, path="two", branch="a")

    assert same_path.code is same_branch.code is Code.INVALID_STATE
    assert first in same_path.message
    assert first in same_branch.message
    call_tool(app, "workspace_update", id=first, status="abandoned")
    call_tool(app, "workspace_create", workflow_id=id, path="one", branch="a")


@pytest.mark.differs
def test_only_one_of_several_concurrent_requests_for_a_branch_succeeds(app: Application):
    id, _ = create_plan(app)

    def create(number: int) -> str:
        try:
            create_workspace(app, id, "same")
        except DeepworkError as error:
            return error.code
        return f"made by {number}" if number < 0 else "made"

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(create, range(4)))

    assert sorted(outcomes) == [Code.INVALID_STATE] * 3 + ["made"]
    assert len(list_workspaces(app, id)) == 1


def test_unknown_workflows_and_tasks_and_tasks_of_others_are_refused(app: Application):
    id, _ = create_plan(app)
    _, (foreign,) = create_plan(app, "theirs")
    given = {"path": "tree", "branch": "b"}

    assert expect_error(app, "workspace_create", workflow_id="wf_no", **given).code is Code.WORKFLOW_NOT_FOUND
    unknown = expect_error(app, "workspace_create", workflow_id=id, task_ids=["tk_no"], **given)
    assert unknown.code is Code.TASK_NOT_FOUND
    other = expect_error(app, "workspace_create", workflow_id=id, task_ids=[foreign], **given)
    assert other.code is Code.WORKFLOW_MISMATCH
    assert list_workspaces(app, id) == []


# workspace_update


def test_a_merged_workspace_has_its_merge_commit_and_no_worktree(
    app: Application, tmp_path: Path, clock: Clock
):
    id, _ = create_plan(app)
    workspace, tree = create_workspace(app, id, "feature")
    commit(tree, a_txt="two\n")
    run_git(tmp_path, "merge", "-q", "--no-ff", "--no-edit", "feature")
    clock.advance(seconds=3)

    answer = call_tool(app, "workspace_update", id=workspace, status="merged")

    assert answer == {"success": True, "merge_commit": run_git(tmp_path, "rev-parse", "main")}
    assert not tree.exists()
    assert run_git(tmp_path, "branch", "--list", "feature") != ""
    (shown,) = list_workspaces(app, id)
    assert (shown["status"], shown["updated_at"]) == ("merged", NOW + 3000)
    assert list_event_types(app)[-2:] == ["workspace:updated", "workspace:removed"]


def test_a_given_merge_commit_is_stored_and_a_squash_is_a_warning(app: Application, tmp_path: Path):
    id, _ = create_plan(app)
    workspace, tree = create_workspace(app, id, "feature")
    commit(tree, a_txt="two\n")
    run_git(tmp_path, "merge", "-q", "--squash", "feature")
    squashed = commit(tmp_path, "all at once")

    answer = call_tool(app, "workspace_update", id=workspace, status="merged", merge_commit=squashed[:10])

    assert answer["merge_commit"] == squashed
    assert "squashed" in answer["warning"]
    assert not tree.exists()


@pytest.mark.parametrize("given", [None, "feature", "0123abcd"])
def test_a_branch_that_is_not_merged_cannot_be_set_to_merged(
    app: Application, tmp_path: Path, given: str | None
):
    id, _ = create_plan(app)
    workspace, tree = create_workspace(app, id, "feature")
    commit(tree, a_txt="two\n")
    commit(tree, a_txt="three\n")

    error = expect_error(app, "workspace_update", id=workspace, status="merged", merge_commit=given)

    assert (error.code, error.recoverable) == (Code.INVALID_STATE, True)
    assert error.message == "Branch 'feature' is not merged into main: 2 commits are missing there."
    assert f"`git merge feature` in {tmp_path}" in error.suggestion
    assert tree.exists()
    assert list_workspaces(app, id)[0]["status"] == "active"


def test_a_squash_that_deepwork_finds_itself_is_accepted_with_a_warning(app: Application, tmp_path: Path):
    id, _ = create_plan(app)
    workspace, tree = create_workspace(app, id, "feature")
    commit(tree, a_txt="two\n")
    commit(tree, b_txt="three\n")
    run_git(tmp_path, "merge", "-q", "--squash", "feature")
    commit(tmp_path, "all at once")
    commit(tmp_path, "later", c_txt="later\n")

    answer = call_tool(app, "workspace_update", id=workspace, status="merged")

    assert answer == {"success": True, "warning": "No merge of 'feature' was found on main."}


def test_a_merge_commit_that_git_does_not_know_is_saved_as_given(app: Application):
    id, _ = create_plan(app)
    workspace, _ = create_workspace(app, id, "feature")

    answer = call_tool(app, "workspace_update", id=workspace, status="merged", merge_commit="0123abcd")

    assert answer["merge_commit"] == "0123abcd"
    assert "no commit '0123abcd'" in answer["warning"]


def test_uncommitted_work_is_rescued_before_the_worktree_is_removed(app: Application, tmp_path: Path):
    id, _ = create_plan(app)
    workspace, tree = create_workspace(app, id, "feature")
    commit(tree, a_txt="two\n")
    (tree / "a.txt").write_text("three\n")
    (tree / "new.txt").write_text("new\n")

    answer = call_tool(app, "workspace_update", id=workspace, status="abandoned")

    rescued = answer["rescue_branch"]
    assert answer == {"success": True, "rescue_branch": rescued}
    assert not tree.exists()
    assert run_git(tmp_path, "show", f"{rescued}:a.txt") == "three"
    assert run_git(tmp_path, "show", f"{rescued}:new.txt") == "new"
    assert run_git(tmp_path, "show", "feature:a.txt") == "two"
    assert list_workspaces(app, id)[0]["rescue_branch"] == rescued


def test_a_registered_worktree_is_never_changed(app: Application, tmp_path: Path):
    run_git(tmp_path, "worktree", "add", "-q", "-b", "own", "own-tree")
    (tmp_path / "own-tree/a.txt").write_text("dirty\n")
    id, _ = create_plan(app)
    workspace = call_tool(app, "workspace_create", workflow_id=id, path="own-tree", branch="own")["id"]

    assert call_tool(app, "workspace_update", id=workspace, status="abandoned") == {"success": True}

    assert (tmp_path / "own-tree/a.txt").read_text() == "dirty\n"


def test_a_workspace_with_a_deleted_worktree_can_be_abandoned(app: Application, tmp_path: Path):
    id, _ = create_plan(app)
    workspace, tree = create_workspace(app, id, "feature")
    shutil.rmtree(tree)

    assert call_tool(app, "workspace_update", id=workspace, status="abandoned") == {"success": True}
    assert run_git(tmp_path, "worktree", "list").count("\n") == 0


def test_repeating_an_update_finishes_a_failed_removal(app: Application, tmp_path: Path):
    id, _ = create_plan(app)
    workspace, tree = create_workspace(app, id, "feature")
    run_git(tmp_path, "worktree", "lock", str(tree))
    first = call_tool(app, "workspace_update", id=workspace, status="abandoned")
    run_git(tmp_path, "worktree", "unlock", str(tree))

    again = call_tool(app, "workspace_update", id=workspace, status="abandoned")

    assert "Its tree was not removed" in first["warning"]
    assert again == {"success": True}
    assert not tree.exists()


def test_ending_a_workspace_twice_under_one_key_has_one_effect(app: Application):
    id, _ = create_plan(app)
    workspace, tree = create_workspace(app, id, "feature")

    first = call_tool(app, "workspace_update", key="k", id=workspace, status="abandoned")

    assert first == call_tool(app, "workspace_update", key="k", id=workspace, status="abandoned")
    assert not tree.exists()
    assert list_event_types(app).count("workspace:removed") == 1


def test_an_update_repeated_under_one_key_returns_the_same_rescue_branch(app: Application):
    id, _ = create_plan(app)
    workspace, tree = create_workspace(app, id, "feature")
    (tree / "a.txt").write_text("two\n")

    first = call_tool(app, "workspace_update", key="k", id=workspace, status="abandoned")

    assert first["rescue_branch"] == list_workspaces(app, id)[0]["rescue_branch"]
    assert first == call_tool(app, "workspace_update", key="k", id=workspace, status="abandoned")


@pytest.mark.parametrize(
    ("before", "after", "is_allowed"),
    [
        ("active", "active", True), ("active", "merged", True), ("active", "abandoned", True),
        ("merged", "merged", True), ("merged", "active", False), ("merged", "abandoned", False),
        ("abandoned", "abandoned", True), ("abandoned", "active", True), ("abandoned", "merged", False),
    ],
)  # fmt: skip
def test_only_allowed_status_transitions_succeed(app: Application, before: str, after: str, is_allowed: bool):
    id, _ = create_plan(app)
    workspace = call_tool(app, "workspace_create", workflow_id=id, path="tree", branch="b")["id"]
    call_tool(app, "workspace_update", id=workspace, status=before)

    if is_allowed:
        call_tool(app, "workspace_update", id=workspace, status=after.upper())
        assert list_workspaces(app, id)[0]["status"] == after
    else:
        error = expect_error(app, "workspace_update", id=workspace, status=after)
        assert error.code is Code.INVALID_TRANSITION
        assert list_workspaces(app, id)[0]["status"] == before


def test_an_abandoned_workspace_cannot_be_reactivated_if_another_uses_its_tree(app: Application):
    id, _ = create_plan(app)
    first = call_tool(app, "workspace_create", workflow_id=id, path="tree", branch="b")["id"]
    call_tool(app, "workspace_update", id=first, status="abandoned")
    second = call_tool(app, "workspace_create", workflow_id=id, path="tree", branch="b")["id"]

    assert second in expect_error(app, "workspace_update", id=first, status="active").message


def test_setting_only_the_merge_commit_keeps_the_status(app: Application):
    id, _ = create_plan(app)
    workspace = call_tool(app, "workspace_create", workflow_id=id, path="tree", branch="b")["id"]

    assert call_tool(app, "workspace_update", id=workspace, merge_commit="abc")["success"]

    (shown,) = list_workspaces(app, id)
    assert (shown["status"], shown["merge_commit"]) == ("active", "abc")


def test_an_unknown_workspace_is_named_in_the_error(app: Application):
    for tool, more in (("workspace_update", {"status": "merged"}), ("workspace_check", {})):
        error = expect_error(app, tool, id="ws_no", **more)
        assert error.code is Code.WORKSPACE_NOT_FOUND
        assert "'ws_no'" in error.message


# workspace_list


def test_workspaces_are_listed_oldest_first_and_can_be_filtered_by_status(app: Application, clock: Clock):
    id, _ = create_plan(app)
    ids = []
    for name in "abc":
        ids.append(call_tool(app, "workspace_create", workflow_id=id, path=name, branch=name)["id"])
        clock.advance(seconds=1)
    call_tool(app, "workspace_update", id=ids[1], status="abandoned")

    assert [each["id"] for each in list_workspaces(app, id)] == ids
    assert [each["id"] for each in list_workspaces(app, id, status=["active"])] == [ids[0], ids[2]]
    assert [each["id"] for each in list_workspaces(app, id, status=["ABANDONED", "merged"])] == [ids[1]]
    assert call_tool(app, "workspace_list", workflow_id=id, limit=1)["total"] == 3
    assert expect_error(app, "workspace_list", workflow_id=id, status=["gone"]).code is Code.INVALID_INPUT
    assert expect_error(app, "workspace_list", workflow_id="wf_no").code is Code.WORKFLOW_NOT_FOUND


# workspace_check


def test_a_check_lists_the_files_that_would_conflict(app: Application, tmp_path: Path):
    id, _ = create_plan(app)
    one, tree_one = create_workspace(app, id, "one")
    two, tree_two = create_workspace(app, id, "two")
    three, tree_three = create_workspace(app, id, "three")
    commit(tree_one, a_txt="ours\n")
    commit(tree_two, a_txt="theirs\n")
    commit(tree_three, b_txt="elsewhere\n")
    (tree_three / "c.txt").write_text("not yet\n")

    assert call_tool(app, "workspace_check", id=one) == {
        "clean": False, "conflicts_with_base": [], "conflicts_with": {two: ["a.txt"]}, "uncommitted": [three],
    }  # fmt: skip
    assert call_tool(app, "workspace_check", id=three)["clean"] is True
    commit(tmp_path, a_txt="main\n")
    assert call_tool(app, "workspace_check", id=one)["conflicts_with_base"] == ["a.txt"]
    call_tool(app, "workspace_update", id=two, status="abandoned")
    assert call_tool(app, "workspace_check", id=one)["conflicts_with"] == {}
    assert run_git(tmp_path, "status", "--porcelain") == ""


def test_a_missing_branch_is_reported(app: Application):
    id, _ = create_plan(app)
    workspace = call_tool(app, "workspace_create", workflow_id=id, path="tree", branch="gone")["id"]
    other, _ = create_workspace(app, id, "here")

    with pytest.raises(GitError) as refused:
        call_tool(app, "workspace_check", id=workspace)

    assert "'gone'" in refused.value.message
    assert call_tool(app, "workspace_check", id=other)["warning"] == "Branch 'gone' no longer exists."


# task_assign_workspace


def test_a_task_can_be_assigned_and_reassigned(app: Application):
    id, (task,) = create_plan(app, "one")
    first = call_tool(app, "workspace_create", workflow_id=id, path="a", branch="a")["id"]
    second = call_tool(app, "workspace_create", workflow_id=id, path="b", branch="b")["id"]

    assert call_tool(app, "task_assign_workspace", task_id=task, workspace_id=first) == {"success": True}
    call_tool(app, "task_assign_workspace", task_id=task, workspace_id=second)
    before = len(list_event_types(app))
    call_tool(app, "task_assign_workspace", task_id=task, workspace_id=second)

    assert len(list_event_types(app)) == before
    assert {each["id"]: each["task_ids"] for each in list_workspaces(app, id)} == {first: [], second: [task]}
    assert list_events(app)[-1].data["task_ids"] == [task]


def test_a_task_can_be_assigned_only_to_an_active_workspace_of_its_workflow(app: Application):
    id, (task,) = create_plan(app, "one")
    other, _ = create_plan(app)
    foreign = call_tool(app, "workspace_create", workflow_id=other, path="a", branch="a")["id"]
    over = call_tool(app, "workspace_create", workflow_id=id, path="b", branch="b")["id"]
    call_tool(app, "workspace_update", id=over, status="abandoned")

    def code(task_id: str, workspace_id: str) -> Code:
        return expect_error(app, "task_assign_workspace", task_id=task_id, workspace_id=workspace_id).code

    assert code(task, foreign) is Code.WORKFLOW_MISMATCH
    assert code(task, over) is Code.INVALID_STATE
    assert code("tk_no", over) is Code.TASK_NOT_FOUND
    assert code(task, "ws_no") is Code.WORKSPACE_NOT_FOUND
