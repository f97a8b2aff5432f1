"""The inbox lists everything that waits for a person, one entry for each thing."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from application import Clock
from approvals.make import ask, decide
from dashboard.make import World, make_everything
from dashboard.make_agent_runs import add_attempt, move, start_run
from deepwork.delivery.runner.models import AttemptStage, ParkedFor, RunStatus
from deepwork.delivery.runner.service import RunService
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.models import ApprovalKind, ApprovalRequest
from deepwork.kernel.attention import Attention
from deepwork.kernel.states import Cause
from deepwork.views.overview.inbox import MAX_ENTRIES, list_inbox
from deepwork.views.overview.states.view import StateView

ROOT = Path(__file__).parents[2]


@pytest.fixture
def world(app: Application, tmp_path: Path, clock: Clock) -> World:
    return make_everything(app, tmp_path, clock)


def read(app: Application, *sources: Any) -> tuple[list[Attention], int]:
    with app.database.reading() as tx:
        return list_inbox(StateView(tx, app.processes), *([sources] if sources else []))


def test_every_entry_says_why_and_what_to_do(app: Application, world: World):
    entries, total = read(app)

    assert total == len(entries) > 5
    assert all(isinstance(each.why, Cause) and each.next for each in entries)
    assert all(each.run and each.run["id"] == each.run_id for each in entries)


def test_an_agent_that_waits_for_an_approval_is_not_listed_beside_it(app: Application, world: World):
    run, task = start_run(app, world.plan), world.planned["ship"]
    before = read(app)[1]
    parked = add_attempt(app, run, task)
    move(app, parked, AttemptStage.PARKED, parked_for=ParkedFor.PERSON, reason="Approve it.")
    assert [each.kind for each in read(app)[0] if each.task_id == task] == ["parked_attempt"]

    asked = ask(app, ApprovalRequest(ApprovalKind.TASK, task, world.plan, {"name": "ship"}))
    entries, total = read(app)

    assert [(each.kind, each.id, each.why) for each in entries if each.task_id == task] == [
        ("approval", asked.id, Cause.APPROVAL)
    ]
    assert total == before + 1


def test_a_source_is_a_function_that_lists_the_first_entries_and_their_number(app: Application):
    def list_many(view: StateView, limit: int) -> tuple[list[Attention], int]:
        made = [Attention("many", str(n), "A thing", Cause.PERSON, f"look {n}", n) for n in range(limit)]
        return made, 150

    entries, total = read(app, list_many, list_many)

    assert (len(entries), entries[0].next) == (MAX_ENTRIES, "look 0")
    assert total == 200  # of the second source, only those that it did not list are new


def test_a_used_up_limit_that_many_agents_met_is_one_entry_with_the_command_that_raises_it(
    app: Application, world: World
):
    run = start_run(app, world.plan, max_usd=1.0)
    before = read(app)[1]
    for name in ("ship", "backend"):
        parked = add_attempt(app, run, world.planned[name], usd_micros=900_000)
        move(app, parked, AttemptStage.PARKED, parked_for=ParkedFor.BUDGET, reason="Used up.")
    RunService(app.database).set_status(run.id, RunStatus.NEEDS_PERSON, "Used up.")

    entries, total = read(app)

    raising = f"deepwork runs set {run.id} --max-usd N"
    assert [(each.kind, each.why) for each in entries if each.next == raising] == [
        ("agent_run", Cause.BUDGET)
    ]
    assert total == before + 1


def test_a_stopped_run_is_listed_when_nothing_else_of_it_waits_and_says_how_it_continues(
    app: Application, world: World
):
    asked = ask(app, ApprovalRequest(ApprovalKind.TASK, world.planned["ship"], world.plan, {"name": "ship"}))
    run = start_run(app, world.plan, max_usd=20.0)
    RunService(app.database).set_status(run.id, RunStatus.NEEDS_PERSON, "Approve it.")

    beside = [each.kind for each in read(app)[0] if each.id in (asked.id, run.id)]
    decide(app, asked.id)
    [left] = [each for each in read(app)[0] if each.id in (asked.id, run.id)]

    assert beside == ["approval"]
    assert left.kind == "agent_run"
    assert left.next == f"deepwork run {world.plan} --agent claude --agent codex --agents 2 --max-usd 20"


def test_what_stops_agents_is_first_and_then_the_oldest(app: Application):
    def make(name: str, since: int) -> Any:
        return lambda view, limit: ([Attention("k", name, name, Cause.PERSON, name, since)], 1)

    with app.database.reading() as tx:
        entries, _ = list_inbox(
            StateView(tx, app.processes), [make("young", 9), make("old", 3)], [make("oldest", 1)]
        )

    assert [each.id for each in entries] == ["old", "young", "oldest"]


def test_every_kind_of_entry_is_on_the_page_about_the_inbox():
    page = (ROOT / "docs" / "inbox.md").read_text(encoding="utf-8").partition("## What agents hear")[0]
    made = {
        keyword.value.value
        for file in (ROOT / "src").rglob("inbox.py")
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Attention"
        for keyword in call.keywords
        if keyword.arg == "kind" and isinstance(keyword.value, ast.Constant)
    }

    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == made
