"""Rewinding a task that has a working tree of its own: files, branch, index and state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import call_tool, list_event_types
from approvals.person import PASSPHRASE, enroll_passphrase
from deepwork.delivery.rewind.models import Rewind
from deepwork.delivery.rewind.service import RewindService
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call, GivenProof
from deepwork.kernel.errors import NotAllowed, ToolError
from rewind.make import PERSON, act, read_state, rewind
from workspaces.make import Plan, commit, run_git


def get_task(app: Application, plan: Plan, name: str) -> dict[str, Any]:
    found: dict[str, Any] = call_tool(app, "task_get", id=plan.ids[name])
    return found


def work_in(plan: Plan, name: str) -> Path:
    """Claim a task and leave work in its tree: committed, staged, unstaged, untracked and ignored."""
    tree = Path(plan.claim(name)["workspace_path"])
    commit(tree, "agent", a_txt="two\n", new_txt="new\n")
    (tree / "a.txt").write_text("three\n")
    run_git(tree, "add", "a.txt")
    (tree / "a.txt").write_text("four\n")
    (tree / "note.txt").write_text("untracked\n")
    (tree / "sub").mkdir()
    (tree / "sub/link").symlink_to("../a.txt")
    (tree / "deepwork.db.ignored").write_text("ignored\n")
    return tree


@pytest.fixture
def plan(app: Application, project: Path) -> Plan:
    assert project.is_dir()
    return Plan(app, {"api": [], "ui": ["api"], "docs": []})


def test_a_rewound_task_has_its_files_branch_index_and_state_back(app: Application, plan: Plan) -> None:
    start = Path(plan.claim("docs")["workspace_path"])
    tree = work_in(plan, "api")
    plan.complete("api")
    before = read_state(start)

    answer = rewind(app, plan.ids["api"])

    after = read_state(tree)
    assert answer["stage"] == "done"
    assert {**after["files"], "deepwork.db.ignored": ""}.keys() == {*before["files"], "deepwork.db.ignored"}
    assert after["files"]["a.txt"] == "one\n"
    assert (tree / "deepwork.db.ignored").read_text() == "ignored\n"
    assert after["head"] == before["head"]
    assert after["staged"] == before["staged"]
    task = get_task(app, plan, "api")
    assert task["status"] == "pending"
    assert "outcome" not in task
    assert list_event_types(app).count("rewind:updated") == 5


def test_everything_uncommitted_is_on_the_rescue_branch(app: Application, plan: Plan, project: Path) -> None:
    tree = work_in(plan, "api")
    tip = run_git(tree, "rev-parse", "HEAD")

    [branch] = rewind(app, plan.ids["api"])["rescue_branches"]

    assert run_git(project, "show", f"{branch}:a.txt") == "four"
    assert run_git(project, "show", f"{branch}:note.txt") == "untracked"
    assert run_git(project, "show", f"{branch}^:a.txt") == "three"
    run_git(project, "merge-base", "--is-ancestor", tip, branch)


def test_commits_are_kept_even_if_nothing_is_uncommitted(app: Application, plan: Plan, project: Path) -> None:
    plan.do("api", new_txt="new\n")
    tip = run_git(Path(plan.claims["api"]["workspace_path"]), "rev-parse", "HEAD")

    [branch] = rewind(app, plan.ids["api"])["rescue_branches"]

    assert run_git(project, "rev-parse", branch) == tip


def test_undoing_puts_files_branch_index_and_state_back(app: Application, plan: Plan) -> None:
    tree = work_in(plan, "api")
    plan.complete("api")
    before, task = read_state(tree), get_task(app, plan, "api")

    done = rewind(app, plan.ids["api"])
    undone = act(app, "undo_rewind", rewind_id=done["id"])

    assert undone["undoes"] == done["id"]
    assert read_state(tree) == before
    restored = get_task(app, plan, "api")
    assert {**restored, "updated_at": 0} == {**task, "updated_at": 0}


def test_undoing_is_refused_and_says_what_has_changed_since(app: Application, plan: Plan) -> None:
    tree = work_in(plan, "api")
    plan.complete("api")
    done = rewind(app, plan.ids["api"])
    (tree / "mine.txt").write_text("later\n")
    state = read_state(tree)

    with pytest.raises(NotAllowed, match=r"mine.txt has changed"):
        act(app, "undo_rewind", rewind_id=done["id"])
    (tree / "mine.txt").unlink()
    plan.claim("api")
    with pytest.raises(NotAllowed, match=r"task 'api' has changed"):
        act(app, "undo_rewind", rewind_id=done["id"])

    (tree / "mine.txt").write_text("later\n")
    assert read_state(tree) == state


def test_a_rewind_can_be_undone_only_once(app: Application, plan: Plan) -> None:
    plan.do("api", new_txt="new\n")
    done = rewind(app, plan.ids["api"])
    act(app, "undo_rewind", rewind_id=done["id"])

    with pytest.raises(NotAllowed, match=r"was undone by"):
        act(app, "undo_rewind", rewind_id=done["id"])


def test_the_agent_at_work_becomes_stale(app: Application, plan: Plan) -> None:
    work_in(plan, "api")
    epoch, agent = plan.claims["api"]["claim_epoch"], plan.claims["api"]["agent_id"]

    rewind(app, plan.ids["api"])

    with pytest.raises(ToolError) as refused:
        call_tool(
            app,
            "task_update_status",
            id=plan.ids["api"],
            status="completed",
            outcome="x",
            agent_id=agent,
            claim_epoch=epoch,
            caller="api",
        )
    assert refused.value.code == "STALE_CLAIM"
    assert plan.claim("api")["claim_epoch"] > epoch


def test_a_task_goes_back_to_a_checkpoint(app: Application, plan: Plan) -> None:
    tree = Path(plan.claim("api")["workspace_path"])
    (tree / "first.txt").write_text("1\n")
    note = {"task_id": plan.ids["api"], "type": "progress", "summary": "half"}
    call_tool(app, "checkpoint_add", **note, agent_id=plan.claims["api"]["agent_id"], caller="api")
    (tree / "first.txt").write_text("2\n")
    (tree / "second.txt").write_text("2\n")
    plan.complete("api")

    rewind(app, plan.ids["api"], to="checkpoint:1")

    assert (tree / "first.txt").read_text() == "1\n"
    assert not (tree / "second.txt").exists()


def test_a_task_goes_back_to_the_beginning_of_an_attempt(app: Application, plan: Plan) -> None:
    tree = Path(plan.claim("api")["workspace_path"])
    (tree / "first.txt").write_text("1\n")
    agent = plan.claims["api"]["agent_id"]
    call_tool(app, "task_release", task_id=plan.ids["api"], agent_id=agent, caller="api")
    plan.claim("api")
    (tree / "first.txt").write_text("2\n")

    rewind(app, plan.ids["api"], to="attempt:2")
    assert (tree / "first.txt").read_text() == "1\n"

    with pytest.raises(NotAllowed, match=r"has not begun"):
        rewind(app, plan.ids["api"], to="attempt:1")
    plan.claim("api")
    rewind(app, plan.ids["api"], to="start")
    assert not (tree / "first.txt").exists()


def test_nothing_happens_if_the_tree_changed_after_the_preview(app: Application, plan: Plan) -> None:
    tree = work_in(plan, "api")
    digest = act(app, "preview_rewind", task_id=plan.ids["api"])["digest"]
    (tree / "late.txt").write_text("late\n")
    state = read_state(tree)

    with pytest.raises(NotAllowed, match=r"changed meanwhile"):
        rewind(app, plan.ids["api"], digest=digest)

    assert read_state(tree) == state


def test_repeating_a_rewind_with_the_same_digest_returns_the_first(app: Application, plan: Plan) -> None:
    work_in(plan, "api")
    digest = act(app, "preview_rewind", task_id=plan.ids["api"])["digest"]

    first = rewind(app, plan.ids["api"], digest=digest)

    assert rewind(app, plan.ids["api"], digest=digest) == first


def test_only_people_can_rewind(app: Application, plan: Plan) -> None:
    tree = work_in(plan, "api")
    state = read_state(tree)

    for caller in ("local", "session:1", "anna"):
        with pytest.raises(NotAllowed):
            act(app, "rewind_task", caller, task_id=plan.ids["api"])

    assert read_state(tree) == state
    assert not [name for name in app.registry if "rewind" in name]


def test_an_ignored_file_in_the_way_is_never_overwritten(app: Application, plan: Plan) -> None:
    tree = Path(plan.claim("api")["workspace_path"])
    run_git(tree, "rm", "-q", "a.txt")
    (tree / ".gitignore").write_text("/.deepwork/\n/deepwork.db*\na.txt\n")
    run_git(tree, "add", "-A")
    run_git(tree, "commit", "-qm", "ignore it")
    (tree / "a.txt").write_text("a person's\n")

    with pytest.raises(NotAllowed, match=r"a.txt"):
        rewind(app, plan.ids["api"])

    assert (tree / "a.txt").read_text() == "a person's\n"


def test_a_task_that_has_not_begun_cannot_be_rewound(app: Application, plan: Plan) -> None:
    with pytest.raises(NotAllowed, match=r"has not begun"):
        rewind(app, plan.ids["api"])


def test_a_completed_plan_is_open_again_until_the_rewind_is_undone(app: Application, plan: Plan) -> None:
    for name in ("api", "ui", "docs"):
        plan.do(name, **{f"{name}_txt": name})
    assert call_tool(app, "workflow_get", id=plan.id)["status"] == "completed"

    done = rewind(app, plan.ids["ui"])
    assert call_tool(app, "workflow_get", id=plan.id)["status"] == "in_progress"

    act(app, "undo_rewind", rewind_id=done["id"])
    assert call_tool(app, "workflow_get", id=plan.id)["status"] == "completed"


def test_what_an_agent_writes_after_its_files_went_back_is_listed(
    app: Application, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = work_in(plan, "api")
    change = RewindService._change_state

    def write_late(service: RewindService, rewind: Rewind) -> Rewind:
        (tree / "late.txt").write_text("still here\n")
        return change(service, rewind)

    monkeypatch.setattr(RewindService, "_change_state", write_late)

    [kept] = rewind(app, plan.ids["api"])["kept"]

    assert kept.startswith("late.txt")
    assert (tree / "late.txt").read_text() == "still here\n"


def test_a_rewind_needs_the_enrolled_passphrase(app: Application, plan: Plan) -> None:
    tree = work_in(plan, "api")
    state = read_state(tree)
    enroll_passphrase(app)
    arguments = {"task_id": plan.ids["api"]}

    with pytest.raises(NotAllowed):
        rewind(app, **arguments)
    assert read_state(tree) == state

    call = Call(PERSON, "rewind_task", proof=GivenProof(PASSPHRASE))
    answer = invoke(app.database, app.operations["rewind_task"], arguments, call)
    assert answer["stage"] == "done"
