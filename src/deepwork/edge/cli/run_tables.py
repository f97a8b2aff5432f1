"""Runs and their attempts as tables, for `deepwork runs list` and `show`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from deepwork.delivery.runner.models import Attempt, Run
from deepwork.delivery.runner.responses import build_payload, describe_run
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.edge.cli.framework.output import render_lines
from deepwork.edge.cli.run_amounts import (
    format_cost,
    format_duration,
    format_tokens,
    format_usd,
    measure_attempt,
    name_agent,
)
from deepwork.edge.cli.run_state import RunState, find_run_name
from deepwork.edge.cli.run_summary import render_summary
from deepwork.edge.cli.states import name_state
from deepwork.kernel.states import Standing
from deepwork.kernel.timestamps import format_timestamp
from deepwork.views.overview.states.view import StateView

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application
    from deepwork.kernel.database.transaction import Transaction

Row = dict[str, Any]


def build_run_rows(app: Application, limit: int, *, is_open: bool) -> list[tuple[Row, Row]]:
    """List runs as programs and as people see them, the newest first."""
    with app.database.reading() as tx:
        found = RunStore(tx).list_newest(limit, is_open=is_open)
        states = StateView(tx, app.processes).judge_runs(found)
        return [_build_run_row(tx, run, states[run.id]) for run in found]


def _build_run_row(tx: Transaction, run: Run, standing: Standing) -> tuple[Row, Row]:
    store = AttemptStore(tx)
    usd_micros = store.sum_usd_micros(run.id)
    row = {
        "id": run.id,
        "state": name_state(standing.state),
        "because": (standing.cause or "").replace("_", " "),
        "agents": len(store.list_of_run(run.id, is_open=True)),
        "cost": format_usd(usd_micros),
        "started": format_timestamp(run.created_at),
        "name": find_run_name(tx, run),
    }
    return build_payload(describe_run(run, usd_micros=usd_micros)) | standing.to_answer(), row


def build_run_answer(state: RunState) -> Row:
    """Build a run with its attempts and their states, for programs."""
    answer = build_payload(describe_run(state.run, state.attempts, usd_micros=state.usd_micros))
    attempts = [each | state.states[each["id"]].to_answer() for each in answer.get("attempts") or ()]
    return answer | {"attempts": attempts} | state.standing.to_answer()


def render_run(state: RunState) -> Iterator[str]:
    """Render a run and its attempts."""
    yield from render_summary(state)
    if state.attempts:
        yield ""
        rows = [_build_attempt_row(state, attempt) for attempt in state.attempts]
        yield from render_lines({"attempts": rows})
        yield f"deepwork runs logs {state.attempts[-1].id}  # what its agent did and said"


def _build_attempt_row(state: RunState, attempt: Attempt) -> Row:
    return {
        "id": attempt.id,
        "state": name_state(state.states[attempt.id].state),
        "stage": attempt.stage.value,
        "task": state.name_task(attempt.task_id),
        "number": attempt.number,
        "agent": name_agent(attempt.profile),
        "time": format_duration(measure_attempt(attempt, state.now)),
        "tokens": format_tokens(attempt.tokens),
        "cost": format_cost(attempt),
        "reason": attempt.reason or "",
    }
