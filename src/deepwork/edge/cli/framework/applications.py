"""Opens the application behind a command; one that only reads, or changes what is there, creates no store."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.edge.cli.framework.foreign_stores import ViewedStore, view_store
from deepwork.edge.cli.framework.options import load_command_settings
from deepwork.kernel.config import TMP_FOLDER, Settings

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application
    from deepwork.kernel.call import Call


@contextmanager
def open_application(
    path: str, place: dict[str, Any], *, reads: bool = False, needs_session: bool = False, quiet: bool = False
) -> Iterator[Application]:
    """Open the application of a project, and close it after the block.

    `reads`: the command only reads, or changes what is stored already, so without a store it gets an empty,
    temporary one, and a notice is printed unless `quiet`. A store in this folder would also become that of
    the folders below. Of a store that is not this user's it gets a copy, in which nothing can be changed.
    `needs_session`: the command changes a job session, which is a file, so it creates a store for its
    events only if there is one.
    """
    from deepwork.edge.server.application import Application

    settings = load_command_settings(path, **place)
    reads = reads or (needs_session and not _has_sessions(settings))
    with _choose_store(settings, quiet=quiet) if reads else _keep(settings) as chosen:
        app = Application(chosen.settings)
        if chosen.refusal is not None:
            chosen.forbid_writes(app.database.engine)
        try:
            yield app
        finally:
            app.close()


def call_operation(app: Application, name: str, given: Mapping[str, Any], call: Call | None = None) -> Any:
    """Call an operation as every interface does; without `call`, as whatever program runs this command."""
    from deepwork.edge.server.invocation import invoke
    from deepwork.kernel.call import Call

    return invoke(app.database, app.operations[name], given, call or Call(tool=name, carries_notices=False))


def is_store_missing(settings: Settings) -> bool:
    """Whether nothing is stored at the location yet; a PostgreSQL database always exists."""
    location = settings.database_location
    if "://" in location:
        return False
    file = Path(location)
    return not file.exists() or (file.is_file() and not file.stat().st_size)


def _has_sessions(settings: Settings) -> bool:
    return any((settings.project_root / TMP_FOLDER).glob("session_????????.json"))


def describe_missing_store(settings: Settings) -> str:
    """Return the notice of a command that found no store."""
    return f"There is no store for {settings.project_root} yet; `deepwork status` says what comes next."


@contextmanager
def _keep(settings: Settings) -> Iterator[ViewedStore]:
    yield ViewedStore(settings)


@contextmanager
def _choose_store(settings: Settings, *, quiet: bool) -> Iterator[ViewedStore]:
    with _substitute_missing_store(settings, quiet=quiet) as chosen, view_store(chosen) as viewed:
        yield viewed


@contextmanager
def _substitute_missing_store(settings: Settings, *, quiet: bool) -> Iterator[Settings]:
    if not is_store_missing(settings):
        yield settings
        return
    from dataclasses import replace
    from tempfile import TemporaryDirectory

    if not quiet:
        print(describe_missing_store(settings), file=sys.stderr)
    with TemporaryDirectory(prefix="deepwork-") as elsewhere:
        yield replace(settings, database=str(Path(elsewhere) / "empty.db"))
