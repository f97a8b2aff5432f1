"""Hooks: a client told to call `deepwork hook` at three moments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from deepwork.setup import json_edits, jsonc
from deepwork.setup.clients import Client, Hooks

_WORD = r"""(?:'[^']*'|"[^"]*"|[\w@%+=:,./-])+"""
_OURS = re.compile(
    r"""(?:^|[/\s'"])deepwork'?"? hook (?:session-start|tool-use|stop) --client [a-z-]+"""
    rf"(?: --global| --db {_WORD})*$"
)
_MATCHER_IN_EMPTY_LIST = ""
"""A matcher that matches everything, as none does: by it our group says that its list was there, empty."""


def put(client: Client, hooks: Hooks, text: str, program: Sequence[str], store: Sequence[str] = ()) -> str:
    """The text with our hooks; those that are there and right stay where they are."""
    wanted = {
        theirs: {
            "type": "command",
            "command": shlex.join([*program, "hook", ours, "--client", client.name, *store]),
            "timeout": hooks.timeout,
        }
        for theirs, ours in hooks.events
    }
    if {event: [hook] for event, hook in wanted.items()} == _there(text):
        return text
    text = take(text)
    for event, hook in wanted.items():
        is_in_empty_list = _data(text, "hooks", event) == []
        matcher = {"matcher": _MATCHER_IN_EMPTY_LIST} if is_in_empty_list else {}
        text = json_edits.append(text, ("hooks", event), {**matcher, "hooks": [hook]})
    return text


def take(text: str) -> str:
    """The text without our hooks; everybody else's stay."""
    for path in reversed(list(_paths(text))):
        taken = _data(text, *path)
        is_in_empty_list = taken.get("matcher") == _MATCHER_IN_EMPTY_LIST
        text = json_edits.remove(text, path, json_edits.Trace(opened=True) if is_in_empty_list else None)
    return text


def are_there(text: str) -> bool:
    return bool(_there(text))


def _there(text: str) -> dict[str, list[Any]]:
    """Our hooks by event."""
    found: dict[str, list[Any]] = {}
    for (_, event, *_), hook in _ours(_data(text)):
        found.setdefault(str(event), []).append(hook)
    return found


def _paths(text: str) -> Iterator[json_edits.Path]:
    """Where our hooks stand; a group that holds nothing else is meant as a whole, once."""
    groups: dict[json_edits.Path, list[json_edits.Path]] = {}
    for path, _ in _ours(_data(text)):
        groups.setdefault(path[:3], []).append(path)
    for group, paths in groups.items():
        holds_others = len(_data(text, *group)["hooks"]) > len(paths)
        yield from paths if holds_others else [group]


def _ours(data: Any) -> Iterator[tuple[json_edits.Path, Any]]:
    """Every hook of ours, and where it stands."""
    events = data.get("hooks") if isinstance(data, dict) else None
    for event, groups in events.items() if isinstance(events, dict) else ():
        for place, group in enumerate(groups if isinstance(groups, list) else ()):
            inner = group.get("hooks") if isinstance(group, dict) else None
            for index, hook in enumerate(inner if isinstance(inner, list) else ()):
                command = hook.get("command") if isinstance(hook, dict) else None
                if isinstance(command, str) and _OURS.search(command):
                    yield ("hooks", event, place, "hooks", index), hook


def _data(text: str, *path: str | int) -> Any:
    """What stands at that place; None if nothing does."""
    root = jsonc.read(text).root
    node = root.at(*path) if root else None
    return node.data if node else None
