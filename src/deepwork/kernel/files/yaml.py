"""Loads untrusted YAML as plain data with line numbers; errors name the line."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import yaml

from deepwork.kernel.errors import Code
from deepwork.kernel.files.plain_yaml import LITERALS
from deepwork.kernel.files.problems import DefinitionProblem, FileProblem, InvalidDefinition
from deepwork.kernel.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_DEPTH = 64
_MAX_ALIASES = 1_000
_MAX_NODES = 100_000
_MAX_INTEGER = 2**53
_TOO_COMPLEX_MESSAGE = f"More than {_MAX_NODES:,} values, or nested deeper than {_MAX_DEPTH} levels"

_INTEGER_PATTERN = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT_PATTERN = re.compile(r"[-+]?(?:0|[1-9][0-9]*)\.[0-9]+(?:[eE][-+]?[0-9]+)?")
_NUMBER_START_CHARS = "+-0123456789"
_SEPARATORS = "\n,:-?[{"  # text with n of these has at most 2n + 3 values
_DIRECTIVE_PATTERN = re.compile(r"^%", re.MULTILINE)
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# The lines below a node: for each key or item, its own line and the lines below that.
_Lines = dict[Any, tuple[int, "_Lines"]]
_NO_LINES: _Lines = {}


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """Plain data (dict with text keys, list, str, int, float, bool, None) with its line numbers."""

    source: str
    data: Any
    _first_line: int
    _lines: _Lines

    def get_line(self, *path: str | int) -> int:
        """Return the line of the key or item at that path, or of its nearest existing parent."""
        line, below = self._first_line, self._lines
        for part in path:
            if part not in below:
                break
            line, below = below[part]
        return line

    def locate(self, problem: DefinitionProblem) -> FileProblem:
        """Convert a problem at a path to one in a line."""
        return FileProblem(self.source, self.get_line(*problem.where), str(problem))

    def build_error(self, problem: str, *path: str | int) -> InvalidDefinition:
        """Build an error for that path, in the same form as a YAML syntax error."""
        return _build_error(self.source, self.get_line(*path), problem)


def load_yaml(text: str, *, source: str, max_bytes: int = 2**20) -> YamlDocument:
    """Read one YAML document; `source` is the file's name in error messages.

    Accepts only what JSON can express: a scalar is text unless it is exactly true, false, null or a decimal
    number; no tags, merge keys or duplicate keys. Limits are checked before any data is built, so a document
    cannot exhaust memory.
    """
    _check_text(text, source, max_bytes)
    try:
        _check_amount(text, source)
        return _Builder(text, source).build_document()
    except yaml.MarkedYAMLError as error:
        problem = f"{error.problem} {error.context or ''}".strip()
        raise _build_error(source, _get_error_line(error, text), problem) from error
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise _build_error(source, line, "The text contains a control character") from error


def _check_text(text: str, source: str, max_bytes: int) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise _build_error(source, line, "The text is not valid Unicode") from None
    if size > max_bytes:
        problem = FileProblem(source, 1, f"The file is larger than {max_bytes:,} bytes.")
        raise InvalidDefinition(problem, code=Code.TOO_LARGE)
    if directive := _DIRECTIVE_PATTERN.search(text):
        # The parser compares each %TAG with all previous ones: a megabyte of them would take minutes.
        raise _build_error(
            source, text.count("\n", 0, directive.start()) + 1, "YAML directives are not supported"
        )


def _check_amount(text: str, source: str) -> None:
    """Count nodes before building, if there could be too many: counting alone takes a third of the time."""
    if 2 * sum(map(text.count, _SEPARATORS)) + 3 <= _MAX_NODES:
        return
    next_event = _Parser(text).get_event
    nodes = depth = 0
    while not isinstance(event := next_event(), yaml.DocumentEndEvent | yaml.StreamEndEvent):
        if isinstance(event, yaml.NodeEvent):
            nodes += 1
            depth += isinstance(event, yaml.CollectionStartEvent)
        else:
            depth -= isinstance(event, yaml.CollectionEndEvent)
        if nodes > _MAX_NODES or depth > _MAX_DEPTH:
            raise _build_error(source, _get_line(event), _TOO_COMPLEX_MESSAGE)


class _Builder:
    """Builds data from the parser's events in one pass; counts nodes, with aliases as if written out."""

    def __init__(self, text: str, source: str) -> None:
        self._parser = _Parser(text)
        self._source = source
        self._nodes = 0
        self._aliases = 0
        self._anchors: dict[str, tuple[Any, _Lines, int]] = {}

    def build_document(self) -> YamlDocument:
        self._next_event()  # the stream starts
        if isinstance(self._next_event(), yaml.StreamEndEvent):
            return YamlDocument(self._source, None, 1, {})
        first = self._next_event()
        data, lines = self._build_node(first, 1)
        self._next_event()  # the document ends
        after = self._next_event()
        if not isinstance(after, yaml.StreamEndEvent):
            raise self._build_error(after, "A second document begins here; only one is allowed")
        return YamlDocument(self._source, data, _get_line(first), lines)

    def _next_event(self) -> yaml.Event:
        event: yaml.Event = self._parser.get_event()
        return event

    def _iterate_until(self, end: type[yaml.Event]) -> Iterator[yaml.Event]:
        next_event = self._parser.get_event
        while not isinstance(event := next_event(), end):
            yield event

    def _build_node(self, event: Any, depth: int) -> tuple[Any, _Lines]:
        if isinstance(event, yaml.AliasEvent):
            return self._resolve_alias(event)
        self._count_nodes(event)
        if event.tag is not None:
            raise self._build_error(event, f"The tag {event.tag[:100]!r} is not allowed")
        if event.anchor is not None:
            return self._build_anchored(event, depth)
        return self._build_content(event, depth)

    def _build_content(self, event: yaml.Event, depth: int) -> tuple[Any, _Lines]:
        if isinstance(event, yaml.ScalarEvent):
            return self._parse_scalar(event), _NO_LINES
        if depth > _MAX_DEPTH:
            raise self._build_error(event, _TOO_COMPLEX_MESSAGE)
        return (
            self._build_mapping(depth)
            if isinstance(event, yaml.MappingStartEvent)
            else self._build_sequence(depth)
        )

    def _parse_scalar(self, event: yaml.ScalarEvent) -> Any:
        text = event.value
        if event.style:  # quoted or a block: always text
            return text
        if text in LITERALS:
            return LITERALS[text]
        if text[0] not in _NUMBER_START_CHARS:
            return text
        if _INTEGER_PATTERN.fullmatch(text):
            return self._parse_integer(event)
        return self._parse_float(event) if _FLOAT_PATTERN.fullmatch(text) else text

    def _parse_integer(self, event: yaml.ScalarEvent) -> int:
        # Length first: Python takes quadratic time over thousands of digits.
        if len(event.value) > len(str(-_MAX_INTEGER)) or abs(int(event.value)) > _MAX_INTEGER:
            raise self._build_error(event, "The number is too large to be exact; quote it to use it as text")
        return int(event.value)

    def _parse_float(self, event: yaml.ScalarEvent) -> float:
        if not math.isfinite(number := float(event.value)):
            raise self._build_error(event, "The number is too large")
        return number

    def _build_mapping(self, depth: int) -> tuple[dict[str, Any], _Lines]:
        data: dict[str, Any] = {}
        lines: _Lines = {}
        for event in self._iterate_until(yaml.MappingEndEvent):
            key = self._parse_key(event)
            if key in data:
                raise self._build_error(event, f"The key {key!r} occurs twice, first in line {lines[key][0]}")
            data[key], below = self._build_node(self._next_event(), depth + 1)
            lines[key] = _get_line(event), below
        return data, lines

    def _parse_key(self, event: yaml.Event) -> str:
        if not isinstance(event, yaml.ScalarEvent) or event.tag is not None:
            raise self._build_error(event, "A key must be plain text")
        if event.value == "<<" and not event.style:
            raise self._build_error(event, "Merge keys (<<) are not supported; write the keys out")
        self._count_nodes(event)
        return str(event.value)

    def _build_sequence(self, depth: int) -> tuple[list[Any], _Lines]:
        data: list[Any] = []
        lines: _Lines = {}
        for index, event in enumerate(self._iterate_until(yaml.SequenceEndEvent)):
            item, below = self._build_node(event, depth + 1)
            data.append(item)
            lines[index] = _get_line(event), below
        return data, lines

    def _build_anchored(self, event: Any, depth: int) -> tuple[Any, _Lines]:
        self._anchors.pop(event.anchor, None)  # so that nothing can contain itself
        before = self._nodes
        data, lines = self._build_content(event, depth)
        self._anchors[event.anchor] = data, lines, self._nodes - before + 1
        return data, lines

    def _resolve_alias(self, event: yaml.AliasEvent) -> tuple[Any, _Lines]:
        if event.anchor not in self._anchors:
            raise self._build_error(
                event, f"The alias *{event.anchor} does not name a complete value before it"
            )
        self._aliases += 1
        if self._aliases > _MAX_ALIASES:
            raise self._build_error(event, f"More than {_MAX_ALIASES:,} aliases")
        data, lines, size = self._anchors[event.anchor]
        self._count_nodes(event, size)
        return data, lines

    def _count_nodes(self, event: yaml.Event, nodes: int = 1) -> None:
        self._nodes += nodes
        if self._nodes > _MAX_NODES:
            raise self._build_error(event, _TOO_COMPLEX_MESSAGE)

    def _build_error(self, event: yaml.Event, problem: str) -> InvalidDefinition:
        return _build_error(self._source, _get_line(event), problem)


def _get_error_line(error: yaml.MarkedYAMLError, text: str) -> int:
    mark: Any = error.problem_mark or error.context_mark
    last: int = text.count("\n") + 1  # the parser puts the end of the text one line after it
    return min(mark.line + 1, last) if mark else last


def _get_line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _build_error(source: str, line: int, problem: str) -> InvalidDefinition:
    return InvalidDefinition(FileProblem(source, line, f"{problem}."))
