"""A person pauses an agent, takes its session over, gives it back or stops it; nothing starts in its tree meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cli.run import run_deepwork
from deepwork.delivery.runner.models import RunRequest, RunStatus
from deepwork.edge.cli.framework.applications import call_operation
from deepwork.kernel.errors import NotAllowed
from runner.endings import check_nothing_is_left, finish, list_living, plan, wait_until, write
from runner.run_invariants import list_attempts
from runner.run_project import RunProject
from runner.scripted import Steps
from runner.test_run_gates import read_prompt
from runner.test_told_words import Driven, act

NEVER: Steps = [{"do": "wait_for", "file": "/nonexistent/never"}]


@pytest.fixture
def project(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunProject]:
    """A project on each kind of database, whose agents this process finds."""
    made = RunProject(tmp_path, location)
    for name in ("PATH", "HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, made.variables[name])
    yield made
    check_nothing_is_left(made)
    made.close()


def be_ready(folder: Path) -> Steps:
    return [{"do": "touch", "file": str(folder / "ready")}]


def get_attempt(project: RunProject) -> dict[str, Any]:
    return list_attempts(project)[-1]


def get_lane(project: RunProject) -> dict[str, Any]:
    [lane] = call_operation(project.app, "list_lanes", {})["lanes"]
    found: dict[str, Any] = lane
    return found


def ask(project: RunProject, verb: str) -> Any:
    return act(project, f"{verb}_attempt", attempt_id=get_attempt(project)["id"])


def wait_until_held(project: RunProject, held_for: str) -> None:
    wait_until(lambda: get_attempt(project)["parked_for"] == held_for, held_for)


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_a_session_that_was_taken_over_continues_when_it_is_given_back(
    project: RunProject, tmp_path: Path, agent: str
):
    plan(project, "alpha", [write("begun"), *be_ready(tmp_path), *NEVER], finish("alpha"))

    with Driven(project, tmp_path, agent) as driven:
        asked = ask(project, "take")
        wait_until_held(project, "taken")
        held, lane, alive = get_attempt(project), get_lane(project), list_living(project)
        takeover = call_operation(project.app, "get_takeover", {"id": held["id"]})
        ask(project, "continue")

    [attempt] = list_attempts(project)
    [_, second] = project.agents.read_ledger()
    command = {"claude": "claude --resume", "codex": "codex resume"}[agent]
    assert (asked["wish"], held["wish"], alive) == ("take", None, [])
    assert (lane["state"], lane["because"].partition(":")[0]) == ("needs_you", "taken")
    assert lane["next"] == takeover["give_back"] == f"deepwork runs give-back {attempt['id']}"
    assert [each["label"] for each in lane["actions"]] == ["Hand back", "Stop"]
    assert takeover["command"] == f"cd {held['tree']} && {command} {held['vendor_session']}"
    assert second.start["resumed"]
    assert "ada" in read_prompt(project, attempt, 2)
    assert (driven.run.status, attempt["stage"], attempt["resumes"]) == (RunStatus.DONE, "done", 0)


def test_a_paused_agent_has_ended_and_continues_when_a_person_says_so(project: RunProject, tmp_path: Path):
    plan(project, "alpha", [write("begun"), *be_ready(tmp_path), *NEVER], finish("alpha"))

    with Driven(project, tmp_path, "command") as driven:
        ask(project, "pause")
        wait_until_held(project, "paused")
        again, lane = ask(project, "pause"), get_lane(project)
        alive = list_living(project)
        ask(project, "continue")

    [attempt] = list_attempts(project)
    assert (again["parked_for"], alive) == ("paused", [])
    assert (lane["state"], lane["because"]) == ("needs_you", "paused: ada paused it.")
    assert [each["label"] for each in lane["actions"]] == ["Continue", "Take over", "Stop"]
    assert (driven.run.status, attempt["stage"]) == (RunStatus.DONE, "done")


def test_a_stopped_attempt_is_not_tried_again_before_a_person_says_so(project: RunProject, tmp_path: Path):
    plan(project, "alpha", [*be_ready(tmp_path), *NEVER], finish("alpha"), max_attempts=3)

    with Driven(project, tmp_path, "command") as driven:
        ask(project, "stop")

    [stopped], [task] = list_attempts(project), project.list_tasks()
    assert (stopped["stage"], stopped["reason"]) == ("stopped", "ada stopped it.")
    assert (task["status"], driven.run.status) == ("failed", RunStatus.NEEDS_PERSON)
    act(project, "task_update_status", id=task["id"], status="pending")
    with Driven(project, tmp_path, "command") as again:
        pass
    assert again.run.status is RunStatus.DONE


def test_a_runner_that_begins_later_starts_nothing_in_a_tree_that_was_taken_over(
    project: RunProject, tmp_path: Path
):
    plan(project, "alpha", [write("begun"), *be_ready(tmp_path), *NEVER], finish("alpha"))
    runner, stop = project.app.runner, threading.Event()
    started = runner.start_plan(project.plan, RunRequest(("claude",)))
    with ThreadPoolExecutor(1) as pool:
        driving = pool.submit(runner.drive, started.id, stop)
        wait_until((tmp_path / "ready").exists, "the agent")
        stop.set()
        driving.result()

        # Nobody drives it: the next runner ends the agent that is still at work.
        ask(project, "take")
        undriven, stop = get_lane(project)["state"], threading.Event()
        driving = pool.submit(runner.drive, started.id, stop)
        wait_until_held(project, "taken")
        stop.set()
        driving.result()

        # So does one that finds it as it was left, whatever it could start otherwise.
        result = runner.work_once(project.plan, "claude")
        begun = len(project.agents.read_ledger())
        ask(project, "continue")
        ended = runner.drive(started.id, threading.Event())

    assert (undriven, result.status, begun) == ("unattended", "parked", 1)
    assert ended.status is RunStatus.DONE
    assert len(project.agents.read_ledger()) == 2


def test_what_was_asked_for_can_be_taken_back_while_nobody_drives_it(project: RunProject, tmp_path: Path):
    plan(project, "alpha", [*be_ready(tmp_path), *NEVER], finish("alpha"))
    runner, stop = project.app.runner, threading.Event()
    started = runner.start_plan(project.plan, RunRequest(("claude",)))
    with ThreadPoolExecutor(1) as pool:
        driving = pool.submit(runner.drive, started.id, stop)
        wait_until((tmp_path / "ready").exists, "the agent")
        stop.set()
        driving.result()

    ask(project, "pause")
    back = ask(project, "continue")

    assert "wish" not in back
    with pytest.raises(NotAllowed, match="neither paused"):
        ask(project, "continue")
    ask(project, "stop")
    assert runner.drive(started.id, threading.Event()).status is RunStatus.NEEDS_PERSON


def test_an_attempt_that_has_ended_can_be_neither_paused_nor_taken_over(project: RunProject, tmp_path: Path):
    plan(project, "alpha", finish("alpha"))
    (tmp_path / "ready").touch()
    with Driven(project, tmp_path, "claude"):
        pass

    for verb in ("pause", "take", "continue", "stop"):
        with pytest.raises(NotAllowed, match="has ended"):
            ask(project, verb)


def test_the_commands_take_give_back_and_stop_an_attempt_that_nobody_drives(
    project: RunProject, tmp_path: Path
):
    plan(project, "alpha", [write("begun"), *be_ready(tmp_path), *NEVER], finish("alpha"))
    runner, stop = project.app.runner, threading.Event()
    started = runner.start_plan(project.plan, RunRequest(("claude",)))
    with ThreadPoolExecutor(1) as pool:
        driving = pool.submit(runner.drive, started.id, stop)
        wait_until((tmp_path / "ready").exists, "the agent")
        stop.set()
        driving.result()
    id = get_attempt(project)["id"]

    def deepwork(*words: str) -> list[str]:
        done = run_deepwork(project.folder, *words, environment=project.variables)
        assert done.code == 0, done
        lines: list[str] = done.out.splitlines()
        return lines

    taken, alive = deepwork("runs", "take", id), list_living(project)
    session = get_attempt(project)["vendor_session"]
    given_back = deepwork("runs", "give-back", id)
    deepwork("runs", "stop", id)

    assert any(line.partition("  # ")[0].endswith(f"claude --resume {session}") for line in taken)
    assert alive == []
    assert f"deepwork runs attach {started.id}" in given_back[0]
    assert get_attempt(project)["stage"] == "stopped"
