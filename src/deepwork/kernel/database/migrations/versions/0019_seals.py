"""Seals of the rows that let work pass a gate, or say who may.

Tokens and enrolled proofs are sealed as they are. A decision of a person is sealed if the keyed audit log has
the call that made it. One that it does not have is asked for again if it was not used yet, else its person is
marked as unverified. Proofs of checks get no seal: nothing tells forged ones apart, so these checks run
again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import context, op

from deepwork.kernel.database.seals import SEALED_COLUMNS, compute_seal, require_own_mark
from deepwork.kernel.database.store_key import COLUMNS, StoreKey, parse_identity, read_exposed_key
from deepwork.kernel.errors import DeepworkError

revision = "0019"
down_revision = "0018"

_ENTRY_COLUMNS = ("at", "account", "caller", "host", "tool", "arguments", "digest", "outcome")
_DECIDED = ("given", "refused", "used")


def upgrade() -> None:
    op.create_table(
        "seals",
        sa.Column("kind", sa.Text, primary_key=True),  # the table of the row
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("seal", sa.Text, nullable=False),
    )
    key = None if context.is_offline_mode() else _find_key()
    if key is None:  # a new store, or one of another user: adopting it forgets all that could be sealed
        return
    _settle_decisions(key)
    for table in ("approvals", "person_credentials", "tokens"):
        _seal_rows(key, table)


def _find_key() -> StoreKey | None:
    connection = op.get_bind()
    row = connection.execute(sa.text(f"SELECT {', '.join(COLUMNS)} FROM store_identity")).mappings().first()
    if row is None:
        return None
    identity = parse_identity(dict(row))
    if connection.dialect.name != "sqlite":
        return read_exposed_key(identity)
    try:
        return require_own_mark(identity, "The store")
    except DeepworkError:
        return None


def _settle_decisions(key: StoreKey) -> None:
    connection = op.get_bind()
    # No gate waits for what people said about tracked tasks.
    sql = (
        "SELECT id, digest, status, decided_by, decided_at FROM approvals"
        " WHERE status IN ('given', 'refused', 'used') AND subject_kind <> 'tracked_task'"
    )
    for approval in map(dict, connection.execute(sa.text(sql)).mappings().all()):
        if _is_recorded(key, approval):
            continue
        if approval["status"] == "given":
            change = "UPDATE approvals SET status = 'stale' WHERE id = :id"
        else:
            change = (
                "UPDATE approvals SET decided_by = 'unverified:' || decided_by"
                " WHERE id = :id AND decided_by NOT LIKE 'unverified:%'"
            )
        connection.execute(sa.text(change), {"id": approval["id"]})


def _is_recorded(key: StoreKey, approval: Mapping[str, Any]) -> bool:
    """Whether the keyed log has the call by which this person decided exactly this."""
    sql = (
        f"SELECT seq, chain, {', '.join(_ENTRY_COLUMNS)} FROM audit"
        " WHERE at = :at AND caller = :by AND outcome LIKE :outcome AND seq >= :first"
    )
    values = {
        "at": approval["decided_at"],
        "by": approval["decided_by"],
        "outcome": f"%:{approval['digest']}",
        "first": key.keyed_from,
    }
    expected = {"refused": ("refused",), "given": ("given",), "used": ("given", "used")}[approval["status"]]
    rows = map(dict, op.get_bind().execute(sa.text(sql), values).mappings().all())
    return any(row["outcome"].partition(":")[0] in expected and _is_chained(key, row) for row in rows)


def _is_chained(key: StoreKey, row: Mapping[str, Any]) -> bool:
    before = op.get_bind().execute(
        sa.text("SELECT chain FROM audit WHERE seq = :seq"), {"seq": row["seq"] - 1}
    )
    content = json.dumps([row[name] for name in _ENTRY_COLUMNS], separators=(",", ":"))
    return bool(key.compute_digest(f"{before.scalar() or ''}:{row['seq']}:{content}") == row["chain"])


def _seal_rows(key: StoreKey, table: str) -> None:
    connection = op.get_bind()
    rows = connection.execute(sa.text(f"SELECT id, {', '.join(SEALED_COLUMNS[table])} FROM {table}"))
    for row in map(dict, rows.mappings().all()):
        if table == "approvals" and row["status"] not in _DECIDED:
            continue
        values = {"kind": table, "id": row["id"], "seal": compute_seal(key, table, row)}
        connection.execute(sa.text("INSERT INTO seals (kind, id, seal) VALUES (:kind, :id, :seal)"), values)
