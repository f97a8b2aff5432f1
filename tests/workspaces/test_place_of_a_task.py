"""After it lost its context, an agent is told where its task is done, under which claim, and what went before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import LEASE_MS, NOW, Clock, call_tool
from deepwork.edge.server.application import Application
from deepwork.kernel.config import load_settings
from deepwork.views.hooks.current_work import get_project_scope, load_current_work
from deepwork.views.hooks.identity import SessionRecord
from deepwork.views.hooks.rendering import render_current_work
from workspaces.make import Plan

pytestmark = pytest.mark.usefixtures("project")


def load(app: Application, plan: Plan, name: str, **more: Any) -> dict[str, Any]:
    context = call_tool(app, "task_load_context", task_id=plan.ids[name], **more)
    current: dict[str, Any] = context["current_task"]
    return current


def render_session_start(app: Application, agent_id: str, folder: Path) -> str:
    """Return what the hook says to a session that acted as this agent."""
    scope = get_project_scope(load_settings(folder, {}, environment={}))
    record = SessionRecord("claude-code", "s1", agents=(agent_id,))
    with app.database.reading() as tx:
        return render_current_work(load_current_work(tx, scope, record))


def test_the_context_has_the_workspace_its_branches_and_the_claim(app: Application):
    plan = Plan(app, {"one": [], "two": ["one"]})
    plan.do("one", b_txt="b\n")
    claimed = plan.claim("two")

    current = load(app, plan, "two")

    assert current["workspace"] == {
        "id": claimed["workspace_id"], "path": claimed["workspace_path"], "branch": claimed["branch"],
        "base": "main", "builds_on": [plan.get_branch("one")],
    }  # fmt: skip
    agent = plan.claims["two"]["agent_id"]
    assert current["claim"] == {"agent_id": agent, "agent_name": "two", "epoch": 1, "until": NOW + LEASE_MS}
    assert "last_claim" not in current


def test_a_task_that_nobody_held_has_neither(app: Application):
    plan = Plan(app, {"one": []})

    assert load(app, plan, "one").keys().isdisjoint({"workspace", "claim", "last_claim"})


@pytest.mark.parametrize("how", ["released", "expired", "failed", "by a person"])
def test_the_context_says_why_the_last_holder_let_go(app: Application, clock: Clock, how: str):
    plan = Plan(app, {"one": []})
    plan.claim("one")
    first, task = plan.claims["one"]["agent_id"], plan.ids["one"]
    report = {"id": task, "status": "failed", "error": "No compiler.", "agent_id": first, "caller": "one"}
    release = {"task_id": task, "agent_id": first, "reason": "Out of tokens."}
    if how == "expired":
        clock.advance(seconds=LEASE_MS / 1000 + 1)
    elif how == "failed":
        call_tool(app, "task_update_status", **report)
    else:
        call_tool(app, "task_release", caller="human:Eve" if how == "by a person" else "one", **release)
    plan.claim("one")

    current = load(app, plan, "one")

    assert current["claim"]["epoch"] == 2
    ended = current["last_claim"]
    assert (ended.pop("agent_id"), ended.pop("agent_name")) == (first, "one")
    assert ended.pop("at") == clock.now
    assert (
        ended
        == {
            "released": {"ended": "released", "by": first, "reason": "Out of tokens."},
            "by a person": {"ended": "released", "by": "human:Eve", "reason": "Out of tokens."},
            "expired": {"ended": "expired", "reason": "the lease expired"},
            "failed": {"ended": "failed", "by": first, "reason": "No compiler."},
        }[how]
    )


def test_before_the_next_claim_the_reason_is_there_too(app: Application):
    plan = Plan(app, {"one": []})
    plan.claim("one")
    first = plan.claims["one"]["agent_id"]
    call_tool(app, "task_release", task_id=plan.ids["one"], agent_id=first, reason="Lunch.", caller="one")

    current = load(app, plan, "one")

    assert "claim" not in current
    assert (current["last_claim"]["agent_id"], current["last_claim"]["reason"]) == (first, "Lunch.")


def test_a_small_budget_is_kept(app: Application):
    plan = Plan(app, {"one": []})
    plan.claim("one")

    context = call_tool(app, "task_load_context", task_id=plan.ids["one"], max_tokens=200)

    assert context["token_estimate"] <= 200


def test_a_session_that_starts_again_knows_that_the_holder_before_released_it(
    app: Application, tmp_path: Path
):
    plan = Plan(app, {"one": []})
    plan.claim("one")
    holder = plan.claims["one"]["agent_id"]
    call_tool(app, "task_release", task_id=plan.ids["one"], agent_id=holder, reason="No time.", caller="one")
    plan.claim("one")

    said = render_session_start(app, plan.claims["one"]["agent_id"], tmp_path)

    assert 'Before you, "one" released it: "No time.".' in said


def test_a_session_that_starts_again_gets_its_place_and_the_reason(app: Application, tmp_path: Path):
    plan = Plan(app, {"one": []})
    plan.claim("one")
    report = {"id": plan.ids["one"], "status": "failed", "error": "No compiler."}
    call_tool(app, "task_update_status", agent_id=plan.claims["one"]["agent_id"], caller="one", **report)
    claimed = plan.claim("one")

    said = render_session_start(app, plan.claims["one"]["agent_id"], tmp_path)

    place = f'in "{claimed["workspace_path"]}" on branch "{claimed["branch"]}"'
    assert f"claim_epoch 2: continue it {place}" in said
    assert 'Before you, "one" reported that it failed: "No compiler.".' in said
