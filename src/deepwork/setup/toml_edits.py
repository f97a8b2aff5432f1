"""Edits of TOML text: one table is added, changed or taken away, the rest stays byte for byte."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deepwork.setup.jsonc import Unreadable, line_of

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
        """The names of the table that begins here."""
        if not self.text.startswith("["):
            return None
        data: Any = tomllib.loads(self.text)
        names = []
        while isinstance(data, dict) and data:
            [(name, data)] = data.items()
            names.append(name)
            data = data[0] if isinstance(data, list) else data
        return tuple(names)


def read(text: str) -> dict[str, Any]:
    """What the text says, or Unreadable."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff").replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        found = _POSITION.search(str(error))
        line = int(found[1]) if found and found[1] else line_of(text, len(text.rstrip()))
        raise Unreadable(_POSITION.sub("", str(error)), line) from None
    except RecursionError:
        raise Unreadable("Nested too deeply", 1) from None


def table_at(data: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """What stands at that path, if anything."""
    found: Any = data
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def append_table(text: str, path: tuple[str, ...], values: Mapping[str, Any]) -> str:
    """Add a table at the end; a text without a last line end stays without."""
    read(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    block = newline.join([f"[{_dotted(path)}]", *_lines(values)])
    if not text.removeprefix("\ufeff"):
        new = text + block + newline
    else:
        new = text + (newline + block + newline if text.endswith("\n") else newline * 2 + block)
    return _checked(text, new, path, {**values})


def update_table(text: str, path: tuple[str, ...], values: Mapping[str, Any]) -> str:
    """Give keys of a table other values, or add them; its other keys stay."""
    before = table_at(read(text), path)
    new = text
    for key, value in values.items():
        if before.get(key) != value:
            new = _with_value(new, path, key, value)
    return _checked(text, new, path, {**before, **values})


def remove_table(text: str, path: tuple[str, ...]) -> str:
    """Take a table and the ones below it away, and the blank line before it."""
    new = text
    for start, end in reversed(list(_spans(text, path))):
        new = _cut(new, start, end)
    return _checked(text, new, path, None)


def _with_value(text: str, path: tuple[str, ...], key: str, value: Any) -> str:
    statements = list(_statements(text))
    own = next((n for n, one in enumerate(statements) if one.header == path), None)
    if own is None:
        raise Unreadable(f"`{_dotted(path)}` is not written as a table of its own", _line(text, path[-1]))
    newline = "\r\n" if "\r\n" in text else "\n"
    for one in statements[own + 1 :]:
        if one.header is not None:
            break
        if re.match(rf"{re.escape(key)}\s*=", one.text):
            new = f"{key} = {_value(value)}"
            return text[: one.start] + new + text[one.start + len(one.text) :]
    if isinstance(value, dict) and any(one.header == (*path, key) for one in statements):
        for name, item in value.items():
            text = _with_value(text, (*path, key), name, item)
        return text
    head = statements[own]
    return (
        text[: head.end]
        + ("" if text[: head.end].endswith("\n") else newline)
        + f"{key} = {_value(value)}"
        + newline
        + text[head.end :]
    )


def _spans(text: str, path: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Where the table and those below it stand; remarks at their ends belong to what follows."""
    statements = list(_statements(text))
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
    if not text[start:end].endswith("\n"):  # it was added to a text without a last line end
        return before.removesuffix(newline).removesuffix(newline) + after
    return (before.removesuffix(newline) if before.removesuffix(newline).endswith("\n") else before) + after


def _statements(text: str) -> Iterator[_Statement]:
    """Headers and assignments, in order, whatever stands inside texts and lists."""
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


def _checked(old: str, new: str, path: tuple[str, ...], expected: Any) -> str:
    """The new text, if it says what was meant and nothing else changed."""
    try:
        is_right = _with(read(new), path, None) == _with(read(old), path, None)
        is_right = is_right and table_at(read(new), path) == expected
    except Unreadable:
        is_right = False
    if not is_right:
        name = _dotted(path)
        raise Unreadable(f"`{name}` is not written as a table [{name}] of its own", _line(old, path[0]))
    return new


def _with(data: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The data with that value at that path, or with nothing there; tables around it that are empty go."""
    name, *rest = path
    inner = data.get(name)
    if rest:
        value = _with(inner if isinstance(inner, dict) else {}, tuple(rest), value) or None
    others = {key: item for key, item in data.items() if key != name}
    return others if value is None else {**others, name: value}


def _line(text: str, name: str) -> int:
    found = re.search(rf"^[^#\n]*\b{re.escape(name)}\b", text, re.MULTILINE)
    return line_of(text, found.start()) if found else 1


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(name if re.fullmatch(r"[\w-]+", name, re.ASCII) else json.dumps(name) for name in path)


def _lines(values: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in values.items()]


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(_lines(value)) + " }" if value else "{}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    # JSON text is TOML text, but for the one control character that JSON lets through.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
