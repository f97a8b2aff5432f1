"""Opens the application that a command works with, and says who acts."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepwork.edge.cli.framework.options import load_command_settings
from deepwork.kernel.config import TMP_FOLDER, Settings
from deepwork.kernel.records import dataclass

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application
    from deepwork.edge.server.registry import OperationSpec
    from deepwork.kernel.call import Call
    from deepwork.kernel.database.engine import Engine
    from deepwork.kernel.errors import StorageError
    from deepwork.kernel.operations import Preset


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


_REPORTING_TOOLS = ("log_milestone", "message_send")
"""For people too, but mostly what an agent writes about its own work, and in its own name."""
_PLANNING_TOOLS = ("workflow_replan", "workflow_remove_task", "workflow_set_parallelism")
"""What people do to plans at a shell, and agents too."""
_NOTIFYING_TOOLS = (
    "workflow_update_status",
    "task_release",
    "abort_workflow",
    "abandon_task",
    *_PLANNING_TOOLS,
)
"""What agents get a notice of if a person does it, and what names no agent that did it."""


def is_persons_command(spec: OperationSpec, preset: Preset | None) -> bool:
    """Whether it is a person's command by nature, and so acts as the person if typed at a terminal."""
    if preset is not None and preset.reports_work:
        return False
    return is_for_people(spec) and spec.name not in _REPORTING_TOOLS


def is_for_people(spec: OperationSpec) -> bool:
    """Whether people use the command too, so that they can choose to act as themselves."""
    return spec.declaration.for_people or spec.name in _PLANNING_TOOLS


def is_typed() -> bool:
    """Whether standard input is a terminal, so that a person, not a program, runs the command."""
    return sys.stdin is not None and sys.stdin.isatty()


def print_unnotified(tool: str) -> None:
    """Say that agents were not notified, if they would have been of a person."""
    if tool in _NOTIFYING_TOOLS:
        print("Agents were not notified of this; --as-person does that.", file=sys.stderr)


def name_person() -> str:
    """Return the caller `human:<user>` of the person at this shell; `local` if the system has no name."""
    import getpass

    from deepwork.kernel.call import PERSON_PREFIX

    try:
        return f"{PERSON_PREFIX}{getpass.getuser()}"
    except (KeyError, OSError):  # such as in a container whose user has no entry
        return f"{PERSON_PREFIX}local"


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
