"""Shortens texts, lists and JSON so that they fit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, islice, pairwise
from typing import Any, TypeVar

from deepwork.kernel.text_budget.tokens import (
    estimate_if_fits,
    estimate_tokens,
    fits,
    measure_head,
    measure_tail,
)

_SENTENCE_END_PATTERN = re.compile(r"[.!?…](?=\s)|[。\uff01\uff1f]+|\n")
_SENTENCE_BREAK_PATTERN = re.compile(r"(?<=[^\s.]{3}[.!?])\s+|(?<=[。\uff01\uff1f])(?![。\uff01\uff1f])")
_FENCED_CODE_PATTERN = re.compile(r"^(```|~~~)[^\n]*\n.*?(?:^\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_HEADING_OR_ITEM_PATTERN = re.compile(r"\s*(?:#{1,6}\s|[-*+•]\s|・|\d{1,3}[.)、]|\[[ xX]\])")
_MIN_TOKENS_FOR_BOTH_ENDS = 60
_MAX_CODE_LINES = 3
_CHARS_READ_PER_TOKEN = 16


def shorten_text(text: str, max_tokens: int) -> str:
    """Return the text if it fits, else its beginning and end, cut between sentences where possible."""
    if fits(text, max_tokens):
        return text
    room = max_tokens
    while room > 0:
        short = (
            _keep_both_ends(text, room) if room >= _MIN_TOKENS_FOR_BOTH_ENDS else _keep_beginning(text, room)
        )
        if (over := estimate_tokens(short) - max_tokens) <= 0:
            return short
        room -= over
    return ""


def summarize_text(text: str, max_tokens: int) -> str:
    """Return the text if it fits, else its headings, list items, and the ends of its paragraphs."""
    if fits(text, max_tokens):
        return text
    text = _drop_middle(text, _CHARS_READ_PER_TOKEN * max_tokens)
    gist = _extract_gist(text, sentences=1)
    for sentences in (8, 64):
        if not fits(gist, max_tokens // 4):
            break
        gist = _extract_gist(text, sentences)
    return shorten_text(gist, max_tokens)


def shorten_to_sentence(text: str, max_tokens: int) -> str:
    """Return the first sentence on one line, cut to the budget."""
    first = _SENTENCE_BREAK_PATTERN.split(text[: 16 * max_tokens].lstrip(), maxsplit=1)[0]
    return shorten_text(" ".join(first.split()), max_tokens)


def _keep_both_ends(text: str, room: int) -> str:
    room -= estimate_tokens(_format_gap(len(text)))
    head = _trim_to_sentence_end(text[: measure_head(text, room * 2 // 3)]).rstrip()
    rest = text[len(head) :]
    tail = _trim_to_sentence_start(rest[len(rest) - measure_tail(rest, room // 3) :]).lstrip()
    return head + _format_gap(len(rest) - len(tail)) + tail


def _keep_beginning(text: str, room: int) -> str:
    head = text[: measure_head(text, room - 1)].rstrip()
    space = head.rfind(" ", len(head) // 2)
    return (head[:space] if space > 0 else head) + "…" if head else ""


def _format_gap(characters: int) -> str:
    return f"\n[… {characters:,} characters left out …]\n"


def _trim_to_sentence_end(text: str) -> str:
    """Drop the incomplete sentence at the end; if that would lose half the text, drop only the last word."""
    middle = len(text) // 2
    ends = [end.end() for end in _SENTENCE_END_PATTERN.finditer(text, middle)]
    return text[: ends[-1] if ends else max(text.rfind(" ", middle), 0) or len(text)]


def _trim_to_sentence_start(text: str) -> str:
    middle = len(text) // 2
    if end := _SENTENCE_END_PATTERN.search(text, 0, middle):
        return text[end.end() :]
    return text[text.find(" ", 0, middle) + 1 :]


def _drop_middle(text: str, characters: int) -> str:
    """Cut the text to about `characters`: a short summary could not hold more, so the rest is not read."""
    if len(text) <= characters:
        return text
    head = _trim_to_sentence_end(text[: characters * 3 // 4])
    tail = _trim_to_sentence_start(text[-(characters // 4) :])
    return head + _format_gap(len(text) - len(head) - len(tail)) + tail


def _extract_gist(text: str, sentences: int) -> str:
    kept: list[str] = []
    start = 0
    for code in _FENCED_CODE_PATTERN.finditer(text):
        kept += _shorten_prose(text[start : code.start()], sentences)
        kept += _shorten_code(code.group())
        start = code.end()
    kept += _shorten_prose(text[start:], sentences)
    return "\n".join(kept)


def _shorten_code(code: str) -> list[str]:
    lines = code.split("\n")
    if len(lines) <= _MAX_CODE_LINES + 3:
        return lines
    return [*lines[: _MAX_CODE_LINES + 1], f"… {len(lines) - _MAX_CODE_LINES - 2} more lines", lines[-1]]


def _shorten_prose(text: str, sentences: int) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        for is_heading_or_item, group in groupby(paragraph.split("\n"), key=_is_heading_or_item):
            lines = list(group)
            yield from lines if is_heading_or_item else [_select_sentences("\n".join(lines), sentences)]


def _is_heading_or_item(line: str) -> bool:
    """Whether the line is a heading, a list item, or introduces a list."""
    return bool(_HEADING_OR_ITEM_PATTERN.match(line)) or line.rstrip().endswith((":", "\uff1a"))


def _select_sentences(text: str, sentences: int) -> str:
    """Keep the first sentences of a paragraph and its last one, which often states the conclusion."""
    starts = [0, *(gap.end() for gap in _SENTENCE_BREAK_PATTERN.finditer(text)), len(text)]
    every = [text[start:end] for start, end in pairwise(starts) if start < end]
    return "".join(every[:sentences] + every[sentences:][-1:]).rstrip()


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_MAX_DEPTH = 6
_MIN_TOKENS = 8  # tokens; fewer than that cannot say anything useful
_MIN_SHARE_TOKENS = 60
_QUOTE_TOKENS = 3
_SAMPLE_LENGTH = 1024


def to_compact_json(value: Any) -> str:
    """Serialize the value as a client receives it."""
    return _ENCODER.encode(value)


def count_json_tokens(value: Any) -> int:
    """Estimate how many tokens the value costs in an answer."""
    return estimate_tokens(to_compact_json(value))


def count_if_fits(value: Any, max_tokens: int) -> int | None:
    """Return what the value costs unshortened if that is at most `max_tokens`.

    A value that is far too large is not read to its end.
    """
    if estimate_length(value, 16 * max_tokens) > 16 * max_tokens:
        return None
    return estimate_if_fits(to_compact_json(value), max_tokens)


def fits_whole(value: Any, max_tokens: int) -> bool:
    """Whether the value fits unshortened."""
    return count_if_fits(value, max_tokens) is not None


class MeasuredValue:
    """A JSON value whose cost is computed only once."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._tokens: int | None = None

    def count_if_fits(self, max_tokens: int) -> int | None:
        """Return what the value costs unshortened if that is at most `max_tokens`."""
        if self._tokens is None:
            self._tokens = count_if_fits(self._value, max_tokens)
        return self._tokens if self._tokens is not None and self._tokens <= max_tokens else None


def shorten_json(value: Any, max_tokens: int, shorten: Callable[[str, int], str] = shorten_text) -> Any:
    """Return the value if it fits, else as much of it as does: empty at worst, but of the same type."""
    room = max_tokens - _QUOTE_TOKENS
    if isinstance(value, str):
        sample = value[:_SAMPLE_LENGTH]
        room = room * estimate_tokens(sample) // count_json_tokens(sample)  # JSON adds escapes
    while room > 0:
        small = shorten(value, room) if isinstance(value, str) else _shorten_value(value, room)
        if (spent := count_json_tokens(small)) <= max_tokens:
            return small
        room = min(room * max_tokens // spent, room - 1 - room // 32)
    return type(value)()


def estimate_length(value: Any, limit: int) -> int:
    """Estimate the length of the value as JSON, reading little more than `limit` characters."""
    length, waiting = 0, [value]
    while waiting and length <= limit:
        inner = waiting.pop()
        length += 4
        if isinstance(inner, str):
            length += len(inner)
        elif isinstance(inner, dict):
            length += sum(map(len, islice(inner, limit)))
            waiting += islice(inner.values(), limit)
        elif isinstance(inner, list):
            waiting += inner[:limit]
    return length


def compute_share(room: int, waiting: int) -> int:
    """Return the share of the next of `waiting` items: at least a quarter, and never a useless minimum."""
    return max(room // min(waiting, 4), min(room, _MIN_SHARE_TOKENS))


def _shorten_value(value: Any, room: int, depth: int = 0) -> Any:
    """Shorten a nested value to about `room` tokens; the exact cost is known only for the whole value."""
    if isinstance(value, str):
        return shorten_text(value, room)
    if fits_whole(value, room):
        return value
    if depth < _MAX_DEPTH and isinstance(value, dict):
        return _shorten_dict(value, room, depth + 1)
    if depth < _MAX_DEPTH and isinstance(value, list):
        return _shorten_list(value, room, depth + 1)
    return "…"


def _shorten_dict(value: dict[str, Any], room: int, depth: int) -> dict[str, Any]:
    """Shorten entries, small ones first, so that their unused shares go to the large ones."""
    names = list(islice(value, room // _MIN_TOKENS))
    kept: dict[str, Any] = {}
    for done, name in enumerate(sorted(names, key=lambda name: estimate_length(value[name], room))):
        share = room // (len(names) - done) - count_json_tokens(name) - _QUOTE_TOKENS
        if share > 0:
            kept[name] = _shorten_value(value[name], share, depth)
            room -= count_json_tokens({name: kept[name]})
    shown = {name: kept[name] for name in names if name in kept}
    return shown if len(shown) == len(value) else shown | {"…": f"and {len(value) - len(shown)} more"}


def _shorten_list(value: list[Any], room: int, depth: int) -> list[Any]:
    """Keep as many leading items as fit, none larger than its share while others wait."""
    kept: list[Any] = []
    room -= _MIN_TOKENS
    while (left_out := len(value) - len(kept)) and room >= _MIN_TOKENS:
        kept.append(_shorten_value(value[len(kept)], compute_share(room, left_out), depth))
        room -= count_json_tokens(kept[-1]) + 1
    return [*kept, f"and {left_out} more"] if left_out else kept


T = TypeVar("T")

MAX_LIST_ENTRIES = 500
MAX_LIST_BYTES = 32 * 1024
"""The size of one list of an answer, as JSON: some 8,000 tokens."""


def measure_json(value: Any) -> int:
    """Return the bytes of a value as JSON."""
    return len(to_compact_json(value).encode(errors="replace"))


def cut_list(
    entries: Sequence[T],
    *,
    max_entries: int = MAX_LIST_ENTRIES,
    max_bytes: int = MAX_LIST_BYTES,
    measure: Callable[[T], int] = measure_json,
) -> list[T]:
    """Return the first entries that fit into both limits; measures no more than it returns and one."""
    shown: list[T] = []
    room = max_bytes
    for entry in entries[:max_entries]:
        room -= measure(entry) + 1
        if room < 0:
            break
        shown.append(entry)
    return shown


class ListCutter:
    """Cuts the lists of one answer, and remembers the full length of those that it cut."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}

    def cut(
        self,
        name: str,
        entries: Sequence[T],
        *,
        max_entries: int = MAX_LIST_ENTRIES,
        max_bytes: int = MAX_LIST_BYTES,
    ) -> list[T]:
        """Return the first entries; if some are missing, record the number of all under this name."""
        shown = cut_list(entries, max_entries=max_entries, max_bytes=max_bytes)
        if len(shown) < len(entries):
            self.totals[name] = len(entries)
        return shown
