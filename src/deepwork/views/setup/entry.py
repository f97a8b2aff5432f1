"""Builds and reads the config entry that makes a client start deepwork, in each client's format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deepwork.kernel.vendors import EntryShape

MARK = "DEEPWORK_SETUP"
"""Environment variable that marks an entry as written by `deepwork setup`, whatever its value.

A variable, because it is the only place where every client accepts unknown keys.
"""
_OWN_FLAGS = ("--path", "--transport", "--toolsets")


def build_entry(shape: EntryShape, program: Sequence[str], arguments: Sequence[str]) -> dict[str, Any]:
    """Build the entry in the client's format."""
    if shape == "opencode":
        command = [*program, *arguments]
        return {"type": "local", "command": command, "enabled": True, "environment": {MARK: "entry"}}
    kind = {"type": "stdio"} if shape == "stdio" else {}
    return {**kind, "command": program[0], "args": [*program[1:], *arguments], "env": {MARK: "entry"}}


def get_env_key(shape: EntryShape) -> str:
    """Return the client's key for a server's environment variables."""
    return "environment" if shape == "opencode" else "env"


def is_marked(shape: EntryShape, entry: Any) -> bool:
    """Whether `deepwork setup` wrote the entry, and not the user."""
    given = entry.get(get_env_key(shape)) if isinstance(entry, dict) else None
    return isinstance(given, dict) and isinstance(given.get(MARK), str)


def list_arguments(shape: EntryShape, entry: Any) -> list[str]:
    """List the arguments of an entry, from `serve` on."""
    given = entry.get("command" if shape == "opencode" else "args") if isinstance(entry, dict) else None
    words = [word for word in given if isinstance(word, str)] if isinstance(given, list) else []
    return words[words.index("serve") :] if "serve" in words else []


def build_serve_arguments(
    folder: str, toolsets: Sequence[str] | None, others: Sequence[str] = ()
) -> list[str]:
    """Build the server's arguments: project, transport, chosen toolsets, and arguments the user added.

    The transport is named, so that no setting of a project makes a server that a client starts open a port.
    """
    chosen = ["--toolsets", ",".join(toolsets)] if toolsets else []
    return ["serve", "--path", folder, "--transport", "stdio", *chosen, *others]


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


def list_user_variables(shape: EntryShape, entry: Any) -> list[str]:
    """List the names of the environment variables that were added to our entry."""
    given = entry.get(get_env_key(shape)) if isinstance(entry, dict) else None
    return [str(name) for name in given if name != MARK] if isinstance(given, dict) else []


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
