"""Fills a project with an inbox as after a night of work: twenty items of every kind, with real work in git."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from dashboard.make_agent_runs import add_attempt, move, start_run
from deepwork.delivery.runner.models import AttemptStage, ParkedFor, RunStatus
from deepwork.delivery.runner.service import RunService
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import GateClosed
from e2e.make import run_git
from landing.make import LandingProject
from tracking import make as track
from workspaces.make import Plan, commit, create_plan

LEDGER = "def total(entries):\n    total = 0.0\n    for entry in entries:\n        total += entry.amount\n    return total\n"
EXACT = LEDGER.replace("0.0", 'Decimal("0")').replace(
    "def total", "from decimal import Decimal\n\n\ndef total", 1
)
FAILING = r"""printf '=== FAILURES ===\n\033[31m\033[1m_____ test_total_is_exact _____\033[0m\n\n
>       assert total(entries) == 3\n\033[31mE       assert 3.0000000000000004 == 3\033[0m\n\n
test_ledger.py:4: AssertionError\n=== short test summary info ===\nFAILED test_ledger.py::test_total_is_exact\n'; test ! -e red.txt
"""
QUESTIONS = (
    "Population or bookings as the denominator of the no-show rate?",
    "May I delete the old import path? Two scripts of the warehouse still use it.",
    "Which currency is shown first when a customer has both?",
)


def make_inbox(project: Path, app: Application) -> dict[str, Any]:
    """Make the items; returns what tests refer to."""
    made: dict[str, Any] = {"approvals": _make_approvals(project, app)}
    made["conflict"] = _make_conflict(project, app)
    _make_questions(app)
    _make_failures(app)
    made["raised"] = _make_runs(app)
    for name, reason in (("Export to the tax office", "Wait for the form."), ("Dark mode", "After 2.0.")):
        plan, _ = create_plan(app, "one", name=name)
        call_tool(app, "workflow_update_status", id=plan, status="paused", reason=reason)
    return made


def _make_approvals(project: Path, app: Application) -> list[str]:
    """Make finished tasks that wait for approval; the checks of one are red, so it waits for its agent."""
    landing = LandingProject(project, app)
    (project / "check.sh").write_text(FAILING)
    (project / "ledger.py").write_text(LEDGER)
    run_git(project, "add", "--all")
    run_git(project, "commit", "--quiet", "--message", "ledger")
    landing.define_checks("checks:\n  tests:\n    run: [sh, check.sh]\n")
    names = (
        "Sum in Decimal",
        "Refund in part",
        "Round to the cent",
        "Say the price with tax",
        "Import old rows",
    )
    plan = Plan(
        app, {name: [] for name in names} | {"Release": list(names)}, checks=["tests"], approval=["after"]
    )
    for number, name in enumerate(names):
        tree = Path(plan.claim(name)["workspace_path"])
        (tree / "ledger.py").write_text(
            EXACT if number == 0 else f"{LEDGER}\n\ndef part_{number}():\n    return {number}\n"
        )
        if number == 4:
            (tree / "red.txt").write_text("red\n")
        run_git(tree, "add", "--all")
        run_git(tree, "commit", "--quiet", "--message", name)
        with pytest.raises(GateClosed):
            plan.complete(name)
    # The agent of the red one gives up.
    who = plan.claims["Import old rows"]["agent_id"]
    call_tool(
        app, "task_update_status", id=plan.ids["Import old rows"], status="failed", agent_id=who, caller="Import old rows",
        error="Check tests failed with exit code 1: test_total_is_exact.",
    )  # fmt: skip
    return list(names[:4])


def _make_conflict(project: Path, app: Application) -> str:
    landing = LandingProject(project, app)
    plan = landing.plan({"Rename the ledger": [], "Move the ledger": []})
    for name in plan.ids:
        plan.claim(name)
    for name in plan.ids:
        commit(Path(plan.claims[name]["workspace_path"]), name, a_txt=f"by {name}\n")
        plan.complete(name)
    landing.land(workflow_id=plan.id)
    return str(plan.ids["Move the ledger"])


def _make_questions(app: Application) -> None:
    workflow = track.create_workflow(app, name="Payments", objective="Two currencies.")
    phase = (workflow, track.create_phase(app, workflow, 1, name="Build"))
    for number, question in enumerate(QUESTIONS):
        task = track.create_task(app, phase, f"part {number}", agent_name="Grace")
        track.create_blocker(app, task, question)
    broken = track.create_task(app, phase, "Migrate old rows", agent_name="Ada")
    track.complete_task(app, broken, "failed", outcome={"summary": "The table is locked by the nightly job."})
    unsure = track.create_task(app, phase, "Round half up", agent_name="Lin")
    track.complete_task(
        app, unsure, "partial_success",
        outcome={"summary": "Rounds half up.", "manual_review_needed": True, "manual_review_reason": "Is half up legal in Japan?"},
    )  # fmt: skip


def _make_failures(app: Application) -> None:
    """Make six tasks that failed for one reason, and two for reasons of their own."""
    names = ["core", "api", "page", "jobs", "mail", "search", "docs", "deploy"]
    _, ids = create_plan(app, *names, name="Monorepo")
    agent = call_tool(app, "agent_register", name="Bob", runtime="codex")["id"]
    errors = ["Check mypy failed with exit code 1."] * 6 + [
        "The style guide is missing.",
        "No access to the registry.",
    ]
    for id, error in zip(ids, errors, strict=True):
        call_tool(app, "task_claim", task_id=id, agent_id=agent)
        call_tool(app, "task_update_status", id=id, status="in_progress", agent_id=agent)
        call_tool(app, "task_update_status", id=id, status="failed", agent_id=agent, error=error)


def _make_runs(app: Application) -> str:
    """Make a run that used up its money, one whose agent waits for trust, and plans over their budget."""
    plan, ids = create_plan(app, "Cart", "Address", "Pay", name="Checkout")
    run = start_run(app, plan, max_usd=12.0)
    for id in ids:
        attempt = add_attempt(
            app,
            run,
            id,
            agent_id=f"ag_{id}",
            usd_micros=4_020_000,
            input_tokens=1_900_000,
            outcome="The cart keeps its rows now; the address form is next.",
        )
        move(
            app,
            attempt,
            AttemptStage.PARKED,
            parked_for=ParkedFor.BUDGET,
            reason="The run has spent $12.06 of $12.00.",
        )
    RunService(app.database).set_status(run.id, RunStatus.NEEDS_PERSON, "The run has spent $12.06 of $12.00.")
    other, [task] = create_plan(app, "Sign in", name="Accounts")
    second = start_run(app, other)
    waits = add_attempt(
        app,
        second,
        task,
        agent_id="ag_trust",
        usd_micros=310_000,
        outcome="I need the check `lint` to be trusted.",
    )
    move(
        app,
        waits,
        AttemptStage.PARKED,
        parked_for=ParkedFor.PERSON,
        reason="Check lint is not trusted: deepwork trust.",
    )
    third, [alone] = create_plan(app, "Mail", name="Newsletter")
    stopped = start_run(app, third)
    add_attempt(
        app, stopped, alone, agent_id="ag_mail", stage=AttemptStage.FAILED, ended_at=1, reason="No network."
    )
    RunService(app.database).set_status(stopped.id, RunStatus.NEEDS_PERSON, "No agent can go on.")
    budgeted = call_tool(
        app, "workflow_create", name="Search", source_type="prompt", source_content="Find.", max_parallel_tasks=2,
    )["id"]  # fmt: skip
    call_tool(
        app, "workflow_set_plan", id=budgeted,
        plan={"summary": "s", "tasks": [{"name": "index", "description": "d", "sequence": 1}], "budget": {"usd": 5}},
    )  # fmt: skip
    add_attempt(
        app,
        start_run(app, budgeted),
        call_tool(app, "workflow_get", id=budgeted, include_tasks=True)["tasks"][0]["id"],
        agent_id="ag_idx",
        usd_micros=5_400_000,
    )
    return run.id
