"""A rewind that is killed at any stage: repeating it ends in the new state, and before files it was the old."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from deepwork.git import file_placing, tree_restores
from deepwork.rewind import service
from deepwork.rewind.service import RewindService
from deepwork.server.application import Application
from rewind.make import act, read_state, rewind
from workspaces.make import Plan, commit

on_both_databases = pytest.mark.parametrize("location", ["sqlite", "postgres"], indirect=True)


class Killed(BaseException):
    """Ends the process, as far as the code under test can tell: nothing catches it."""


class Countdown:
    """Lets a function work a number of times, and kills the process then."""

    def __init__(self, real: Callable[..., Any], calls: int, *, after: bool) -> None:
        self._real, self._left, self._after = real, calls, after

    def __call__(self, *given: Any, **named: Any) -> Any:
        self._left -= 1
        if self._left < 0 and not self._after:
            raise Killed
        answer = self._real(*given, **named)
        if self._left < 0:
            raise Killed
        return answer


@pytest.fixture
def plan(app: Application, project: Path) -> Plan:
    """`api` is done with committed and uncommitted work, and `ui` builds on it."""
    assert project.is_dir()
    made = Plan(app, {"api": [], "ui": ["api"]})
    tree = Path(made.claim("api")["workspace_path"])
    commit(tree, "agent", a_txt="two\n", new_txt="new\n")
    (tree / "note.txt").write_text("uncommitted\n")
    made.complete("api")
    made.do("ui", ui_txt="ui\n")
    return made


def describe(app: Application, plan: Plan) -> dict[str, Any]:
    """Describe the trees and the tasks."""
    trees = [Path(plan.claims[name]["workspace_path"]) for name in ("api", "ui")]
    tasks = [call_tool(app, "task_get", id=plan.ids[name]) for name in ("api", "ui")]
    return {
        "trees": [read_state(tree) if tree.exists() else None for tree in trees],
        "tasks": [{**task, "updated_at": 0} for task in tasks],
    }


STAGES: list[tuple[Any, str, int, bool]] = [
    (service.RewindService, "_rescue", 0, False),
    (service.RewindService, "_change_files", 0, False),
    (service.RewindService, "_change_state", 0, False),
    (service.RewindService, "_finish", 0, False),
]
"""The beginning of each stage: the one before is complete."""
MOMENTS = [
    (tree_restores.TreeRestorer, "rescue_work", 0, True),
    (tree_restores.TreeRestorer, "save", 0, True),
    (file_placing, "_take_away", 0, True),
    (file_placing, "_put", 0, True),
    (tree_restores.TreeRestorer, "_move_branch", 0, True),
    (service, "move_worktree", 0, True),
]
"""Moments within the stages."""


def kill(patch: pytest.MonkeyPatch, place: Any, name: str, calls: int, *, after: bool) -> None:
    countdown = Countdown(getattr(place, name), calls, after=after)

    def work(*given: Any, **named: Any) -> Any:  # a function, so that it is bound as a method
        return countdown(*given, **named)

    patch.setattr(place, name, work)


@on_both_databases
def test_a_rewind_killed_at_any_moment_is_completed_by_repeating_it(
    app: Application, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = describe(app, plan)
    whole = rewind(app, plan.ids["api"], dependents="reset")
    new = describe(app, plan)
    act(app, "undo_rewind", rewind_id=whole["id"])
    assert describe(app, plan) == old

    is_small = app.settings.database.startswith("postgresql")  # the moments between stages are about files
    for place, name, calls, after in STAGES if is_small else [*STAGES, *MOMENTS]:
        with monkeypatch.context() as patch:
            kill(patch, place, name, calls, after=after)
            with pytest.raises(Killed):
                rewind(app, plan.ids["api"], dependents="reset")
        if name in ("_rescue", "rescue_work", "save"):
            assert describe(app, plan) == old, name

        done = rewind(app, plan.ids["api"], dependents="reset")

        assert (done["stage"], describe(app, plan)) == ("done", new), name
        with monkeypatch.context() as patch:
            kill(patch, place, name, calls, after=after)
            if name != "rescue_work":  # there is nothing to rescue when a rewind is undone
                with pytest.raises(Killed):
                    act(app, "undo_rewind", rewind_id=done["id"])
        act(app, "undo_rewind", rewind_id=done["id"])
        assert describe(app, plan) == old, name


def test_a_rewind_is_not_begun_twice(app: Application, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        kill(patch, RewindService, "_change_files", 0, after=False)
        with pytest.raises(Killed):
            rewind(app, plan.ids["api"], dependents="reset")

    rewind(app, plan.ids["api"], dependents="keep")

    assert call_tool(app, "task_get", id=plan.ids["ui"])["status"] == "pending"
