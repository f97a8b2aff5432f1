"""JSON values made small: the same kind of value, with long texts shortened and long lists cut."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from typing import Any

from deepwork.plans.compression import shortened
from deepwork.plans.tokens import estimate, fits

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_MAX_DEPTH = 6
_LEAST = 8  # tokens, below which nothing worth reading can be said
_ENOUGH = 60
_QUOTES = 3
_SAMPLE = 1024


def as_json(value: Any) -> str:
    """As a client reads it."""
    return _ENCODER.encode(value)


def cost(value: Any) -> int:
    """What the value costs in an answer."""
    return estimate(as_json(value))


def fits_whole(value: Any, max_tokens: int) -> bool:
    """Whether it need not be reduced; of what is far too large, not much is looked at."""
    return _weight(value, 16 * max_tokens) <= 16 * max_tokens and fits(as_json(value), max_tokens)


def reduced(value: Any, max_tokens: int, shorten: Callable[[str, int], str] = shortened) -> Any:
    """The value if it fits, else as much of it as does: empty at worst, but of the same type."""
    room = max_tokens - _QUOTES
    if isinstance(value, str):
        room = room * estimate(value[:_SAMPLE]) // cost(value[:_SAMPLE])  # JSON has escapes
    while room > 0:
        small = shorten(value, room) if isinstance(value, str) else _within(value, room)
        if (spent := cost(small)) <= max_tokens:
            return small
        room = min(room * max_tokens // spent, room - 1 - room // 32)
    return type(value)()


def part_of(room: int, waiting: int) -> int:
    """What the first of those that wait gets: a quarter, but not so little that nothing can be said."""
    return max(room // min(waiting, 4), min(room, _ENOUGH))


def _within(value: Any, room: int, depth: int = 0) -> Any:
    """About so large; what a value costs among others is known only when all are there."""
    if isinstance(value, str):
        return shortened(value, room)
    if fits_whole(value, room):
        return value
    if depth < _MAX_DEPTH and isinstance(value, dict):
        return _some_entries(value, room, depth + 1)
    if depth < _MAX_DEPTH and isinstance(value, list):
        return _first_items(value, room, depth + 1)
    return "…"


def _some_entries(value: dict[str, Any], room: int, depth: int) -> dict[str, Any]:
    """Small ones first, so that what they leave of their shares goes to the large ones."""
    names = list(islice(value, room // _LEAST))
    kept: dict[str, Any] = {}
    for done, name in enumerate(sorted(names, key=lambda name: _weight(value[name], room))):
        share = room // (len(names) - done) - cost(name) - _QUOTES
        if share > 0:
            kept[name] = _within(value[name], share, depth)
            room -= cost({name: kept[name]})
    shown = {name: kept[name] for name in names if name in kept}
    return shown if len(shown) == len(value) else shown | {"…": f"and {len(value) - len(shown)} more"}


def _first_items(value: list[Any], room: int, depth: int) -> list[Any]:
    """As many as there is room for, none with more than its part of it while others wait."""
    kept: list[Any] = []
    room -= _LEAST
    while (left_out := len(value) - len(kept)) and room >= _LEAST:
        kept.append(_within(value[len(kept)], part_of(room, left_out), depth))
        room -= cost(kept[-1]) + 1
    return [*kept, f"and {left_out} more"] if left_out else kept


def _weight(value: Any, limit: int) -> int:
    """About how many characters it is as JSON; not much more than the limit is looked at."""
    weight, waiting = 0, [value]
    while waiting and weight <= limit:
        inner = waiting.pop()
        weight += 4
        if isinstance(inner, str):
            weight += len(inner)
        elif isinstance(inner, dict):
            weight += sum(map(len, islice(inner, limit)))
            waiting += islice(inner.values(), limit)
        elif isinstance(inner, list):
            waiting += inner[:limit]
    return weight
