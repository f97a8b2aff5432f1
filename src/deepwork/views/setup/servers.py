"""Finds, writes and removes our entry in a client's list of servers, as edits of the file's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from deepwork.kernel.vendors import Vendor
from deepwork.views.setup import json_edits, jsonc, toml_reader
from deepwork.views.setup.entry import build_entry, get_env_key, is_marked


class TextEdits(Protocol):
    """Edits of one entry of a text: the modules `json_edits` and `toml_edits`."""

    def insert(self, text: str, path: tuple[str, ...], value: Mapping[str, Any]) -> str: ...
    def replace(self, text: str, path: tuple[str, ...], value: Mapping[str, Any]) -> str: ...
    def update(self, text: str, path: tuple[str, ...], values: Mapping[str, Any]) -> str: ...
    def remove(self, text: str, path: tuple[str, ...]) -> str: ...


def find_entry(client: Vendor, text: str) -> Any:
    """Find the entry named deepwork, even one the user wrote; None if there is none."""
    if client.format == "toml":
        return toml_reader.find_table(toml_reader.parse(text), client.entry_path)
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
