"""Deciding whether a SQLite file is a store of this user: by its mark, and by what git tracks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.errors import DeepworkError, StorageError, StoreNotAdopted
from deepwork.kernel.files.repositories import is_tracked

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


def require_own_mark(identity: StoreIdentity | None, name: str) -> StoreKey:
    """Return the key of a store that this user marked; raises StoreNotAdopted for any other."""
    if identity is None:
        raise StoreNotAdopted(
            f"{name} has no mark of this user: deepwork 0.1 made it, or it came from elsewhere."
        )
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
