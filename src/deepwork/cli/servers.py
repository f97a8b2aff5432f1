"""Which servers and dashboards of a store are running, where the system tells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath

import click

from deepwork.cli.dashboard import dashboard
from deepwork.cli.options import HERE
from deepwork.cli.serve import serve
from deepwork.config import load_settings, project_around
from deepwork.database.processes import with_open
from deepwork.errors import DeepworkError

PROCESSES = Path("/proc")
_SERVERS = {"serve": serve, "dashboard": dashboard}


def servers(location: str) -> list[str] | None:
    """Processes of this user that serve this store, and as what; None where that cannot be told."""
    if not (PROCESSES / "self").exists():
        return None
    holders = set() if "://" in location else set(with_open(Path(location)) or ())
    return [
        f"pid {number} {words[0]}"
        for number, words in sorted(_running())
        if number in holders or _store_of(number, words) == location
    ]


def called(words: list[str]) -> list[str]:
    """What `deepwork` itself was called with; nothing if another program only names it, as `timeout` does."""
    if PurePath(words[0]).name.startswith("python"):
        words = words[1:]
        while words and words[0].startswith("-"):  # as in `python -P -m deepwork`
            words = words[1:]
    return words[1:] if words and PurePath(words[0]).name == "deepwork" else []


def _running() -> Iterator[tuple[int, list[str]]]:
    for folder in PROCESSES.glob("[0-9]*"):
        try:
            told = (folder / "cmdline").read_bytes()
        except OSError:  # it is gone
            continue
        words = called(told.decode(errors="surrogateescape").rstrip("\0").split("\0"))
        if words and words[0] in _SERVERS:
            yield int(folder.name), words


def _store_of(number: int, words: list[str]) -> str | None:
    """The store that was meant by whoever started it: by its words, its folder and its environment."""
    folder = PROCESSES / str(number)
    try:
        given = _SERVERS[words[0]].make_context(words[0], words[1:], resilient_parsing=True).params
        told = (folder / "environ").read_bytes().decode(errors="surrogateescape")
        pairs = (line.partition("=") for line in told.split("\0") if "=" in line)
        flags = {"database": given["database"], "global_store": given["global_store"] or None}
        here = (folder / "cwd").readlink()
        project = project_around(here) if given["path"] == HERE else here / given["path"]
        return load_settings(project, flags, {key: value for key, _, value in pairs}).database_location
    except (OSError, DeepworkError, click.ClickException):  # another user's, or begun with other settings
        return None
