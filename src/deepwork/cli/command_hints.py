"""Rewrites errors for the command line: they name tools, because agents call tools; people run commands."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from deepwork.cli.shell_completion import INDEX

_TOOL_NAME = re.compile(r"(?<![\w'\"./-])(`?)([a-z]+(?:_[a-z]+)+)\1(?![\w'\"/=-])")


def replace_tools_with_commands(text: str) -> str:
    """Replace each tool name by its command. Quoted words stay: they repeat what the caller wrote."""
    if not _TOOL_NAME.search(text):
        return text
    verbs = map_tools_to_commands(sys.argv[1:2])
    return _TOOL_NAME.sub(lambda found: verbs.get(found[2], found[0]), text)


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
