"""`deepwork hook`: what a client calls. Whatever goes wrong, the client goes on as if there were no hook."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from deepwork.config import STATE_FOLDER, load_settings, main_tree
from deepwork.hooks import failures
from deepwork.hooks.clients import CLIENTS, EVENTS, MAX_INPUT, read

MOST_SECONDS = 5.0
"""After so long the client has waited enough, whoever is to blame."""
_USAGE = (
    f"Usage: deepwork hook {'|'.join(EVENTS)} --client {'|'.join(CLIENTS)}"
    " [--path DIR] [--global] [--db LOCATION] < event.json"
)


class BadUsage(Exception):
    """The words of the command make no sense."""


class TookTooLong(Exception):
    """The store did not answer in time."""


def main(words: Sequence[str]) -> None:
    """Answer one event; never returns."""
    call = _Call(" ".join(" ".join(words).split())[:60], Path(STATE_FOLDER))
    _end_in_time(call)
    code = 0
    try:
        with suppress(OSError, RuntimeError):  # the folder may be gone; the event may name another
            call.folder = project_of(Path.cwd()) / STATE_FOLDER
        if text := _answer(words, call):
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
    except BadUsage as error:
        failures.note(call.folder, call.words, error)
        sys.stderr.write(f"{error}\n{_USAGE}\n")
        code = 2 if _is_person() else 0  # to a client, 2 would mean that the agent must not go on
    except BaseException as error:  # noqa: BLE001 - the agent has its own work to do; a person finds the log
        failures.note(call.folder, call.words, error)
    # At once: nothing is left to be done, and nobody waits for an interpreter to tidy up.
    os._exit(code)


@dataclass
class _Call:
    """What is known of this call so far, for whoever must say why it failed."""

    words: str
    folder: Path


def _answer(words: Sequence[str], call: _Call) -> str:
    asked = parsed(words)
    heard = read(asked.client, _input())
    root = project_of(Path(asked.path or heard.cwd))
    if (root / STATE_FOLDER).is_dir():
        call.folder = root / STATE_FOLDER
    settings = load_settings(root, asked.flags)
    call.folder = settings.store_folder
    from deepwork.hooks.happenings import answer  # noqa: PLC0415 - only for an event that can be read

    return answer(asked.event, settings, heard)


@dataclass(frozen=True)
class Asked:
    """What the words of the command say."""

    event: str
    client: str
    path: str
    """The project, if it was named."""
    flags: Mapping[str, Any]
    """Where the store is, if that was said: settings, as the server takes them."""


def parsed(words: Sequence[str]) -> Asked:
    """What the words mean."""
    given = {"--client": "", "--path": "", "--db": ""}
    event, is_global, rest = "", False, list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--global":
            is_global = True
        elif name in given:
            given[name] = value if equals else (rest.pop(0) if rest else "")
        elif word in EVENTS and not event:
            event = word
        else:
            raise BadUsage(f"{word!r} means nothing here.")
    if not event:
        raise BadUsage("The event is missing.")
    if given["--client"] not in CLIENTS:
        raise BadUsage(f"There is no client {given['--client']!r}.")
    flags = {"database": given["--db"] or None, "global_store": is_global or None}
    return Asked(event, given["--client"], given["--path"], flags)


def project_of(folder: Path) -> Path:
    """The project that a folder is in: agents wander into folders below it, and into repositories there.

    A git worktree is a project of its own: its settings lead to the store of its main tree.
    """
    here = folder.expanduser().resolve()
    home = Path.home()
    ways = list(takewhile(lambda each: each != home, (here, *here.parents)))
    known = (each for each in ways if (each / STATE_FOLDER).is_dir() or main_tree(each))
    repositories = (each for each in ways if (each / ".git").exists())
    return next(known, None) or next(repositories, here)


def _input() -> bytes:
    """The event, as much of it as is read; the rest is taken and dropped, so that the client can write it."""
    if _is_person():
        raise BadUsage("The event must come on standard input.")
    stream = sys.stdin.buffer
    content = stream.read(MAX_INPUT + 1)
    while len(content) > MAX_INPUT and stream.read(1024 * 1024):
        pass
    return content


def _is_person() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _end_in_time(call: _Call) -> None:
    """A thread, because a wait inside a driver hears no signal."""

    def end() -> None:
        failures.note(call.folder, call.words, TookTooLong(f"no answer within {MOST_SECONDS:g} s"))
        os._exit(0)

    timer = threading.Timer(MOST_SECONDS, end)
    timer.daemon = True
    timer.start()
