"""A client's list of servers: our entry found, put and taken, as edits of the file's text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.setup import json_edits, jsonc, toml_edits
from deepwork.setup.clients import Client
from deepwork.setup.entry import as_mark, as_trace, mark_of, variables, written


def find(client: Client, text: str) -> Any:
    """The entry called deepwork, whoever wrote it; None if there is none."""
    if client.format == "toml":
        return toml_edits.table_at(toml_edits.read(text), client.path)
    document = jsonc.read(text)
    if client.format == "json" and document.first_comment is not None:
        line = document.line(document.first_comment)
        raise jsonc.Unreadable(f"A comment, which {client.title} cannot read", line)
    node = document.root.at(*client.path) if document.root else None
    return node.data if node else None


def put(client: Client, text: str, program: Sequence[str], arguments: Sequence[str]) -> str:
    """The text with our entry; one of ours that is there is renewed, and keeps what was added to it."""
    there = find(client, text)
    mark = mark_of(client.shape, there)
    if there is None:
        return _added(client, text, program, arguments)
    entry = written(client.shape, program, arguments, mark or "entry")
    if mark is None:
        return _replaced(client, text, entry)
    return _updated(client, text, there, entry)


def take(client: Client, text: str) -> str:
    """The text without our entry, and without what was made for it."""
    there = find(client, text)
    if there is None:
        return text
    if client.format == "toml":
        return toml_edits.remove_table(text, client.path)
    trace = as_trace(mark_of(client.shape, there) or "entry")
    return json_edits.remove(text, client.path, trace)


def _added(client: Client, text: str, program: Sequence[str], arguments: Sequence[str]) -> str:
    if client.format == "toml":
        return toml_edits.append_table(text, client.path, written(client.shape, program, arguments, "entry"))
    _, trace = json_edits.insert(text, client.path, {})
    entry = written(client.shape, program, arguments, as_mark(trace))
    return json_edits.insert(text, client.path, entry)[0]


def _replaced(client: Client, text: str, entry: Mapping[str, Any]) -> str:
    """With our entry in the place of another one."""
    if client.format == "toml":
        return toml_edits.append_table(toml_edits.remove_table(text, client.path), client.path, entry)
    return json_edits.replace(text, client.path, dict(entry))


def _updated(client: Client, text: str, there: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    """With our words changed, and what a user added to the entry as it is."""
    own = {key: value for key, value in entry.items() if key not in (variables(client.shape), "enabled")}
    if client.format == "toml":
        return toml_edits.update_table(text, client.path, own)
    for key, value in own.items():
        edit = json_edits.replace if key in there else _inserted
        text = edit(text, (*client.path, key), value)
    return text


def _inserted(text: str, path: json_edits.Names, value: Any) -> str:
    return json_edits.insert(text, path, value)[0]
