"""Records what work costs, and keeps the totals that budgets are compared with; knows the budget of a day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from deepwork.gates.budgets.models import (
    MICROS_PER_USD,
    MS_PER_DAY,
    Budget,
    BudgetEvent,
    Cost,
    Entry,
    SubjectKind,
    Total,
)
from deepwork.gates.budgets.rules import format_usd
from deepwork.gates.budgets.store import SpendingStore
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.user_settings import find_day_budget

_LOCK_ORDER = (SubjectKind.PLAN, SubjectKind.TASK, SubjectKind.DAY)


class BudgetService:
    """Spending and budgets in one transaction. Locks are taken in this order: plan, task, day."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._store = SpendingStore(tx)

    def record(self, entry: Entry) -> bool:
        """Add a line to the ledger and to the totals; False if it was recorded before.

        The line and its totals are one transaction, so any cut of a stream leaves them equal, and replaying
        it changes nothing.
        """
        return self.record_all([entry]) == 1

    def record_all(self, entries: Iterable[Entry]) -> int:
        """Add lines to the ledger, and their sums to the totals; return how many were not recorded before."""
        added = [entry for entry in entries if self._store.add(entry)]
        costs: defaultdict[tuple[SubjectKind, str], Cost] = defaultdict(Cost)
        for entry in added:
            for subject in _list_subjects(entry, self._tx.now):
                costs[subject] += Cost(entry.usage.usd_micros, entry.usage.tokens)
        for kind, id in sorted(costs, key=lambda subject: (_LOCK_ORDER.index(subject[0]), subject[1])):
            self._store.add_to_total(kind, id, costs[kind, id])
        for entry in added:
            self._tx.emit(BudgetEvent.RECORDED, _build_payload(entry), entry.workflow_id)
        return len(added)

    def add_active_time(self, workflow_id: str, began: int, ended: int) -> None:
        """Add the time that a task was active to its plan."""
        self._store.add_to_total(SubjectKind.PLAN, workflow_id, Cost(active_ms=max(0, ended - began)))

    def add_active_time_of_step(self, step_id: str, began: int, ended: int) -> None:
        """Add the time that an agent worked on a step of a job to the step."""
        self._store.add_to_total(SubjectKind.TASK, step_id, Cost(active_ms=max(0, ended - began)))

    def add_active_time_of_days(self, began: int, ended: int) -> None:
        """Add the time that a task was active to the days on which it was."""
        for day, ms in split_by_day(began, ended):
            self._store.add_to_total(SubjectKind.DAY, day, Cost(active_ms=ms))

    def set_active_time(self, workflow_id: str, ms: int) -> None:
        """Set the time of a plan that had no limit of minutes before."""
        self._store.set_active_time(SubjectKind.PLAN, workflow_id, ms)

    def find_total(self, kind: SubjectKind, id: str) -> Total:
        """Return what was spent on a subject."""
        return self._store.find_totals(kind, [id]).get(id, Total())

    def find_totals(self, kind: SubjectKind, ids: Sequence[str]) -> Mapping[str, Total]:
        """Return what was spent on each of these subjects; those without a total are left out."""
        return self._store.find_totals(kind, ids)

    def get_day_for_update(self) -> Total:
        """Return what was spent today, locked: two plans may compete for the rest."""
        return self._store.get_total_for_update(SubjectKind.DAY, name_day(self._tx.now))

    def mark_reached(self, kind: SubjectKind, id: str, workflow_id: str | None, message: str) -> None:
        """Record and announce that a budget is used up; once, until it is changed."""
        if self._store.mark_reached(kind, id):
            payload = {"kind": kind.value, "id": id, "message": message}
            self._tx.emit(BudgetEvent.REACHED, payload, workflow_id)

    def clear_reached(self, kind: SubjectKind, id: str) -> None:
        """Forget that a budget was used up, because it was changed."""
        self._store.clear_reached(kind, id)


def name_day(now: int) -> str:
    """Return the day of a moment, in UTC."""
    return datetime.fromtimestamp(now / 1000, UTC).strftime("%Y-%m-%d")


def split_by_day(began: int, ended: int) -> list[tuple[str, int]]:
    """Split a time at midnight, in UTC."""
    parts = []
    while began < ended:
        midnight = began - began % MS_PER_DAY + MS_PER_DAY
        parts.append((name_day(began), min(ended, midnight) - began))
        began = midnight
    return parts


def _list_subjects(entry: Entry, now: int) -> list[tuple[SubjectKind, str]]:
    found = [(SubjectKind.DAY, name_day(now))]
    if entry.task_id:
        found.append((SubjectKind.TASK, entry.task_id))
    if entry.workflow_id:
        found.append((SubjectKind.PLAN, entry.workflow_id))
    return found


def _build_payload(entry: Entry) -> dict[str, Any]:
    usage = entry.usage
    payload = {
        "task_id": entry.task_id,
        "agent_id": entry.agent_id,
        "tokens": usage.tokens,
        "usd": usage.usd_micros / MICROS_PER_USD,
        "source": usage.source.value,
        "message": f"{format_usd(usage.usd_micros)} {usage.source}, {usage.tokens:,} tokens",
        "model": usage.model,
        "vendor": usage.vendor,
    }
    return {name: value for name, value in payload.items() if value is not None}


def load_day_budget() -> Budget | None:
    """Return what all work of a day may cost; None if the user set no limit."""
    day = find_day_budget()
    return Budget(day.usd, day.tokens, day.minutes) if day else None
