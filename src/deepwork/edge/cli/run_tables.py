"""Runs and their attempts as tables, for `deepwork runs list` and `show`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deepwork.delivery.runner.models import Attempt
from deepwork.delivery.runner.responses import build_payload, describe_run
from deepwork.edge.cli.framework.applications import call_operation
from deepwork.edge.cli.framework.output import render_lines
from deepwork.edge.cli.run_amounts import (
    format_cost,
    format_duration,
    format_tokens,
    format_usd,
    measure_attempt,
    name_agent,
)
from deepwork.edge.cli.run_state import RunState
from deepwork.edge.cli.run_summary import render_summary
from deepwork.edge.cli.states import name_state
from deepwork.gates.budgets.models import MICROS_PER_USD

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application

Row = dict[str, Any]
_MAX_PAGE = 500


def list_runs(app: Application, limit: int, *, is_open: bool) -> list[Row]:
    """List runs as programs see them, the newest first."""
    found: list[Row] = []
    cursor: str | None = None
    while len(found) < limit:
        given = {"open": is_open, "limit": min(_MAX_PAGE, limit - len(found)), "cursor": cursor}
        answer = call_operation(app, "list_runs", given)
        found += answer["runs"]
        cursor = answer["cursor"]
        if cursor is None:
            break
    return found


def build_run_rows(runs: Sequence[Row]) -> list[Row]:
    """Build what a person sees of runs; models only if one is known."""
    has_models = any(run["models"] for run in runs)
    return [_build_run_row(run, has_models=has_models) for run in runs]


def _build_run_row(run: Row, *, has_models: bool) -> Row:
    models = {"models": ", ".join(run["models"])} if has_models else {}
    return {
        "id": run["id"],
        "state": name_state(run["state"]),
        "because": (run.get("because") or "").partition(":")[0].replace("_", " "),
        "agents": len(run["attempts"]),
        **models,
        "cost": format_usd(round(run["usd"] * MICROS_PER_USD)),
        "started": run["created_at"],
        "name": run["workflow"]["name"] if run.get("workflow_id") and run.get("workflow") else run.get("job"),
    }


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
        if not any(attempt.model for attempt in state.attempts):
            rows = [{name: value for name, value in row.items() if name != "model"} for row in rows]
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
        "model": attempt.model or "",
        "time": format_duration(measure_attempt(attempt, state.now)),
        "tokens": format_tokens(attempt.tokens),
        "cost": format_cost(attempt),
        "reason": attempt.reason or "",
    }
