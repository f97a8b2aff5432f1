"""What stopped runs of agents and waits for a person, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepwork.delivery.runner.store import AttemptStore
from deepwork.delivery.runner.store import RunStore as AgentRunStore
from deepwork.kernel.database.engine import Row
from deepwork.kernel.text_budget.lines import truncate_to_line
from deepwork.kernel.timestamps import format_timestamp
from deepwork.views.overview.attention_store import AttentionStore
from deepwork.views.overview.run_store import WorkListStore, get_run_kind
from deepwork.views.overview.states.view import StateView
from deepwork.work.plans.stores.task_store import TaskStore

_MAX_DETAIL = 500
Names = Mapping[str, tuple[str, str]]
"""Kind and name of plans and sessions, by id."""


def list_agent_needs(view: StateView, limit: int) -> tuple[list[dict[str, Any]], int]:
    """List attempts that wait for a person or a budget, then runs that ended for a person; and the total."""
    tx = view.tx
    store = AttentionStore(tx)
    parked, parked_total = store.list_parked_attempts(limit)
    ended, ended_total = store.list_waiting_runs(limit)
    if not parked and not ended:
        return [], 0
    names = WorkListStore(tx).find_names([_get_workflow_id(row) for row in [*parked, *ended]])
    tasks = TaskStore(tx).map_names({row["task_id"] for row in parked})
    attempts = AttemptStore(tx).find_by_ids([row["id"] for row in parked]) if parked else {}
    runs = AgentRunStore(tx).find_by_ids([row["id"] for row in ended]) if ended else []
    states = view.judge_attempts(list(attempts.values())) | view.judge_runs(runs)
    found = [
        *(_build_parked_need(row, names, tasks) for row in parked),
        *(_build_run_need(row, names) for row in ended),
    ]
    found = [need | {"next": states[need["id"]].next} for need in found]
    return found, parked_total + ended_total


def _build_parked_need(row: Row, names: Names, tasks: Mapping[str, str]) -> dict[str, Any]:
    name = tasks.get(row["task_id"]) or row["task_id"].rpartition("/")[2]
    waits_for = "you" if row["parked_for"] == "person" else "a budget"
    return {
        "kind": "parked_attempt",
        "id": row["id"],
        "title": f"The agent of {name} waits for {waits_for}",
        "detail": _format_detail(row["reason"]),
        "run": _build_run(_get_workflow_id(row), names),
        "task": {"id": row["task_id"], "name": name},
        "agent_name": row["profile"],
        "since": format_timestamp(row["updated_at"]),
    }


def _build_run_need(row: Row, names: Names) -> dict[str, Any]:
    run = _build_run(row["workflow_id"], names)
    return {
        "kind": "agent_run",
        "id": row["id"],
        "title": f"Agents stopped working on {run['name']}",
        "detail": _format_detail(row["reason"]),
        "run": run,
        "task": None,
        "agent_name": None,
        "since": format_timestamp(row["ended_at"]),
    }


def _get_workflow_id(row: Row) -> str:
    """Return the plan, or the session of a job's step."""
    id: str = row["workflow_id"] or row["task_id"].partition("/")[0]
    return id


def _build_run(id: str, names: Names) -> dict[str, str]:
    kind, name = names.get(id, (get_run_kind(id), id))
    return {"id": id, "kind": kind, "name": name}


def _format_detail(text: str | None) -> str:
    return truncate_to_line(text or "", _MAX_DETAIL) or ""
