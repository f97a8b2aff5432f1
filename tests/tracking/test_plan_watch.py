"""What a planned task changes is told when it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import LEASE_MS, Clock, ask, make_app
from deepwork.errors import NotFound
from deepwork.server.application import Application
from workspaces.make_workspaces import git, repository, workflow


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path)


def move(app: Application, task_id: str, status: str, **more: Any) -> None:
    ask(app, "task_update_status", id=task_id, status=status, **more)


def changed(app: Application, task_id: str) -> dict[str, str]:
    files = ask(app, "get_task_diff", task_id=task_id)["files"]
    return {file["path"]: f"{file['status']} {file['attribution']}" for file in files}


def test_a_planned_task_is_charged_with_what_changed_while_it_ran(app: Application, project: Path):
    (project / "before.txt").write_text("mine\n")
    _, (task,) = workflow(app, "one")
    move(app, task, "in_progress")
    (project / "new.txt").write_text("new\n")
    (project / "a.txt").write_text("two\n")

    move(app, task, "completed", outcome="done")
    (project / "after.txt").write_text("later\n")

    assert changed(app, task) == {"a.txt": "modified exclusive", "new.txt": "added exclusive"}
    shown = ask(app, "get_task_diff", task_id=task, path="a.txt")["files"][0]
    assert "-one\n+two\n" in shown["diff"]


def test_a_task_that_is_begun_again_is_charged_with_its_last_time(app: Application, project: Path):
    _, (task,) = workflow(app, "one")
    move(app, task, "in_progress")
    (project / "first.txt").write_text("x\n")
    move(app, task, "failed", error="no")
    (project / "between.txt").write_text("x\n")
    move(app, task, "in_progress")
    (project / "second.txt").write_text("x\n")

    move(app, task, "completed", outcome="done")

    assert changed(app, task) == {"second.txt": "added exclusive"}


def test_a_task_in_a_workspace_is_watched_there(app: Application, project: Path):
    id, (task,) = workflow(app, "one")
    tree = Path(
        ask(
            app, "workspace_create", workflow_id=id, path=".deepwork/worktrees/x", branch="x", create=True,
            task_ids=[task],
        )["path"]
    )  # fmt: skip
    move(app, task, "in_progress")
    (tree / "there.txt").write_text("x\n")
    (project / "here.txt").write_text("x\n")

    move(app, task, "completed", outcome="done")

    assert changed(app, task) == {"there.txt": "added exclusive"}


def test_a_task_that_was_taken_back_is_not_charged_with_what_came_after(
    app: Application, project: Path, clock: Clock
):
    _, (task,) = workflow(app, "one")
    ada = ask(app, "agent_register", name="Ada", runtime="codex", caller="ada")["id"]
    bob = ask(app, "agent_register", name="Bob", runtime="codex", caller="bob")["id"]
    ask(app, "task_claim", task_id=task, agent_id=ada, caller="ada")
    ask(app, "task_update_status", id=task, status="in_progress", agent_id=ada, caller="ada")
    (project / "ada.txt").write_text("x\n")
    clock.advance(seconds=LEASE_MS / 1000 + 1)

    ask(app, "task_claim", task_id=task, agent_id=bob, caller="bob")

    assert changed(app, task) == {"ada.txt": "added exclusive"}


def test_planned_and_tracked_tasks_in_one_tree_know_of_each_other(app: Application, project: Path):
    tracker = make_app(project, app.settings.database, toolsets=("tracking",))
    started = ask(tracker, "start_workflow", name="w", objective="o")
    phase = ask(app, "start_phase", workflow_id=started["workflow_id"], number=1, name="p")["phase_id"]
    _, (planned,) = workflow(app, "one")
    move(app, planned, "in_progress")
    tracked = ask(
        app, "start_task", workflow_id=started["workflow_id"], phase_id=phase, caller_type="orchestrator",
        name="t", goal="g",
    )["task_id"]  # fmt: skip
    (project / "both.txt").write_text("x\n")

    answer = ask(app, "complete_task", task_id=tracked, status="success", outcome={"summary": "s"})
    move(app, planned, "completed", outcome="done")

    assert answer["shared_with"] == {"both.txt": [planned]}
    assert changed(app, planned) == {"both.txt": "added shared"}
    tracker.close()


def test_without_git_nothing_is_looked_at(app: Application, tmp_path: Path):
    _, (task,) = workflow(app, "one")
    move(app, task, "in_progress")
    (tmp_path / "new.txt").write_text("x\n")
    move(app, task, "completed", outcome="done")

    told = ask(app, "get_task_diff", task_id=task)
    assert (told["files"], told["files_count"]) == ([], 0)
    assert told["warning"].startswith("Its beginning was not seen")
    with pytest.raises(NotFound):
        ask(app, "get_task_diff", task_id="tk_no")


def test_a_task_is_watched_from_its_claim_on(app: Application, project: Path):
    _, (task,) = workflow(app, "one")
    agent = ask(app, "agent_register", name="Ada", runtime="codex")["id"]
    ask(app, "task_claim", task_id=task, agent_id=agent)
    (project / "early.txt").write_text("x\n")
    move(app, task, "in_progress", agent_id=agent)
    (project / "late.txt").write_text("x\n")
    under_way = ask(app, "get_task_diff", task_id=task, path="early.txt")

    move(app, task, "completed", outcome="done", agent_id=agent)

    assert under_way["warning"] == "The task is still under way: files are told when it ends."
    assert changed(app, task).keys() == {"early.txt", "late.txt"}


def test_what_was_begun_is_finished_before_the_application_closes(project: Path, tmp_path: Path):
    app = make_app(project, str(tmp_path / "deepwork.db"))
    _, (task,) = workflow(app, "one")
    ask(app, "task_update_status", id=task, status="in_progress")
    app.close()
    (project / "new.txt").write_text("x\n")
    again = make_app(project, str(tmp_path / "deepwork.db"))
    ask(again, "task_update_status", id=task, status="completed", outcome="done")
    again.close()

    last = make_app(project, str(tmp_path / "deepwork.db"))
    assert changed(last, task) == {"new.txt": "added exclusive"}
    assert git(project, "status", "--porcelain") == "?? new.txt"
    last.close()
