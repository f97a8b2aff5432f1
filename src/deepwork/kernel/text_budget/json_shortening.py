"""Shorten JSON values: the type stays the same, long strings are shortened and long lists are cut."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from typing import Any

from deepwork.kernel.text_budget.text_shortening import shorten_text
from deepwork.kernel.text_budget.tokens import estimate_if_fits, estimate_tokens

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
