"""`deepwork doctor`: what is there, what is wrong, and how to mend it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from deepwork import __version__
from deepwork.cli.options import json_option, place_options, project_at, settings_from
from deepwork.cli.output import show
from deepwork.cli.servers import servers
from deepwork.config import OPTIONS, Settings, child_environment, load_settings, unknown_keys
from deepwork.database.engine import open_engine
from deepwork.errors import DeepworkError, DefinitionError, GitError
from deepwork.git.command import Git


@click.command()
@place_options
@json_option
def doctor(path: str, database: str | None, global_store: bool, as_json: bool) -> None:
    """Say what is running, where everything is kept, and what is wrong; exit code 1 if anything is."""
    flags = {"database": database, "global_store": global_store}
    try:
        settings, problems = settings_from(path, **flags), []
    except DefinitionError as error:
        settings = _readable(project_at(path), flags)
        problems = [_place_problem(settings) or f"{error.message} {error.suggestion}"]
    facts = dict(_facts(settings))
    problems += _problems(settings, is_configured=not problems)
    if as_json:
        show({"facts": facts, "problems": problems}, as_json=True)
    else:
        show(facts, as_json=False)
        print("\n" + ("\n".join(f"PROBLEM: {problem}" for problem in problems) or "Everything is in order."))
    sys.exit(1 if problems else 0)


def _facts(settings: Settings) -> Iterator[tuple[str, str]]:
    yield "deepwork", __version__
    yield "python", platform.python_version()
    yield "project", str(settings.project_root)
    try:
        yield from open_engine(settings.database_location).describe()
    except Exception as error:  # noqa: BLE001 - the problems below say it in words
        yield "database", f"not readable ({type(error).__name__})"
    yield "git", _git_version(settings.project_root) or "not found"
    running = servers(settings.database_location)
    yield "servers", "cannot be told here" if running is None else ", ".join(running) or "none running"


def _problems(settings: Settings, *, is_configured: bool) -> Iterator[str]:
    if is_configured:
        for key in unknown_keys(settings.project_root):
            yield f"config.yml has a key {key!r} that means nothing. Remove it or correct its spelling."
        yield from _tool_problems(settings)
    if _git_version(settings.project_root) is None:
        yield "git was not found. Install it, or put it on the PATH."
    if not os.access(settings.project_root, os.W_OK):
        yield f"{settings.project_root} is not writable for this user. Change its owner or its mode."
    try:
        yield from open_engine(settings.database_location).problems()
    except DeepworkError as error:
        yield f"{error.message} {error.suggestion}"


def _tool_problems(settings: Settings) -> Iterator[str]:
    """What would keep a server from starting, by its own rules."""
    if settings.toolsets == ("all",) and not settings.tools and not settings.exclude_tools:
        return
    from deepwork.server.application import Application
    from deepwork.server.toolsets import chosen

    with TemporaryDirectory() as elsewhere:  # a app makes itself at home, and we only look
        app = Application(replace(settings, project_root=Path(elsewhere), database="", global_store=False))
        try:
            chosen(app.registry, settings)
        except DefinitionError as error:
            yield f"`deepwork serve` would not start: {error.message} {error.suggestion}"
        finally:
            app.close()


def _readable(project: Path, flags: dict[str, Any]) -> Settings:
    """As much of settings that are wrong somewhere as tells where everything is kept."""
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
        root = Path(os.path.expanduser(project)).resolve()  # noqa: PTH111 - takes `~nobody` as it is
        if not root.is_dir():
            raise
    with TemporaryDirectory() as without_file:
        return replace(load_settings(without_file, harmless | given), project_root=root)


def _place_problem(settings: Settings) -> str:
    folder = settings.state_folder
    if folder.is_dir() or not folder.exists():
        return ""
    return f"{folder} is no folder, and deepwork keeps its settings and its store in one. Move it away."


def _git_version(root: Path) -> str | None:
    try:
        return Git(root, environment=child_environment()).version()
    except GitError:
        return None
