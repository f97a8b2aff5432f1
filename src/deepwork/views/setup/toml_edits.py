"""Reads and edits TOML files of clients."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import tomlkit
from tomlkit.container import Container
from tomlkit.items import AoT, Item, Table, Whitespace

from deepwork.views.setup.jsonc import UnreadableText, get_line_number

BOM = "\ufeff"
_ERROR_POSITION_PATTERN = re.compile(r" \(at line (\d+), column \d+\)| \(at end of document\)")


def parse(text: str) -> dict[str, Any]:
    """Parse the text or raise `UnreadableText`."""
    try:
        return tomllib.loads(text.removeprefix(BOM).replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        found = _ERROR_POSITION_PATTERN.search(str(error))
        line = int(found[1]) if found and found[1] else get_line_number(text, len(text.rstrip()))
        raise UnreadableText(_ERROR_POSITION_PATTERN.sub("", str(error)), line) from None
    except RecursionError:
        raise UnreadableText("Nested too deeply", 1) from None


def find_table(data: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """Find the value at a path."""
    found: Any = data
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


KeyPath = tuple[str, ...]


def insert(text: str, path: KeyPath, value: Mapping[str, Any]) -> str:
    """Add a table at the end."""
    parse(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    before = text if text.endswith("\n") or not text.removeprefix(BOM) else text + newline
    gap = newline if before.removeprefix(BOM) else ""
    return _check_edit(text, before + gap + _format_table(path, value).replace("\n", newline), path, value)


def replace(text: str, path: KeyPath, value: Mapping[str, Any]) -> str:
    """Replace a table; the new one is at the end."""
    return insert(remove(text, path), path, value)


def update(text: str, path: KeyPath, values: Mapping[str, Any]) -> str:
    """Set keys of a table; other keys stay."""
    before = find_table(parse(text), path)
    changed = {key: value for key, value in values.items() if before.get(key) != value}
    document = _parse_document(text)
    for _, _, table in _find_tables(document, path):
        if not table.is_super_table():
            table.update(changed)
    return _check_edit(text, _render(text, document), path, {**before, **values})


def remove(text: str, path: KeyPath) -> str:
    """Remove a table and its subtables."""
    document = _parse_document(text)
    for container, index, table in list(_find_tables(document, path)):
        container.body[index] = (None, Whitespace(_get_trailing_comments(table).lstrip("\r\n")))
    return _check_edit(text, _render(text, document), path, None)


def _format_table(path: KeyPath, values: Mapping[str, Any]) -> str:
    """Format a table with its header; dicts in it become inline tables."""
    nested: Any = tomlkit.table()
    for key, value in values.items():
        nested.add(key, tomlkit.inline_table() if isinstance(value, dict) else value)
        if isinstance(value, dict):
            nested[key].update(value)
    for name in reversed(path):
        nested = {name: nested}
    return tomlkit.dumps(nested)


def _parse_document(text: str) -> Container:
    """Parse the text; refuse it if tomlkit would reorder it.

    tomlkit moves tables such as `[a.b]` and `[a.c]` together if a `[[d]]` is between them.
    """
    document = tomlkit.parse(text.removeprefix(BOM))
    if (rendered := _render(text, document)) != text:
        lines = enumerate(zip(text.split("\n"), rendered.split("\n"), strict=False), 1)
        line = next((number for number, (old, new) in lines if old != new), 1)
        raise UnreadableText("A [[table]] is between tables that belong together; move it away", line)
    return document


def _render(old: str, document: Container) -> str:
    return (BOM if old.startswith(BOM) else "") + document.as_string()


def _find_tables(container: Container, path: KeyPath) -> Iterator[tuple[Container, int, Table]]:
    """Find the parts of a table, each with its place: subtables may be anywhere in the file."""
    for index, (key, item) in enumerate(container.body):
        if key is None or key.key != path[0] or key.is_dotted() or not isinstance(item, Table):
            continue
        if len(path) == 1:
            yield container, index, item
        else:
            yield from _find_tables(item.value, path[1:])


def _get_trailing_comments(item: Item) -> str:
    """Return the text after the last value of a table: it is about what follows."""
    if isinstance(item, AoT):
        return _get_trailing_comments(item.body[-1])
    trailing = ""
    for key, last in reversed(item.value.body if isinstance(item, Table) else ()):
        if key is not None:
            return _get_trailing_comments(last) + trailing
        trailing = last.as_string() + trailing
    return trailing


def _check_edit(old: str, new: str, path: KeyPath, expected: Any) -> str:
    """Return the new text if the table has the expected values, else raise `UnreadableText`."""
    try:
        is_right = find_table(parse(new), path) == expected
    except UnreadableText:
        is_right = False
    if not is_right:
        name = ".".join(path)
        found = re.search(rf"^[^#\n]*\b{re.escape(path[0])}\b", old, re.MULTILINE)
        line = get_line_number(old, found.start()) if found else 1
        raise UnreadableText(f"`{name}` is not written as a separate table [{name}]", line)
    return new
