"""Builds and reads the config entry that makes a client start deepwork, in each client's format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deepwork.setup.clients import Shape
from deepwork.setup.json_edits import InsertionTrace

MARK = "DEEPWORK_SETUP"
"""Environment variable that marks an entry as written by `deepwork setup`, and records what else was created.

A variable, because it is the only place where every client accepts unknown keys.
"""
_MADE = ("entry", "section", "file")
_OWN_FLAGS = ("--path", "--toolsets")


def build_entry(shape: Shape, program: Sequence[str], arguments: Sequence[str], mark: str) -> dict[str, Any]:
    """Build the entry in the client's format."""
    if shape == "opencode":
        command = [*program, *arguments]
        return {"type": "local", "command": command, "enabled": True, "environment": {MARK: mark}}
    kind = {"type": "stdio"} if shape == "stdio" else {}
    return {**kind, "command": program[0], "args": [*program[1:], *arguments], "env": {MARK: mark}}


def get_env_key(shape: Shape) -> str:
    """Return the client's key for a server's environment variables."""
    return "environment" if shape == "opencode" else "env"


def find_mark(shape: Shape, entry: Any) -> str | None:
    """Find the mark that `deepwork setup` left in an entry; None if the user wrote the entry."""
    given = entry.get(get_env_key(shape)) if isinstance(entry, dict) else None
    mark = given.get(MARK) if isinstance(given, dict) else None
    return mark if isinstance(mark, str) else None


def list_arguments(shape: Shape, entry: Any) -> list[str]:
    """List the arguments of an entry, from `serve` on."""
    given = entry.get("command" if shape == "opencode" else "args") if isinstance(entry, dict) else None
    words = [word for word in given if isinstance(word, str)] if isinstance(given, list) else []
    return words[words.index("serve") :] if "serve" in words else []


def build_serve_arguments(
    folder: str, toolsets: Sequence[str] | None, others: Sequence[str] = ()
) -> list[str]:
    """Build the server's arguments: project, chosen toolsets, and arguments the user added."""
    chosen = ["--toolsets", ",".join(toolsets)] if toolsets else []
    return ["serve", "--path", folder, *chosen, *others]


def parse_toolsets(arguments: Sequence[str]) -> tuple[str, ...] | None:
    """Parse the value of --toolsets; None if it is absent."""
    words = " ".join(arguments).replace("=", " ").split()
    chosen = words[words.index("--toolsets") + 1 :][:1] if "--toolsets" in words else []
    return tuple(chosen[0].split(",")) if chosen else None


def list_user_arguments(arguments: Sequence[str]) -> list[str]:
    """List the arguments that the user added to our entry."""
    kept: list[str] = []
    words = iter(arguments[1:])
    for word in words:
        if word in _OWN_FLAGS:
            next(words, None)
        elif word.partition("=")[0] not in _OWN_FLAGS:
            kept.append(word)
    return kept


def list_store_arguments(arguments: Sequence[str]) -> list[str]:
    """List the arguments that select the store; hooks must use the same store as the server."""
    found: list[str] = []
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--global":
            found.append(word)
        elif name == "--db" and (location := value if equals else next(words, "")):
            found += [name, location]
    return found


def format_mark(trace: InsertionTrace) -> str:
    """Format an insertion trace as the value of the mark."""
    return _MADE[trace.made] + "+line" * trace.opened


def parse_mark(mark: str) -> InsertionTrace:
    """Parse a mark; an unknown value means that only the entry was created."""
    made, _, line = mark.partition("+")
    return InsertionTrace(_MADE.index(made) if made in _MADE else 0, line == "line")
