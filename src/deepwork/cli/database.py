"""`deepwork db`: look at the store, copy it, back it up and put it back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import click

from deepwork.cli.groups import Group
from deepwork.cli.options import json_option, place_options, project_option, refuse_password, settings_from
from deepwork.cli.output import show
from deepwork.cli.progress import Waiting
from deepwork.config import Settings
from deepwork.database.engine import Engine, open_engine
from deepwork.errors import DeepworkError, InvalidInput, NotAllowed
from deepwork.files.failures import shown
from deepwork.files.state import make_state_folder

_WORDS = ("project", "global")


@click.group(cls=Group)
def db() -> None:
    """The store: look at it, copy it, back it up, put it back."""


@db.command()
@place_options
@json_option
def info(path: str, database: str | None, global_store: bool, as_json: bool) -> None:
    """Say where everything is kept, how much it is, and who has it open; nothing is changed."""
    from deepwork.database.overview import overview

    settings = settings_from(path, database=database, global_store=global_store)
    store = open_engine(settings.database_location)
    try:
        seen = overview(store)
    finally:
        store.close()
    about = {"kind": _kind(store), "location": store.address, "mode": _mode(settings), "exists": bool(seen)}
    if seen is None:
        show(about, as_json=as_json)
        return
    facts = {**about, "schema": seen.schema, **seen.size, "last_event": seen.last_event}
    tables = [{"table": name, "rows": count} for name, count in seen.rows.items()]
    show({**facts, "open_elsewhere": _open(seen.open_elsewhere, as_json), "tables": tables}, as_json=as_json)


@db.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@project_option
@json_option
def copy(source: str, target: str, path: str, as_json: bool) -> None:
    """Copy a whole store into an empty or new one, and compare the two row by row.

    FROM and TO are files, postgresql:// URLs without a password, or the words `project` and `global`.
    """
    from deepwork.database.copying import copy as copy_store

    settings = settings_from(path)
    if target == "project":
        make_state_folder(_usual(settings, "project").store_folder)
    old, new = (open_engine(_location(settings, place)) for place in (source, target))
    if _is_same(old, new):
        raise NotAllowed(f"FROM and TO are both {new.address}.", suggestion="Name two different stores.")
    try:
        with _whole_names(old.address, new.address), Waiting("Copying", quiet=as_json) as waiting:
            copied = copy_store(old, new, report=waiting.report)
    finally:
        old.close()
        new.close()
    done = {"from": old.address, "to": new.address, "schema": copied.schema, "verified": True}
    show(done | _counted(copied.rows, as_json), as_json=as_json)


@db.command()
@click.argument("file")
@place_options
@json_option
def backup(file: str, path: str, database: str | None, global_store: bool, as_json: bool) -> None:
    """Write the whole store into one new SQLite file; servers may go on working."""
    from deepwork.database.backup import back_up

    settings = settings_from(path, database=database, global_store=global_store)
    place = _file(file)
    _require_folder(place)
    store = open_engine(settings.database_location)
    try:
        with _whole_names(str(place), store.address), Waiting("Saving", quiet=as_json) as waiting:
            saved = back_up(store, place, waiting.report)
    finally:
        store.close()
    done = {"backup": str(place), "bytes": place.stat().st_size, "schema": saved.schema, "verified": True}
    show(done | _counted(saved.rows, as_json), as_json=as_json)


@db.command()
@click.argument("file")
@click.option("--replace", is_flag=True, help="Replace what the store holds, after backing it up.")
@place_options
@json_option
def restore(
    file: str, replace: bool, path: str, database: str | None, global_store: bool, as_json: bool
) -> None:
    """Put a backup in the place of the store, which must be empty or new unless --replace is given."""
    from deepwork.database.backup import require_backup
    from deepwork.database.backup import restore as put_back

    settings = settings_from(path, database=database, global_store=global_store)
    store, place = open_engine(settings.database_location), _file(file)
    with _whole_names(str(place), store.address):
        require_backup(place, store)
    if _mode(settings) == "project":
        make_state_folder(settings.store_folder)
    try:
        with _whole_names(str(place), store.address), Waiting("Putting back", quiet=as_json) as waiting:
            restored = put_back(place, store, replace=replace, report=waiting.report)
    finally:
        store.close()
    done: dict[str, Any] = {"restored": str(place), "to": store.address, "schema": restored.copied.schema}
    if restored.from_schema != restored.copied.schema:
        done["brought_forward_from"] = restored.from_schema
    if restored.kept:
        done["kept"] = str(restored.kept)
    show(done | {"verified": True} | _counted(restored.copied.rows, as_json), as_json=as_json)


@contextmanager
def _whole_names(*addresses: str) -> Iterator[None]:
    """Files by their whole names: whoever typed them may know them, unlike a caller over the network."""
    try:
        yield
    except DeepworkError as error:
        for address in addresses:
            if "://" not in address:
                name = rf"(?<![\w/.-]){re.escape(shown(Path(address)))}(?![\w/-])"
                error.message = re.sub(name, lambda _, whole=address: whole, error.message)  # type: ignore[misc]
        raise


def _require_folder(file: Path) -> None:
    """A misspelt folder is not made without a word."""
    if not file.parent.is_dir():
        raise InvalidInput(
            f"The folder {file.parent} does not exist.",
            suggestion=f"Correct the name, or make it: mkdir -p {file.parent}",
        )


def _location(settings: Settings, given: str) -> str:
    """What open_engine takes, for what was typed; a file is looked for from here, as the shell does."""
    if given in _WORDS:
        return _usual(settings, given).database_location
    if "://" not in given:
        return str(_file(given))
    try:
        refuse_password(given)
    except click.UsageError:
        raise click.UsageError(
            "FROM and TO take no password: other users could read it. "
            "Set DEEPWORK_DATABASE_URL to the same URL with it, or use the PostgreSQL password file."
        ) from None
    if urlsplit(given).scheme not in {"postgresql", "postgres"}:
        raise click.UsageError(f"{given} is neither a file nor a postgresql:// URL.")
    return settings.database if _is_meant(given, settings.database) else given


def _is_meant(given: str, known: str) -> bool:
    """Whether a URL is the one of the settings, which may know its password."""
    if "://" not in known:
        return False
    typed, set_up = urlsplit(given), urlsplit(known)
    return (
        typed.username in (None, set_up.username)
        and _place(typed) == _place(set_up)
        and typed.query in ("", set_up.query)
    )


def _place(url: SplitResult) -> tuple[Any, ...]:
    host, _, port = url.netloc.rpartition("@")[2].partition(":")
    return host.lower(), port or "5432", url.path


def _usual(settings: Settings, which: str) -> Settings:
    """The settings of whoever set nothing: everything in the project, or in the home folder."""
    return Settings(project_root=settings.project_root, global_store=which == "global")


def _file(given: str) -> Path:
    return Path(given).expanduser().absolute()


def _is_same(one: Engine, other: Engine) -> bool:
    if "://" in one.address or "://" in other.address:
        return one.address == other.address
    return Path(one.address).resolve() == Path(other.address).resolve()


def _kind(store: Engine) -> str:
    return "postgresql" if "://" in store.address else "sqlite"


def _mode(settings: Settings) -> str:
    if settings.database:
        return "given"
    return "global" if settings.global_store else "project"


def _open(others: list[str] | None, as_json: bool) -> Any:
    if as_json:
        return others
    return "cannot be told" if others is None else others or "by nobody"


def _counted(rows: Any, as_json: bool) -> dict[str, Any]:
    total = {"rows": sum(rows.values())}
    return total | ({"tables": dict(rows)} if as_json else {})
