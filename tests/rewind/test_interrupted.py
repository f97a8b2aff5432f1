"""A rewind that is killed at any stage: repeating it ends in the new state, and before files it was the old."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from deepwork.edge.server.application import Application
from rewind.killed_process import MOMENTS, STAGES, act_and_die
from rewind.make import act, read_state, rewind
from workspaces.make import Plan, commit

on_both_databases = pytest.mark.parametrize("location", ["sqlite", "postgres"], indirect=True)


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


@on_both_databases
def test_a_rewind_killed_at_any_moment_is_completed_by_repeating_it(
    app: Application, plan: Plan, tmp_path: Path, location: str
) -> None:
    old = describe(app, plan)
    whole = rewind(app, plan.ids["api"], dependents="reset")
    new = describe(app, plan)
    act(app, "undo_rewind", rewind_id=whole["id"])
    assert describe(app, plan) == old

    is_small = "://" in location  # the moments between stages are about files
    for moment in STAGES if is_small else (*STAGES, *MOMENTS):
        given = {"task_id": plan.ids["api"], "dependents": "reset"}
        killed = act_and_die(tmp_path, location, moment, "rewind_task", **given)
        assert killed == -signal.SIGKILL, moment
        if moment in ("_rescue", "rescue_work", "save"):
            assert describe(app, plan) == old, moment

        done = rewind(app, **given)

        assert (done["stage"], describe(app, plan)) == ("done", new), moment
        if moment in STAGES:
            killed = act_and_die(tmp_path, location, moment, "undo_rewind", rewind_id=done["id"])
            assert killed == -signal.SIGKILL, moment
        act(app, "undo_rewind", rewind_id=done["id"])
        assert describe(app, plan) == old, moment


def test_a_rewind_is_not_begun_twice(app: Application, plan: Plan, tmp_path: Path, location: str) -> None:
    given = {"task_id": plan.ids["api"], "dependents": "reset"}
    act_and_die(tmp_path, location, "_change_files", "rewind_task", **given)

    rewind(app, plan.ids["api"], dependents="keep")

    assert call_tool(app, "task_get", id=plan.ids["ui"])["status"] == "pending"
