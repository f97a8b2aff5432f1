"""Parses JSON with comments and trailing commas, and keeps the position of every value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from deepwork.kernel.records import dataclass

_WHITESPACE_AND_COMMENTS_PATTERN = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_TOKEN_PATTERN = re.compile(r'(?P<mark>[{}\[\]:,])|(?P<string>"(?:[^"\\\x00-\x1f]|\\.)*")|(?P<word>[-+.\w]+)')
_MAX_DEPTH = 200


def _refuse_constant(word: str) -> Any:
    """Reject NaN and Infinity, which Python accepts but JSON does not."""
    raise ValueError(word)


_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode


class UnreadableText(Exception):
    """The text cannot be parsed; `line` says where."""

    def __init__(self, problem: str, line: int) -> None:
        super().__init__(problem)
        self.problem, self.line = problem, line


@dataclass(frozen=True, slots=True)
class JsonMember:
    """A member of an object or list: its start, its value, and the position of the comma after it."""

    key: str | None
    start: int
    value: JsonNode
    comma: int | None


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A value and its position; objects and lists have `members` in order."""

    data: Any
    start: int
    end: int
    members: tuple[JsonMember, ...] = ()

    def find_member(self, key: str | int) -> JsonMember | None:
        """Find a member by key or index; of duplicate keys the last wins, as in other parsers."""
        if isinstance(key, int):
            return self.members[key] if isinstance(self.data, list) and key < len(self.members) else None
        return next((found for found in reversed(self.members) if found.key == key), None)

    def find(self, *path: str | int) -> JsonNode | None:
        """Find the value at a path."""
        node: JsonNode | None = self
        for key in path:
            found = node.find_member(key) if node else None
            node = found.value if found else None
        return node


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """A text and its parsed root; None if the text is empty or has only comments."""

    text: str
    root: JsonNode | None
    first_comment: int | None

    def get_line(self, position: int) -> int:
        return get_line_number(self.text, position)


@lru_cache(maxsize=4)
def parse(text: str) -> JsonDocument:
    """Parse the text or raise `UnreadableText`. Cached, because every edit parses its text again."""
    parser = _Parser(text)
    root = parser.parse_document()
    return JsonDocument(text, root, parser.first_comment)


def get_line_number(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


class _Parser:
    """Recursive descent over the tokens, skipping white space and comments."""

    def __init__(self, text: str) -> None:
        self.first_comment: int | None = None
        self._text = text
        self._tokens = self._iterate_tokens()
        self._token: re.Match[str] | None = None
        self._advance()

    def parse_document(self) -> JsonNode | None:
        if self._token is None:
            return None
        root = self._parse_value(1)
        self._require_end()
        return root

    def _require_end(self) -> None:
        if self._token is not None:
            raise self._build_error("Unexpected content after the end")

    def _iterate_tokens(self) -> Iterator[re.Match[str]]:
        text = self._text
        position = 1 if text.startswith("\ufeff") else 0
        while True:
            gap = _WHITESPACE_AND_COMMENTS_PATTERN.match(text, position)
            end = gap.end() if gap else position
            if self.first_comment is None and (slash := text.find("/", position, end)) >= 0:
                self.first_comment = slash
            if end == len(text):
                return
            token = _TOKEN_PATTERN.match(text, end)
            if token is None:
                problem = "Unterminated string or comment" if text[end] in '"/' else "Invalid JSON"
                raise UnreadableText(problem, get_line_number(text, end))
            position = token.end()
            yield token

    def _advance(self) -> None:
        self._token = next(self._tokens, None)

    def _build_error(self, problem: str) -> UnreadableText:
        position = self._token.start() if self._token else len(self._text.rstrip())
        return UnreadableText(problem, get_line_number(self._text, position))

    def _peek_mark(self) -> str | None:
        """Return the next token if it is a bracket, colon or comma."""
        return self._token.group() if self._token and self._token.lastgroup == "mark" else None

    def _parse_value(self, depth: int) -> JsonNode:
        if depth > _MAX_DEPTH:
            raise self._build_error(f"Nested deeper than {_MAX_DEPTH} levels")
        if self._peek_mark() == "{":
            return self._parse_container(depth, "}")
        if self._peek_mark() == "[":
            return self._parse_container(depth, "]")
        token = self._token
        if token is None or token.lastgroup == "mark":
            raise self._build_error("A value is missing")
        node = JsonNode(self._parse_scalar(token.group()), token.start(), token.end())
        self._advance()
        return node

    def _parse_scalar(self, word: str) -> Any:
        try:
            return _decode(word)
        except ValueError:
            raise self._build_error(f"{word[:40]} is not valid JSON") from None

    def _parse_container(self, depth: int, closing: str) -> JsonNode:
        assert self._token is not None
        start = self._token.start()
        self._advance()
        members: list[JsonMember] = []
        while self._peek_mark() != closing:
            if members and members[-1].comma is None:
                raise self._build_error(f"A comma or {closing} is missing")
            members.append(self._parse_member(depth, is_named=closing == "}"))
        end = self._token.end()
        self._advance()
        values = [member.value.data for member in members]
        data = dict(zip((m.key for m in members), values, strict=True)) if closing == "}" else values
        return JsonNode(data, start, end, tuple(members))

    def _parse_member(self, depth: int, *, is_named: bool) -> JsonMember:
        start = self._token.start() if self._token else len(self._text)
        key = self._parse_key() if is_named else None
        value = self._parse_value(depth + 1)
        comma = self._token.start() if self._token and self._peek_mark() == "," else None
        if comma is not None:
            self._advance()
        return JsonMember(key, start, value, comma)

    def _parse_key(self) -> str:
        if self._token is None or self._token.lastgroup != "string":
            raise self._build_error("A quoted key is missing")
        key: str = self._parse_scalar(self._token.group())
        self._advance()
        if self._peek_mark() != ":":
            raise self._build_error("A colon is missing")
        self._advance()
        return key
