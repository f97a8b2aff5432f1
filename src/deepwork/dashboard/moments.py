"""Times as people's programs read them: ISO 8601 in UTC, thousands of them at once."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from deepwork.errors import InvalidInput


def iso(milliseconds: int | None) -> str | None:
    """Unix milliseconds as ISO 8601; as `events.log.iso`, five times as fast for moments of one minute."""
    if milliseconds is None:
        return None
    minute, rest = divmod(milliseconds, 60_000)
    second, fraction = divmod(rest, 1000)
    return _minute(minute) + _SECONDS[second] + _FRACTIONS[fraction]


_SECONDS = tuple(f"{second:02d}." for second in range(60))
_FRACTIONS = tuple(f"{fraction:03d}Z" for fraction in range(1000))


def told(milliseconds: int) -> str:
    """The same of a moment that is known."""
    return iso(milliseconds) or ""


def milliseconds(text: str, name: str) -> int:
    """ISO 8601 as Unix milliseconds; without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(f"`{name}`: {text[:60]!r} is no time in ISO 8601.") from None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


@lru_cache(maxsize=4096)
def _minute(number: int) -> str:
    return datetime.fromtimestamp(number * 60, UTC).strftime("%Y-%m-%dT%H:%M:")
