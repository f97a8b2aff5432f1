"""A fault in the midst of one attempt, wherever it is, ends that attempt with its cause, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deepwork.delivery.runner import agent_watcher, attempt_progress
from deepwork.delivery.runner.finishing import AttemptFinisher
from deepwork.delivery.runner.models import RunRequest, RunStatus
from deepwork.delivery.runner.preparing import AttemptPreparer
from deepwork.kernel.values import copy_with
from runner.endings import check_nothing_is_left, finish
from runner.run_invariants import list_attempts
from runner.run_project import RunProject
from runner.scripted import Steps

Break = Callable[[pytest.MonkeyPatch, str], None]


@pytest.fixture
def project(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunProject]:
    """A project on each kind of database, with a task for each fault, and one without."""
    made = RunProject(tmp_path, location)
    for name in ("PATH", "HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, made.variables[name])
    tasks = [{"name": name, "depends_on": [], "max_attempts": 1} for name in (*FAULTS, "honest")]
    pause = {"do": "sleep", "seconds": 1.2}  # so that progress is stored meanwhile
    script: dict[str, list[Steps]] = {
        name: [[{"do": "say", "text": name}, pause, *finish(name)]] for name in FAULTS
    }
    made.set_plan(tasks, {**script, "honest": [finish("honest")]})
    yield made
    check_nothing_is_left(made)
    made.close()


def break_function(owner: Any, name: str) -> Break:
    """Let a function fail whenever one of its arguments has to do with the task of this fault."""

    def break_it(patch: pytest.MonkeyPatch, fault: str) -> None:
        original = getattr(owner, name)

        def broken(*given: Any, **named: Any) -> Any:
            if fault in str((given, named)):
                raise ZeroDivisionError(f"in {name}")
            return original(*given, **named)

        patch.setattr(owner, name, broken)

    return break_it


def overflow_column(patch: pytest.MonkeyPatch, fault: str) -> None:
    """Let progress have a number that no column takes: each database says so in its own way."""
    original = attempt_progress._add_progress

    def add(before: Any, followed: Any) -> Any:
        after = original(before, followed)
        return copy_with(after, usd_micros=2**70) if fault in str(followed) else after

    patch.setattr(attempt_progress, "_add_progress", add)


def break_both_endings(patch: pytest.MonkeyPatch, fault: str) -> None:
    break_function(AttemptFinisher, "finish")(patch, fault)
    break_function(AttemptFinisher, "fail")(patch, fault)


FAULTS: dict[str, Break] = {
    "fault-preparing": break_function(AttemptPreparer, "_launch"),
    "fault-parsing": break_function(attempt_progress, "apply"),
    "fault-saving": break_function(attempt_progress, "_save_progress"),
    "fault-overflowing": overflow_column,
    "fault-judging": break_function(agent_watcher, "judge_ending"),
    "fault-finishing": break_function(AttemptFinisher, "finish"),
    "fault-endings": break_both_endings,
}


def test_each_fault_ends_its_attempt_with_a_cause_and_the_others_go_on(
    project: RunProject, monkeypatch: pytest.MonkeyPatch
):
    for fault, break_it in FAULTS.items():
        break_it(monkeypatch, fault)
    runner = project.app.runner
    started = runner.start_plan(project.plan, RunRequest(agents=("claude",), parallel=len(FAULTS) + 1))

    ended = runner.drive(started.id, threading.Event())

    attempts = {each["task_id"]: each for each in list_attempts(project)}
    by_name = {name: attempts[id] for name, id in project.ids.items()}
    assert ended.status is RunStatus.NEEDS_PERSON
    assert {name: each["stage"] for name, each in by_name.items()} == {
        "honest": "done",
        **dict.fromkeys(FAULTS, "failed"),
    }
    assert all(by_name[fault]["reason"] for fault in FAULTS)
    assert len(attempts) == len(list_attempts(project)), "none was tried twice"
