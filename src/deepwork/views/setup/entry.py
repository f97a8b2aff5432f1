"""The entry of deepwork in the settings of a client, and where these are."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from deepwork.kernel.records import dataclass
from deepwork.kernel.vendors import VENDORS, EntryShape, Vendor
from deepwork.views.setup import json_edits, jsonc, toml_edits


@dataclass(frozen=True)
class MachineLocations:
    """The project, the home folder, the environment and the program; created once per command."""

    project: Path
    home: Path
    environment: Mapping[str, str]
    is_macos: bool
    program: Sequence[str]
    """The command that starts this installation of deepwork, with an absolute path."""

    def resolve(self, place: str) -> Path:
        """Resolve a path of the table of vendors, such as "{home}/.cursor/mcp.json"."""
        word, rest = re.fullmatch(r"\{(\w+)\}/?(.*)", place).groups()  # type: ignore[union-attr]
        return self._get_folder(word) / rest

    def format_path(self, path: Path) -> str:
        """Format a path relative to the project or the home folder."""
        for folder, name in ((self.project, ""), (self.home, "~/")):
            if path.is_relative_to(folder):
                return f"{name}{path.relative_to(folder)}"
        return str(path)

    def find_program(self, program: str) -> str | None:
        """Find a program on PATH."""
        return shutil.which(program, path=self.environment.get("PATH", os.defpath))

    def _get_folder(self, word: str) -> Path:
        config = self._get_folder_from_env("XDG_CONFIG_HOME", self.home / ".config")
        return {
            "project": self.project,
            "home": self.home,
            "config": config,
            "apps": self.home / "Library" / "Application Support" if self.is_macos else config,
            **{
                name: self._get_folder_from_env(variable, self.home / usual)
                for vendor in VENDORS
                for name, (variable, usual) in vendor.home_folders.items()
            },
        }[word]

    def _get_folder_from_env(self, variable: str, usual: Path) -> Path:
        """Return the folder named by an environment variable; a relative path is ignored."""
        named = Path(self.environment.get(variable, ""))
        return named if named.is_absolute() else usual


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


class TextEdits(Protocol):
    """Edits of one entry of a text: the modules `json_edits` and `toml_edits`."""

    def insert(self, text: str, path: tuple[str, ...], value: Mapping[str, Any]) -> str: ...
    def replace(self, text: str, path: tuple[str, ...], value: Mapping[str, Any]) -> str: ...
    def update(self, text: str, path: tuple[str, ...], values: Mapping[str, Any]) -> str: ...
    def remove(self, text: str, path: tuple[str, ...]) -> str: ...


def find_entry(client: Vendor, text: str) -> Any:
    """Find the entry named deepwork, even one the user wrote; None if there is none."""
    if client.format == "toml":
        return toml_edits.find_table(toml_edits.parse(text), client.entry_path)
    document = jsonc.parse(text)
    if client.format == "json" and document.first_comment is not None:
        line = document.get_line(document.first_comment)
        raise jsonc.UnreadableText(f"A comment, which {client.title} cannot read", line)
    node = document.root.find(*client.entry_path) if document.root else None
    return node.data if node else None


def put_entry(client: Vendor, text: str, program: Sequence[str], arguments: Sequence[str]) -> str:
    """Add or replace our entry; an update keeps what the user added to it."""
    existing, edits = find_entry(client, text), _load_edits(client)
    entry = build_entry(client.shape, program, arguments)
    if existing is None:
        return edits.insert(text, client.entry_path, entry)
    if not is_marked(client.shape, existing):
        return edits.replace(text, client.entry_path, entry)
    kept = (get_env_key(client.shape), "enabled")
    own = {key: value for key, value in entry.items() if key not in kept}
    return edits.update(text, client.entry_path, own)


def remove_entry(client: Vendor, text: str) -> str:
    """Remove our entry and keep all other text."""
    if find_entry(client, text) is None:
        return text
    return _load_edits(client).remove(text, client.entry_path)


def _load_edits(client: Vendor) -> TextEdits:
    if client.format == "toml":
        from deepwork.views.setup import toml_edits  # imports tomlkit, which edits of JSON do not need

        return toml_edits
    return json_edits
