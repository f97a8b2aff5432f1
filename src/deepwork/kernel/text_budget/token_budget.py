"""Sections of an answer that share a token budget: each shows as much as its allotment allows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from functools import cache, cached_property
from typing import Any, Generic, NamedTuple, TypeVar

from deepwork.kernel.records import dataclass
from deepwork.kernel.text_budget.shortening import (
    MeasuredValue,
    compute_share,
    count_json_tokens,
    estimate_length,
    shorten_json,
    shorten_text,
    to_compact_json,
)

T = TypeVar("T")

_MIN_ITEM_TOKENS = 20
_MIN_SPARE_TOKENS = 16
_SEPARATOR_TOKENS = 1
_MAX_CHARACTERS_PER_TOKEN = 6


@dataclass(frozen=True)
class FittedSection:
    """What a section shows within its budget, what that costs, and what it left out."""

    value: Any
    tokens: int
    truncation: dict[str, Any] | None = None
    includes_truncation: bool = False
    """Whether the budget covers the truncation; if not, one combined truncation names the section."""


class _Part(NamedTuple):
    """A value to show, and what it costs."""

    value: Any
    tokens: int


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
        if (whole := self._fit_whole(room)) is not None:
            return FittedSection(whole.value, self._count_added_tokens(whole))
        price = self._truncation_price
        includes_truncation = room > 4 * price
        part, truncation = self._fit_part(room - price * includes_truncation)
        added = self._count_added_tokens(part) + (price if truncation and includes_truncation else 0)
        return FittedSection(part.value, added, truncation, includes_truncation)

    @abstractmethod
    def show_all(self, max_length: int) -> tuple[FittedSection, int] | None:
        """Return all there is without its cost, and its approximate length unless that is too great."""

    @abstractmethod
    def _fit_whole(self, room: int) -> _Part | None:
        """Return everything if that fits."""

    @abstractmethod
    def _fit_part(self, room: int) -> tuple[_Part, dict[str, Any] | None]:
        """Return what fits, and a truncation unless that is everything."""

    def _build_truncation(self, kept: int, total: int) -> dict[str, Any]:
        return {"section": self.name, "kept": kept, "total": total, "how": self.how}

    @cached_property
    def _truncation_price(self) -> int:
        return count_json_tokens(self._build_truncation(10**6, 10**6))

    def _count_added_tokens(self, part: _Part) -> int:
        """Count what the part adds to an answer; keys that are always present are already counted."""
        if not part.value:
            return 0
        return part.tokens + (_count_key_tokens(self.path[-1]) if self.is_optional else 0)


@dataclass(frozen=True)
class ContentSection(Section):
    """A section that holds one string or one object."""

    value: str | dict[str, Any]
    shorten: Callable[[str, int], str] = shorten_text

    def show_all(self, max_length: int) -> tuple[FittedSection, int] | None:
        length = estimate_length(self.value, max_length)
        return None if length > max_length else (FittedSection(self.value, 0), length)

    def _fit_whole(self, room: int) -> _Part | None:
        tokens = self._measured.count_if_fits(room)
        return None if tokens is None else _Part(self.value, tokens)

    def _fit_part(self, room: int) -> tuple[_Part, dict[str, Any] | None]:
        small = shorten_json(self.value, room, self.shorten)
        truncation = (
            None if small == self.value else self._build_truncation(_count_characters(small), self._total)
        )
        return _Part(small, count_json_tokens(small)), truncation

    @cached_property
    def _measured(self) -> MeasuredValue:
        return MeasuredValue(self.value)

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

    @cached_property
    def measured(self) -> MeasuredValue:
        return MeasuredValue(self.value)

    def fit(self, room: int) -> _Part | None:
        if (tokens := self.measured.count_if_fits(room)) is not None:
            return _Part(self.value, tokens)
        fixed = {key: inner for key, inner in self.value.items() if key in self.fixed}
        texts = {key: inner for key, inner in self.value.items() if key not in self.fixed}
        if (rest := room - count_json_tokens(fixed)) < _MIN_ITEM_TOKENS:
            return None
        small = shorten_json(texts, rest)
        shown = self.value | {key: small.get(key, type(inner)()) for key, inner in texts.items()}
        return _Part(shown, count_json_tokens(shown))


@dataclass(frozen=True)
class ListSection(Section, Generic[T]):
    """Items built from `entries`, most important first; items that are not shown are never built."""

    entries: Sequence[T]
    build_item: Callable[[T], ListItem]
    total: int
    is_reversed: bool = False
    _items: list[ListItem] = field(default_factory=list, kw_only=True)

    def show_all(self, max_length: int) -> tuple[FittedSection, int] | None:
        length = 0
        for item in self._build_items():
            length += estimate_length(item.value, max_length)
            if length > max_length:
                return None
        pairs = [(item, _Part(item.value, 0)) for item in self._items]
        part, truncation = self._describe(pairs)
        return FittedSection(part.value, 0, truncation, includes_truncation=True), length

    def _fit_whole(self, room: int) -> _Part | None:
        if self.total > len(self.entries):
            return None
        left = room
        for item in self._build_items():
            tokens = item.measured.count_if_fits(left) if item.is_whole else None
            if tokens is None:
                return None
            left -= tokens + _SEPARATOR_TOKENS
        return _Part(self._arrange(item.value for item in self._items), room - left)

    def _fit_part(self, room: int) -> tuple[_Part, dict[str, Any] | None]:
        return self._describe(self._fit_items(room))

    def _describe(self, pairs: Sequence[tuple[ListItem, _Part]]) -> tuple[_Part, dict[str, Any] | None]:
        """Return the list of these items, and a truncation unless these are all items in full."""
        cut = [item for item, part in pairs if not item.is_whole or part.value is not item.value]
        truncation = self._build_truncation(len(pairs) - len(cut), self.total)
        if cut and len(pairs) == self.total:
            truncation["how"] = cut[-1].how or self.how
        shown = _Part(
            self._arrange(part.value for _, part in pairs),
            sum(part.tokens + _SEPARATOR_TOKENS for _, part in pairs),
        )
        return shown, truncation if cut or len(pairs) < self.total else None

    def _fit_items(self, room: int) -> list[tuple[ListItem, _Part]]:
        pairs: list[tuple[ListItem, _Part]] = []
        left = room
        for item in self._build_items():
            if (part := item.fit(compute_share(left, len(self.entries) - len(pairs)))) is None:
                break
            left -= part.tokens + _SEPARATOR_TOKENS
            if left < 0:
                break
            pairs.append((item, part))
        return pairs

    def _build_items(self) -> Iterator[ListItem]:
        """Yield the items; each is built only once, however often the section is fitted."""
        for place, entry in enumerate(self.entries):
            if place == len(self._items):
                self._items.append(self.build_item(entry))
            yield self._items[place]

    def _arrange(self, values: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        return list(values)[:: -1 if self.is_reversed else 1]


def show_sections(sections: Sequence[Section], max_tokens: int) -> list[FittedSection] | None:
    """Return all sections in full, without their costs; None if they are obviously too long."""
    shown: list[FittedSection] = []
    left = _MAX_CHARACTERS_PER_TOKEN * max_tokens
    for section in sections:
        if (all_there_is := section.show_all(left)) is None:
            return None
        fitted, length = all_there_is
        shown.append(fitted)
        left -= length
    return shown


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


@cache
def _count_key_tokens(key: str) -> int:
    return count_json_tokens({key: ""})


def _count_characters(value: str | dict[str, Any]) -> int:
    return len(value if isinstance(value, str) else to_compact_json(value))
