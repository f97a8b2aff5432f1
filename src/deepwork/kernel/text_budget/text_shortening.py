"""Shorten long text without a language model: keep both ends, or the ends of each paragraph."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise

from deepwork.kernel.text_budget.tokens import estimate_tokens, fits, measure_head, measure_tail

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
