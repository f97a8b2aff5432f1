"""Seals: keyed digests of the rows that let work pass or say who may, so that none counts that was forged.

Whoever can write the store, but does not use its key, can change a row and not its seal. A seal that is left
without its row shows that the row was deleted; where a missing row would let work pass, the list of all rows
has a seal too (`sealed_lists`), which is there from the beginning. That both were put back to what they were
before is shown by the audit log only (`gates/approvals/decision_log.py`, `gates/access/verification.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.store_key import StoreKey
from deepwork.kernel.database.transaction import Transaction

SEALED_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "approvals": (
        *("subject_kind", "subject_id", "workflow_id", "digest", "status", "decided_by", "decided_at"),
        *("method", "comment", "lasts_ms", "used_at"),
    ),
    "person_credentials": ("method", "name", "data", "created_at", "removed_at"),
    "proofs": (
        *("check_name", "verdict", "inputs_digest", "definition_digest", "tests_run", "tests_skipped"),
        *("project", "host", "tree", "created_at", "waived_by", "waived_at", "asked_by"),
        *("is_clean", "pins_digest", "guarded_digest"),
    ),
    "tokens": ("name", "digest", "scope", "is_person", "created_at", "expires_at", "revoked_at"),
}
"""What a seal covers, by table, beside the id."""
LISTED_TABLES = ("person_credentials",)
"""Tables whose rows may not be missing: without an enrolled proof, a decision would need none."""
LIST_ID = "*"
"""What `list_broken` calls the list itself."""
_SAVE_SQL = """
    INSERT INTO seals (kind, id, seal) SELECT :kind, :id, :seal
     WHERE EXISTS (SELECT 1 FROM store_identity WHERE id = :store_id)
        ON CONFLICT (kind, id) DO UPDATE SET seal = excluded.seal
"""


def compute_seal(key: StoreKey, table: str, row: Mapping[str, Any]) -> str:
    """Compute the seal of a row, the same for both databases."""
    values = [row["id"], *(row[name] for name in SEALED_COLUMNS[table])]
    facts = [int(value) if isinstance(value, bool) else value for value in values]
    return key.compute_digest(f"seal:{table}:{json.dumps(facts, separators=(',', ':'))}")


def save_seal(tx: Transaction, table: str, id: str) -> None:
    """Seal a row as it is now; in the transaction that wrote it."""
    row = _fetch_row(tx, table, id)
    # If not, another process restored a backup, which has another key.
    if row is not None and not _save_with(tx, tx.store_key, table, row):
        _save_with(tx, tx.read_store_key(), table, row)


def seal_list(tx: Transaction, table: str) -> None:
    """Seal which rows the table has; in the transaction that added one."""
    # Writing comes first: of two processes that add a row, the second one waits here, then sees both rows.
    if tx.execute("UPDATE sealed_lists SET seal = '' WHERE kind = :kind", kind=table) == 0:
        tx.insert("sealed_lists", {"kind": table, "seal": ""})
    ids = [row["id"] for row in tx.fetch_all(f"SELECT id FROM {table}")]
    seal = compute_list_seal(tx.read_store_key(), table, ids)
    tx.execute("UPDATE sealed_lists SET seal = :seal WHERE kind = :kind", kind=table, seal=seal)


def seal_lists(tx: Transaction) -> None:
    """Seal the lists of a store that has a new key."""
    for table in LISTED_TABLES:
        seal_list(tx, table)


def compute_list_seal(key: StoreKey, table: str, ids: Iterable[str]) -> str:
    """Compute the seal of the rows that a table has."""
    return key.compute_digest(f"list:{table}:{json.dumps(sorted(ids), separators=(',', ':'))}")


def is_sealed(tx: Transaction, table: str, id: str) -> bool:
    """Return whether the row is as deepwork wrote it."""
    columns = ", ".join(f"it.{name}" for name in SEALED_COLUMNS[table])
    sql = f"""
        SELECT it.id, {columns}, seals.seal FROM {table} AS it
          JOIN seals ON seals.kind = :kind AND seals.id = it.id WHERE it.id = :id
    """
    row = tx.fetch_one(sql, kind=table, id=id)
    if row is None:
        return False
    # The key is read again only if it does not fit: another process may have restored a backup.
    seal = str(row["seal"])
    return seal == compute_seal(tx.store_key, table, row) or (
        seal == compute_seal(tx.read_store_key(), table, row)
    )


def list_broken(tx: Transaction, table: str) -> Iterator[tuple[str, str]]:
    """Yield the ids of rows that are not as deepwork wrote them, and what is wrong: also of deleted ones."""
    key = tx.read_store_key()
    seals = {row["id"]: row["seal"] for row in tx.fetch_all(_SEALS_SQL, kind=table)}
    ids = []
    for row in tx.fetch_all(f"SELECT id, {', '.join(SEALED_COLUMNS[table])} FROM {table}"):
        ids.append(row["id"])
        seal = seals.pop(row["id"], None)
        if seal is None:
            yield row["id"], UNSEALED
        elif seal != compute_seal(key, table, row):
            yield row["id"], "changed"
    yield from ((id, "deleted") for id in seals)
    if table in LISTED_TABLES:
        list_seal = tx.fetch_value("SELECT seal FROM sealed_lists WHERE kind = :kind", kind=table)
        if list_seal != compute_list_seal(key, table, ids):
            yield LIST_ID, "changed"


UNSEALED = "unsealed"
_SEALS_SQL = "SELECT id, seal FROM seals WHERE kind = :kind ORDER BY id"


def _fetch_row(tx: Transaction, table: str, id: str) -> Row | None:
    columns = ", ".join(SEALED_COLUMNS[table])
    return tx.fetch_one(f"SELECT id, {columns} FROM {table} WHERE id = :id", id=id)


def _save_with(tx: Transaction, key: StoreKey, table: str, row: Row) -> bool:
    values = {"kind": table, "id": row["id"], "store_id": key.store_id}
    return tx.execute(_SAVE_SQL, seal=compute_seal(key, table, row), **values) == 1
