"""Tasks that build on a rewound one: they begin again, or are marked as built on something stale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import NotAllowed
from rewind.make import act, read_state, rewind
from workspaces.make import Plan, run_git

on_both_databases = pytest.mark.parametrize("location", ["sqlite", "postgres"], indirect=True)


def get_task(app: Application, plan: Plan, name: str) -> dict[str, Any]:
    found: dict[str, Any] = call_tool(app, "task_get", id=plan.ids[name])
    return {**found, "updated_at": 0}


@pytest.fixture
def plan(app: Application, project: Path) -> Plan:
    """`ui` builds on `api`, `docs` on `ui`: both have begun."""
    assert project.is_dir()
    made = Plan(app, {"api": [], "ui": ["api"], "docs": ["ui"]})
    made.do("api", api_txt="api\n")
    made.do("ui", ui_txt="ui\n")
    made.claim("docs")
    return made


def test_without_a_decision_the_dependents_are_listed_and_nothing_happens(
    app: Application, plan: Plan
) -> None:
    preview = act(app, "preview_rewind", task_id=plan.ids["api"])

    with pytest.raises(NotAllowed, match=r"'ui' .*'docs'"):
        rewind(app, plan.ids["api"])

    assert [each["name"] for each in preview["begun_dependents"]] == ["ui", "docs"]
    assert not preview["possible"]
    assert get_task(app, plan, "api")["status"] == "completed"


@on_both_databases
def test_kept_dependents_say_what_they_were_built_on(app: Application, plan: Plan) -> None:
    before = get_task(app, plan, "ui")

    done = rewind(app, plan.ids["api"], dependents="keep")

    entry = {"rewind": done["id"], "task_id": plan.ids["api"], "name": "api"}
    assert get_task(app, plan, "ui") == {**before, "stale_input": [entry]}
    assert get_task(app, plan, "docs")["stale_input"] == [entry]
    context = call_tool(app, "task_load_context", task_id=plan.ids["docs"])["current_task"]
    assert context["stale_input"] == [entry]
    assert "rewound" in context["warning"]
    lines = call_tool(app, "workflow_get", id=plan.id, include_tasks=True)["tasks"]
    assert [line.get("stale_input") for line in lines] == [None, ["api"], ["api"]]

    act(app, "undo_rewind", rewind_id=done["id"])
    assert get_task(app, plan, "ui") == before
    assert "stale_input" not in get_task(app, plan, "docs")


@on_both_databases
def test_reset_dependents_begin_again_from_what_is_there_then(
    app: Application, plan: Plan, project: Path
) -> None:
    tree = Path(plan.claims["ui"]["workspace_path"])
    (tree / "deepwork.db.ignored").write_text("a person's\n")
    (tree / "note.txt").write_text("uncommitted\n")
    before, task = read_state(tree), get_task(app, plan, "ui")

    done = rewind(app, plan.ids["api"], dependents="reset")

    assert {each["task_id"]: each["role"] for each in done["tasks"]} == {
        plan.ids["api"]: "rewound",
        plan.ids["ui"]: "reset",
        plan.ids["docs"]: "reset",
    }
    assert get_task(app, plan, "ui")["status"] == "pending"
    assert get_task(app, plan, "ui")["blocked"]
    assert not tree.exists()
    aside = project / ".deepwork/worktrees" / f"{tree.name}.{done['id']}"
    assert (aside / "deepwork.db.ignored").read_text() == "a person's\n"
    assert any("ui" in branch for branch in done["rescue_branches"])

    act(app, "undo_rewind", rewind_id=done["id"])
    assert read_state(tree) == before
    assert get_task(app, plan, "ui") == task

    rewind(app, plan.ids["api"], dependents="reset")
    plan.do("api", other_txt="better\n")
    again = Path(plan.claim("ui")["workspace_path"])
    assert again == tree
    assert (again / "other.txt").exists()
    assert not (again / "api.txt").exists()
    assert not (again / "ui.txt").exists()


def test_a_dependent_that_was_reset_can_be_rewound_by_itself(app: Application, plan: Plan) -> None:
    rewind(app, plan.ids["api"], dependents="reset")
    plan.do("api", api_txt="again\n")
    tree = Path(plan.claim("ui")["workspace_path"])
    (tree / "ui.txt").write_text("second try\n")

    rewind(app, plan.ids["ui"])

    assert (tree / "api.txt").read_text() == "again\n"
    assert not (tree / "ui.txt").exists()


def test_an_earlier_rewind_is_undone_only_after_a_later_one(app: Application, plan: Plan) -> None:
    first = rewind(app, plan.ids["ui"], dependents="keep")
    plan.do("ui", ui_txt="again\n")
    second = rewind(app, plan.ids["ui"], dependents="keep")

    with pytest.raises(NotAllowed, match=f"{second['id']} came later"):
        act(app, "undo_rewind", rewind_id=first["id"])

    run_git(Path(plan.claims["ui"]["workspace_path"]), "status")
