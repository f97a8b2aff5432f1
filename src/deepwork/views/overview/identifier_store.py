"""Ids and names of any kind of row, for shell completion and for people who type a part of an id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deepwork.kernel.database.existing_store import read_existing_store
from deepwork.kernel.database.transaction import Database, Transaction

_LAST_CHARACTER = "\U0010ffff"
_TABLES_BY_KIND = {
    "plan": ("plans", "id", "name"),
    "task": ("plan_tasks", "id", "name"),
    "record": ("tracked_workflows", "id", "name"),
    "tracked_task": ("tracked_tasks", "id", "name"),
    "agent": ("agents", "id", "name"),
    "phase": ("phases", "id", "name"),
    "issue": ("issues", "id", "description"),
    "decision": ("decisions", "id", "question"),
    "milestone": ("milestones", "id", "message"),
    "checkpoint": ("checkpoints", "id", "summary"),
    "workspace": ("workspaces", "id", "path"),
    "repository": ("repositories", "id", "name"),
    "message": ("messages", "id", "subject"),
    "notice": ("notices", "id", "text"),
    "approval": ("approvals", "id", "subject_id"),
    "session": ("job_sessions", "id", "goal"),
    "run": ("runner_runs", "id", "status"),
    "attempt": ("attempts", "id", "stage"),
    "landing": ("landings", "id", "title"),
    "rewind": ("rewinds", "id", "target"),
    "stored_template": ("templates", "id", "name"),
    "template": ("templates", "name", "description"),
}
"""By kind: the table, and its columns for the id and the label."""

PREFIXES = {
    "wf": "plan",
    "tk": "task",
    "tw": "record",
    "tt": "tracked_task",
    "ag": "agent",
    "ph": "phase",
    "is": "issue",
    "dc": "decision",
    "ml": "milestone",
    "cp": "checkpoint",
    "ws": "workspace",
    "rp": "repository",
    "msg": "message",
    "nt": "notice",
    "ap": "approval",
    "rn": "run",
    "at": "attempt",
    "ld": "landing",
    "rw": "rewind",
    "tmpl": "stored_template",
}
"""The kind of row by the letters that its id begins with; those of job sessions begin with none."""
NAMED_KINDS = ("plan", "task", "record", "tracked_task", "agent", "phase", "repository", "stored_template")
_TASK = "IN (SELECT id FROM plan_tasks WHERE lower(name) = lower(:name))"
_PLAN = "IN (SELECT id FROM plans WHERE lower(name) = lower(:name))"
NAMED_BY_WORK = {
    "approval": (
        f"""subject_id {_TASK} OR subject_id {_PLAN}
            OR subject_id IN (SELECT id FROM landings WHERE task_id {_TASK})""",
        "status = 'pending'",
        "asked_at",
    ),
    "run": (f"workflow_id {_PLAN} OR lower(job) = lower(:name)", "ended_at IS NULL", "created_at"),
    "attempt": (f"task_id {_TASK}", "ended_at IS NULL", "created_at"),
    "landing": (f"task_id {_TASK}", "ended_at IS NULL", "created_at"),
    "rewind": (f"task_id {_TASK}", "ended_at IS NULL", "created_at"),
    "workspace": (
        "id IN (SELECT workspace_id FROM plan_tasks WHERE lower(name) = lower(:name))",
        "status = 'active'",
        "created_at",
    ),
}
"""What has no name is named by its task, plan or job: what is open, else the last one.

By kind: whose it is, whether it is open, and since when.
"""


def choose_named(kinds: Sequence[str]) -> list[str]:
    """Return those of these kinds that a name can stand for.

    Where a name may also be that of a task itself, it is not taken for something of the task.
    """
    return [kind for kind in kinds if kind in NAMED_KINDS or (len(kinds) == 1 and kind in NAMED_BY_WORK)]


class IdentifierStore:
    """Finds ids by their beginning or by the name of what they stand for."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def list_starting_with(self, kind: str, begun: str, limit: int) -> list[tuple[str, Any]]:
        """List (id, label) of rows of a kind; empty for an unknown kind."""
        if kind not in _TABLES_BY_KIND:
            return []
        table, id, label = _TABLES_BY_KIND[kind]
        sql = (
            f"SELECT {id} AS id, {label} AS label FROM {table} WHERE {id} >= :begun AND {id} < :after"
            f" ORDER BY {id} LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, begun=begun, after=begun + _LAST_CHARACTER, limit=limit)
        return [(row["id"], row["label"]) for row in rows]

    def list_named(self, kind: str, name: str, limit: int) -> list[tuple[str, Any]]:
        """List (id, name) of rows of a kind that have this name, in any case; none that were unregistered."""
        table, id, label = _TABLES_BY_KIND[kind]
        registered = " AND unregistered_at IS NULL" if kind == "agent" else ""
        sql = (
            f"SELECT {id} AS id, {label} AS label FROM {table}"
            f" WHERE lower({label}) = lower(:name){registered} ORDER BY {id} LIMIT :limit"
        )
        return [(row["id"], row["label"]) for row in self._tx.fetch_all(sql, name=name, limit=limit)]

    def list_of_work(self, kind: str, name: str, limit: int) -> list[tuple[str, Any]]:
        """List (id, label) of what belongs to work of this name: what is open, else the last one."""
        of_work, is_open, since = NAMED_BY_WORK[kind]
        table, id, label = _TABLES_BY_KIND[kind]
        sql = (
            f"SELECT {id} AS id, {label} AS label, {is_open} AS is_open FROM {table} WHERE {of_work}"
            f" ORDER BY is_open DESC, {since} DESC, {id} LIMIT :limit"
        )
        rows = self._tx.fetch_all(sql, name=name, limit=limit)
        found = [row for row in rows if row["is_open"]] or rows[:1]
        return [(row["id"], row["label"]) for row in found]

    def list_any_named(self, kinds: Sequence[str], name: str, limit: int) -> list[tuple[str, str, Any]]:
        """List (kind, id, name) of rows of these kinds that have this name."""
        found = (
            (kind, *row)
            for kind in kinds
            for row in (self.list_named if kind in NAMED_KINDS else self.list_of_work)(kind, name, limit)
        )
        return list(found)[:limit]


def complete_identifiers(
    location: str, kind: str, begun: str, limit: int, patience: float
) -> list[tuple[str, Any]]:
    """List (id, label) of rows of a kind, of the store at this location if there is one."""
    return (
        read_existing_store(
            location, patience, lambda tx: IdentifierStore(tx).list_starting_with(kind, begun, limit)
        )
        or []
    )


def find_identifiers(
    database: Database, kinds: Sequence[str], named_kinds: Sequence[str], given: str, limit: int
) -> list[tuple[str, str, Any]]:
    """List (kind, id, label) of what has an id that begins so, of `kinds`; else what has this name."""
    with database.reading() as tx:
        store = IdentifierStore(tx)
        begun = [(kind, *row) for kind in kinds for row in store.list_starting_with(kind, given, limit)]
        return begun or store.list_any_named(named_kinds, given, limit)
