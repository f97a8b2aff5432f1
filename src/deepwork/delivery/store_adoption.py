"""Adopts a SQLite store that this user did not mark: one of deepwork 0.1, or one from elsewhere.

Its rows are copied into a new file with our own schema, so that nothing else in the old file, such as a
trigger, comes along. Its tokens are revoked, what it says that people did is marked as unverified, and tasks
that passed checks or approvals while it was not this user's have to pass them again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deepwork.gates.access import models
from deepwork.gates.access.models import AuditEntry
from deepwork.gates.access.store import AuditStore
from deepwork.kernel.database.engine import Engine, Row
from deepwork.kernel.database.seals import read_identity, save_seal, seal_lists
from deepwork.kernel.database.sqlite import SQLite
from deepwork.kernel.database.store_key import create_store_key
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import dataclass
from deepwork.kernel.reserved_names import looks_like_person
from deepwork.kernel.store_admin.backup import make_temporary_folder, require_unused, save_pages
from deepwork.kernel.store_admin.copying import (
    CopyResult,
    ReportProgress,
    copy_store,
    ignore_progress,
    require_store_exists,
    translate_errors,
)
from deepwork.work.plans.models import (
    list_required_approvals,
    list_required_checks,
    parse_plan_requirements,
    parse_task_requirements,
)
from deepwork.work.plans.status_changes import reopen_task

TOOL, RESTORE_TOOL = "db adopt", "db restore"
UNVERIFIED_PREFIX = "unverified:"

NAME_COLUMNS = {
    "agents": ("name", "registered_by"),
    "plans": ("created_by",),
    "plan_history": ("by_whom",),
    "workspaces": ("created_by",),
    "tokens": ("created_by",),
    "tracked_workflows": ("created_by",),
    "tracked_tasks": ("created_by", "agent_name"),
    "decisions": ("agent_name",),
    "issues": ("agent_name", "resolved_by"),
    "milestones": ("agent_name",),
    "notices": ("by_whom",),
    "approvals": ("asked_by", "decided_by"),
    "proofs": ("asked_by", "waived_by"),
    "runner_runs": ("created_by",),
    "landings": ("created_by",),
    "rewinds": ("created_by",),
    "wishes": ("created_by",),
    "review_comments": ("by_whom", "closed_by"),
}
"""The columns that name who did something, by table."""
_JSON_COLUMNS = {
    "events": ("data",),
    "idempotency_keys": ("answer",),
    "job_sessions": ("data",),
    "milestones": ("metadata",),
    "tracked_tasks": ("metadata", "outcome", "result"),
    "plan_tasks": ("context", "outcome_detail"),
    "checkpoints": ("detail",),
}
"""The columns with JSON that may name who did something, by table."""


@dataclass(frozen=True)
class Adoption:
    """What was adopted, and where the old file is."""

    copied: CopyResult
    from_schema: str
    revoked_tokens: int
    unverified: int
    """How many values with the name of a person were marked."""
    reopened: Sequence[str]
    kept: Path


@dataclass(frozen=True)
class Changes:
    """What of a store does not count after it was taken over."""

    revoked_tokens: int = 0
    unverified: int = 0
    reopened: Sequence[str] = ()
    """The ids of tasks that have to pass their gates again."""


def adopt_store(store: SQLite, caller: str, report: ReportProgress = ignore_progress) -> Adoption:
    """Replace the store by a copy that is this user's; the old file stays beside it under another name."""
    require_store_exists(store)
    require_unused(store)
    with make_temporary_folder(store.path) as folder:
        copy, fresh = SQLite(folder / "copy.db"), SQLite(folder / "fresh.db")
        try:
            report("Saving", 0, 0)
            version = save_pages(store, copy.path).schema
            copied, changes = take_over_copy(copy, fresh, report)
            record_act(fresh, caller, TOOL, changes)
        finally:
            copy.close()
            fresh.close()
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
        kept = store.set_aside(f"{store.path.name}.before-adoption.{stamp}.backup", replacement=fresh.path)
    return Adoption(copied, version, changes.revoked_tokens, changes.unverified, changes.reopened, kept)


def find_origin(tx: Transaction) -> AuditEntry | None:
    """Find the call that adopted or restored the store last."""
    found = AuditStore(tx).list_of_tools([TOOL, RESTORE_TOOL], 0)
    return found[-1].entry if found else None


def take_over_copy(
    copy: SQLite, fresh: SQLite, report: ReportProgress = ignore_progress
) -> tuple[CopyResult, Changes]:
    """Fill a new store with the rows of a copy, without valid tokens and with what people did unverified.

    The rows change only in the new store: triggers and conflict clauses of the copy could undo the changes.
    """
    with translate_errors(copy):
        keyed_from = _read_keyed_from(copy)
        copy.take_over()
    copied = copy_store(copy, fresh, report=report)
    with translate_errors(fresh), fresh.writing() as connection:
        tx = Transaction(connection, fresh)
        revoked, marked = _revoke_tokens(tx), _mark_unverified(tx, connection)
        _forget_approvals(tx)
        _end_unfinished_work(tx)
        reopened = _reopen_gates(tx, _find_first_time(tx, keyed_from))
        last = _rechain(tx, keyed_from)
        fresh.write_store_key(connection, create_store_key(keyed_from=last + 1))
        _seal_tokens(tx)
        seal_lists(tx)
    return copied, Changes(revoked, marked, reopened)


def _read_keyed_from(copy: SQLite) -> int | None:
    """Read which audit entry is the first that the old key chained; None if there was no key."""
    with copy.reading() as connection:
        identity = read_identity(connection)
    return None if identity is None else identity.keyed_from


def _revoke_tokens(tx: Transaction) -> int:
    """Revoke all tokens, and replace their digests by random ones, which no secret has."""
    revoked = tx.execute("UPDATE tokens SET revoked_at = :now WHERE revoked_at IS NULL", now=tx.now)
    tx.execute("UPDATE tokens SET digest = lower(hex(randomblob(32)))")
    return revoked


def _seal_tokens(tx: Transaction) -> None:
    for row in tx.fetch_all("SELECT id FROM tokens"):
        save_seal(tx, "tokens", row["id"])


def _find_first_time(tx: Transaction, keyed_from: int | None) -> int:
    """Find since when the store had the key that was not this user's: 0 if always, or if it had none."""
    at = tx.fetch_value("SELECT at FROM audit WHERE seq = :seq", seq=keyed_from) if keyed_from else None
    return int(at) if at is not None and keyed_from != 1 else 0


def _reopen_gates(tx: Transaction, since: int) -> list[str]:
    """Let tasks that passed checks or approvals since then pass them again; return their ids."""
    sql = """
        SELECT it.id, it.requirements, plans.requirements AS required FROM plan_tasks AS it
          JOIN plans ON plans.id = it.workflow_id
         WHERE it.status IN ('completed', 'skipped') AND it.finished_at >= :since
           AND plans.status <> 'abandoned' AND (it.requirements IS NOT NULL OR plans.requirements IS NOT NULL)
         ORDER BY it.id
    """
    reason = "The store was adopted: nobody here can confirm that it passed its checks and approvals."
    gated = [row["id"] for row in tx.fetch_all(sql, since=since) if _is_gated(row)]
    for id in gated:
        reopen_task(tx, id, reason, reason="the store was adopted")
    return gated


def _is_gated(row: Row) -> bool:
    plan, own = parse_plan_requirements(row["required"]), parse_task_requirements(row["requirements"])
    is_approved = plan is not None and plan.approve_plan
    return is_approved or bool(list_required_checks(plan, own) or list_required_approvals(plan, own))


def _forget_approvals(tx: Transaction) -> None:
    """Forget what counts as an approval: files are reviewed again, and tasks wait for a person again.

    The passphrases and passkeys may be somebody else's. Those of this user are taken over when needed.
    """
    tx.execute("DELETE FROM person_credentials")
    tx.execute("DELETE FROM seals")  # of the old key; without one, no proof of a check counts either
    tx.execute("DELETE FROM passed_reviews")
    tx.execute("UPDATE milestones SET logged_by_person = NULL")
    # Also what waits: it may show something else than its digest covers.
    tx.execute("UPDATE approvals SET status = 'stale' WHERE status NOT IN ('stale', 'expired')")


def _end_unfinished_work(tx: Transaction) -> None:
    """End what would go on here: an agent may be any command, landings and rewinds name folders.

    A rewind that is done could be undone, and a link could prove a trailer: nobody here can confirm either.
    """
    for change in (
        "UPDATE attempts SET stage = 'stopped', ended_at = :now, reason = :reason WHERE ended_at IS NULL",
        "UPDATE runner_runs SET status = 'stopped', ended_at = :now, reason = :reason WHERE ended_at IS NULL",
        "UPDATE landings SET status = 'cancelled', ended_at = :now, reason = :reason WHERE ended_at IS NULL",
        "UPDATE rewinds SET stage = 'cancelled', ended_at = COALESCE(ended_at, :now)",
        "UPDATE commit_links SET is_likely = 1",
    ):
        tx.execute(change, now=tx.now, reason="The store was adopted.")


def _mark_unverified(tx: Transaction, connection: Any) -> int:
    connection.create_function("mark_name", 1, mark_name, deterministic=True)
    connection.create_function("mark_json", 1, mark_json, deterministic=True)
    changes = [
        f"UPDATE {table} SET {name} = {mark}({name}) WHERE {name} IS NOT {mark}({name})"
        for mark, tables in (("mark_name", NAME_COLUMNS), ("mark_json", _JSON_COLUMNS))
        for table, names in tables.items()
        for name in names
    ]
    return sum(tx.execute(change) for change in changes)


def _rechain(tx: Transaction, keyed_from: int | None) -> int:
    """Chain the entries of the old key without a key, and return the number of the last one.

    Nobody here can verify them. The first entry with our own key covers them from now on.
    """
    store = AuditStore(tx)
    head = store.get_head()
    if keyed_from is None:
        return head.seq
    before = ""
    for link in store.iterate_chain():
        is_keyed = link.seq >= keyed_from
        before = models.compute_chain(before, link.seq, link.entry) if is_keyed else link.chain
        if is_keyed:
            tx.execute("UPDATE audit SET chain = :chain WHERE seq = :seq", chain=before, seq=link.seq)
    tx.execute("UPDATE audit_head SET chain = :chain", chain=before)
    return head.seq


def record_act(store: Engine, caller: str, tool: str, changes: Changes) -> None:
    """Record in the audit log of a store that it was adopted, or filled from a backup."""
    about = {"task_ids": list(changes.reopened[: models.MAX_IDS]), "reopened": len(changes.reopened)}
    with translate_errors(store), store.writing() as connection:
        tx = Transaction(connection, store)
        AuditStore(tx).append(
            AuditEntry(
                at=tx.now,
                account="local",
                caller=caller,
                host=os.uname().nodename,
                tool=tool,
                arguments=json.dumps(about, separators=(",", ":")),
                digest=models.compute_digest(about),
                outcome=models.DONE,
            )
        )


def mark_name(name: Any) -> Any:
    """Mark a name if it is that of a person, or looks like one."""
    return UNVERIFIED_PREFIX + name if isinstance(name, str) and looks_like_person(name) else name


def mark_json(text: Any) -> Any:
    """Mark the names of people in a JSON text; leaves anything else as it is."""
    if not isinstance(text, str):
        return text
    try:
        data = json.loads(text)
    except ValueError:
        return text
    marked = _mark_values(data)
    return text if marked == data else json.dumps(marked, separators=(",", ":"))


def _mark_values(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _mark_values(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_mark_values(value) for value in data]
    return mark_name(data)
