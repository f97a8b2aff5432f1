"""Names the command of a tool, for suggestions to people at a shell."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from deepwork.edge.cli.shell_completion import INDEX


def name_command(tool: str) -> str:
    """Name the command of a tool."""
    return map_tools_to_commands(sys.argv[1:2]).get(tool, tool)


def to_shell_words(text: str) -> str:
    """Rewrite a suggestion for a person at a shell: options instead of parameters, run instead of call."""
    text = _ARGUMENTS_PATTERN.sub("run the command again; --help lists what it takes.", text)
    parts = _COMMAND_PATTERN.split(text)
    options = _list_options() if any(_FIELD_PATTERN.search(part) for part in parts[::2]) else frozenset()
    for place in range(0, len(parts), 2):  # the others are commands already
        worded = _FIELD_PATTERN.sub(lambda found: _name_option(found, options), parts[place])
        for written, spoken in _SPOKEN_WORDS.items():
            worded = worded.replace(written, spoken)
        if place + 1 < len(parts):
            worded = _CALL_PATTERN.sub(lambda found: "Run" if found[1] == "Call" else "run", worded)
        parts[place] = worded
    return "".join(parts)


def _name_option(found: re.Match[str], options: Collection[str]) -> str:
    article, quoted, bare, is_false = found.groups()
    field = quoted or bare
    option = f"--{field.replace('_', '-')}"
    if option not in options:
        return found[0]
    if article and "_" in field:  # what another command printed, not what this one takes
        return f"{article}{field.replace('_', ' ')}"
    return f"{article or ''}{option.replace('--', '--no-') if is_false else option}"


def _list_options() -> frozenset[str]:
    index = json.loads(INDEX.read_text(encoding="utf-8"))
    params = (param for _, about in _walk_commands(index) for param in about.get("params", ()))
    return frozenset(option for param in params for option in param.get("opts", ()))


_ARGUMENTS_PATTERN = re.compile(r"call \w+ again\. Its parameters: .*", re.DOTALL)
"""The end of the suggestion about invalid arguments, which names a tool and its parameters."""
_COMMAND_PATTERN = re.compile(r"(`deepwork[^`]*`)")
_CALL_PATTERN = re.compile(r"\b([Cc]all)(?= $)")
_FIELD_PATTERN = re.compile(r"(\b[Tt]he )?(?:`([a-z_]+)(?:: true)?`|\b([a-z]+_[a-z_]+)\b)( false\b)?")
"""A parameter of a tool, such as `mark_read false` or `force: true`, and an article before it."""
_SPOKEN_WORDS = {
    "Call again": "Run it again",
    "call again": "run it again",
    "Repeat the call": "Repeat the command",
    "if the call had": "if the command had",
}


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
