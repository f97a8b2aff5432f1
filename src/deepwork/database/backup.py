"""Backups: one SQLite file that holds a whole store, and how it is put back.

A file has its name only once it was found whole. Putting it back is a copy like any other: one transaction,
so whoever reads meanwhile sees all of the old or all of the new.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from deepwork.database import schema
from deepwork.database.copying import (
    Copied,
    Counts,
    Report,
    copy,
    explained,
    looking_into,
    require_current,
    require_made,
    told,
    untold,
)
from deepwork.database.engine import Engine
from deepwork.database.filesystem import network_file_system
from deepwork.database.sqlite import SQLite
from deepwork.database.tables import VERSION_TABLE, Tables
from deepwork.errors import NotAllowed, StorageError
from deepwork.files.atomic import move_durably
from deepwork.files.failures import shown, storage_failure

_LEAVING = 2.0
"""How long a process that ends may still seem to have the store open, in seconds."""


@dataclass(frozen=True)
class Restored:
    """What was put back, and where that is which was there before."""

    copied: Copied
    from_schema: str
    kept: Path | None


def back_up(store: Engine, file: Path, report: Report = untold) -> Copied:
    """Write everything into one new file, which gets its name when it is whole and on disk."""
    _require_free(file)
    with _workshop(file) as folder:
        unfinished = folder / "finished.db"
        if isinstance(store, SQLite):
            report("Saving", 0, 0)
            copied = _save(store, unfinished)
        else:
            copied = _copy_and_save(store, folder, unfinished, report)
        report("Checking", 0, 0)
        _require_whole(unfinished, copied.rows)
        unfinished.chmod(0o600)
        _put(unfinished, file)
    return copied


def restore(
    file: Path, store: Engine, *, replace: bool = False, keep_in: Path | None = None, report: Report = untold
) -> Restored:
    """Put a backup in the place of a store, whatever kind of database that is.

    With `replace` the store may hold something, which is backed up first: beside it, or in `keep_in`. Nobody
    else may have it open then, as far as that can be told.
    """
    require_backup(file, store)
    keeper = _Keeper(store, keep_in or file.parent)
    if replace:
        _require_alone(store)
        keeper.set_damaged_aside()
    with _at_head(file) as (backup, version):
        copied = copy(backup, store, make_room=keeper.keep if replace else _refuse, report=report)
    return Restored(copied, version, keeper.kept)


def require_backup(file: Path, store: Engine) -> None:
    """Refuse what cannot be a backup, before anything is touched."""
    try:
        require_made(SQLite(file))
    except OSError as error:
        raise storage_failure("read", file, error) from error
    if isinstance(store, SQLite) and store.path.exists() and store.path.samefile(file):
        raise NotAllowed(f"{shown(file)} is the store itself.", suggestion="Name a backup of it.")


def _refuse(store: Engine, held: Counts) -> None:
    raise NotAllowed(
        f"{store.name} is not empty: it holds {told(held)}.",
        suggestion="With --replace it is backed up, then replaced.",
    )


class _Keeper:
    """Keeps what was there before."""

    def __init__(self, store: Engine, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self.kept: Path | None = None

    def keep(self, store: Engine, held: Counts) -> None:  # noqa: ARG002 - whatever it is
        place = self._place("before-restore")
        back_up(store, place)
        self.kept = place

    def set_damaged_aside(self) -> None:
        """A file that cannot be read cannot be backed up: it is kept as it is, under another name."""
        if not isinstance(self._store, SQLite) or not self._store.path.exists():
            return
        with explained(self._store):
            is_damaged = self._store.is_damaged()
        if is_damaged:
            self.kept = self._store.set_aside(self._place("damaged").name)

    def _place(self, why: str) -> Path:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
        if isinstance(self._store, SQLite):
            return self._store.path.with_name(f"{self._store.path.name}.{why}.{stamp}.backup")
        return self._folder / f"deepwork.{why}.{stamp}.backup"


def _require_alone(store: Engine) -> None:
    """Whoever goes on working on what he remembers of the old store would be wrong about the new one."""
    with explained(store):
        others = _others(store.others, time.monotonic() + _LEAVING)
    if others:
        raise NotAllowed(
            f"{store.name} is open in other processes: {', '.join(others[:10])}.",
            suggestion="Stop the servers that use it (`deepwork doctor` lists them), then call again.",
        )


def _others(look: Callable[[], list[str] | None], deadline: float) -> list[str]:
    while (others := look()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return others or []


@contextmanager
def _at_head(file: Path) -> Iterator[tuple[SQLite, str]]:
    """The backup and its version; an older one is brought forward in a copy, and stays as it is."""
    backup = SQLite(file)
    try:
        with looking_into(backup) as tables:
            version = _known_version(tables, backup)
        if version == schema.HEAD:
            yield backup, version
            return
        with tempfile.TemporaryDirectory(prefix="deepwork-restore-") as folder:
            forward = SQLite(Path(folder) / "deepwork.db")
            _save(backup, forward.path)
            with explained(forward):
                forward.prepare()
            try:
                yield forward, version
            finally:
                forward.close()
    finally:
        backup.close()


def _known_version(tables: Tables, store: Engine) -> str:
    """The version of a store that is of this program's schema, or of an older one."""
    version = tables.version()
    if version is not None and schema.is_behind(version, store.name):
        return version
    return require_current(tables, store)


def _save(store: SQLite, path: Path) -> Copied:
    """The store's pages as one moment saw them; writers go on meanwhile."""
    require_made(store)
    with explained(store), store.reading() as connection:
        tables = store.tables(connection)
        version = _known_version(tables, store)
        rows = {table.name: tables.count(table.name) for table in tables.all() if table.name != VERSION_TABLE}
        store.save(connection, path)
    return Copied(version, rows)


def _copy_and_save(store: Engine, folder: Path, path: Path, report: Report) -> Copied:
    rows = SQLite(folder / "rows.db")
    try:
        copy(store, rows, report=report)
        report("Saving", 0, 0)
        return _save(rows, path)
    finally:
        rows.close()


def _require_whole(path: Path, rows: Counts) -> None:
    """Read the whole file again, and see that nothing is damaged and nothing is missing."""
    saved = SQLite(path)
    try:
        with explained(saved):
            is_whole = not saved.is_damaged() and _counted(saved, rows) == rows
    finally:
        saved.close()
    if not is_whole:
        raise StorageError(
            "The store is damaged, and so would be its backup: none was kept.",
            suggestion="Run `deepwork doctor`; `deepwork db restore --replace` puts an older backup back.",
        )


def _counted(store: SQLite, names: Iterable[str]) -> Counts:
    with store.reading() as connection:
        tables = store.tables(connection)
        return {name: tables.count(name) for name in names}


@contextmanager
def _workshop(file: Path) -> Iterator[Path]:
    """A folder to make the file in, beside its place; elsewhere if SQLite cannot be trusted to work there."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = None if network_file_system(file) else file.parent
        with tempfile.TemporaryDirectory(prefix=f".{file.name[:40]}.", dir=beside) as folder:
            yield Path(folder)
    except OSError as error:
        raise storage_failure("write", file, error) from error


def _put(unfinished: Path, file: Path) -> None:
    if unfinished.stat().st_dev != file.parent.stat().st_dev:
        unfinished = _carried(unfinished, file.with_name(f".{file.name[:40]}.{os.urandom(8).hex()}.partial"))
    _require_free(file)
    move_durably(unfinished, file)


def _carried(unfinished: Path, to: Path) -> Path:
    """The file on the other file system; a name that is given at one blow can be given only within one."""
    shutil.copyfile(unfinished, to)
    to.chmod(0o600)
    return to


def _require_free(file: Path) -> None:
    if file.exists() or file.is_symlink():
        raise NotAllowed(
            f"{shown(file)} exists; no backup is ever overwritten.", suggestion="Name a new file."
        )
