"""Adds hooks to a client's config, so that it calls `deepwork hook` on three events."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from deepwork.kernel.vendors import Vendor, VendorHooks
from deepwork.views.setup import json_edits, jsonc

_SHELL_WORD_REGEX = r"""(?:'[^']*'|"[^"]*"|[\w@%+=:,./-])+"""
_OWN_COMMAND_PATTERN = re.compile(
    r"""(?:^|[/\s'"])deepwork'?"? hook (?:session-start|tool-use|stop) --client [a-z-]+"""
    rf"(?: --global| --db {_SHELL_WORD_REGEX})*$"
)


def insert_hooks(
    client: Vendor, hooks: VendorHooks, text: str, program: Sequence[str], store: Sequence[str] = ()
) -> str:
    """Add our hooks; text that already has exactly them stays unchanged."""
    wanted = {
        theirs: {
            "type": "command",
            "command": shlex.join([*program, "hook", ours, "--client", client.name, *store]),
            "timeout": hooks.timeout,
        }
        for ours, theirs in hooks.events.items()
    }
    if {event: [hook] for event, hook in wanted.items()} == _group_by_event(text):
        return text
    text = remove_hooks(text)
    for event, hook in wanted.items():
        text = json_edits.append(text, ("hooks", event), {"hooks": [hook]})
    return text


def remove_hooks(text: str) -> str:
    """Remove our hooks and keep all others."""
    for path in reversed(list(_find_paths(text))):
        text = json_edits.remove(text, path)
    return text


def has_hooks(text: str) -> bool:
    return bool(_group_by_event(text))


def _group_by_event(text: str) -> dict[str, list[Any]]:
    """Group our hooks by event."""
    found: dict[str, list[Any]] = {}
    for (_, event, *_), hook in _find_hooks(_get_data(text)):
        found.setdefault(str(event), []).append(hook)
    return found


def _find_paths(text: str) -> Iterator[json_edits.JsonPath]:
    """Find the paths to remove: single hooks, or a whole group that holds only ours."""
    groups: dict[json_edits.JsonPath, list[json_edits.JsonPath]] = {}
    for path, _ in _find_hooks(_get_data(text)):
        groups.setdefault(path[:3], []).append(path)
    for group, paths in groups.items():
        holds_others = len(_get_data(text, *group)["hooks"]) > len(paths)
        yield from paths if holds_others else [group]


def _find_hooks(data: Any) -> Iterator[tuple[json_edits.JsonPath, Any]]:
    """Find each of our hooks with its path."""
    events = data.get("hooks") if isinstance(data, dict) else None
    for event, groups in events.items() if isinstance(events, dict) else ():
        for place, group in enumerate(groups if isinstance(groups, list) else ()):
            inner = group.get("hooks") if isinstance(group, dict) else None
            for index, hook in enumerate(inner if isinstance(inner, list) else ()):
                command = hook.get("command") if isinstance(hook, dict) else None
                if isinstance(command, str) and _OWN_COMMAND_PATTERN.search(command):
                    yield ("hooks", event, place, "hooks", index), hook


def _get_data(text: str, *path: str | int) -> Any:
    """Return the value at a path; None if there is none."""
    root = jsonc.parse(text).root
    node = root.find(*path) if root else None
    return node.data if node else None
