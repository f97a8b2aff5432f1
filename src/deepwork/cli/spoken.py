"""Errors are written for agents, who call tools; at a shell the same advice names verbs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from deepwork.cli.completing import INDEX

_MAY_BE_A_TOOL = re.compile(r"(?<![\w'\"./-])(`?)([a-z]+(?:_[a-z]+)+)\1(?![\w'\"/=-])")


def for_shells(text: str) -> str:
    """The text with the verb of each tool it names; what a caller said, in quotes, is left alone."""
    if not _MAY_BE_A_TOOL.search(text):
        return text
    verbs = verbs_of_tools(sys.argv[1:2])
    return _MAY_BE_A_TOOL.sub(lambda found: verbs.get(found[2], found[0]), text)


def verbs_of_tools(called: list[str]) -> dict[str, str]:
    """How each tool is called at a shell; of two groups that have it, the one called now comes first."""
    index = json.loads(INDEX.read_text(encoding="utf-8"))
    groups = list(index["commands"])
    found: dict[str, list[tuple[bool, int, int, int, str]]] = {}
    for words, about in _commands(index):
        if tool := about.get("tool"):
            # A verb that takes less stands for one use of the tool; the shortest name is the friendliest.
            rank = (words[:1] != called, groups.index(words[0]), -len(about["params"]), sum(map(len, words)))
            found.setdefault(tool, []).append((*rank, f"`deepwork {' '.join(words)}`"))
    return {tool: min(ways)[-1] for tool, ways in found.items()}


def _commands(about: Mapping[str, Any], *words: str) -> Iterator[tuple[list[str], Mapping[str, Any]]]:
    yield list(words), about
    for name, below in about.get("commands", {}).items():
        yield from _commands(below, *words, name)
