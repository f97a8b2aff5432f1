"""`deepwork db`: inspect, adopt, copy, back up and restore the store."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

import click

from deepwork.edge.cli.framework.applications import name_person
from deepwork.edge.cli.framework.options import (
    CommandGroup,
    json_option,
    load_command_settings,
    passphrase_option,
    place_options,
    project_option,
    refuse_password,
)
from deepwork.edge.cli.framework.output import print_answer
from deepwork.edge.cli.framework.progress import ProgressBar
from deepwork.kernel.config import Settings
from deepwork.kernel.database.engine import Engine
from deepwork.kernel.database.opening import open_engine
from deepwork.kernel.errors import DeepworkError, InvalidInput, NotAllowed
from deepwork.kernel.files.private import format_path, make_state_folder

if TYPE_CHECKING:
    from deepwork.kernel.database.sqlite import SQLite

_STORE_NAMES = ("project", "global")


@click.group(cls=CommandGroup)
def db() -> None:
    """Inspect, adopt, copy, back up and restore the store."""


@db.command()
@place_options
@json_option
def info(path: str, database: str | None, global_store: bool, as_json: bool) -> None:
    """Show where the store is, how large it is, and which processes have it open; changes nothing."""
    from deepwork.kernel.store_admin.store_overview import load_overview

    settings = load_command_settings(path, database=database, global_store=global_store)
    store = open_engine(settings.database_location)
    try:
        overview = load_overview(store)
    finally:
        store.close()
    about = {
        "kind": _get_kind(store),
        "location": store.address,
        "mode": _get_mode(settings),
        "exists": bool(overview),
    }
    if overview is None:
        print_answer(about, as_json=as_json)
        return
    facts = {**about, "schema": overview.schema, **overview.size, "last_event": overview.last_event}
    tables = [{"table": name, "rows": count} for name, count in overview.rows.items()]
    print_answer(
        {**facts, "open_elsewhere": _format_openers(overview.open_elsewhere, as_json), "tables": tables},
        as_json=as_json,
    )


@db.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@project_option
@json_option
def copy(source: str, target: str, path: str, as_json: bool) -> None:
    """Copy a whole store into an empty or new one, and compare the two row by row.

    FROM and TO are files, postgresql:// URLs without a password, or the words `project` and `global`.
    """
    from deepwork.kernel.store_admin.copying import copy_store

    settings = load_command_settings(path)
    if target == "project":
        make_state_folder(_build_default_settings(settings, "project").store_folder)
    old, new = (open_engine(_resolve_location(settings, place)) for place in (source, target))
    if _is_same_store(old, new):
        raise NotAllowed(f"FROM and TO are both {new.address}.", suggestion="Name two different stores.")
    try:
        with _use_full_paths(old.address, new.address), ProgressBar("Copying", quiet=as_json) as progress:
            copied = copy_store(old, new, report=progress.report)
    finally:
        old.close()
        new.close()
    done = {"from": old.address, "to": new.address, "schema": copied.schema, "verified": True}
    print_answer(done | _count_rows(copied.rows, as_json), as_json=as_json)


@db.command()
@click.argument("file")
@place_options
@json_option
def backup(file: str, path: str, database: str | None, global_store: bool, as_json: bool) -> None:
    """Back up the whole store to one new SQLite file; servers may keep running."""
    from deepwork.kernel.store_admin.backup import back_up

    settings = load_command_settings(path, database=database, global_store=global_store)
    place = _to_path(file)
    _require_folder(place)
    store = open_engine(settings.database_location)
    try:
        with _use_full_paths(str(place), store.address), ProgressBar("Saving", quiet=as_json) as progress:
            saved = back_up(store, place, progress.report)
    finally:
        store.close()
    done = {"backup": str(place), "bytes": place.stat().st_size, "schema": saved.schema, "verified": True}
    print_answer(done | _count_rows(saved.rows, as_json), as_json=as_json)


@db.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
@passphrase_option
@place_options
@json_option
def adopt(
    yes: bool, passphrase_stdin: bool, path: str, database: str | None, global_store: bool, as_json: bool
) -> None:
    """Adopt a store that deepwork 0.1 made, or that came from elsewhere, so that servers use it.

    Keeps its data and the old file. Revokes its tokens, marks what people decided as unverified, and lets
    tasks that passed checks or approvals meanwhile pass them again. If a passphrase is enrolled in it, that
    is needed, whoever's mark the store has.
    """
    from deepwork.delivery.store_adoption import adopt_store

    settings = load_command_settings(path, database=database, global_store=global_store)
    store = _require_adoptable(open_engine(settings.database_location))
    _require_proof_to_replace(settings, store, "db adopt", passphrase_stdin=passphrase_stdin)
    if not yes:
        _confirm_adoption(store)
    try:
        with _use_full_paths(store.address), ProgressBar("Adopting", quiet=as_json) as progress:
            adopted = adopt_store(store, name_person(), progress.report)
    finally:
        store.close()
    done: dict[str, Any] = {"adopted": store.address, "schema": adopted.copied.schema}
    if adopted.from_schema != adopted.copied.schema:
        done["brought_forward_from"] = adopted.from_schema
    done |= {"revoked_tokens": adopted.revoked_tokens, "marked_unverified": adopted.unverified}
    done |= {"reopened_tasks": len(adopted.reopened)}
    print_answer(
        done | {"kept": str(adopted.kept)} | _count_rows(adopted.copied.rows, as_json), as_json=as_json
    )


def _require_adoptable(store: Engine) -> SQLite:
    from deepwork.kernel.database.sqlite import SQLite

    if not isinstance(store, SQLite):
        raise NotAllowed(
            f"The {store.name} needs no adoption: its key is in the database.",
            suggestion="Name a SQLite file with --db.",
        )
    for problem in store.find_location_problems():
        raise problem
    return store


def _require_proof_to_replace(
    settings: Settings, store: Engine, tool: str, *, passphrase_stdin: bool
) -> None:
    """Check the proof that the store to be replaced demands; a damaged one demands none."""
    from deepwork.edge.cli.framework.applications import is_store_missing
    from deepwork.edge.cli.framework.proofs import build_act_call
    from deepwork.edge.server.application import Application
    from deepwork.gates.approvals.enrollment import prove_act
    from deepwork.kernel.database.sqlite import SQLite
    from deepwork.kernel.store_admin.copying import translate_errors

    if is_store_missing(settings):
        return
    if isinstance(store, SQLite):
        with translate_errors(store):
            is_damaged = store.is_damaged()
        if is_damaged:
            click.echo("The store is damaged, so it asks for no proof.", err=True)
            return
        if store.find_adoption_problem():
            _require_enrolled_proof(store, passphrase_stdin=passphrase_stdin)
            return
    call = build_act_call(tool, passphrase_stdin=passphrase_stdin)
    with closing(Application(settings)) as app:
        prove_act(app.database, call, {"store": store.address}, {})


def _require_enrolled_proof(store: SQLite, *, passphrase_stdin: bool) -> None:
    from deepwork.edge.cli.framework.proofs import read_passphrase
    from deepwork.gates.access.enrolled_elsewhere import require_enrolled_proof

    def ask() -> str:
        try:
            return read_passphrase(f"Passphrase of {store.name}", from_stdin=passphrase_stdin)
        except NotAllowed as error:
            error.message = f"A passphrase is enrolled in {store.name}, which this needs. {error.message}"
            raise

    require_enrolled_proof(store, ask)


def _confirm_adoption(store: SQLite) -> None:
    problem = store.find_adoption_problem()
    click.echo(problem.message if problem else f"{store.name} is yours already.", err=True)
    if not sys.stdin.isatty():
        raise click.UsageError("Nobody can answer here: pass --yes if you know where this store comes from.")
    click.confirm(
        "Revoke its tokens, mark what people decided as unverified, let tasks with checks or approvals pass "
        "them again, and use it from now on?",
        abort=True,
        err=True,
    )


@db.command()
@click.argument("file")
@click.option("--replace", is_flag=True, help="Replace the store's contents, after backing it up.")
@click.option(
    "--adopt", "adopts", is_flag=True, help="Accept a backup of another user or of deepwork 0.1, as `adopt`."
)
@passphrase_option
@place_options
@json_option
def restore(
    file: str, replace: bool, adopts: bool, passphrase_stdin: bool, path: str, as_json: bool, **where: Any
) -> None:
    """Restore a backup into the store, which must be empty or new unless --replace is given.

    Replacing needs the proof that your decisions need: the backup may be older than what you enrolled. So
    does --adopt, if a passphrase is enrolled in the backup.
    """
    from deepwork.delivery.store_adoption import RESTORE_TOOL, Changes, record_act, take_over_copy
    from deepwork.kernel.database.sqlite import SQLite
    from deepwork.kernel.store_admin.backup import require_backup
    from deepwork.kernel.store_admin.backup import restore as put_back

    settings = load_command_settings(path, **where)
    store, place = open_engine(settings.database_location), _to_path(file)
    with _use_full_paths(str(place), store.address):
        require_backup(place, store)
    if replace:
        _require_proof_to_replace(settings, store, "db restore", passphrase_stdin=passphrase_stdin)
    with closing(SQLite(place)) as given:
        if adopts and given.find_adoption_problem():
            _require_enrolled_proof(given, passphrase_stdin=passphrase_stdin)
    changes = Changes()

    def take_over(copy: SQLite, fresh: SQLite) -> None:
        nonlocal changes
        _, changes = take_over_copy(copy, fresh)

    if _get_mode(settings) == "project":
        make_state_folder(settings.store_folder)
    try:
        with _use_full_paths(str(place), store.address), ProgressBar("Restoring", quiet=as_json) as progress:
            adopt = take_over if adopts else None
            restored = put_back(place, store, replace=replace, adopt=adopt, report=progress.report)
            record_act(store, name_person(), RESTORE_TOOL, changes)
    finally:
        store.close()
    done: dict[str, Any] = {"restored": str(place), "to": store.address, "schema": restored.copied.schema}
    if restored.from_schema != restored.copied.schema:
        done["brought_forward_from"] = restored.from_schema
    if restored.kept:
        done["kept"] = str(restored.kept)
    print_answer(done | {"verified": True} | _count_rows(restored.copied.rows, as_json), as_json=as_json)


@contextmanager
def _use_full_paths(*addresses: str) -> Iterator[None]:
    """Put full paths into error messages.

    Errors name files by shortened paths, because callers over the network must not learn where files are. The
    user of this command typed the paths.
    """
    try:
        yield
    except DeepworkError as error:
        for address in addresses:
            if "://" not in address:
                name = rf"(?<![\w/.-]){re.escape(format_path(Path(address)))}(?![\w/-])"
                error.message = re.sub(name, lambda _, whole=address: whole, error.message)  # type: ignore[misc]
        raise


def _require_folder(file: Path) -> None:
    """Refuse a file in a missing folder: it is probably a typing error, so the folder is not created."""
    if not file.parent.is_dir():
        raise InvalidInput(
            f"The folder {file.parent} does not exist.",
            suggestion=f"Correct the name, or create it: mkdir -p {file.parent}",
        )


def _resolve_location(settings: Settings, given: str) -> str:
    """Convert what was typed into a location for `open_engine`; files are relative to the current folder."""
    if given in _STORE_NAMES:
        return _build_default_settings(settings, given).database_location
    if "://" not in given:
        return str(_to_path(given))
    try:
        refuse_password(given)
    except click.UsageError:
        raise click.UsageError(
            "FROM and TO take no password: other users could read it. "
            "Set DEEPWORK_DATABASE_URL to the same URL with it, or use the PostgreSQL password file."
        ) from None
    if urlsplit(given).scheme not in {"postgresql", "postgres"}:
        raise click.UsageError(f"{given} is neither a file nor a postgresql:// URL.")
    is_other = given == settings.database or not _is_configured_url(given, settings.database)
    return given if is_other else settings.database_location


def _is_configured_url(given: str, known: str) -> bool:
    """Whether a URL without a password means the database of the settings, whose URL may have one."""
    if "://" not in known:
        return False
    typed, set_up = urlsplit(given), urlsplit(known)
    return (
        typed.username in (None, set_up.username)
        and _get_endpoint(typed) == _get_endpoint(set_up)
        and typed.query in ("", set_up.query)
    )


def _get_endpoint(url: SplitResult) -> tuple[Any, ...]:
    host, _, port = url.netloc.rpartition("@")[2].partition(":")
    return host.lower(), port or "5432", url.path


def _build_default_settings(settings: Settings, which: str) -> Settings:
    """Build default settings: the store is in the project or in the home folder."""
    return Settings(project_root=settings.project_root, global_store=which == "global")


def _to_path(given: str) -> Path:
    return Path(given).expanduser().absolute()


def _is_same_store(one: Engine, other: Engine) -> bool:
    if "://" in one.address or "://" in other.address:
        return one.address == other.address
    return Path(one.address).resolve() == Path(other.address).resolve()


def _get_kind(store: Engine) -> str:
    return "postgresql" if "://" in store.address else "sqlite"


def _get_mode(settings: Settings) -> str:
    if settings.database:
        return "given"
    return "global" if settings.global_store else "project"


def _format_openers(others: list[str] | None, as_json: bool) -> Any:
    if as_json:
        return others
    return "unknown" if others is None else others or "by nobody"


def _count_rows(rows: Any, as_json: bool) -> dict[str, Any]:
    total = {"rows": sum(rows.values())}
    return total | ({"tables": dict(rows)} if as_json else {})
