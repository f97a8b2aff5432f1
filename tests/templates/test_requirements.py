"""Templates keep what their tasks require, and applying one checks the names of checks."""

from __future__ import annotations

from gated_project import GatedProject, gated, own_trust

__all__ = ["gated", "own_trust"]

STRICT = {"name": "fix {{what}}", "checks": ["tests"], "approval": ["after"], "budget": {"usd": 2}}
FILE = """
tasks:
  - {name: fix, checks: [tests], approval: after, budget: {minutes: 30}, changes: none}
"""


def get_first_task(project: GatedProject, template: str) -> dict[str, object]:
    shown = project.call("template_list", template_id=template)["templates"][0]["template"]["tasks"][0]
    return {key: shown.get(key) for key in ("checks", "approval", "budget", "changes")}


def test_a_template_stores_what_its_tasks_require(gated: GatedProject):
    gated.call("template_create", name="strict", template={"tasks": [STRICT]})

    assert get_first_task(gated, "strict") == {
        "checks": ["tests"],
        "approval": ["after"],
        "budget": {"usd": 2},
        "changes": None,
    }


def test_a_template_file_may_require_the_same(gated: GatedProject):
    gated.write(".deepwork/templates/strict.yml", FILE)

    listed = gated.call("template_list")

    assert "errors" not in listed
    assert get_first_task(gated, "strict") == {
        "checks": ["tests"],
        "approval": ["after"],
        "budget": {"minutes": 30},
        "changes": "none",
    }


def test_a_plan_from_a_template_is_held_to_it(gated: GatedProject):
    gated.call("template_create", name="strict", template={"tasks": [{"name": "fix", "checks": ["tests"]}]})
    id = gated.call("template_apply", template_id="strict", workflow_name="w")["workflow_id"]
    [task] = gated.call("workflow_get", id=id, include_tasks=True)["tasks"]

    error = gated.close("task_update_status", id=task["id"], status="completed", outcome="Done.")

    assert error["code"] == "CHECKS_FAILED"


def test_a_template_with_an_unknown_check_is_not_applied(gated: GatedProject):
    gated.call("template_create", name="strict", template={"tasks": [{"name": "fix", "checks": ["typo"]}]})

    error = gated.refuse("template_apply", template_id="strict", workflow_name="w")

    assert error["code"] == "INVALID_INPUT"
    assert gated.call("workflow_list")["total"] == 0


def test_a_template_made_from_a_plan_has_the_checks_of_the_plan(gated: GatedProject):
    id = gated.call("workflow_create", name="w", source_type="prompt", source_content="s")["id"]
    plan = {"summary": "s", "tasks": [{"name": "fix", "approval": "before"}], "checks": ["tests"]}
    gated.call("workflow_set_plan", id=id, plan=plan | {"approval": "after"})

    gated.call("template_create", name="again", from_workflow_id=id)

    shown = get_first_task(gated, "again")
    assert (shown["checks"], shown["approval"]) == (["tests"], ["before", "after"])
