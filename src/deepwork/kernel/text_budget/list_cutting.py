"""Cutting long lists of an answer to a number of entries and of bytes, and saying so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from deepwork.kernel.text_budget.json_shortening import to_compact_json

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
