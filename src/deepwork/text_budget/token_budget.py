"""Sections of an answer that share a token budget: each shows as much as its allotment allows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from deepwork.text_budget.json_shortening import (
    compute_share,
    count_json_tokens,
    fits_whole,
    shorten_json,
    to_compact_json,
)
from deepwork.text_budget.text_shortening import shorten_text

T = TypeVar("T")

_MIN_ITEM_TOKENS = 20
_MIN_SPARE_TOKENS = 16


@dataclass(frozen=True)
class FittedSection:
    """What a section shows within its budget, what that costs, and what it left out."""

    value: Any
    tokens: int
    truncation: dict[str, Any] | None = None
    includes_truncation: bool = False
    """Whether the budget covers the truncation; if not, one combined truncation names the section."""


@dataclass(frozen=True)
class Section(ABC):
    """One part of an answer that can be cut to a token budget."""

    name: str
    """Its name in `truncated`."""
    path: tuple[str, ...]
    """The keys that lead to it in the answer."""
    share: int
    """Its weight when the budget is divided among the sections."""
    how: str
    """The tool call that returns what is left out."""
    is_optional: bool = field(default=False, kw_only=True)
    """Whether its key is omitted from the answer when there is nothing to show."""

    def fit(self, room: int) -> FittedSection:
        """Return as much of the section as fits into `room` tokens.

        In a small budget the truncation is not paid for: content is worth more than a note about what is
        missing.
        """
        price_of_truncation = count_json_tokens(self._build_truncation(10**6, 10**6))
        includes_truncation = room > 4 * price_of_truncation
        value, truncation = self._fit_value(room - price_of_truncation * includes_truncation)
        return FittedSection(
            value,
            self._count_added_tokens(value)
            + (price_of_truncation if truncation and includes_truncation else 0),
            truncation,
            includes_truncation,
        )

    @abstractmethod
    def _fit_value(self, room: int) -> tuple[Any, dict[str, Any] | None]:
        """Return what fits, and a truncation unless that is everything."""

    def _build_truncation(self, kept: int, total: int) -> dict[str, Any]:
        return {"section": self.name, "kept": kept, "total": total, "how": self.how}

    def _count_added_tokens(self, value: Any) -> int:
        """Count what the value adds to an answer; keys that are always present are already counted."""
        key = self.path[-1]
        if self.is_optional:
            return count_json_tokens({key: value}) if value else 0
        return count_json_tokens({key: value}) - count_json_tokens({key: type(value)()})


@dataclass(frozen=True)
class ContentSection(Section):
    """A section that holds one string or one object."""

    value: str | dict[str, Any]
    shorten: Callable[[str, int], str] = shorten_text

    def _fit_value(self, room: int) -> tuple[Any, dict[str, Any] | None]:
        if fits_whole(self.value, room):
            return self.value, None
        small = shorten_json(self.value, room, self.shorten)
        return small, None if small == self.value else self._build_truncation(
            _count_characters(small), self._total
        )

    @cached_property
    def _total(self) -> int:
        return _count_characters(self.value)


@dataclass(frozen=True)
class ListItem:
    """An entry of a list section; the keys in `fixed` are never shortened."""

    value: dict[str, Any]
    fixed: frozenset[str]
    how: str = ""
    """The tool call that returns it in full; empty means the call of its section."""
    is_whole: bool = True

    def fit(self, room: int) -> dict[str, Any] | None:
        if fits_whole(self.value, room):
            return self.value
        fixed = {key: inner for key, inner in self.value.items() if key in self.fixed}
        texts = {key: inner for key, inner in self.value.items() if key not in self.fixed}
        if (rest := room - count_json_tokens(fixed)) < _MIN_ITEM_TOKENS:
            return None
        small = shorten_json(texts, rest)
        return self.value | {key: small.get(key, type(inner)()) for key, inner in texts.items()}


@dataclass(frozen=True)
class ListSection(Section, Generic[T]):
    """Items built from `entries`, most important first; items that are not shown are never built."""

    entries: Sequence[T]
    build_item: Callable[[T], ListItem]
    total: int
    is_reversed: bool = False

    def _fit_value(self, room: int) -> tuple[Any, dict[str, Any] | None]:
        pairs = self._fit_items(room)
        shown = [small for _, small in pairs]
        cut = [item for item, small in pairs if not item.is_whole or small is not item.value]
        truncation = self._build_truncation(len(shown) - len(cut), self.total)
        if cut and len(shown) == self.total:
            truncation["how"] = cut[-1].how or self.how
        return shown[:: -1 if self.is_reversed else 1], truncation if cut or len(shown) < self.total else None

    def _fit_items(self, room: int) -> list[tuple[ListItem, dict[str, Any]]]:
        pairs: list[tuple[ListItem, dict[str, Any]]] = []
        left = room
        for entry in self.entries:
            item = self.build_item(entry)
            if (small := item.fit(compute_share(left, len(self.entries) - len(pairs)))) is None:
                break
            pairs.append((item, small))
            left -= count_json_tokens(small) + 1
        while pairs and count_json_tokens([small for _, small in pairs]) > room:
            pairs.pop()
        return pairs


def fit_sections(sections: Sequence[Section], room: int) -> list[FittedSection]:
    """Fit each section into its share of the budget.

    Unused tokens pass to the next section, and at the end to the sections that were truncated.
    """
    fitted: list[FittedSection] = []
    shares = sum(section.share for section in sections)
    spare = 0
    for section in sections:
        given = room * section.share // shares + spare
        fitted.append(section.fit(given))
        spare = given - fitted[-1].tokens
    for index, section in enumerate(sections):
        if fitted[index].truncation and spare >= _MIN_SPARE_TOKENS:
            given = fitted[index].tokens + spare
            fitted[index] = section.fit(given)
            spare = given - fitted[index].tokens
    return fitted


def _count_characters(value: str | dict[str, Any]) -> int:
    return len(value if isinstance(value, str) else to_compact_json(value))
