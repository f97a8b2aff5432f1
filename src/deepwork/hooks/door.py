"""`deepwork hook`: what a client calls. Whatever goes wrong, the client goes on as if there were no hook."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deepwork.config import STATE_FOLDER, load_settings
from deepwork.hooks import failures
from deepwork.hooks.clients import CLIENTS, EVENTS, MAX_INPUT, read

MOST_SECONDS = 5.0
"""After so long the client has waited enough, whoever is to blame."""
_USAGE = f"Usage: deepwork hook {'|'.join(EVENTS)} --client {'|'.join(CLIENTS)} [--path DIR] < event.json"


class BadUsage(Exception):
    """The words of the command make no sense."""


class TookTooLong(Exception):
    """The store did not answer in time."""


def main(words: Sequence[str]) -> None:
    """Answer one event; never returns."""
    call = _Call(" ".join(words)[:60], project_of(Path.cwd()) / STATE_FOLDER)
    _end_in_time(call)
    code = 0
    try:
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
    event, client, path = parsed(words)
    heard = read(client, _input())
    root = project_of(Path(path or heard.cwd))
    if (root / STATE_FOLDER).is_dir():
        call.folder = root / STATE_FOLDER
    settings = load_settings(root)
    call.folder = settings.store_folder
    from deepwork.hooks.happenings import answer  # noqa: PLC0415 - only for an event that can be read

    return answer(event, settings, heard)


def parsed(words: Sequence[str]) -> tuple[str, str, str | None]:
    """The event, the client, and the project if it was named."""
    given = {"--client": "", "--path": ""}
    event, rest = "", list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name in given:
            given[name] = value if equals else (rest.pop(0) if rest else "")
        elif word in EVENTS and not event:
            event = word
        else:
            raise BadUsage(f"{word!r} means nothing here.")
    if not event:
        raise BadUsage("The event is missing.")
    if given["--client"] not in CLIENTS:
        raise BadUsage(f"There is no client {given['--client']!r}.")
    return event, given["--client"], given["--path"] or None


def project_of(folder: Path) -> Path:
    """The project that a folder is in: agents wander into folders below it."""
    here = folder.expanduser().resolve()
    for each in (here, *here.parents):
        if each == Path.home():
            break
        if (each / STATE_FOLDER).is_dir() or (each / ".git").exists():
            return each
    return here


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
    return sys.stdin is None or sys.stdin.isatty()


def _end_in_time(call: _Call) -> None:
    """A thread, because a wait inside a driver hears no signal."""

    def end() -> None:
        failures.note(call.folder, call.words, TookTooLong(f"no answer within {MOST_SECONDS:g} s"))
        os._exit(0)

    timer = threading.Timer(MOST_SECONDS, end)
    timer.daemon = True
    timer.start()
