"""`deepwork doctor`: what is there, what is wrong, and how to mend it."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from deepwork import __version__
from deepwork.cli.options import json_option, place_options, settings_from
from deepwork.cli.output import show
from deepwork.config import Settings, child_environment, unknown_keys
from deepwork.database.engine import open_engine
from deepwork.errors import DeepworkError, GitError
from deepwork.git.command import Git


@click.command()
@place_options
@json_option
def doctor(path: str, database: str | None, global_store: bool, as_json: bool) -> None:
    """Say what is running, where everything is kept, and what is wrong; exit code 1 if anything is."""
    settings = settings_from(path, database=database, global_store=global_store)
    facts = dict(_facts(settings))
    problems = list(_problems(settings))
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
    yield "servers", ", ".join(_servers()) or "none running"


def _problems(settings: Settings) -> Iterator[str]:
    for key in unknown_keys(settings.project_root):
        yield f"config.yml has a key {key!r} that means nothing. Remove it or correct its spelling."
    if _git_version(settings.project_root) is None:
        yield "git was not found. Install it, or put it on the PATH."
    if not os.access(settings.project_root, os.W_OK):
        yield f"{settings.project_root} is not writable for this user. Change its owner or its mode."
    try:
        yield from open_engine(settings.database_location).problems()
    except DeepworkError as error:
        yield f"{error.message} {error.suggestion}"


def _git_version(root: Path) -> str | None:
    try:
        return Git(root, environment=child_environment()).version()
    except GitError:
        return None


def _servers() -> Iterator[str]:
    """Running servers of this user, where the system lets us see them."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"serve" in words and any(word.endswith(b"deepwork") for word in words[:4]):
            yield f"pid {folder.name}"
