"""What a planned task changes is told when it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deepwork.errors import NotFound
from deepwork.server.house import House
from house import LEASE_MS, Clock, ask, house_at
from workspaces.make_workspaces import git, repository, workflow


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return repository(tmp_path)


def move(house: House, task_id: str, status: str, **more: Any) -> None:
    ask(house, "task_update_status", id=task_id, status=status, **more)


def changed(house: House, task_id: str) -> dict[str, str]:
    files = ask(house, "get_task_diff", task_id=task_id)["files"]
    return {file["path"]: f"{file['status']} {file['attribution']}" for file in files}


def test_a_planned_task_is_charged_with_what_changed_while_it_ran(house: House, project: Path):
    (project / "before.txt").write_text("mine\n")
    _, (task,) = workflow(house, "one")
    move(house, task, "in_progress")
    (project / "new.txt").write_text("new\n")
    (project / "a.txt").write_text("two\n")

    move(house, task, "completed", outcome="done")
    (project / "after.txt").write_text("later\n")

    assert changed(house, task) == {"a.txt": "modified exclusive", "new.txt": "added exclusive"}
    shown = ask(house, "get_task_diff", task_id=task, path="a.txt")["files"][0]
    assert "-one\n+two\n" in shown["diff"]


def test_a_task_that_is_begun_again_is_charged_with_its_last_time(house: House, project: Path):
    _, (task,) = workflow(house, "one")
    move(house, task, "in_progress")
    (project / "first.txt").write_text("x\n")
    move(house, task, "failed", error="no")
    (project / "between.txt").write_text("x\n")
    move(house, task, "in_progress")
    (project / "second.txt").write_text("x\n")

    move(house, task, "completed", outcome="done")

    assert changed(house, task) == {"second.txt": "added exclusive"}


def test_a_task_in_a_workspace_is_watched_there(house: House, project: Path):
    id, (task,) = workflow(house, "one")
    tree = Path(
        ask(
            house, "workspace_create", workflow_id=id, path=".deepwork/worktrees/x", branch="x", create=True,
            task_ids=[task],
        )["path"]
    )  # fmt: skip
    move(house, task, "in_progress")
    (tree / "there.txt").write_text("x\n")
    (project / "here.txt").write_text("x\n")

    move(house, task, "completed", outcome="done")

    assert changed(house, task) == {"there.txt": "added exclusive"}


def test_a_task_that_was_taken_back_is_not_charged_with_what_came_after(
    house: House, project: Path, clock: Clock
):
    _, (task,) = workflow(house, "one")
    ada = ask(house, "agent_register", name="Ada", runtime="codex", caller="ada")["id"]
    bob = ask(house, "agent_register", name="Bob", runtime="codex", caller="bob")["id"]
    ask(house, "task_claim", task_id=task, agent_id=ada, caller="ada")
    ask(house, "task_update_status", id=task, status="in_progress", agent_id=ada, caller="ada")
    (project / "ada.txt").write_text("x\n")
    clock.advance(seconds=LEASE_MS / 1000 + 1)

    ask(house, "task_claim", task_id=task, agent_id=bob, caller="bob")

    assert changed(house, task) == {"ada.txt": "added exclusive"}


def test_planned_and_tracked_tasks_in_one_tree_know_of_each_other(house: House, project: Path):
    tracker = house_at(project, house.settings.database, toolsets=("tracking",))
    started = ask(tracker, "start_workflow", name="w", objective="o")
    phase = ask(house, "start_phase", workflow_id=started["workflow_id"], number=1, name="p")["phase_id"]
    _, (planned,) = workflow(house, "one")
    move(house, planned, "in_progress")
    tracked = ask(
        house, "start_task", workflow_id=started["workflow_id"], phase_id=phase, caller_type="orchestrator",
        name="t", goal="g",
    )["task_id"]  # fmt: skip
    (project / "both.txt").write_text("x\n")

    answer = ask(house, "complete_task", task_id=tracked, status="success", outcome={"summary": "s"})
    move(house, planned, "completed", outcome="done")

    assert answer["shared_with"] == {"both.txt": [planned]}
    assert changed(house, planned) == {"both.txt": "added shared"}
    tracker.close()


def test_without_git_nothing_is_looked_at(house: House, tmp_path: Path):
    _, (task,) = workflow(house, "one")
    move(house, task, "in_progress")
    (tmp_path / "new.txt").write_text("x\n")
    move(house, task, "completed", outcome="done")

    told = ask(house, "get_task_diff", task_id=task)
    assert (told["files"], told["files_count"]) == ([], 0)
    assert told["warning"].startswith("Its beginning was not seen")
    with pytest.raises(NotFound):
        ask(house, "get_task_diff", task_id="tk_no")


def test_a_task_is_watched_from_its_claim_on(house: House, project: Path):
    _, (task,) = workflow(house, "one")
    agent = ask(house, "agent_register", name="Ada", runtime="codex")["id"]
    ask(house, "task_claim", task_id=task, agent_id=agent)
    (project / "early.txt").write_text("x\n")
    move(house, task, "in_progress", agent_id=agent)
    (project / "late.txt").write_text("x\n")
    under_way = ask(house, "get_task_diff", task_id=task, path="early.txt")

    move(house, task, "completed", outcome="done", agent_id=agent)

    assert under_way["warning"] == "The task is still under way: files are told when it ends."
    assert changed(house, task).keys() == {"early.txt", "late.txt"}


def test_what_was_begun_is_finished_before_the_house_closes(project: Path, tmp_path: Path):
    house = house_at(project, str(tmp_path / "deepwork.db"))
    _, (task,) = workflow(house, "one")
    ask(house, "task_update_status", id=task, status="in_progress")
    house.close()
    (project / "new.txt").write_text("x\n")
    again = house_at(project, str(tmp_path / "deepwork.db"))
    ask(again, "task_update_status", id=task, status="completed", outcome="done")
    again.close()

    last = house_at(project, str(tmp_path / "deepwork.db"))
    assert changed(last, task) == {"new.txt": "added exclusive"}
    assert git(project, "status", "--porcelain") == "?? new.txt"
    last.close()
