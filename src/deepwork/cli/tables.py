"""Tables: what a column holds, how wide text is, and plain ones for whoever reads them by program."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

MOST = 40
"""How wide a column of free text may be."""

_WHOLE = re.compile(r"(^|_)(id|ids|at|status|seq|by|chain)$|^(step|last_heartbeat|started|completed)$")


def is_whole(name: str) -> bool:
    """Whether a column holds what must never be shortened: ids, statuses, moments."""
    return bool(_WHOLE.search(name))


def width(text: str) -> int:
    """How many places a text takes in a terminal: wide characters take two, marks on others none."""
    if text.isascii():
        return len(text)
    return sum(_places(character) for character in text)


def _places(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shortened(text: str, most: int) -> str:
    """As much of a text as fits into so many places."""
    if width(text) <= most:
        return text
    kept = ""
    for character in text:
        if width(kept + character) > most - 1:
            break
        kept += character
    return kept + "…"


def aligned(rows: Sequence[Sequence[str]], names: Sequence[str]) -> list[str]:
    """Rows as lines, each column as wide as what it holds; free text is cut at `MOST`."""
    cut = [
        [text if is_whole(name) else shortened(text, MOST) for name, text in zip(names, row, strict=True)]
        for row in rows
    ]
    widths = [max(map(width, column)) for column in zip(*cut, strict=True)]
    return ["  ".join(map(_padded, row, widths)).rstrip() for row in cut]


def _padded(text: str, to: int) -> str:
    return text + " " * (to - width(text))


def fitting(names: Sequence[str], widths: Sequence[int], screen: int) -> list[str]:
    """The columns there is room for: from the last, those are left out that matter least."""
    kept = list(names)
    need = {
        name: size if is_whole(name) else min(size, _LEAST) for name, size in zip(names, widths, strict=True)
    }
    for name in reversed(names):
        if sum(need[each] + _GAP for each in kept) <= screen + _GAP:
            break
        if name not in _ALWAYS and name != names[0]:
            kept.remove(name)
    return kept


_LEAST, _GAP = 16, 2
_ALWAYS = {"id", "name", "status"}
