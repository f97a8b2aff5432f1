"""Plain tables: the width of text in a terminal, which columns may be shortened, aligned rows."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

MAX_TEXT_WIDTH = 40
"""The width at which columns of free text are cut."""

_NEVER_SHORTENED_PATTERN = re.compile(
    r"(^|_)(id|ids|at|status|seq|by|chain)$|^(step|last_heartbeat|started|completed|since|updated|ts)$"
)
_PLACE_PATTERN = re.compile(r"(^|_)(path|branch|tree|folder|worktree)$")


def is_never_shortened(name: str) -> bool:
    """Whether a column's values are useless when shortened: ids, statuses, timestamps."""
    return bool(_NEVER_SHORTENED_PATTERN.search(name))


def is_place(name: str) -> bool:
    """Whether a column has paths or branches."""
    return bool(_PLACE_PATTERN.search(name))


def measure_width(text: str) -> int:
    """Return the number of terminal columns a text takes: wide characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_measure_character(character) for character in text)


def _measure_character(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten(text: str, most: int) -> str:
    """Cut a text to at most `most` terminal columns."""
    if measure_width(text) <= most:
        return text
    kept = ""
    for character in text:
        if measure_width(kept + character) > most - 1:
            break
        kept += character
    return kept + "…"


def shorten_middle(text: str, most: int) -> str:
    """Cut a path or a branch to at most `most` columns: its beginning and its end tell it from others."""
    if measure_width(text) <= most:
        return text
    end = shorten(text[::-1], most - most // 2)[-2::-1]
    return shorten(text, most - measure_width(end)) + end


def fit(name: str, text: str, most: int) -> str:
    """Cut the text of a column where it tells people least."""
    if is_never_shortened(name):
        return text
    return shorten_middle(text, most) if is_place(name) else shorten(text, most)


def align_rows(rows: Sequence[Sequence[str]], names: Sequence[str]) -> list[str]:
    """Format rows as lines with aligned columns; free text is cut at `MAX_TEXT_WIDTH`."""
    cut = [[fit(name, text, MAX_TEXT_WIDTH) for name, text in zip(names, row, strict=True)] for row in rows]
    widths = [max(map(measure_width, column)) for column in zip(*cut, strict=True)]
    return ["  ".join(map(_pad, row, widths)).rstrip() for row in cut]


def _pad(text: str, to: int) -> str:
    return text + " " * (to - measure_width(text))


def select_columns(names: Sequence[str], widths: Sequence[int], screen: int) -> list[str]:
    """Choose the columns that fit on the screen; later columns are dropped first."""
    kept = list(names)
    need = {
        name: size if is_never_shortened(name) else min(size, MIN_TEXT_WIDTH)
        for name, size in zip(names, widths, strict=True)
    }
    for name in reversed(names):
        if sum(need[each] + COLUMN_GAP for each in kept) <= screen + COLUMN_GAP:
            break
        if name not in _ALWAYS_SHOWN and name != names[0]:
            kept.remove(name)
    return kept


MIN_TEXT_WIDTH, COLUMN_GAP = 16, 2
_ALWAYS_SHOWN = {"id", "name", "status"}
