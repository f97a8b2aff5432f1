"""Lets a person look at a SQLite store that is not this user's: commands that only read get a copy of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from deepwork.kernel.config import Settings

if TYPE_CHECKING:
    from deepwork.kernel.database.engine import Engine
    from deepwork.kernel.errors import StorageError


@dataclass(frozen=True)
class ViewedStore:
    """The settings of the store to read, and why nothing may be written there."""

    settings: Settings
    refusal: StorageError | None = None

    def forbid_writes(self, engine: Engine) -> None:
        """Make the engine raise the reason for every write, if there is one."""
        from deepwork.kernel.database.sqlite import SQLite

        if self.refusal is not None and isinstance(engine, SQLite):
            engine.refuse_writes(self.refusal)


@contextmanager
def view_store(settings: Settings) -> Iterator[ViewedStore]:
    """Yield the store itself, or a copy of one that is not this user's, with a warning on standard error.

    In the copy, tokens are revoked and what people did is marked as unverified, as after an adoption.
    """
    location = settings.database_location
    refusal = None if "://" in location else _find_refusal(Path(location))
    if refusal is None:
        yield ViewedStore(settings)
        return
    from tempfile import TemporaryDirectory

    print(f"{refusal.message} This shows a copy; {_lower_first(refusal.suggestion)}", file=sys.stderr)
    with TemporaryDirectory(prefix="deepwork-") as elsewhere:
        copy = Path(elsewhere) / "copy.db"
        _copy_store(Path(location), copy)
        yield ViewedStore(replace(settings, database=str(copy)), refusal)


def _find_refusal(path: Path) -> StorageError | None:
    from deepwork.kernel.database.sqlite import SQLite

    if path.is_symlink() or not path.is_file() or not path.stat().st_size:
        return None  # the command reports it, or creates a store
    store = SQLite(path)
    try:
        return store.find_adoption_problem()
    finally:
        store.close()


def _copy_store(path: Path, to: Path) -> None:
    from deepwork.delivery.store_adoption import take_over_copy
    from deepwork.kernel.database.sqlite import SQLite
    from deepwork.kernel.store_admin.backup import save_pages

    store, pages, copy = SQLite(path), SQLite(to.with_name("pages.db")), SQLite(to)
    try:
        save_pages(store, pages.path)
        take_over_copy(pages, copy)
    finally:
        for each in (store, pages, copy):
            each.close()


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]
