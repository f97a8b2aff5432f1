"""The files that a planned task changes are recorded when it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import LEASE_MS, Clock, call_tool, make_app
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import NotFound
from deepwork.kernel.git.snapshot import open_snapshot_store
from deepwork.kernel.git.snapshot_types import Snapshot
from deepwork.work.tracking.watch_store import WatchStore
from workspaces.make import Plan, commit, create_plan, create_repository, run_git


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return create_repository(tmp_path)


def set_status(app: Application, task_id: str, status: str, **more: Any) -> None:
    call_tool(app, "task_update_status", id=task_id, status=status, **more)


def get_changed_files(app: Application, task_id: str) -> dict[str, str]:
    files = call_tool(app, "get_task_diff", task_id=task_id)["files"]
    return {file["path"]: f"{file['status']} {file['attribution']}" for file in files}


def test_changes_during_a_planned_task_are_attributed_to_it(app: Application, project: Path):
    (project / "before.txt").write_text("mine\n")
    _, (task,) = create_plan(app, "one")
    set_status(app, task, "in_progress")
    (project / "new.txt").write_text("new\n")
    (project / "a.txt").write_text("two\n")

    set_status(app, task, "completed", outcome="done")
    (project / "after.txt").write_text("later\n")

    assert get_changed_files(app, task) == {"a.txt": "modified exclusive", "new.txt": "added exclusive"}
    shown = call_tool(app, "get_task_diff", task_id=task, path="a.txt")["files"][0]
    assert "-one\n+two\n" in shown["diff"]


def test_a_restarted_task_gets_only_the_changes_since_its_last_start(app: Application, project: Path):
    _, (task,) = create_plan(app, "one")
    set_status(app, task, "in_progress")
    (project / "first.txt").write_text("x\n")
    set_status(app, task, "failed", error="no")
    (project / "between.txt").write_text("x\n")
    set_status(app, task, "in_progress")
    (project / "second.txt").write_text("x\n")

    set_status(app, task, "completed", outcome="done")

    assert get_changed_files(app, task) == {"second.txt": "added exclusive"}


def test_changes_of_a_task_in_a_workspace_are_tracked_there(app: Application, project: Path):
    id, (task,) = create_plan(app, "one")
    tree = Path(
        call_tool(
            app, "workspace_create", workflow_id=id, path=".deepwork/worktrees/x", branch="x", create=True,
            task_ids=[task],
        )["path"]
    )  # fmt: skip
    set_status(app, task, "in_progress")
    (tree / "there.txt").write_text("x\n")
    (project / "here.txt").write_text("x\n")

    set_status(app, task, "completed", outcome="done")

    assert get_changed_files(app, task) == {"there.txt": "added exclusive"}


def test_a_task_with_an_expired_claim_gets_only_changes_before_its_release(
    app: Application, project: Path, clock: Clock
):
    _, (task,) = create_plan(app, "one")
    ada = call_tool(app, "agent_register", name="Ada", runtime="codex", caller="ada")["id"]
    bob = call_tool(app, "agent_register", name="Bob", runtime="codex", caller="bob")["id"]
    call_tool(app, "task_claim", task_id=task, agent_id=ada, caller="ada")
    call_tool(app, "task_update_status", id=task, status="in_progress", agent_id=ada, caller="ada")
    (project / "ada.txt").write_text("x\n")
    clock.advance(seconds=LEASE_MS / 1000 + 1)

    call_tool(app, "task_claim", task_id=task, agent_id=bob, caller="bob")

    assert get_changed_files(app, task) == {"ada.txt": "added exclusive"}


def test_planned_and_tracked_tasks_in_one_tree_share_changes(app: Application, project: Path):
    tracker = make_app(project, app.settings.database, toolsets=("tracking",))
    started = call_tool(tracker, "start_workflow", name="w", objective="o")
    phase = call_tool(app, "start_phase", workflow_id=started["workflow_id"], number=1, name="p")["phase_id"]
    _, (planned,) = create_plan(app, "one")
    set_status(app, planned, "in_progress")
    tracked = call_tool(
        app, "start_task", workflow_id=started["workflow_id"], phase_id=phase, caller_type="orchestrator",
        name="t", goal="g",
    )["task_id"]  # fmt: skip
    (project / "both.txt").write_text("x\n")

    answer = call_tool(app, "complete_task", task_id=tracked, status="success", outcome={"summary": "s"})
    set_status(app, planned, "completed", outcome="done")

    assert answer["shared_with"] == {"both.txt": [planned]}
    assert get_changed_files(app, planned) == {"both.txt": "added shared"}
    tracker.close()


def test_without_git_changes_of_planned_tasks_are_not_tracked(app: Application, tmp_path: Path):
    _, (task,) = create_plan(app, "one")
    set_status(app, task, "in_progress")
    (tmp_path / "new.txt").write_text("x\n")
    set_status(app, task, "completed", outcome="done")

    told = call_tool(app, "get_task_diff", task_id=task)
    assert (told["files"], told["files_count"]) == ([], 0)
    assert told["warning"].startswith("No snapshot was taken when it started")
    with pytest.raises(NotFound):
        call_tool(app, "get_task_diff", task_id="tk_no")


def test_changes_are_tracked_from_the_claim_of_a_task(app: Application, project: Path):
    _, (task,) = create_plan(app, "one")
    agent = call_tool(app, "agent_register", name="Ada", runtime="codex")["id"]
    call_tool(app, "task_claim", task_id=task, agent_id=agent)
    (project / "early.txt").write_text("x\n")
    set_status(app, task, "in_progress", agent_id=agent)
    (project / "late.txt").write_text("x\n")
    under_way = call_tool(app, "get_task_diff", task_id=task, path="early.txt")

    set_status(app, task, "completed", outcome="done", agent_id=agent)

    assert under_way["warning"] == "The task is still running; its files are listed when it ends."
    assert get_changed_files(app, task).keys() == {"early.txt", "late.txt"}


def get_start(app: Application, task_id: str) -> Snapshot:
    with app.database.reading() as tx:
        watch = WatchStore(tx).find_latest(task_id)
    assert watch is not None
    return Snapshot.from_dict(watch.began)


def take_snapshot(project: Path, tree: Path) -> Snapshot:
    return open_snapshot_store(project, tree).take()


def test_a_new_tree_begins_with_the_files_of_its_commit(app: Application, project: Path):
    (project / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    (project / "link").symlink_to("a.txt")
    commit(project, run_sh="#!/bin/sh\n", **{".gitattributes": "*.png -text\n"})
    plan = Plan(app, {"one": [], "two": ["one"]})
    first = Path(plan.claim("one")["workspace_path"])
    assert get_start(app, plan.ids["one"]) == take_snapshot(project, first)
    commit(first, "one", b_txt="b\n")
    plan.complete("one")

    second = Path(plan.claim("two")["workspace_path"])

    assert get_start(app, plan.ids["two"]) == take_snapshot(project, second)
    assert get_start(app, plan.ids["two"]).head == run_git(first, "rev-parse", "HEAD")
    (second / "c.txt").write_text("c\n")
    plan.complete("two")
    assert get_changed_files(app, plan.ids["two"]) == {"c.txt": "added exclusive"}


def test_a_tree_that_was_there_before_begins_as_it_is(app: Application, project: Path):
    plan = Plan(app, {"one": []})
    tree = Path(plan.claim("one")["workspace_path"])
    (tree / "left.txt").write_text("left\n")
    call_tool(
        app, "task_release", task_id=plan.ids["one"], agent_id=plan.claims["one"]["agent_id"], caller="one"
    )

    plan.claim("one")

    (tree / "own.txt").write_text("own\n")
    plan.complete("one")
    assert get_changed_files(app, plan.ids["one"]) == {"own.txt": "added exclusive"}


def test_pending_snapshots_are_finished_before_the_application_closes(project: Path, tmp_path: Path):
    app = make_app(project, str(tmp_path / "deepwork.db"))
    _, (task,) = create_plan(app, "one")
    call_tool(app, "task_update_status", id=task, status="in_progress")
    app.close()
    (project / "new.txt").write_text("x\n")
    again = make_app(project, str(tmp_path / "deepwork.db"))
    call_tool(again, "task_update_status", id=task, status="completed", outcome="done")
    again.close()

    last = make_app(project, str(tmp_path / "deepwork.db"))
    assert get_changed_files(last, task) == {"new.txt": "added exclusive"}
    assert run_git(project, "status", "--porcelain") == "?? new.txt"
    last.close()
