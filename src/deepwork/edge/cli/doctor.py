"""`deepwork doctor`: check the installation and suggest fixes."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import TYPE_CHECKING, Any, TypeVar

import click

from deepwork import __version__
from deepwork.edge.cli.framework.applications import is_store_missing
from deepwork.edge.cli.framework.options import (
    json_option,
    load_command_settings,
    place_options,
    resolve_project,
)
from deepwork.edge.cli.framework.output import print_answer
from deepwork.edge.cli.servers import list_servers
from deepwork.kernel.config import STATE_FOLDER, Settings, find_unknown_keys, load_settings
from deepwork.kernel.config_options import OPTIONS
from deepwork.kernel.database.opening import open_engine
from deepwork.kernel.environment import build_child_environment, get_cache_folder, get_user_folder
from deepwork.kernel.errors import DeepworkError, DefinitionError, GitError
from deepwork.kernel.files.private import find_full_disk, find_hidden_checks
from deepwork.kernel.git.command import Git
from deepwork.kernel.user_settings import open_trust_store, render_untrusted_line

if TYPE_CHECKING:
    from deepwork.kernel.database.transaction import Transaction

_STORE_WAIT_SECONDS = 1.0
Kind = TypeVar("Kind")


@click.command()
@place_options
@json_option
def doctor(path: str, database: str | None, global_store: bool, as_json: bool) -> None:
    """Check the installation and suggest fixes; exit code 1 if there is a problem."""
    flags = {"database": database, "global_store": global_store}
    try:
        settings, problems = load_command_settings(path, quiet=True, **flags), []
    except DefinitionError as error:
        settings = _load_readable_settings(resolve_project(path), flags)
        problems = [_find_folder_problem(settings) or f"{error.message} {error.suggestion}"]
    facts = dict(_collect_facts(settings))
    problems += _find_problems(settings, is_configured=not problems)
    if as_json:
        print_answer({"facts": facts, "problems": problems}, as_json=True)
    else:
        print_answer(facts, as_json=False)
        print("\n" + ("\n".join(f"PROBLEM: {problem}" for problem in problems) or "No problems found."))
    sys.exit(1 if problems else 0)


def _collect_facts(settings: Settings) -> Iterator[tuple[str, str]]:
    yield "deepwork", __version__
    yield "python", platform.python_version()
    yield "project", str(settings.project_root)
    try:
        yield from open_engine(settings.database_location).describe()
    except Exception as error:  # noqa: BLE001 - explained under problems
        yield "database", f"{_name_database(settings)}not readable ({type(error).__name__})"
    if is_store_missing(settings):
        yield "store", "none yet; the first command or server that stores something creates it"
    elif not settings.database and not settings.global_store:
        yield "cleaning", f"keep the store: git clean -fdx -e {STATE_FOLDER}"
    yield from _describe_origin(settings)
    yield "git", _get_git_version(settings.project_root) or "not found"
    running = list_servers(settings.database_location)
    yield "servers", "unknown on this system" if running is None else ", ".join(running) or "none running"
    yield "agents", ", ".join(_list_agent_programs()) or "none installed"


def _describe_origin(settings: Settings) -> Iterator[tuple[str, str]]:
    """Describe when the store was adopted or restored last, and which gates that reopened."""
    from deepwork.delivery.store_adoption import find_origin
    from deepwork.kernel.values import format_timestamp

    try:
        entry = _read_store(settings, find_origin)
    except Exception:  # noqa: BLE001 - explained under problems
        return
    if entry is not None:
        reopened = json.loads(entry.arguments).get("reopened", 0)
        tasks = f"; {reopened} tasks have to pass their gates again" if reopened else ""
        yield f"last {entry.tool}", f"{format_timestamp(entry.at)} by {entry.caller}{tasks}"


def _list_agent_programs() -> Iterator[str]:
    """List the vendors' programs on this machine; none of them is started."""
    from deepwork.delivery.runner.profiles import AgentProfile, find_program, read_version
    from deepwork.kernel.vendors import AGENT_KINDS

    for name, kind in AGENT_KINDS.items():
        if (program := find_program(AgentProfile(name, name))) is not None:
            version = read_version(kind, program) or "of an unknown version"
            tested = ", ".join(kind.tested_versions)
            yield f"{name} {version}" + ("" if version in kind.tested_versions else f" (tested: {tested})")


def _name_database(settings: Settings) -> str:
    try:
        return f"{open_engine(settings.database_location).name}: "
    except DeepworkError:  # an invalid URL, or no driver
        return ""


def _find_problems(settings: Settings, *, is_configured: bool) -> Iterator[str]:
    if is_configured:
        for key in find_unknown_keys(settings.project_root):
            yield f"config.yml has an unknown key {key!r}. Remove it or correct its spelling."
        yield from _find_tool_problems(settings)
    yield from _find_trust_problems(settings)
    yield from _find_user_problems()
    yield from _find_notification_problems(settings)
    yield from _find_agent_problems(settings)
    if _get_git_version(settings.project_root) is None:
        yield "git was not found. Install it, or put it on the PATH."
    yield from _find_full_disks(settings)
    if not os.access(settings.project_root, os.W_OK):
        yield f"{settings.project_root} is not writable by this user. Change its owner or mode."
    store_problems = _list_store_problems(settings)
    yield from store_problems or _find_name_problems(settings)
    if not store_problems:
        yield from _find_stopped_work(settings)
    yield from _find_secret_problems(settings)


def _find_full_disks(settings: Settings) -> Iterator[str]:
    """Find the disks that have no room for what deepwork writes, and say what they are for."""
    uses = {
        "project": settings.project_root,
        "store": settings.store_folder,
        "temporary files": Path(gettempdir()),
        "settings": get_user_folder(),
        "clean trees of checks": get_cache_folder(),
    }
    full: dict[Path, list[str]] = {}
    for use, folder in uses.items():
        if (disk := find_full_disk(folder)) is not None:
            full.setdefault(disk, []).append(use)
    for disk, kept in full.items():
        yield (
            f"The disk at {disk} is full ({', '.join(kept)}). Nothing that was answered is lost. Free some"
            " space there; runs continue by themselves."
        )


def _list_store_problems(settings: Settings) -> list[str]:
    """List what is wrong with the store; one that cannot be opened is one problem."""
    try:
        return list(open_engine(settings.database_location).find_problems())
    except DeepworkError as error:
        return [f"{error.message} {error.suggestion}"]


def _find_name_problems(settings: Settings) -> Iterator[str]:
    """Find agents that an earlier version let register with a name of people or of deepwork."""
    from deepwork.kernel.foreign_text import quote_line
    from deepwork.work.agents.presence import find_reserved_names

    try:
        names = _read_store(settings, find_reserved_names) or {}
    except DeepworkError:  # reported elsewhere, or of an older version, which the next command migrates
        return
    for id, name in names.items():
        yield (
            f"Agent {id} is named {quote_line(name, 60)}, like a person or deepwork, but is neither."
            f" If nobody uses it: deepwork agents unregister {id}"
        )


def _find_stopped_work(settings: Settings) -> Iterator[str]:
    """Find plans that stopped at a budget, and runs that nobody drives: nothing is broken."""
    from deepwork.kernel.foreign_text import quote_line
    from deepwork.views.overview.inbox import list_stopped_work
    from deepwork.views.overview.states.store import build_local_processes

    processes = build_local_processes(settings)
    try:
        stopped, runs = _read_store(settings, lambda tx: list_stopped_work(tx, processes)) or ([], {})
    except DeepworkError:  # as above
        return
    for each in stopped:
        plan = f"{quote_line(each.run['name'], 60)} ({each.run_id})" if each.run else ""
        yield f"Plan {plan} waits: {quote_line(each.title, 80)}. {each.detail} {each.next}"
    for id, standing in runs.items():
        yield f"Nobody drives run {id}: {standing.next}"


def _read_store(settings: Settings, read: Callable[[Transaction], Kind]) -> Kind | None:
    """Read from the store if there is one, without creating or changing anything."""
    from deepwork.kernel.database.existing_store import read_existing_store

    return read_existing_store(settings.database_location, _STORE_WAIT_SECONDS, read)


def _find_secret_problems(settings: Settings) -> Iterator[str]:
    """Find secrets that others know or could replace: the key of the stores, and the owner's token."""
    from deepwork.edge.server.http.owner_token import find_token_file_problem, find_tracked_token_problem

    if "://" not in settings.database_location:
        from deepwork.kernel.database.store_key import find_key_problems

        yield from (f"{error.message} {error.suggestion}" for error in find_key_problems())
    if settings.token:
        return
    if tracked := find_tracked_token_problem(settings.token_file):
        yield f"{tracked.message} {tracked.suggestion}"
    elif unsafe := find_token_file_problem(settings.token_file):
        yield f"{unsafe} The next server creates another token."


def _find_trust_problems(settings: Settings) -> Iterator[str]:
    if hidden := find_hidden_checks(settings.state_folder):
        yield hidden
    if settings.untrusted_keys:
        yield render_untrusted_line(settings.untrusted_keys)
    try:
        open_trust_store().load()
    except DeepworkError as error:
        yield f"{error.message} {error.suggestion}"


def _find_user_problems() -> Iterator[str]:
    """Find what is wrong with this user's own settings and proofs."""
    from deepwork.gates.approvals.credentials import CredentialFile
    from deepwork.kernel.user_settings import load_user_settings

    for load in (load_user_settings, CredentialFile().load):
        try:
            load()
        except DeepworkError as error:
            yield f"{error.message} {error.suggestion}"


def _find_notification_problems(settings: Settings) -> Iterator[str]:
    """Find channels of this user that do not work."""
    from deepwork.edge.server.notifying import has_channels_file

    if not has_channels_file():
        return
    from deepwork.views.notifications.sender import list_problems
    from deepwork.views.notifications.settings import NotificationFile

    try:
        found = NotificationFile().load()
    except DeepworkError as error:
        yield f"{error.message} {error.suggestion}"
        return
    yield from list_problems(found, lambda read: _read_store(settings, read))


def _find_agent_problems(settings: Settings) -> Iterator[str]:
    """Find what is wrong with the agents that this user or the project names."""
    from deepwork.delivery.runner.profiles import load_catalog, require_program

    try:
        catalog = load_catalog()
    except DeepworkError as error:
        yield f"{error.message} {error.suggestion}"
        return
    for name in sorted(catalog.named):
        try:
            require_program(catalog.agents[name])
        except DeepworkError as error:
            yield f"{catalog.path}: {error.message} Install it, or remove the agent."
    try:
        catalog.get_chain(settings.run_chain)
    except DeepworkError as error:
        yield f"`run.chain`: {error.message} {error.suggestion}"


def _find_tool_problems(settings: Settings) -> Iterator[str]:
    """Find settings with which a server would refuse to start, by the server's own rules."""
    if settings.toolsets == ("all",) and not settings.tools and not settings.exclude_tools:
        return
    from deepwork.edge.server.application import Application
    from deepwork.edge.server.registry import select_tools

    with TemporaryDirectory() as elsewhere:  # the application creates files, and `doctor` must not
        app = Application(replace(settings, project_root=Path(elsewhere), database="", global_store=False))
        try:
            select_tools(app.registry, settings)
        except DefinitionError as error:
            yield f"`deepwork serve` would not start: {error.message} {error.suggestion}"
        finally:
            app.close()


def _load_readable_settings(project: Path, flags: dict[str, Any]) -> Settings:
    """Load settings although some are invalid: replace all but the store's location by defaults."""
    given = {name: value or None for name, value in flags.items()}
    usual = Settings(Path())
    harmless = {
        option.name: list(value) if isinstance(value := getattr(usual, option.name), tuple) else value
        for option in OPTIONS
        if option.name not in flags
    }
    try:
        return load_settings(project, harmless | given)
    except DefinitionError:
        root = Path(os.path.expanduser(project)).resolve()  # noqa: PTH111 - keeps `~nobody` unchanged
        if not root.is_dir():
            raise
    with TemporaryDirectory() as without_file:
        return replace(load_settings(without_file, harmless | given), project_root=root)


def _find_folder_problem(settings: Settings) -> str:
    folder = settings.state_folder
    if folder.is_dir() or not folder.exists():
        return ""
    return f"{folder} is not a folder, but deepwork stores its settings and data there. Move it away."


def _get_git_version(root: Path) -> str | None:
    try:
        return Git(root, environment=build_child_environment()).get_version()
    except GitError:
        return None
