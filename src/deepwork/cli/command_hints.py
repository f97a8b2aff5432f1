"""Names the command of a tool, for suggestions to people at a shell."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from deepwork.cli.shell_completion import INDEX


def name_command(tool: str) -> str:
    """Name the command of a tool."""
    return map_tools_to_commands(sys.argv[1:2]).get(tool, tool)


def map_tools_to_commands(called: list[str]) -> dict[str, str]:
    """Map each tool to its command; if two groups offer a tool, prefer the group that is running now."""
    index = json.loads(INDEX.read_text(encoding="utf-8"))
    groups = list(index["commands"])
    found: dict[str, list[tuple[bool, int, int, int, str]]] = {}
    for words, about in _walk_commands(index):
        if tool := about.get("tool"):
            # A command with fewer parameters covers one special use of the tool, so prefer the most general
            # one; among its aliases, the shortest.
            rank = (words[:1] != called, groups.index(words[0]), -len(about["params"]), sum(map(len, words)))
            found.setdefault(tool, []).append((*rank, f"`deepwork {' '.join(words)}`"))
    return {tool: min(ways)[-1] for tool, ways in found.items()}


def _walk_commands(about: Mapping[str, Any], *words: str) -> Iterator[tuple[list[str], Mapping[str, Any]]]:
    yield list(words), about
    for name, below in about.get("commands", {}).items():
        yield from _walk_commands(below, *words, name)
