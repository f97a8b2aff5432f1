"""Adds, updates or removes one table of a TOML text and leaves the rest unchanged, byte for byte."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deepwork.setup.jsonc import UnreadableText, get_line_number

_PIECE = re.compile(
    r'''(?P<text>"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')
      | (?P<comment>\#[^\n]*)
      | (?P<end>\n)
      | (?P<open>[\[{])
      | (?P<close>[\]}])
      | (?P<other>[^"'\#\n\[\]{}]+)''',
    re.VERBOSE | re.DOTALL,
)
_POSITION = re.compile(r" \(at line (\d+), column \d+\)| \(at end of document\)")


@dataclass(frozen=True, slots=True)
class _Statement:
    """One header or one `key = value`, with its line end."""

    start: int
    end: int
    text: str

    @property
    def header(self) -> tuple[str, ...] | None:
        """The names of the table that starts here; None for an assignment."""
        if not self.text.startswith("["):
            return None
        data: Any = tomllib.loads(self.text)
        names = []
        while isinstance(data, dict) and data:
            [(name, data)] = data.items()
            names.append(name)
            data = data[0] if isinstance(data, list) else data
        return tuple(names)


def parse(text: str) -> dict[str, Any]:
    """Parse the text or raise `UnreadableText`."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        found = _POSITION.search(str(error))
        line = int(found[1]) if found and found[1] else get_line_number(text, len(text.rstrip()))
        raise UnreadableText(_POSITION.sub("", str(error)), line) from None
    except RecursionError:
        raise UnreadableText("Nested too deeply", 1) from None


def find_table(data: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """Find the value at a path."""
    found: Any = data
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def append_table(text: str, path: tuple[str, ...], values: Mapping[str, Any]) -> str:
    """Add a table at the end; text without a final newline stays without one."""
    parse(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline.join([f"[{_format_path(path)}]", *_format_pairs(values)])
    if not text.removeprefix("\ufeff"):
        new = text + block + newline
    else:
        new = text + (newline + block + newline if text.endswith("\n") else newline * 2 + block)
    return _check_edit(text, new, path, {**values})


def update_table(text: str, path: tuple[str, ...], values: Mapping[str, Any]) -> str:
    """Set keys of a table; other keys stay."""
    before = find_table(parse(text), path)
    new = text
    for key, value in values.items():
        if before.get(key) != value:
            new = _set_value(new, path, key, value)
    return _check_edit(text, new, path, {**before, **values})


def remove_table(text: str, path: tuple[str, ...]) -> str:
    """Remove a table, its subtables and the blank line before it."""
    new = text
    for start, end in reversed(list(_find_spans(text, path))):
        new = _cut(new, start, end)
    return _check_edit(text, new, path, None)


def _set_value(text: str, path: tuple[str, ...], key: str, value: Any) -> str:
    statements = list(_parse_statements(text))
    own = next((n for n, one in enumerate(statements) if one.header == path), None)
    if own is None:
        raise UnreadableText(
            f"`{_format_path(path)}` is not written as a separate table", _find_line(text, path[-1])
        )
    newline = "\r\n" if "\r\n" in text else "\n"
    for one in statements[own + 1 :]:
        if one.header is not None:
            break
        if re.match(rf"{re.escape(key)}\s*=", one.text):
            new = f"{key} = {_format_value(value)}"
            return text[: one.start] + new + text[one.start + len(one.text) :]
    if isinstance(value, dict) and any(one.header == (*path, key) for one in statements):
        for name, item in value.items():
            text = _set_value(text, (*path, key), name, item)
        return text
    head = statements[own]
    return (
        text[: head.end]
        + ("" if text[: head.end].endswith("\n") else newline)
        + f"{key} = {_format_value(value)}"
        + newline
        + text[head.end :]
    )


def _find_spans(text: str, path: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Find the spans of the table and its subtables; trailing comments belong to what follows."""
    statements = list(_parse_statements(text))
    inside = False
    start = end = 0
    for one in statements:
        header = one.header
        if header is not None:
            if inside:
                yield start, end
            inside = header[: len(path)] == path
            start = one.start
        if inside:
            end = one.end
    if inside:
        yield start, end


def _cut(text: str, start: int, end: int) -> str:
    before, after = text[:start], text[end:]
    newline = "\r\n" if before.endswith("\r\n") else "\n"
    if not text[start:end].endswith("\n"):  # it was appended to text without a final newline
        return before.removesuffix(newline).removesuffix(newline) + after
    return (before.removesuffix(newline) if before.removesuffix(newline).endswith("\n") else before) + after


def _parse_statements(text: str) -> Iterator[_Statement]:
    """Split the text into headers and assignments, skipping brackets inside strings and lists."""
    position = 1 if text.startswith("\ufeff") else 0
    start = last = None
    depth = 0
    while position < len(text):
        piece = _PIECE.match(text, position)
        assert piece is not None, "the text was read before"
        kind = piece.lastgroup
        if kind == "end" and depth == 0:
            if start is not None and last is not None:
                yield _Statement(start, piece.end(), text[start:last])
            start = last = None
        elif kind == "other" and piece.group().strip():
            start = position + len(piece.group()) - len(piece.group().lstrip()) if start is None else start
            last = position + len(piece.group().rstrip())
        elif kind in ("text", "open", "close"):
            start = position if start is None else start
            last = piece.end()
            depth += {"open": 1, "close": -1}.get(kind, 0)
        position = piece.end()
    if start is not None and last is not None:
        yield _Statement(start, len(text), text[start:last])


def _check_edit(old: str, new: str, path: tuple[str, ...], expected: Any) -> str:
    """Return the new text if only the intended table changed, else raise `UnreadableText`.

    A safety net: the edits work on text, so parse the result and compare it with the expected data.
    """
    try:
        is_right = _replace_at(parse(new), path, None) == _replace_at(parse(old), path, None)
        is_right = is_right and find_table(parse(new), path) == expected
    except UnreadableText:
        is_right = False
    if not is_right:
        name = _format_path(path)
        raise UnreadableText(
            f"`{name}` is not written as a separate table [{name}]", _find_line(old, path[0])
        )
    return new


def _replace_at(data: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Return the data with the value at a path replaced, or removed if None, with empty parents."""
    name, *rest = path
    inner = data.get(name)
    if rest:
        value = _replace_at(inner if isinstance(inner, dict) else {}, tuple(rest), value) or None
    others = {key: item for key, item in data.items() if key != name}
    return others if value is None else {**others, name: value}


def _find_line(text: str, name: str) -> int:
    found = re.search(rf"^[^#\n]*\b{re.escape(name)}\b", text, re.MULTILINE)
    return get_line_number(text, found.start()) if found else 1


def _format_path(path: tuple[str, ...]) -> str:
    return ".".join(name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name) for name in path)


def _format_pairs(values: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_format_value(value)}" for key, value in values.items()]


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(_format_pairs(value)) + " }" if value else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_format_value, value)) + "]"
    # A JSON string is a valid TOML string, except for DEL, which JSON does not escape.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
