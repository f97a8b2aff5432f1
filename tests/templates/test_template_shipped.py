"""The templates that come with deepwork: each can be applied and worked off, by several agents in parallel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agents.make import register_agent
from application import call_tool
from deepwork.edge.server.application import Application
from protocol.stdio_server import StdioServer

VALUES = {
    "feature": {"feature": "Login by SSO"},
    "bugfix": {"bug": "Login fails on Mondays"},
    "refactor": {"target": "src/auth", "goal": "one way to log in"},
}


def get_shipped(app: Application, name: str) -> Any:
    [template] = call_tool(app, "template_list", template_id=f"shipped:{name}")["templates"]
    return template


@pytest.mark.parametrize("name", VALUES)
def test_every_shipped_task_names_what_to_deliver(app: Application, name: str):
    template = get_shipped(app, name)

    assert 6 <= len(template["template"]["tasks"]) <= 9
    assert all("Deliver:" in task["description"] for task in template["template"]["tasks"])
    assert all(variable["description"] for variable in template["template"]["variables"])
    assert {
        v["name"] for v in template["template"]["variables"] if v["required"] and "default" not in v
    } == set(VALUES[name])


@pytest.mark.parametrize("name", VALUES)
def test_a_shipped_template_can_be_completed_by_parallel_agents(app: Application, name: str):
    agents = [register_agent(app, f"agent {number}") for number in range(3)]
    workflow = call_tool(
        app, "template_apply", template_id=name, workflow_name="W", variables=VALUES[name], max_parallel_tasks=3
    )["workflow_id"]  # fmt: skip
    rounds = []

    while offered := call_tool(app, "workflow_next_tasks", workflow_id=workflow)["tasks"]:
        taken = offered[: len(agents)]
        for agent, task in zip(agents, taken, strict=False):
            assert call_tool(app, "task_claim", task_id=task["id"], agent_id=agent)["success"]
        for agent, task in zip(agents, taken, strict=False):
            done = {"status": "completed", "outcome": "done", "agent_id": agent}
            call_tool(app, "task_update_status", id=task["id"], **done)
        rounds.append(len(taken))

    assert call_tool(app, "workflow_get", id=workflow)["status"] == "completed"
    assert max(rounds) >= 2
    assert sum(rounds) == len(get_shipped(app, name)["template"]["tasks"])


@pytest.mark.parametrize("name", VALUES)
def test_a_shipped_template_is_filled_completely(app: Application, name: str):
    workflow = call_tool(
        app, "template_apply", template_id=name, workflow_name="W", variables=VALUES[name]
    )["workflow_id"]  # fmt: skip
    tasks = call_tool(app, "workflow_get", id=workflow, include_tasks=True, include_task_summaries=False)[
        "tasks"
    ]

    assert "{{" not in str(tasks)


def test_templates_work_over_stdio(tmp_path: Path):
    """What an agent does with a real server: look, apply, work, keep."""
    with StdioServer(tmp_path) as wire:
        offered = wire.call("template_list")
        made = wire.call(
            "template_apply",
            {"template_id": "bugfix", "workflow_name": "Fix it", "variables": {"bug": "It fails"}},
        )
        first = wire.call("workflow_next_tasks", {"workflow_id": made["workflow_id"]})["tasks"][0]
        kept = wire.call("template_create", {"name": "ours", "from_workflow_id": made["workflow_id"]})
        defined = wire.call(
            "template_create",
            {"name": "small", "template": {"tasks": [{"name": "{{x}}"}], "variables": ["x"]}},
        )
        refused = wire.call("template_apply", {"template_id": defined["id"], "workflow_name": "W"})
        after = wire.call("template_list", {"limit": 2})

    assert [each["name"] for each in offered["templates"]] == ["bugfix", "feature", "refactor"]
    assert first["name"] == "Reproduce the bug"
    assert kept["id"].startswith("tmpl_")
    assert (refused["code"], refused["recoverable"]) == ("MISSING_VARIABLES", True)
    assert (len(after["templates"]), after["total"]) == (2, 5)
