"""Edits of JSON text: what is not meant stays as it is, byte for byte.

Each edit is one function from text to text. What `insert` did beyond the member itself is told as a `Trace`;
`remove` with that trace gives back the text that was there before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deepwork.setup.jsonc import Document, Member, Node, Unreadable, read

Path = tuple[str | int, ...]
Names = tuple[str, ...]
_SAME_LINE = re.compile(r"(?:[ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/))*")
_INDENT = re.compile(r"\n([ \t]+)(?=[^\s])")


@dataclass(frozen=True, slots=True)
class Trace:
    """What an insertion made besides its member: how many containers around it, and a line to itself."""

    made: int = 0
    opened: bool = False


def insert(text: str, path: Names, value: Any) -> tuple[str, Trace]:
    """Add a member that is not there, and the objects around it that are missing."""
    document = read(text)
    if document.root is None:
        return _with_root(document, _nested(path, value)), Trace(made=len(path))
    container, depth = _innermost(document, path)
    missing = path[depth:]
    new, opened = _add(document, container, missing[0], _nested(missing[1:], value))
    return new, Trace(made=len(missing) - 1, opened=opened)


def append(text: str, path: Names, item: Any) -> str:
    """Add an item to the end of a list, which is made if it is not there."""
    document = read(text)
    node = document.root.at(*path) if document.root else None
    if node is None:
        return insert(text, path, [item])[0]
    _require(document, node, list, path)
    return _add(document, node, None, item)[0]


def replace(text: str, path: Path, value: Any) -> str:
    """Give a member another value; what is around it stays."""
    document = read(text)
    node = document.root.at(*path) if document.root else None
    assert node is not None
    if node.data == value and type(node.data) is type(value):
        return text
    is_open = "\n" in text[node.start : node.end] or not isinstance(value, list | dict)
    layout = _layout(document, node)
    shown = (
        _pretty(value, layout.unit, layout.newline, layout.around)
        if is_open
        else json.dumps(value, ensure_ascii=False)
    )
    return text[: node.start] + shown + text[node.end :]


def remove(text: str, path: Path, trace: Trace | None = None) -> str:
    """Take a member away, and the containers that its insertion made, unless they hold something by now.

    Without a trace, every container that ends up empty is taken to be made for it.
    """
    document = read(text)
    made = len(path) if trace is None else trace.made
    for depth in range(len(path), 0, -1):
        parent = document.root.at(*path[: depth - 1]) if document.root else None
        member = parent.member(path[depth - 1]) if parent else None
        if parent is None or member is None:
            return text
        inner = len(path) - depth
        is_alone = _is_alone(document, parent, member)
        if inner == made or not is_alone:
            closes = is_alone if trace is None else trace.opened and inner == made
            return _without(document, parent, member, closes=closes)
    return _without_root(document)


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a text is written: the step of its indentation, its line ends, and the indentation of a line."""

    unit: str
    newline: str
    around: str


def _layout(document: Document, node: Node) -> _Layout:
    text = document.text
    line_start = text.rfind("\n", 0, node.start) + 1
    around = re.match(r"[ \t]*", text[line_start:])
    root = document.root
    within = text[root.start : root.end] if root else ""
    first = _INDENT.search(within)
    unit = first.group(1) if first else "  "
    return _Layout(unit, "\r\n" if "\r\n" in text else "\n", around.group() if around else "")


def _innermost(document: Document, path: Names) -> tuple[Node, int]:
    """The deepest object on the way that exists, and how deep it is."""
    node, depth = document.root, 0
    assert node is not None
    _require(document, node, dict, ())
    while (found := node.member(path[depth])) is not None:
        node, depth = found.value, depth + 1
        _require(document, node, dict, path[:depth])
    return node, depth


def _require(document: Document, node: Node, kind: type, path: Path) -> None:
    if not isinstance(node.data, kind):
        what = f"`{'.'.join(map(str, path))}`" if path else "The whole"
        wanted = "an object" if kind is dict else "a list"
        raise Unreadable(f"{what} must be {wanted}", document.line(node.start))


def _add(document: Document, container: Node, key: str | None, value: Any) -> tuple[str, bool]:
    """The text with one member more at the end of a container, and whether a line was made for its end."""
    text, layout = document.text, _layout(document, container)
    last = container.members[-1] if container.members else None
    after = (
        container.start + 1 if last is None else (last.value.end if last.comma is None else last.comma + 1)
    )
    position = _past_remarks(text, after, container.end)
    is_inline = (
        last is not None and "\n" not in text[container.start : last.start] + text[position : position + 2]
    )
    indent = layout.around + layout.unit if last is None else _indent_of(text, last, layout)
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    shown = (
        json.dumps(value, ensure_ascii=False)
        if is_inline
        else _pretty(value, layout.unit, layout.newline, indent)
    )
    member = (" " if is_inline else layout.newline + indent) + name + shown
    if last is None:
        closes = "\n" not in text[position : container.end]
        return text[:position] + member + (layout.newline + layout.around) * closes + text[position:], closes
    if last.comma is not None:
        return text[:position] + member + "," + text[position:], False
    return text[:after] + "," + text[after:position] + member + text[position:], False


def _past_remarks(text: str, start: int, end: int) -> int:
    """Behind the comments on the same line, which are about what stands before them."""
    found = _SAME_LINE.match(text, start, end)
    return found.end() if found else start


def _indent_of(text: str, member: Member, layout: _Layout) -> str:
    before = text[text.rfind("\n", 0, member.start) + 1 : member.start]
    return before if not before.strip() else layout.around + layout.unit


def _is_alone(document: Document, parent: Node, member: Member) -> bool:
    """Whether nothing else is in the container, no comment either."""
    text = document.text
    inside = text[parent.start + 1 : member.start] + text[member.value.end : parent.end - 1]
    return len(parent.members) == 1 and not inside.replace(",", "").strip()


def _without(document: Document, parent: Node, member: Member, *, closes: bool) -> str:
    text = document.text
    end = member.value.end if member.comma is None else member.comma + 1
    start = _before_separator(text, member.start)
    if closes:
        end += _closing(document, parent, member, end)
    index = parent.members.index(member)
    before = parent.members[index - 1].comma if index else None
    if member.comma is None and before is not None:
        return text[:before] + text[before + 1 : start] + text[end:]
    return text[:start] + text[end:]


def _closing(document: Document, parent: Node, member: Member, end: int) -> int:
    """How much of what follows was written to give the closing bracket a line of its own."""
    text, layout = document.text, _layout(document, parent)
    made = layout.newline + layout.around
    remarks = re.sub(r"/\*.*?\*/", "", text[parent.start + 1 : member.start], flags=re.DOTALL)
    is_ours = len(parent.members) == 1 and "//" not in remarks and text.startswith(made, end)
    return len(made) if is_ours else 0


def _before_separator(text: str, start: int) -> int:
    """Where the white space before a member begins: its own line end, or one blank."""
    line = len(text[:start].rstrip(" \t"))
    if text[:line].endswith("\r\n"):
        return line - 2
    if text[:line].endswith("\n"):
        return line - 1
    return start - 1 if text[start - 1 : start] == " " else start


def _with_root(document: Document, value: Any) -> str:
    """A text that says nothing, at most in comments, with a value behind what is there."""
    text = document.text
    newline = "\r\n" if "\r\n" in text else "\n"
    shown = _pretty(value, "  ", newline)
    # A comment without a last line end stays without one: so `_without_root` knows what was there.
    return text + newline + shown if _lacks_line_end(text) else text + shown + newline


def _without_root(document: Document) -> str:
    assert document.root is not None
    before, rest = document.text[: document.root.start], document.text[document.root.end :]
    bare = before.removesuffix("\n").removesuffix("\r")
    if not rest and _lacks_line_end(bare):
        return bare
    return before + rest.removeprefix("\r\n").removeprefix("\n")


def _lacks_line_end(text: str) -> bool:
    return bool(text.removeprefix("\ufeff").strip()) and not text.endswith("\n")


def _nested(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _pretty(value: Any, unit: str, newline: str, indent: str = "") -> str:
    """JSON as a person would write it: short lists on one line, objects open."""
    if isinstance(value, dict) and value:
        inner = indent + unit
        rows = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {_pretty(item, unit, newline, inner)}"
            for key, item in value.items()
        ]
        return "{" + newline + ("," + newline).join(rows) + newline + indent + "}"
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        inner = indent + unit
        rows = [inner + _pretty(item, unit, newline, inner) for item in value]
        return "[" + newline + ("," + newline).join(rows) + newline + indent + "]"
    return json.dumps(value, ensure_ascii=False)
