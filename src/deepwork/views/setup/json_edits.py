"""Edits JSON text in place; comments, order and all other entries stay."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.kernel.records import dataclass
from deepwork.views.setup.jsonc import JsonDocument, JsonMember, JsonNode, UnreadableText, parse

JsonPath = tuple[str | int, ...]
KeyPath = tuple[str, ...]
_TRAILING_COMMENTS_PATTERN = re.compile(r"(?:[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/))*")
_LINE_END_PATTERN = re.compile(r"[ \t]*(?:\r?\n|$)")
_INDENT_PATTERN = re.compile(r"\n([ \t]+)(?=[^\s])")


def insert(text: str, path: KeyPath, value: Any) -> str:
    """Add a missing member and the missing objects around it."""
    document = parse(text)
    if document.root is None:
        return _add_root(text, _wrap_in_objects(path, value))
    container, depth = _find_innermost(document, path)
    return _add_member(document, container, path[depth], _wrap_in_objects(path[depth + 1 :], value))


def append(text: str, path: KeyPath, item: Any) -> str:
    """Append an item to a list, creating the list if it is missing."""
    document = parse(text)
    node = document.root.find(*path) if document.root else None
    if node is None:
        return insert(text, path, [item])
    _require_kind(document, node, list, path)
    return _add_member(document, node, None, item)


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


def update(text: str, path: KeyPath, values: Mapping[str, Any]) -> str:
    """Set members of an object; its other members stay."""
    for key, value in values.items():
        root = parse(text).root
        is_there = root is not None and root.find(*path, key) is not None
        text = (replace if is_there else insert)(text, (*path, key), value)
    return text


def remove(text: str, path: JsonPath) -> str:
    """Remove a member, and the containers around it that then have neither members nor comments."""
    root = parse(text).root
    if root is None or root.find(*path) is None:
        return text
    chain = [JsonMember(None, root.start, root, None)]
    for key in path:
        member = chain[-1].value.find_member(key)
        assert member is not None
        chain.append(member)
    while len(chain) > 1 and _holds_only(text, chain[-2], chain[-1]):
        chain.pop()
    if len(chain) == 1:
        return text[: root.start] + text[root.end :].lstrip()
    return _remove_member(text, chain[-2].value, chain[-1])


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
    first = _INDENT_PATTERN.search(within)
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


def _add_member(document: JsonDocument, container: JsonNode, key: str | None, value: Any) -> str:
    """Add a member at the end of a container."""
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
        is_closed_inline = "\n" not in text[position : container.end]
        return (
            text[:position] + member + (layout.newline + layout.around) * is_closed_inline + text[position:]
        )
    if last.comma is not None:
        return text[:position] + member + "," + text[position:]
    return text[:after] + "," + text[after:position] + member + text[position:]


def _skip_comments(text: str, start: int, end: int) -> int:
    """Skip comments on the same line, which belong to the member before them."""
    found = _TRAILING_COMMENTS_PATTERN.match(text, start, end)
    return found.end() if found else start


def _get_indent(text: str, member: JsonMember, layout: _Layout) -> str:
    before = text[text.rfind("\n", 0, member.start) + 1 : member.start]
    return before if not before.strip() else layout.around + layout.unit


def _holds_only(text: str, container: JsonMember, member: JsonMember) -> bool:
    """Whether a container has only this member and no comments."""
    around = text[container.start : member.start] + text[member.value.end : container.value.end]
    return len(container.value.members) == 1 and "/" not in around


def _remove_member(text: str, parent: JsonNode, member: JsonMember) -> str:
    rest = text[member.value.end :]
    if member.comma is not None:
        rest = text[member.value.end : member.comma] + text[member.comma + 1 :]
    start = _find_separator_start(text, member.start, rest)
    index = parent.members.index(member)
    before = parent.members[index - 1].comma if index else None
    if member.comma is None and before is not None:
        return text[:before] + text[before + 1 : start] + rest
    return text[:start] + rest


def _find_separator_start(text: str, start: int, rest: str) -> int:
    """Find the start of the white space before a member: its line break, or one space.

    The line break stays if the line continues after the member: it may end a comment.
    """
    line = text[:start].rstrip(" \t")
    if line.endswith("\n"):
        return len(line.removesuffix("\n").removesuffix("\r")) if _LINE_END_PATTERN.match(rest) else start
    return start - 1 if text[start - 1 : start] == " " else start


def _add_root(text: str, value: Any) -> str:
    """Append a root value to text that is empty or has only comments."""
    newline = "\r\n" if "\r\n" in text else "\n"
    is_in_comment = bool(text.removeprefix("\ufeff").strip()) and not text.endswith("\n")
    return text + newline * is_in_comment + _format_pretty(value, "  ", newline) + newline


def _wrap_in_objects(path: Sequence[str], value: Any) -> Any:
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
