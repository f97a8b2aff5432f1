"""Formats times for people: how long ago in a terminal, ISO 8601 in UTC in a pipe."""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import Any

from deepwork.edge.cli.framework import terminal
from deepwork.kernel.timestamps import format_timestamp

_UNITS = ((60, "second"), (60, "minute"), (24, "hour"), (30, "day"))
_JUST_NOW_MS = 5_000
_TEXT_KEYS = {"at", "completed", "since", "started", "ts", "updated"}
_ISO_PATTERN = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d.*")


def parse_moment(key: str, value: Any) -> int | None:
    """Return the Unix milliseconds of a value whose key says that it is a time; None for other values."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if key.endswith("_at") or key in ("at", "last_heartbeat") else None
    if isinstance(value, str) and (key.endswith("_at") or key in _TEXT_KEYS) and _ISO_PATTERN.match(value):
        try:
            return round(datetime.fromisoformat(value).timestamp() * 1000)
        except ValueError:
            return None
    return None


def format_moment(milliseconds: int) -> str:
    """Format a time for the reader of standard output."""
    if terminal.supports_rich_output():
        return format_age(milliseconds, time.time_ns() // 1_000_000)
    return format_timestamp(milliseconds)


def format_age(milliseconds: int, now: int) -> str:
    """Say how long ago a time was, or when it will be; a date if it is more than 30 days away."""
    distance = abs(now - milliseconds)
    if distance < _JUST_NOW_MS:
        return "just now"
    number = distance // 1000
    for size, unit in _UNITS:
        if number < size:
            words = f"{number} {unit}{'s' * (number != 1)}"
            return f"{words} ago" if milliseconds <= now else f"in {words}"
        number //= size
    return format_timestamp(milliseconds)[:10]
