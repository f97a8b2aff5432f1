"""Backs up a whole store to one SQLite file, and restores it.

A backup gets its final name only after it was verified. A restore is a copy in one transaction, so
concurrent readers see either all of the old data or all of the new.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from deepwork.kernel.database import schema
from deepwork.kernel.database.engine import Engine
from deepwork.kernel.database.schema import find_network_file_system
from deepwork.kernel.database.sqlite import SQLite
from deepwork.kernel.database.tables import TableStore
from deepwork.kernel.errors import NotAllowed, StorageError
from deepwork.kernel.files.private import format_path, move_durably, to_storage_error
from deepwork.kernel.records import dataclass
from deepwork.kernel.store_admin.copying import (
    NOT_COUNTED,
    CopyResult,
    Counts,
    ReportProgress,
    copy_store,
    format_counts,
    ignore_progress,
    inspect_tables,
    require_current_schema,
    require_store_exists,
    translate_errors,
)

Adopt = Callable[[SQLite, SQLite], object]
"""Fills a new store of this user with what a copy of somebody's store holds."""
_EXIT_TIMEOUT_SECONDS = 2.0
"""How long an exiting process may still appear to have the store open, in seconds."""


@dataclass(frozen=True)
class RestoreResult:
    """What was restored, and where the previous data was saved."""

    copied: CopyResult
    from_schema: str
    kept: Path | None


def back_up(store: Engine, file: Path, report: ReportProgress = ignore_progress) -> CopyResult:
    """Write everything to a new file, which gets its name once it is verified and on disk."""
    _require_absent(file)
    with make_temporary_folder(file) as folder:
        unfinished = folder / "finished.db"
        if isinstance(store, SQLite):
            report("Saving", 0, 0)
            copied = save_pages(store, unfinished)
        else:
            copied = _copy_and_save(store, folder, unfinished, report)
        report("Checking", 0, 0)
        _require_whole(unfinished, copied.rows)
        unfinished.chmod(0o600)
        _publish(unfinished, file)
    return copied


def restore(
    file: Path,
    store: Engine,
    *,
    replace: bool = False,
    keep_in: Path | None = None,
    adopt: Adopt | None = None,
    report: ReportProgress = ignore_progress,
) -> RestoreResult:
    """Restore a backup into a store of either kind of database.

    With `replace` the store may hold data, which is backed up first: beside it, or in `keep_in`. No other
    process may have it open then, as far as that can be determined. `adopt` adopts a copy of a backup that is
    not this user's; without it such a backup is refused.
    """
    require_backup(file, store)
    previous = _PreviousStore(store, keep_in or file.parent)
    if replace:
        require_unused(store)
        previous.set_damaged_aside()
    with _open_migrated(file, adopt) as (backup, version):
        copied = copy_store(
            backup, store, make_room=previous.back_up_store if replace else _refuse_nonempty, report=report
        )
    return RestoreResult(copied, version, previous.saved_path)


def require_backup(file: Path, store: Engine) -> None:
    """Raise if the file cannot be a backup; changes nothing."""
    try:
        with closing(SQLite(file)) as backup:
            require_store_exists(backup)
    except OSError as error:
        raise to_storage_error("read", file, error) from error
    if isinstance(store, SQLite) and store.path.exists() and store.path.samefile(file):
        raise NotAllowed(f"{format_path(file)} is the store itself.", suggestion="Name a backup of it.")


def _refuse_nonempty(store: Engine, held: Counts) -> None:
    raise NotAllowed(
        f"{store.name} is not empty: it holds {format_counts(held)}.",
        suggestion="Pass --replace to back it up and then replace it.",
    )


class _PreviousStore:
    """Saves the data of the store before it is replaced."""

    def __init__(self, store: Engine, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self.saved_path: Path | None = None

    def back_up_store(self, store: Engine, held: Counts) -> None:  # noqa: ARG002 - part of MakeRoom
        place = self._choose_path("before-restore")
        back_up(store, place)
        self.saved_path = place

    def set_damaged_aside(self) -> None:
        """Rename a damaged file, because it cannot be read and so cannot be backed up."""
        if not isinstance(self._store, SQLite) or not self._store.path.exists():
            return
        with translate_errors(self._store):
            is_damaged = self._store.is_damaged()
        if is_damaged:
            self.saved_path = self._store.set_aside(self._choose_path("damaged").name)

    def _choose_path(self, why: str) -> Path:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
        if isinstance(self._store, SQLite):
            return self._store.path.with_name(f"{self._store.path.name}.{why}.{stamp}.backup")
        return self._folder / f"deepwork.{why}.{stamp}.backup"


def require_unused(store: Engine) -> None:
    """Raise if other processes use the store: what they remember of the old data would be wrong."""
    with translate_errors(store):
        others = _wait_for_others(store.list_other_processes, time.monotonic() + _EXIT_TIMEOUT_SECONDS)
    if others:
        raise NotAllowed(
            f"{store.name} is open in other processes: {', '.join(others[:10])}.",
            suggestion="Stop the servers that use it (`deepwork doctor` lists them), then call again.",
        )


def _wait_for_others(look: Callable[[], list[str] | None], deadline: float) -> list[str]:
    while (others := look()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return others or []


@contextmanager
def _open_migrated(file: Path, adopt: Adopt | None) -> Iterator[tuple[SQLite, str]]:
    """Yield the backup and its version; an older or foreign one is brought forward in a temporary copy."""
    backup = SQLite(file)
    try:
        with inspect_tables(backup) as tables:
            version = _require_known_version(tables, backup)
        if problem := backup.find_adoption_problem():
            if adopt is None:
                raise _build_foreign_backup_error(problem, file)
        elif version == schema.HEAD:
            yield backup, version
            return
        with tempfile.TemporaryDirectory(prefix="deepwork-restore-") as folder:
            forward, adopted = SQLite(Path(folder) / "deepwork.db"), SQLite(Path(folder) / "adopted.db")
            save_pages(backup, forward.path)
            try:
                with translate_errors(forward):
                    adopt(forward, adopted) if problem and adopt else forward.prepare()
                yield adopted if problem else forward, version
            finally:
                forward.close()
                adopted.close()
    finally:
        backup.close()


def _build_foreign_backup_error(problem: StorageError, file: Path) -> StorageError:
    return StorageError(
        problem.message,
        code=problem.code,
        suggestion=f"If you know where {format_path(file)} comes from, restore it with --adopt: that revokes "
        "its tokens and marks what people decided as unverified.",
    )


def _require_known_version(tables: TableStore, store: Engine) -> str:
    """Return the store's schema version; raises if it is not current or older."""
    version = tables.read_version()
    if version is not None and schema.is_behind(version, store.name):
        return version
    return require_current_schema(tables, store)


def save_pages(store: SQLite, path: Path) -> CopyResult:
    """Copy the store's pages in one consistent snapshot, without blocking writers."""
    require_store_exists(store)
    with translate_errors(store), store.reading() as connection:
        tables = store.open_tables(connection)
        version = _require_known_version(tables, store)
        rows = {
            table.name: tables.count(table.name)
            for table in tables.list_tables()
            if table.name not in NOT_COUNTED
        }
        store.save(connection, path)
    return CopyResult(version, rows)


def _copy_and_save(store: Engine, folder: Path, path: Path, report: ReportProgress) -> CopyResult:
    rows = SQLite(folder / "rows.db")
    try:
        copy_store(store, rows, report=report)
        report("Saving", 0, 0)
        return save_pages(rows, path)
    finally:
        rows.close()


def _require_whole(path: Path, rows: Counts) -> None:
    """Read the whole file again; raises if it is damaged or rows are missing."""
    saved = SQLite(path)
    try:
        with translate_errors(saved):
            is_whole = not saved.is_damaged() and _count_rows(saved, rows) == rows
    finally:
        saved.close()
    if not is_whole:
        raise StorageError(
            "The store is damaged, so its backup was discarded.",
            suggestion="Run `deepwork doctor`; `deepwork db restore --replace` restores an older backup.",
        )


def _count_rows(store: SQLite, names: Iterable[str]) -> Counts:
    with store.reading() as connection:
        tables = store.open_tables(connection)
        return {name: tables.count(name) for name in names}


@contextmanager
def make_temporary_folder(file: Path) -> Iterator[Path]:
    """Yield a temporary folder beside the file, or elsewhere if that is a network file system."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        beside = None if find_network_file_system(file) else file.parent
        with tempfile.TemporaryDirectory(prefix=f".{file.name[:40]}.", dir=beside) as folder:
            yield Path(folder)
    except OSError as error:
        raise to_storage_error("write", file, error) from error


def _publish(unfinished: Path, file: Path) -> None:
    if unfinished.stat().st_dev != file.parent.stat().st_dev:
        unfinished = _copy_across_file_systems(
            unfinished, file.with_name(f".{file.name[:40]}.{os.urandom(8).hex()}.partial")
        )
    _require_absent(file)
    move_durably(unfinished, file)


def _copy_across_file_systems(unfinished: Path, to: Path) -> Path:
    """Copy the file to the target's file system, because renames are atomic only within one."""
    shutil.copyfile(unfinished, to)
    to.chmod(0o600)
    return to


def _require_absent(file: Path) -> None:
    if file.exists() or file.is_symlink():
        raise NotAllowed(
            f"{format_path(file)} already exists; backups are never overwritten.",
            suggestion="Name a new file.",
        )
