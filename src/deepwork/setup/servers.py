"""Finds, writes and removes our entry in a client's list of servers, as edits of the file's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.setup import json_edits, jsonc, toml_edits
from deepwork.setup.clients import Client
from deepwork.setup.entry import build_entry, find_mark, format_mark, get_env_key, parse_mark


def find_entry(client: Client, text: str) -> Any:
    """Find the entry named deepwork, even one the user wrote; None if there is none."""
    if client.format == "toml":
        return toml_edits.find_table(toml_edits.parse(text), client.entry_path)
    document = jsonc.parse(text)
    if client.format == "json" and document.first_comment is not None:
        line = document.get_line(document.first_comment)
        raise jsonc.UnreadableText(f"A comment, which {client.title} cannot read", line)
    node = document.root.find(*client.entry_path) if document.root else None
    return node.data if node else None


def put_entry(client: Client, text: str, program: Sequence[str], arguments: Sequence[str]) -> str:
    """Add or replace our entry; an update keeps what the user added to it."""
    existing = find_entry(client, text)
    mark = find_mark(client.shape, existing)
    if existing is None:
        return _add_entry(client, text, program, arguments)
    entry = build_entry(client.shape, program, arguments, mark or "entry")
    if mark is None:
        return _replace_entry(client, text, entry)
    return _update_entry(client, text, existing, entry)


def remove_entry(client: Client, text: str) -> str:
    """Remove our entry and everything created for it."""
    existing = find_entry(client, text)
    if existing is None:
        return text
    if client.format == "toml":
        return toml_edits.remove_table(text, client.entry_path)
    trace = parse_mark(find_mark(client.shape, existing) or "entry")
    return json_edits.remove(text, client.entry_path, trace)


def _add_entry(client: Client, text: str, program: Sequence[str], arguments: Sequence[str]) -> str:
    if client.format == "toml":
        return toml_edits.append_table(
            text, client.entry_path, build_entry(client.shape, program, arguments, "entry")
        )
    _, trace = json_edits.insert(text, client.entry_path, {})
    entry = build_entry(client.shape, program, arguments, format_mark(trace))
    return json_edits.insert(text, client.entry_path, entry)[0]


def _replace_entry(client: Client, text: str, entry: Mapping[str, Any]) -> str:
    """Replace an entry that the user wrote."""
    if client.format == "toml":
        return toml_edits.append_table(
            toml_edits.remove_table(text, client.entry_path), client.entry_path, entry
        )
    return json_edits.replace(text, client.entry_path, dict(entry))


def _update_entry(client: Client, text: str, existing: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    """Update our keys and keep those the user added."""
    own = {key: value for key, value in entry.items() if key not in (get_env_key(client.shape), "enabled")}
    if client.format == "toml":
        return toml_edits.update_table(text, client.entry_path, own)
    for key, value in own.items():
        edit = json_edits.replace if key in existing else _insert_value
        text = edit(text, (*client.entry_path, key), value)
    return text


def _insert_value(text: str, path: json_edits.KeyPath, value: Any) -> str:
    return json_edits.insert(text, path, value)[0]
