"""Edits JSON text in place and leaves everything else unchanged, byte for byte.

Each edit is a function from text to text. `insert` returns an `InsertionTrace` of what it created besides the
member; `remove` with that trace restores the original text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deepwork.setup.jsonc import JsonDocument, JsonMember, JsonNode, UnreadableText, parse

JsonPath = tuple[str | int, ...]
KeyPath = tuple[str, ...]
_SAME_LINE = re.compile(r"(?:[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/))*")
_INDENT = re.compile(r"\n([ \t]+)(?=[^\s])")


@dataclass(frozen=True, slots=True)
class InsertionTrace:
    """What an insertion created besides the member: containers, and a line for the closing bracket."""

    made: int = 0
    opened: bool = False


def insert(text: str, path: KeyPath, value: Any) -> tuple[str, InsertionTrace]:
    """Add a missing member and the missing objects around it."""
    document = parse(text)
    if document.root is None:
        return _add_root(document, _nest(path, value)), InsertionTrace(made=len(path))
    container, depth = _find_innermost(document, path)
    missing = path[depth:]
    new, opened = _add_member(document, container, missing[0], _nest(missing[1:], value))
    return new, InsertionTrace(made=len(missing) - 1, opened=opened)


def append(text: str, path: KeyPath, item: Any) -> str:
    """Append an item to a list, creating the list if it is missing."""
    document = parse(text)
    node = document.root.find(*path) if document.root else None
    if node is None:
        return insert(text, path, [item])[0]
    _require_kind(document, node, list, path)
    return _add_member(document, node, None, item)[0]


def replace(text: str, path: JsonPath, value: Any) -> str:
    """Replace the value of an existing member."""
    document = parse(text)
    node = document.root.find(*path) if document.root else None
    assert node is not None
    if node.data == value and type(node.data) is type(value):
        return text
    is_open = "\n" in text[node.start : node.end] or not isinstance(value, list | dict)
    layout = _detect_layout(document, node)
    shown = (
        _format_pretty(value, layout.unit, layout.newline, layout.around)
        if is_open
        else json.dumps(value, ensure_ascii=False)
    )
    return text[: node.start] + shown + text[node.end :]


def remove(text: str, path: JsonPath, trace: InsertionTrace | None = None) -> str:
    """Remove a member and the containers that its insertion created, unless they hold other members by now.

    Without a trace, every container that becomes empty is removed.
    """
    document = parse(text)
    made = len(path) if trace is None else trace.made
    for depth in range(len(path), 0, -1):
        parent = document.root.find(*path[: depth - 1]) if document.root else None
        member = parent.find_member(path[depth - 1]) if parent else None
        if parent is None or member is None:
            return text
        inner = len(path) - depth
        is_alone = _is_alone(document, parent, member)
        if inner == made or not is_alone:
            closes = is_alone if trace is None else trace.opened and inner == made
            return _remove_member(document, parent, member, closes=closes)
    return _remove_root(document)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Indentation unit, line ending, and indentation of the current line."""

    unit: str
    newline: str
    around: str


def _detect_layout(document: JsonDocument, node: JsonNode) -> _Layout:
    text = document.text
    line_start = text.rfind("\n", 0, node.start) + 1
    around = re.match(r"[ \t]*", text[line_start:])
    root = document.root
    within = text[root.start : root.end] if root else ""
    first = _INDENT.search(within)
    unit = first.group(1) if first else "  "
    return _Layout(unit, "\r\n" if "\r\n" in text else "\n", around.group() if around else "")


def _find_innermost(document: JsonDocument, path: KeyPath) -> tuple[JsonNode, int]:
    """Find the deepest existing object on the path, and its depth."""
    node, depth = document.root, 0
    assert node is not None
    _require_kind(document, node, dict, ())
    while (found := node.find_member(path[depth])) is not None:
        node, depth = found.value, depth + 1
        _require_kind(document, node, dict, path[:depth])
    return node, depth


def _require_kind(document: JsonDocument, node: JsonNode, kind: type, path: JsonPath) -> None:
    if not isinstance(node.data, kind):
        what = f"`{'.'.join(map(str, path))}`" if path else "The document"
        wanted = "an object" if kind is dict else "a list"
        raise UnreadableText(f"{what} must be {wanted}", document.get_line(node.start))


def _add_member(document: JsonDocument, container: JsonNode, key: str | None, value: Any) -> tuple[str, bool]:
    """Add a member at the end of a container; also return whether the closing bracket got a new line."""
    text, layout = document.text, _detect_layout(document, container)
    last = container.members[-1] if container.members else None
    after = (
        container.start + 1 if last is None else (last.value.end if last.comma is None else last.comma + 1)
    )
    position = _skip_comments(text, after, container.end)
    is_inline = (
        last is not None and "\n" not in text[container.start : last.start] + text[position : position + 2]
    )
    indent = layout.around + layout.unit if last is None else _get_indent(text, last, layout)
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    shown = (
        json.dumps(value, ensure_ascii=False)
        if is_inline
        else _format_pretty(value, layout.unit, layout.newline, indent)
    )
    member = (" " if is_inline else layout.newline + indent) + name + shown
    if last is None:
        closes = "\n" not in text[position : container.end]
        return text[:position] + member + (layout.newline + layout.around) * closes + text[position:], closes
    if last.comma is not None:
        return text[:position] + member + "," + text[position:], False
    return text[:after] + "," + text[after:position] + member + text[position:], False


def _skip_comments(text: str, start: int, end: int) -> int:
    """Skip comments on the same line, which belong to the member before them."""
    found = _SAME_LINE.match(text, start, end)
    return found.end() if found else start


def _get_indent(text: str, member: JsonMember, layout: _Layout) -> str:
    before = text[text.rfind("\n", 0, member.start) + 1 : member.start]
    return before if not before.strip() else layout.around + layout.unit


def _is_alone(document: JsonDocument, parent: JsonNode, member: JsonMember) -> bool:
    """Whether the container holds only this member and no comments."""
    text = document.text
    inside = text[parent.start + 1 : member.start] + text[member.value.end : parent.end - 1]
    return len(parent.members) == 1 and not inside.replace(",", "").strip()


def _remove_member(document: JsonDocument, parent: JsonNode, member: JsonMember, *, closes: bool) -> str:
    text = document.text
    end = member.value.end if member.comma is None else member.comma + 1
    start = _find_separator_start(text, member.start)
    if closes:
        end += _measure_closing(document, parent, member, end)
    index = parent.members.index(member)
    before = parent.members[index - 1].comma if index else None
    if member.comma is None and before is not None:
        return text[:before] + text[before + 1 : start] + text[end:]
    return text[:start] + text[end:]


def _measure_closing(document: JsonDocument, parent: JsonNode, member: JsonMember, end: int) -> int:
    """Return the length of the line break that was inserted before the closing bracket."""
    text, layout = document.text, _detect_layout(document, parent)
    made = layout.newline + layout.around
    remarks = re.sub(r"/\*.*?\*/", "", text[parent.start + 1 : member.start], flags=re.DOTALL)
    is_ours = len(parent.members) == 1 and "//" not in remarks and text.startswith(made, end)
    return len(made) if is_ours else 0


def _find_separator_start(text: str, start: int) -> int:
    """Find the start of the white space before a member: its line break, or one space."""
    line = len(text[:start].rstrip(" \t"))
    if text[:line].endswith("\r\n"):
        return line - 2
    if text[:line].endswith("\n"):
        return line - 1
    return start - 1 if text[start - 1 : start] == " " else start


def _add_root(document: JsonDocument, value: Any) -> str:
    """Append a root value to text that is empty or has only comments."""
    text = document.text
    newline = "\r\n" if "\r\n" in text else "\n"
    shown = _format_pretty(value, "  ", newline)
    # A comment without a final newline stays without one, so that `_remove_root` can restore it.
    return text + newline + shown if _lacks_line_end(text) else text + shown + newline


def _remove_root(document: JsonDocument) -> str:
    assert document.root is not None
    before, rest = document.text[: document.root.start], document.text[document.root.end :]
    bare = before.removesuffix("\n").removesuffix("\r")
    if not rest and _lacks_line_end(bare):
        return bare
    return before + rest.removeprefix("\r\n").removeprefix("\n")


def _lacks_line_end(text: str) -> bool:
    return bool(text.removeprefix("\ufeff").strip()) and not text.endswith("\n")


def _nest(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _format_pretty(value: Any, unit: str, newline: str, indent: str = "") -> str:
    """Format JSON with objects over several lines and flat lists on one line."""
    if isinstance(value, dict) and value:
        inner = indent + unit
        rows = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {_format_pretty(item, unit, newline, inner)}"
            for key, item in value.items()
        ]
        return "{" + newline + ("," + newline).join(rows) + newline + indent + "}"
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        inner = indent + unit
        rows = [inner + _format_pretty(item, unit, newline, inner) for item in value]
        return "[" + newline + ("," + newline).join(rows) + newline + indent + "]"
    return json.dumps(value, ensure_ascii=False)
