"""Finds running servers and dashboards of a store through /proc."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath

import click

from deepwork.edge.cli.dashboard import dashboard
from deepwork.edge.cli.framework.options import CURRENT_FOLDER
from deepwork.edge.cli.serve import serve
from deepwork.kernel.config import find_project, load_settings
from deepwork.kernel.database.processes import find_processes_with_open
from deepwork.kernel.errors import DeepworkError

PROCESSES = Path("/proc")
_SERVER_COMMANDS = {"serve": serve, "dashboard": dashboard}


def list_servers(location: str) -> list[str] | None:
    """List this user's processes that serve the store, as `pid N COMMAND`; None on systems without /proc."""
    if not (PROCESSES / "self").exists():
        return None
    holders = set() if "://" in location else set(find_processes_with_open(Path(location)) or ())
    return [
        f"pid {number} {words[0]}"
        for number, words in sorted(_list_processes())
        if number in holders or _find_store_location(number, words) == location
    ]


def extract_arguments(words: list[str]) -> list[str]:
    """Return the arguments of a `deepwork` process.

    Empty if the process is another program that only has `deepwork` among its arguments, such as `timeout`.
    """
    if PurePath(words[0]).name.startswith("python"):
        words = words[1:]
        while words and words[0].startswith("-"):  # as in `python -P -m deepwork`
            words = words[1:]
    return words[1:] if words and PurePath(words[0]).name == "deepwork" else []


def _list_processes() -> Iterator[tuple[int, list[str]]]:
    for folder in PROCESSES.glob("[0-9]*"):
        try:
            command_line = (folder / "cmdline").read_bytes()
        except OSError:  # the process has ended
            continue
        words = extract_arguments(command_line.decode(errors="surrogateescape").rstrip("\0").split("\0"))
        if words and words[0] in _SERVER_COMMANDS:
            yield int(folder.name), words


def _find_store_location(number: int, words: list[str]) -> str | None:
    """Find the store of a process from its arguments, working directory and environment."""
    folder = PROCESSES / str(number)
    try:
        given = _SERVER_COMMANDS[words[0]].make_context(words[0], words[1:], resilient_parsing=True).params
        environment = (folder / "environ").read_bytes().decode(errors="surrogateescape")
        pairs = (line.partition("=") for line in environment.split("\0") if "=" in line)
        flags = {"database": given["database"], "global_store": given["global_store"] or None}
        here = (folder / "cwd").readlink()
        project = find_project(here) if given["path"] == CURRENT_FOLDER else here / given["path"]
        return load_settings(project, flags, {key: value for key, _, value in pairs}).database_location
    except (OSError, DeepworkError, click.ClickException):  # another user's process, or invalid settings
        return None
