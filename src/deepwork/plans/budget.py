"""The parts of an answer that share a budget: each shows what it can for the tokens it is given."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from deepwork.plans.compression import shortened
from deepwork.plans.reduction import as_json, cost, fits_whole, part_of, reduced

T = TypeVar("T")

_LEAST_ITEM = 20
_WORTH_ANOTHER_TRY = 16


@dataclass(frozen=True)
class Part:
    """What a section shows, what that costs, and what it left out."""

    value: Any
    tokens: int
    note: dict[str, Any] | None = None
    is_told: bool = False
    """Whether there was room for the note; if not, it is named among others."""


@dataclass(frozen=True)
class Section(ABC):
    name: str
    """What `truncated` calls it."""
    place: tuple[str, ...]
    """The keys that lead to it in the answer."""
    share: int
    """Of the whole budget, compared with the others."""
    how: str
    """The call that gets what is left out."""
    is_optional: bool = field(default=False, kw_only=True)
    """Whether the answer goes without its key when there is nothing to show."""

    def within(self, room: int) -> Part:
        """As much of it as so many tokens allow."""
        price_of_note = cost(self._note(10**6, 10**6))
        is_told = room > 4 * price_of_note  # in little room, a word on the thing is better than one about it
        value, note = self._shown(room - price_of_note * is_told)
        return Part(value, self._price(value) + (price_of_note if note and is_told else 0), note, is_told)

    @abstractmethod
    def _shown(self, room: int) -> tuple[Any, dict[str, Any] | None]:
        """What fits, and a note unless that is everything."""

    def _note(self, kept: int, total: int, how: str = "") -> dict[str, Any]:
        return {"section": self.name, "kept": kept, "total": total, "how": how or self.how}

    def _price(self, value: Any) -> int:
        """What the value adds to an answer; the keys that are always there are paid for already."""
        key = self.place[-1]
        if self.is_optional:
            return cost({key: value}) if value else 0
        return cost({key: value}) - cost({key: type(value)()})


@dataclass(frozen=True)
class Content(Section):
    """A text or an object."""

    value: str | dict[str, Any]
    shorten: Callable[[str, int], str] = shortened

    def _shown(self, room: int) -> tuple[Any, dict[str, Any] | None]:
        if fits_whole(self.value, room):
            return self.value, None
        small = reduced(self.value, room, self.shorten)
        return small, None if small == self.value else self._note(_length(small), self._total)

    @cached_property
    def _total(self) -> int:
        return _length(self.value)


@dataclass(frozen=True)
class Item:
    """An entry of a listing, some keys of which are shown as they are or not at all."""

    value: dict[str, Any]
    fixed: frozenset[str]
    how: str = ""
    """The call that gets it whole; empty: as for the listing."""
    is_whole: bool = True

    def within(self, room: int) -> dict[str, Any] | None:
        if fits_whole(self.value, room):
            return self.value
        fixed = {key: inner for key, inner in self.value.items() if key in self.fixed}
        texts = {key: inner for key, inner in self.value.items() if key not in self.fixed}
        if (rest := room - cost(fixed)) < _LEAST_ITEM:
            return None
        small = reduced(texts, rest)
        return self.value | {key: small.get(key, type(inner)()) for key, inner in texts.items()}


@dataclass(frozen=True)
class Listing(Section, Generic[T]):
    """Items made of things, those that matter most first; of what is not shown, none is made."""

    things: Sequence[T]
    as_item: Callable[[T], Item]
    total: int
    is_shown_backwards: bool = False

    def _shown(self, room: int) -> tuple[Any, dict[str, Any] | None]:
        pairs = self._filled(room)
        shown = [small for _, small in pairs]
        cut = [item for item, small in pairs if not item.is_whole or small is not item.value]
        note = self._note(len(shown) - len(cut), self.total)
        if cut and len(shown) == self.total:
            note["how"] = cut[-1].how or self.how
        return shown[:: -1 if self.is_shown_backwards else 1], note if cut or len(
            shown
        ) < self.total else None

    def _filled(self, room: int) -> list[tuple[Item, dict[str, Any]]]:
        pairs: list[tuple[Item, dict[str, Any]]] = []
        left = room
        for thing in self.things:
            item = self.as_item(thing)
            if (small := item.within(part_of(left, len(self.things) - len(pairs)))) is None:
                break
            pairs.append((item, small))
            left -= cost(small) + 1
        while pairs and cost([small for _, small in pairs]) > room:
            pairs.pop()
        return pairs


def allotted(sections: Sequence[Section], room: int) -> list[Part]:
    """What each shows: what one leaves of its share goes to the next, and in the end to those cut short."""
    parts: list[Part] = []
    shares = sum(section.share for section in sections)
    spare = 0
    for section in sections:
        given = room * section.share // shares + spare
        parts.append(section.within(given))
        spare = given - parts[-1].tokens
    for place, section in enumerate(sections):
        if parts[place].note and spare >= _WORTH_ANOTHER_TRY:
            given = parts[place].tokens + spare
            parts[place] = section.within(given)
            spare = given - parts[place].tokens
    return parts


def _length(value: str | dict[str, Any]) -> int:
    return len(value if isinstance(value, str) else as_json(value))
