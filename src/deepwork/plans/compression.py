"""Long texts made short without a model: by their ends, or by what matters in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, pairwise

from deepwork.plans.tokens import estimate, fits, head_length, tail_length

_SENTENCE_END = re.compile(r"[.!?…](?=\s)|[。\uff01\uff1f]+|\n")
_BETWEEN_SENTENCES = re.compile(r"(?<=[^\s.]{3}[.!?])\s+|(?<=[。\uff01\uff1f])(?![。\uff01\uff1f])")
_FENCED = re.compile(r"^(```|~~~)[^\n]*\n.*?(?:^\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_POINT = re.compile(r"\s*(?:#{1,6}\s|[-*+•]\s|・|\d{1,3}[.)、]|\[[ xX]\])")
_WEIGHTY = re.compile(
    r"\b(?:must|should|shall|requir|accept|never|always|error|fail|expect|need|cannot|only)"
    "|必須|必要|べき|ください|禁止|エラー|必须|应该|不得|错误|해야|필수|오류",
    re.IGNORECASE,
)
_TOO_SHORT_FOR_BOTH_ENDS = 60
_CODE_LINES = 3
_READ_PER_TOKEN = 16


def shortened(text: str, max_tokens: int) -> str:
    """The text if it fits, else its beginning and its end, cut between sentences where possible."""
    if fits(text, max_tokens):
        return text
    room = max_tokens
    while room > 0:
        short = _both_ends(text, room) if room >= _TOO_SHORT_FOR_BOTH_ENDS else _beginning(text, room)
        if (over := estimate(short) - max_tokens) <= 0:
            return short
        room -= over
    return ""


def essence(text: str, max_tokens: int) -> str:
    """The text if it fits, else its headings, points, first sentences and what it demands, in their order."""
    if fits(text, max_tokens):
        return text
    text = _without_middle(text, _READ_PER_TOKEN * max_tokens)
    gist = _gist(text, sentences=1)
    for sentences in (8, 64):
        if not fits(gist, max_tokens // 4):
            break
        gist = _gist(text, sentences)
    return shortened(gist, max_tokens)


def one_line(text: str, max_tokens: int) -> str:
    """Its first sentence, on one line, and of that the beginning."""
    first = _BETWEEN_SENTENCES.split(text[: 16 * max_tokens].lstrip(), maxsplit=1)[0]
    return shortened(" ".join(first.split()), max_tokens)


def _both_ends(text: str, room: int) -> str:
    room -= estimate(_gap(len(text)))
    head = _to_a_sentence_end(text[: head_length(text, room * 2 // 3)]).rstrip()
    rest = text[len(head) :]
    tail = _from_a_sentence_start(rest[len(rest) - tail_length(rest, room // 3) :]).lstrip()
    return head + _gap(len(rest) - len(tail)) + tail


def _beginning(text: str, room: int) -> str:
    head = text[: head_length(text, room - 1)].rstrip()
    space = head.rfind(" ", len(head) // 2)
    return (head[:space] if space > 0 else head) + "…" if head else ""


def _gap(characters: int) -> str:
    return f"\n[… {characters:,} characters left out …]\n"


def _to_a_sentence_end(text: str) -> str:
    """Without the broken sentence at its end, unless half of it would be lost; then to the end of a word."""
    middle = len(text) // 2
    ends = [end.end() for end in _SENTENCE_END.finditer(text, middle)]
    return text[: ends[-1] if ends else max(text.rfind(" ", middle), 0) or len(text)]


def _from_a_sentence_start(text: str) -> str:
    middle = len(text) // 2
    if end := _SENTENCE_END.search(text, 0, middle):
        return text[end.end() :]
    return text[text.find(" ", 0, middle) + 1 :]


def _without_middle(text: str, characters: int) -> str:
    """At most so many characters: what a short summary could not hold need not be read."""
    if len(text) <= characters:
        return text
    head = _to_a_sentence_end(text[: characters * 3 // 4])
    tail = _from_a_sentence_start(text[-(characters // 4) :])
    return head + _gap(len(text) - len(head) - len(tail)) + tail


def _gist(text: str, sentences: int) -> str:
    kept: list[str] = []
    start = 0
    for code in _FENCED.finditer(text):
        kept += _gist_of_prose(text[start : code.start()], sentences)
        kept += _gist_of_code(code.group())
        start = code.end()
    kept += _gist_of_prose(text[start:], sentences)
    return "\n".join(kept)


def _gist_of_code(code: str) -> list[str]:
    lines = code.split("\n")
    if len(lines) <= _CODE_LINES + 3:
        return lines
    return [*lines[: _CODE_LINES + 1], f"… {len(lines) - _CODE_LINES - 2} more lines", lines[-1]]


def _gist_of_prose(text: str, sentences: int) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        for is_point, group in groupby(paragraph.split("\n"), key=_is_point):
            lines = list(group)
            yield from lines if is_point else [_first_and_weighty("\n".join(lines), sentences)]


def _is_point(line: str) -> bool:
    """Whether it is a heading, an item of a list, or announces one."""
    return bool(_POINT.match(line)) or line.rstrip().endswith((":", "\uff1a"))


def _first_and_weighty(text: str, sentences: int) -> str:
    starts = [0, *(gap.end() for gap in _BETWEEN_SENTENCES.finditer(text)), len(text)]
    every = [text[start:end] for start, end in pairwise(starts)]
    weighty = [sentence for sentence in every[sentences:] if _WEIGHTY.search(sentence)]
    return "".join(every[:sentences] + weighty).rstrip()
