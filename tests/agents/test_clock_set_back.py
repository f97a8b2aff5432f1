"""A clock that is set back neither prolongs leases nor makes durations negative."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from application import Clock, call_tool, make_app
from deepwork.edge.server.application import Application
from deepwork.kernel.states import State
from deepwork.views.overview.current_work_store import ActivityStore, CurrentWorkStore
from deepwork.views.overview.states.store import UNKNOWN_PROCESSES
from deepwork.views.overview.states.view import StateView
from deepwork.work.agents.lease_conditions import CLOCK_TOLERANCE_MS
from deepwork.work.plans.inbox import list_lost_claims
from deepwork.work.plans.stores.claim_store import ClaimStore
from notices.make import beat, claim, create_plan, register_agent
from tracking.make import complete_task, create_task, create_workflow_and_phase

HOUR = 3600


@pytest.fixture
def held(app: Application) -> tuple[str, str, str, str]:
    """A task that Ada holds and has started: the ids of the plan, the task, Ada and Bob."""
    ada, bob = register_agent(app), register_agent(app, "Bob")
    plan, tasks = create_plan(app, "design")
    claim(app, tasks["design"], ada)
    call_tool(app, "task_update_status", id=tasks["design"], status="in_progress", agent_id=ada)
    return plan, tasks["design"], ada, bob


def take(app: Application, task: str, agent: str) -> bool:
    answer: dict[str, Any] = call_tool(app, "task_claim", task_id=task, agent_id=agent)
    return bool(answer["success"])


def describe_reads(app: Application, plan: str, task: str, agent: str) -> dict[str, bool]:
    """Ask everything that reads leases whether the agent holds the task."""
    with app.database.reading() as tx:
        alive_since = tx.now - 90_000
        holder = ClaimStore(tx).find_last_holder(task)
        assert holder is not None
        told = {
            "open claims": ActivityStore(tx).count_activity(alive_since).open_claims == 1,
            "lost claims": list_lost_claims(tx, 9)[1] == 0,
            "held tasks": len(ClaimStore(tx).list_held_tasks([agent])) == 1,
            "claims": len(CurrentWorkStore(tx).list_claims(9)) == 1,
            "last holder": holder["until"] >= tx.now,
            "state": StateView(tx, UNKNOWN_PROCESSES).judge_tasks([task])[task].state is State.RUNNING,
        }
    context = call_tool(app, "task_load_context", task_id=task)
    told["context"] = "claim" in context["current_task"]
    told["status"] = call_tool(app, "agent_get", id=agent)["status"] != "offline"
    listed = call_tool(app, "agent_list", status=["offline"])["agents"]
    return told | {"list": agent not in [each["id"] for each in listed]}


def test_a_lease_from_before_the_correction_has_run_out(
    app: Application, clock: Clock, held: tuple[str, str, str, str]
):
    plan, task, ada, bob = held
    assert set(describe_reads(app, plan, task, ada).values()) == {True}
    clock.advance(seconds=-HOUR)

    assert {name for name, is_held in describe_reads(app, plan, task, ada).items() if is_held} == set()
    assert take(app, task, bob), "the holder may be gone; nobody should have to wait for an hour"
    assert beat(app, ada) == []
    assert not take(app, task, ada)


def test_the_next_call_of_the_holder_renews_it(
    app: Application, clock: Clock, held: tuple[str, str, str, str]
):
    plan, task, ada, bob = held
    clock.advance(seconds=-HOUR)
    call_tool(app, "checkpoint_add", task_id=task, type="progress", summary="Half.", agent_id=ada)

    assert set(describe_reads(app, plan, task, ada).values()) == {True}
    assert not take(app, task, bob)
    clock.advance(seconds=91)
    assert take(app, task, bob), "and it ends after the usual time"


def test_a_read_of_the_holder_renews_it(app: Application, clock: Clock, held: tuple[str, str, str, str]):
    _, task, ada, bob = held
    clock.advance(seconds=-HOUR)
    call_tool(app, "message_list", agent_id=ada)

    assert not take(app, task, bob)


def test_a_change_by_another_agent_finds_no_holder(
    app: Application, clock: Clock, held: tuple[str, str, str, str]
):
    _, task, ada, bob = held
    clock.advance(seconds=-HOUR)

    call_tool(app, "task_update_status", id=task, status="in_progress", agent_id=bob)

    assert not take(app, task, ada)


def test_a_small_correction_takes_nothing_away(
    app: Application, clock: Clock, held: tuple[str, str, str, str]
):
    plan, task, ada, bob = held
    clock.advance(seconds=-CLOCK_TOLERANCE_MS / 1000)

    assert set(describe_reads(app, plan, task, ada).values()) == {True}
    assert not take(app, task, bob)


def test_a_longer_lease_of_another_server_has_not_run_out(tmp_path: Path, location: str, clock: Clock):
    patient = make_app(tmp_path, location, clock, lease_seconds=3600)
    ada = register_agent(patient)
    _, tasks = create_plan(patient, "design")
    claim(patient, tasks["design"], ada)
    hasty = make_app(tmp_path, location, clock, lease_seconds=60)

    assert not take(hasty, tasks["design"], register_agent(hasty, "Bob"))
    patient.close()
    hasty.close()


def test_no_duration_is_negative(app: Application, clock: Clock):
    where = create_workflow_and_phase(app)
    task = create_task(app, where)
    clock.advance(seconds=-HOUR)

    assert complete_task(app, task)["duration_seconds"] == 0
    include = ["tasks", "phase_summary"]
    shown = call_tool(app, "get_context", workflow_id=where[0], include=include)
    phase = call_tool(app, "complete_phase", phase_id=where[1], summary="Done.", status="completed")
    ended = call_tool(app, "complete_workflow", workflow_id=where[0], summary="Done.", status="completed")

    assert shown["tasks"][0]["duration_seconds"] == 0
    assert (shown["phase_summary"][0]["duration_seconds"], shown["phase_summary"][0]["task_seconds"]) == (
        0,
        0,
    )
    assert phase["duration_ms"] == 0
    assert (ended["metrics"]["duration"], ended["metrics"]["task_seconds"]) == (0, 0)
