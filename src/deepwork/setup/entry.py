"""The entry that makes a client start deepwork, in the words of each client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deepwork.setup.clients import Shape
from deepwork.setup.json_edits import Trace

MARK = "DEEPWORK_SETUP"
"""The variable by which an entry says that `deepwork setup` wrote it, and what was written around it.

Every client takes variables, and passes over what it does not know nowhere else.
"""
_MADE = ("entry", "section", "file")
_OWN_FLAGS = ("--path", "--toolsets")


def written(shape: Shape, program: Sequence[str], arguments: Sequence[str], mark: str) -> dict[str, Any]:
    """The entry as the client reads it."""
    if shape == "opencode":
        command = [*program, *arguments]
        return {"type": "local", "command": command, "enabled": True, "environment": {MARK: mark}}
    kind = {"type": "stdio"} if shape == "stdio" else {}
    return {**kind, "command": program[0], "args": [*program[1:], *arguments], "env": {MARK: mark}}


def variables(shape: Shape) -> str:
    """What the client calls the variables of a server."""
    return "environment" if shape == "opencode" else "env"


def mark_of(shape: Shape, entry: Any) -> str | None:
    """What `deepwork setup` noted in an entry; None if it is somebody else's."""
    given = entry.get(variables(shape)) if isinstance(entry, dict) else None
    mark = given.get(MARK) if isinstance(given, dict) else None
    return mark if isinstance(mark, str) else None


def arguments_of(shape: Shape, entry: Any) -> list[str]:
    """What an entry passes to deepwork, from `serve` on."""
    given = entry.get("command" if shape == "opencode" else "args") if isinstance(entry, dict) else None
    words = [word for word in given if isinstance(word, str)] if isinstance(given, list) else []
    return words[words.index("serve") :] if "serve" in words else []


def serving(folder: str, toolsets: Sequence[str] | None, others: Sequence[str] = ()) -> list[str]:
    """The arguments of the server: its project, its tools if they were chosen, and what a user added."""
    chosen = ["--toolsets", ",".join(toolsets)] if toolsets else []
    return ["serve", "--path", folder, *chosen, *others]


def toolsets_of(arguments: Sequence[str]) -> tuple[str, ...] | None:
    """Which toolsets an entry chose."""
    words = " ".join(arguments).replace("=", " ").split()
    chosen = words[words.index("--toolsets") + 1 :][:1] if "--toolsets" in words else []
    return tuple(chosen[0].split(",")) if chosen else None


def added_by_user(arguments: Sequence[str]) -> list[str]:
    """The arguments that `deepwork setup` does not write itself, as they stand."""
    kept: list[str] = []
    words = iter(arguments[1:])
    for word in words:
        if word in _OWN_FLAGS:
            next(words, None)
        elif word.partition("=")[0] not in _OWN_FLAGS:
            kept.append(word)
    return kept


def store_of(arguments: Sequence[str]) -> list[str]:
    """The words among them that say which store: a hook has to look where its server does."""
    found: list[str] = []
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--global":
            found.append(word)
        elif name == "--db" and (location := value if equals else next(words, "")):
            found += [name, location]
    return found


def as_mark(trace: Trace) -> str:
    """What an insertion did, as it is noted in the entry."""
    return _MADE[trace.made] + "+line" * trace.opened


def as_trace(mark: str) -> Trace:
    """The note read back; a word that means nothing stands for the entry alone."""
    made, _, line = mark.partition("+")
    return Trace(_MADE.index(made) if made in _MADE else 0, line == "line")
