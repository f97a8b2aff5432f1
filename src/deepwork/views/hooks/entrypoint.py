"""The `deepwork hook` command, which clients call. A failure never disturbs the client."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from deepwork.kernel.config import STATE_FOLDER, Settings, load_settings
from deepwork.kernel.environment import get_bridge_file
from deepwork.kernel.files.repositories import find_main_tree, find_tree_root
from deepwork.kernel.foreign_text import escape_controls
from deepwork.kernel.records import dataclass
from deepwork.views.hooks import failure_log
from deepwork.views.hooks.protocol import CLIENTS, EVENTS, MAX_INPUT, SESSION_START, parse_event

TIMEOUT_SECONDS = 5.0
"""A hook that takes longer exits without an answer, so that the client is not held up."""
_USAGE = (
    f"Usage: deepwork hook {'|'.join(EVENTS)} --client {'|'.join(CLIENTS)}"
    " [--path DIR] [--global] [--db LOCATION] < event.json"
)


class BadUsage(Exception):
    """The command line is invalid."""


class HookTimeout(Exception):
    """The store did not answer in time."""


def main(words: Sequence[str]) -> None:
    """Answer one event and exit the process; never returns."""
    call = _CallInfo(" ".join(" ".join(words).split())[:60], Path(STATE_FOLDER))
    _start_timeout(call)
    code = 0
    try:
        with suppress(
            OSError, RuntimeError
        ):  # the working directory may be deleted; the event may name another
            call.folder = find_event_project(Path.cwd()) / STATE_FOLDER
        if text := _handle_call(words, call):
            sys.stdout.write(text + "\n")
            sys.stdout.flush()
    except BadUsage as error:
        failure_log.record_failure(call.folder, call.words, error)
        sys.stderr.write(f"{escape_controls(str(error))}\n{_USAGE}\n")
        code = 2 if _is_interactive() else 0  # a client would take 2 as "block the agent"
    except BaseException as error:  # noqa: BLE001 - never disturb the agent; people can read the log
        failure_log.record_failure(call.folder, call.words, error)
    # Skip interpreter shutdown: nothing is left to clean up, and the client is waiting.
    os._exit(code)


@dataclass
class _CallInfo:
    """What is known about this call so far, for the failure log."""

    words: str
    folder: Path


def _handle_call(words: Sequence[str], call: _CallInfo) -> str:
    arguments = parse_arguments(words)
    event = parse_event(arguments.client, _read_input())
    if file := get_bridge_file():
        from deepwork.views.hooks.agent_hooks import ask_runner  # noqa: PLC0415 - only for agents under a run

        return ask_runner(file, arguments.event, event)
    root = find_event_project(Path(arguments.path or event.cwd))
    if (root / STATE_FOLDER).is_dir():
        call.folder = root / STATE_FOLDER
    settings = load_settings(root, arguments.flags)
    call.folder = settings.store_folder
    if settings.untrusted_keys and arguments.event == SESSION_START:
        _warn_of_untrusted(settings)
    from deepwork.views.hooks.dispatch import dispatch_event  # noqa: PLC0415 - only for a valid event

    return dispatch_event(arguments.event, settings, event)


def _warn_of_untrusted(settings: Settings) -> None:
    """Say on standard error, which people can read and agents do not, which settings are ignored."""
    from deepwork.kernel.user_settings import render_untrusted_line  # noqa: PLC0415 - few projects have such settings

    with suppress(OSError, AttributeError):  # closed by the client
        sys.stderr.write(render_untrusted_line(settings.untrusted_keys) + "\n")


@dataclass(frozen=True)
class HookArguments:
    """The parsed command line."""

    event: str
    client: str
    path: str
    """The project given by --path; may be empty."""
    flags: Mapping[str, Any]
    """Settings that select the store, in the form `load_settings` takes."""


def parse_arguments(words: Sequence[str]) -> HookArguments:
    """Parse the command line by hand: importing a parser would slow down every hook."""
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
            raise BadUsage(f"Unknown argument {word!r}.")
    if not event:
        raise BadUsage("The event is missing.")
    if given["--client"] not in CLIENTS:
        raise BadUsage(f"There is no client {given['--client']!r}.")
    flags = {"database": given["--db"] or None, "global_store": is_global or None}
    return HookArguments(event, given["--client"], given["--path"], flags)


def find_event_project(folder: Path) -> Path:
    """Find the project that contains a folder; agents may be in a subfolder or in a nested repository.

    A git worktree is its own project; its settings lead to the store of the main tree.
    """
    here = folder.expanduser().resolve()
    home = Path.home()
    candidates = list(takewhile(lambda each: each != home, (here, *here.parents)))
    known = (each for each in candidates if (each / STATE_FOLDER).is_dir() or find_main_tree(each))
    tree = find_tree_root(here)
    return next(known, None) or (tree if tree in candidates else here)


def _read_input() -> bytes:
    """Read the event up to a limit; drain the rest, or the client would block while writing."""
    if _is_interactive():
        raise BadUsage("The event must be sent on standard input.")
    stream = sys.stdin.buffer
    content = stream.read(MAX_INPUT + 1)
    while len(content) > MAX_INPUT and stream.read(1024 * 1024):
        pass
    return content


def _is_interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _start_timeout(call: _CallInfo) -> None:
    """Exit after the timeout. Uses a thread because a database driver that waits ignores signals."""

    def end() -> None:
        failure_log.record_failure(
            call.folder, call.words, HookTimeout(f"no answer within {TIMEOUT_SECONDS:g} s")
        )
        os._exit(0)

    timer = threading.Timer(TIMEOUT_SECONDS, end)
    timer.daemon = True
    timer.start()
