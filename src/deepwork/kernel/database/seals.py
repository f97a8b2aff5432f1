"""Seals of rows that only a person makes, and stores that another user or machine made.

A program that can write the store, but does not use its key, can change a row and not its seal. A seal
that is left without its row shows that the row was deleted; where a missing row would let work pass, the
list of all rows has a seal too (`sealed_lists`), which is there from the beginning. That both were put
back to what they were before is shown by the audit log only (`gates/approvals/store.py`,
`gates/access/verification.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.schema import MARKED_SINCE
from deepwork.kernel.database.store_key import (
    COLUMNS,
    TABLE,
    StoreIdentity,
    StoreKey,
    find_user_key,
    format_key_place,
    get_or_create_user_key,
    is_marked_sealed,
    parse_identity,
    seal_key,
    unseal_key,
)
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.errors import DeepworkError, StorageError, StoreNotAdopted
from deepwork.kernel.files.repositories import is_tracked

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


SUFFIXES = ("", "-wal", "-shm", "-journal")
"""The files of a store: SQLite would apply a log that came with a repository to our own file."""
_SELECT_SQL = f"SELECT {', '.join(COLUMNS)} FROM {TABLE}"
_HAS_TABLE_SQL = """
    SELECT 1 FROM sqlite_master WHERE name = :name AND type = 'table' AND sql LIKE 'CREATE TABLE %'
       AND NOT EXISTS (SELECT 1 FROM pragma_table_xinfo(:name) WHERE hidden <> 0)"""
_INSERT_SQL = (
    f"INSERT INTO {TABLE} ({', '.join(COLUMNS)}) VALUES ({', '.join(f':{name}' for name in COLUMNS)})"
)


def find_tracking_problem(path: Path, *, asks_git: bool = True) -> StoreNotAdopted | None:
    """Return the error of a store in a git repository: everybody who can push could change it.

    `asks_git`: run git if its index has a format that we do not read.
    """
    tracked = check_tracking(path, SUFFIXES) if asks_git else is_tracked(path, SUFFIXES)
    if not tracked:
        return None
    name = "/".join(path.parts[-2:])
    return StoreNotAdopted(
        f"git tracks {name}: a store from a repository is not used, because others can change it.",
        suggestion=f"Run `git rm --cached '{name}*'`, commit that, then run `deepwork db adopt`.",
    )


def has_plain_table(connection: Any, name: str) -> bool:
    """Return whether the file has this table, with nothing in it that is computed when it is read.

    Reading a view, a virtual table or a computed column of that name might never end.
    """
    return connection.execute(_HAS_TABLE_SQL, {"name": name}).fetchone() is not None


def read_identity(connection: Any) -> StoreIdentity | None:
    """Read the row that says whose store this is; None if there is none."""
    if not has_plain_table(connection, TABLE):
        return None
    row = connection.execute(_SELECT_SQL).fetchone()
    try:
        return None if row is None else parse_identity(row)
    except (ValueError, TypeError):
        return None


def require_own_mark(identity: StoreIdentity | None, name: str, version: str | None = None) -> StoreKey:
    """Return the key of a store that this user marked; raises StoreNotAdopted for any other.

    The version of its schema, where it is known, tells who can have written a store without a mark.
    """
    if identity is None:
        is_early = version is None or version < MARKED_SINCE
        origin = "deepwork 0.1 made it, or it came from elsewhere" if is_early else "it came from elsewhere"
        raise StoreNotAdopted(f"{name} has no mark of this user: {origin}.")
    user_key = find_user_key()
    if user_key is None:
        raise StoreNotAdopted(
            f"{name} is marked with a key that is not this user's: {format_key_place()} does not exist.",
            suggestion=f"If you lost that file, restore it from a backup. {StoreNotAdopted.suggestion}",
        )
    try:
        key = unseal_key(identity, user_key)
    except ValueError:
        key = None
    if key is None:
        raise StoreNotAdopted(f"{name} is marked with a key that is not this user's ({format_key_place()}).")
    return key


def require_never_sealed(identity: StoreIdentity | None, name: str) -> None:
    """Raise StorageError if the mark says that this store had seals: a migration would seal forged rows.

    Call it for a store whose version is older than its seals, after `require_own_mark`.
    """
    user_key = find_user_key()
    if identity is not None and user_key is not None and is_marked_sealed(identity, user_key):
        raise StorageError(
            f"The version of {name} was set back past deepwork, so it is not used.",
            suggestion="Move it away, then restore a backup with `deepwork db restore`.",
        )


def write_key(connection: Any, key: StoreKey) -> None:
    """Write the key into the store, sealed and marked with the key of this user."""
    connection.execute(f"DELETE FROM {TABLE}")
    connection.execute(_INSERT_SQL, vars(seal_key(key, get_or_create_user_key())))


def check_tracking(path: Path, suffixes: Sequence[str] = ("",)) -> bool:
    """Return whether git tracks the path with one of these suffixes; runs git only if it has to."""
    tracked = is_tracked(path, suffixes)
    return _ask_git(path, suffixes) if tracked is None else tracked


def _ask_git(path: Path, suffixes: Sequence[str]) -> bool:
    from deepwork.kernel.git.command import Git  # noqa: PLC0415 - hardly any index needs it

    names = [path.name + suffix for suffix in suffixes]
    git = Git(path.parent, environment=build_child_environment())
    try:
        return bool(git.run("ls-files", "-z", "--", *names, env={"GIT_LITERAL_PATHSPECS": "1"}))
    except DeepworkError:  # no git, or no repository: then it cannot have come with one
        return False
