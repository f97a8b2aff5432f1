"""Runs of all kinds in one list, each with its totals, as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from deepwork.gates.budgets.models import MICROS_PER_USD
from deepwork.kernel.database.engine import Row
from deepwork.kernel.foreign_text import truncate_to_line
from deepwork.kernel.states import State
from deepwork.kernel.values import format_optional_timestamp, format_timestamp
from deepwork.views.overview.run_store import (
    JOB,
    PLAN,
    TRACK,
    RunFilter,
    RunOrder,
    WorkListStore,
    parse_session_row,
)
from deepwork.views.overview.session_rows import RUNNING_STATUSES
from deepwork.views.overview.states.view import StateView

MAX_AGENTS = 5
_MAX_OBJECTIVE = 300

MAX_PHASES = 12
"""Lists of runs have the status of each phase only up to this number of phases."""

COUNTERS_BY_TASK_STATUS = {
    "completed": "done",
    "skipped": "done",
    "failed": "failed",
    "planning": "running",
    "in_progress": "running",
    "paused": "running",
}
"""How the tasks of plans are counted."""


def list_merged_rows(
    store: WorkListStore,
    filters: Mapping[str, RunFilter],
    order: RunOrder,
    positions: Mapping[str, Sequence[Any]],
    limit: int,
) -> tuple[list[Row], bool]:
    """List the next runs of all kinds in one order, each kind after its position; and whether more follow."""
    pages = {
        kind: store.list_page(kind, each, order, positions.get(kind), limit + 1)
        for kind, each in filters.items()
    }
    found = sorted(
        (row for page in pages.values() for row in page), key=_build_sort_key(order), reverse=order.descending
    )
    return _restore_database_order(found[:limit], pages), len(found) > limit


def list_latest_runs(store: WorkListStore, statuses: Mapping[str, tuple[str, ...]], limit: int) -> list[Row]:
    """List the most recently updated runs with these statuses, by kind."""
    filters = {kind: RunFilter(words) for kind, words in statuses.items()}
    return list_merged_rows(store, filters, RunOrder(), {}, limit)[0]


def build_run_lines(view: StateView, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Build the list items of these runs; the number of statements does not depend on how many there are."""
    totals = _RunTotals(view, rows)
    return [totals.build_line(row) for row in rows]


def _restore_database_order(rows: Sequence[Row], pages: Mapping[str, list[Row]]) -> list[Row]:
    """Refill the merged list with each kind's rows in the order of the database.

    Python may sort names differently from the database, and the cursor relies on the database's order.
    """
    left = {kind: iter(page) for kind, page in pages.items()}
    return [next(left[row["kind"]]) for row in rows]


def _build_sort_key(order: RunOrder) -> Any:
    if order.by == "started":
        return lambda row: (_to_milliseconds(row["started_at"]), row["created_seq"])
    return lambda row: (row["sort_key"], row["created_seq"])


class _RunTotals:
    """Totals of several runs, read together."""

    def __init__(self, view: StateView, rows: Sequence[Row]) -> None:
        store = WorkListStore(view.tx)
        ids = [row["id"] for row in rows]
        tracked, planned = ([row["id"] for row in rows if row["kind"] == kind] for kind in (TRACK, PLAN))
        plans = view.judge_plans(planned)
        sessions = [parse_session_row(row) for row in rows if row["kind"] == JOB]
        self._states = {id: plan.standing for id, plan in plans.items()}
        self._states |= view.judge_tracks(tracked) | view.judge_sessions(sessions)
        self._tasks: dict[str, dict[str, int]] = {}
        self._agents: dict[str, dict[str, None]] = {}
        self._spent = store.sum_spending(ids) if ids else {}
        for row in store.count_tracked_tasks(tracked) if tracked else ():
            self._add_tasks(row, _TRACKED_COUNTERS.get(row["status"]))
            if row["agent_name"]:
                self._agents.setdefault(row["workflow_id"], {})[row["agent_name"]] = None
        for row in store.count_planned_tasks(planned) if planned else ():
            self._add_tasks(row, "done" if row["status"] in _DONE else None)
        for id, plan in plans.items():
            counts = {"running": plan.tasks[State.RUNNING], "failed": plan.tasks[State.FAILED]}
            self._tasks.setdefault(id, {"total": 0}).update(counts)
        for row in store.list_plan_holders(planned) if planned else ():
            self._agents.setdefault(row["workflow_id"], {})[row["name"]] = None
        self._levels = store.find_plan_levels(planned) if planned else {}
        few = [id for id, (_, total) in self._levels.items() if total <= MAX_PHASES]
        self._level_statuses = list_level_statuses(store.count_tasks_by_level(few)) if few else {}
        self._phases = _group_phases(store.list_phase_statuses(tracked)) if tracked else {}
        self._blockers = store.count_blockers(ids) if ids else {}
        self._files = store.count_files(ids) if ids else {}
        self._milestones = store.find_last_milestones(ids) if ids else {}

    def _add_tasks(self, row: Row, word: str | None) -> None:
        tasks = self._tasks.setdefault(row["workflow_id"], {"total": 0})
        for name in ("total", word):
            if name is not None:
                tasks[name] = tasks.get(name, 0) + row["tasks"]

    def build_line(self, row: Row) -> dict[str, Any]:
        id = row["id"]
        tokens, usd_micros = self._spent.get(id, (0, 0))
        common: dict[str, Any] = {
            "id": id,
            "kind": row["kind"],
            "name": row["name"],
            "status": row["status"],
            **self._states[id].to_answer(),
            "blockers": self._blockers.get(id, 0),
            "files_changed": self._files.get(id, 0),
            "tokens": tokens,
            "usd": usd_micros / MICROS_PER_USD,
            "agents": list(self._agents.get(id, ()))[:MAX_AGENTS],
            "last_milestone": truncate_to_line(self._milestones.get(id)),
            "updated_at": format_timestamp(row["updated_at"]),
        }
        own = self._build_job_fields(row) if row["kind"] == JOB else self._build_workflow_fields(row)
        return common | own

    def _build_workflow_fields(self, row: Row) -> dict[str, Any]:
        id, status = row["id"], row["status"]
        if row["kind"] == TRACK:
            place = row["current_phase"], row["total_phases"]
            statuses = list_tracked_statuses(self._phases.get(id, {}), min(place[1], MAX_PHASES + 1))
            status = "blocked" if status == "in_progress" and self._blockers.get(id) else status
        else:
            place = self._levels.get(id, (0, 0))
            statuses = self._level_statuses.get(id, [])
        return {
            "objective": truncate_to_line(row["objective"], _MAX_OBJECTIVE) or "",
            "status": status,
            "profile": row.get("profile"),
            "phase": _build_place(*place, statuses),
            "tasks": _NO_TASKS | self._tasks.get(id, {}),
            "started_at": format_timestamp(row["started_at"]),
            "ended_at": format_optional_timestamp(row["ended_at"]),
        }

    @staticmethod
    def _build_job_fields(row: Row) -> dict[str, Any]:
        session = parse_session_row(row)
        states = [session.get_step_status(step) for step in session.steps]
        done, running = states.count("completed"), sum(each in RUNNING_STATUSES for each in states)
        entries = session.entries
        statuses = [
            derive_entry_status([session.get_step_status(step) for step in entry]) for entry in entries
        ]
        at = len(entries) if session.status == "completed" else session.data.get("current_entry_index", 0) + 1
        return {
            "objective": truncate_to_line(session.goal, _MAX_OBJECTIVE) or "",
            "phase": _build_place(at, len(entries), statuses),
            "tasks": _NO_TASKS | {"total": len(states), "done": done, "running": running},
            "started_at": row["started_at"],
            "ended_at": session.data.get("completed_at"),
        }


_DONE = ("completed", "skipped")
_NO_TASKS = {"total": 0, "done": 0, "failed": 0, "running": 0}
_TRACKED_COUNTERS = {
    "success": "done",
    "partial_success": "done",
    "failed": "failed",
    "in_progress": "running",
}


def _group_phases(rows: Sequence[Row]) -> dict[str, dict[int, str]]:
    found: dict[str, dict[int, str]] = {}
    for row in rows:
        found.setdefault(row["workflow_id"], {})[row["number"]] = row["status"]
    return found


def _build_place(current: int, total: int, statuses: list[str]) -> dict[str, Any]:
    return {"current": current, "total": total} | ({"statuses": statuses} if total <= MAX_PHASES else {})


def _to_milliseconds(moment: int | str) -> int:
    if isinstance(moment, int):
        return moment
    return int(datetime.fromisoformat(moment).astimezone(UTC).timestamp() * 1000)


def derive_phase_status(tasks: Mapping[str, int]) -> str:
    """Derive the status of a phase from its numbers of tasks: total, done, running, failed."""
    done, running, failed = (tasks.get(name, 0) for name in ("done", "running", "failed"))
    if done == tasks["total"]:
        return "completed"
    if running:
        return "in_progress"
    if failed:
        return "failed"
    return "in_progress" if done else "pending"


def list_tracked_statuses(started: Mapping[int, str], total: int) -> list[str]:
    """List the statuses of all phases, given those that have started by number."""
    return [started.get(number, "pending") for number in range(1, total + 1)]


def list_level_statuses(rows: Iterable[Row]) -> dict[str, list[str]]:
    """List the statuses of the levels of each plan; the rows count tasks, ordered by level."""
    levels: dict[str, dict[int, dict[str, int]]] = {}
    for row in rows:
        tasks = levels.setdefault(row["workflow_id"], {}).setdefault(row["sequence"], {"total": 0})
        for name in ("total", COUNTERS_BY_TASK_STATUS.get(row["status"])):
            if name is not None:
                tasks[name] = tasks.get(name, 0) + row["tasks"]
    return {id: [derive_phase_status(tasks) for tasks in found.values()] for id, found in levels.items()}


def derive_entry_status(steps: Sequence[str]) -> str:
    """Derive the status of an entry of a job from the statuses of its steps."""
    running = sum(status in RUNNING_STATUSES for status in steps)
    return derive_phase_status({"total": len(steps), "done": steps.count("completed"), "running": running})
