"""JSON with comments and trailing commas, read with the place of every value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

_GAP = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_TOKEN = re.compile(r'(?P<mark>[{}\[\]:,])|(?P<string>"(?:[^"\\\x00-\x1f]|\\.)*")|(?P<word>[-+.\w]+)')
_MAX_DEPTH = 200


def _refuse(word: str) -> Any:
    """NaN and its like are no JSON, whatever Python says."""
    raise ValueError(word)


_decoded = json.JSONDecoder(parse_constant=_refuse).decode


class Unreadable(Exception):
    """The text cannot be read; `line` says where."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.problem, self.line = problem, line


@dataclass(frozen=True, slots=True)
class Member:
    """One thing in an object or a list: where it begins, its value, and the comma after it, if any."""

    key: str | None
    start: int
    value: Node
    comma: int | None


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it stands; `members` of objects and lists, in order."""

    data: Any
    start: int
    end: int
    members: tuple[Member, ...] = ()

    def member(self, key: str | int) -> Member | None:
        """The member of that name, of two the last, as every reader has it; or the item at that place."""
        if isinstance(key, int):
            return self.members[key] if isinstance(self.data, list) and key < len(self.members) else None
        return next((found for found in reversed(self.members) if found.key == key), None)

    def at(self, *path: str | int) -> Node | None:
        """The value at that path, if there is one."""
        node: Node | None = self
        for key in path:
            found = node.member(key) if node else None
            node = found.value if found else None
        return node


@dataclass(frozen=True, slots=True)
class Document:
    """A text and what it says; `root` is None when it says nothing."""

    text: str
    root: Node | None
    first_comment: int | None

    def line(self, position: int) -> int:
        return line_of(self.text, position)


@lru_cache(maxsize=4)
def read(text: str) -> Document:
    """The text with the place of every value, or Unreadable; remembered, as each edit reads its text."""
    reader = _Reader(text)
    root = reader.document()
    return Document(text, root, reader.first_comment)


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


class _Reader:
    """One pass over the tokens that mean something."""

    def __init__(self, text: str) -> None:
        self.first_comment: int | None = None
        self._text = text
        self._tokens = self._meaningful()
        self._token: re.Match[str] | None = None
        self._step()

    def document(self) -> Node | None:
        if self._token is None:
            return None
        root = self._value(1)
        self._require_end()
        return root

    def _require_end(self) -> None:
        if self._token is not None:
            raise self._wrong("Something follows after the end")

    def _meaningful(self) -> Iterator[re.Match[str]]:
        text = self._text
        position = 1 if text.startswith("\ufeff") else 0
        while True:
            gap = _GAP.match(text, position)
            end = gap.end() if gap else position
            if self.first_comment is None and (slash := text.find("/", position, end)) >= 0:
                self.first_comment = slash
            if end == len(text):
                return
            token = _TOKEN.match(text, end)
            if token is None:
                problem = "A text or a comment does not end" if text[end] in '"/' else "This is no JSON"
                raise Unreadable(problem, line_of(text, end))
            position = token.end()
            yield token

    def _step(self) -> None:
        self._token = next(self._tokens, None)

    def _wrong(self, problem: str) -> Unreadable:
        position = self._token.start() if self._token else len(self._text.rstrip())
        return Unreadable(problem, line_of(self._text, position))

    def _mark(self) -> str | None:
        """Which bracket, colon or comma is next."""
        return self._token.group() if self._token and self._token.lastgroup == "mark" else None

    def _value(self, depth: int) -> Node:
        if depth > _MAX_DEPTH:
            raise self._wrong(f"Nested deeper than {_MAX_DEPTH} levels")
        if self._mark() == "{":
            return self._container(depth, "}")
        if self._mark() == "[":
            return self._container(depth, "]")
        token = self._token
        if token is None or token.lastgroup == "mark":
            raise self._wrong("A value is missing")
        node = Node(self._scalar(token.group()), token.start(), token.end())
        self._step()
        return node

    def _scalar(self, word: str) -> Any:
        try:
            return _decoded(word)
        except ValueError:
            raise self._wrong(f"{word[:40]} is no JSON") from None

    def _container(self, depth: int, closing: str) -> Node:
        assert self._token is not None
        start = self._token.start()
        self._step()
        members: list[Member] = []
        while self._mark() != closing:
            if members and members[-1].comma is None:
                raise self._wrong(f"A comma or {closing} is missing")
            members.append(self._member(depth, is_named=closing == "}"))
        end = self._token.end()
        self._step()
        values = [member.value.data for member in members]
        data = dict(zip((m.key for m in members), values, strict=True)) if closing == "}" else values
        return Node(data, start, end, tuple(members))

    def _member(self, depth: int, *, is_named: bool) -> Member:
        start = self._token.start() if self._token else len(self._text)
        key = self._key() if is_named else None
        value = self._value(depth + 1)
        comma = self._token.start() if self._token and self._mark() == "," else None
        if comma is not None:
            self._step()
        return Member(key, start, value, comma)

    def _key(self) -> str:
        if self._token is None or self._token.lastgroup != "string":
            raise self._wrong("A name in quotes is missing")
        key: str = self._scalar(self._token.group())
        self._step()
        if self._mark() != ":":
            raise self._wrong("A colon is missing")
        self._step()
        return key
