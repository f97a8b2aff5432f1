"""Hooks: a client told to call `deepwork hook` at three moments."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from deepwork.setup import json_edits, jsonc
from deepwork.setup.clients import Client, Hooks

_OURS = re.compile(r"(?:^|[/\s'\"])deepwork'?\"? hook (?:session-start|tool-use|stop) --client [a-z-]+$")


def put(client: Client, hooks: Hooks, text: str, program: Sequence[str]) -> str:
    """The text with our hooks; those that are there and right stay where they are."""
    wanted = {theirs: _hook(client, hooks, program, ours) for theirs, ours in hooks.events}
    if {event: [hook] for event, hook in wanted.items()} == _there(text):
        return text
    text = take(text)
    for event, hook in wanted.items():
        text = json_edits.append(text, ("hooks", event), {"hooks": [hook]})
    return text


def take(text: str) -> str:
    """The text without our hooks; everybody else's stay."""
    for path in reversed(list(_paths(text))):
        text = json_edits.remove(text, path)
    return text


def are_there(text: str) -> bool:
    return bool(_there(text))


def _hook(client: Client, hooks: Hooks, program: Sequence[str], event: str) -> dict[str, Any]:
    command = shlex.join([*program, "hook", event, "--client", client.name])
    return {"type": "command", "command": command, "timeout": hooks.timeout}


def _there(text: str) -> dict[str, list[Any]]:
    """Our hooks by event."""
    root = jsonc.read(text).root
    found: dict[str, list[Any]] = {}
    for (_, event, *_), hook in _ours(root.data if root else {}):
        found.setdefault(str(event), []).append(hook)
    return found


def _paths(text: str) -> Iterator[json_edits.Path]:
    """Where our hooks stand; a group that holds nothing else is meant as a whole."""
    root = jsonc.read(text).root
    for path, _ in _ours(root.data if root else {}):
        group = root.at(*path[:-1]) if root else None
        yield path[:3] if group and len(group.members) == 1 else path


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
