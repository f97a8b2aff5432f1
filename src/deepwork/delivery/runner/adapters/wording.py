"""Limits and passing failures by their wording, for vendors and logins that report neither as an event.

Only for failures: errors of the vendor, its last message when it failed, its stderr. What a success says
about a limit is about the work.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from deepwork.delivery.runner.models import LimitReached, TransientFailure
from deepwork.kernel.foreign_text import read_decimal, read_moment

_MAX_TEXT = 8_000
_MAX_MESSAGE = 300
_MAX_WAIT_MS = 40 * 24 * 3_600_000
"""A reset further away than this was not understood."""
_JUST_PASSED = timedelta(minutes=10)
"""A clock time that passed this long ago is meant, not the same time tomorrow."""


class _Phrase(NamedTuple):
    pattern: re.Pattern[str]
    scope: str | None
    """Which limit it is; None for a failure that passes by itself."""


def _build_phrase(pattern: str, scope: str | None) -> _Phrase:
    return _Phrase(re.compile(pattern, re.IGNORECASE), scope)


PHRASES: Final = (
    _build_phrase(
        r"credit balance is too low|out of credits|spend cap|insufficient_quota|"
        r"plan and billing|billing_error",
        "billing",
    ),
    _build_phrase(r"session limit|5-hour limit|five_hour", "five_hour"),
    _build_phrase(r"weekly limit|7-day limit|seven_day", "seven_day"),
    _build_phrase(
        r"\b(hit|reached) your (\w+ )?limit|usage limit|UsageLimitError|free usage exceeded", "usage"
    ),
    _build_phrase(
        r"quota exceeded|exceeded your (\w+ )?quota|exhausted your|quota_exhausted|resource.exhausted",
        "quota",
    ),
    _build_phrase(
        r"rate.limit(ed|s)?\b|rate_limit_(error|exceeded)|too.many.requests|request limit|"
        r"\b(status|error|code|http|rejected)\b[^\n]{0,20}\b429\b",
        "rate",
    ),
    _build_phrase(r"overloaded|at capacity|model_capacity|high demand|service.unavailable", None),
    _build_phrase(
        r"internal.server.error|server_error|bad gateway|gateway time-?out|"
        r"\b(status|error|code|http)\b[^\n]{0,20}\b5\d\d\b",
        None,
    ),
    _build_phrase(
        r"\bconnection( \w+)? (error|refused|reset|closed|lost|failed|time-?out|timed out)|"
        r"\b(request|network|socket|stream) (closed|lost|time-?out|timed out)",
        None,
    ),
    _build_phrase(
        r"stream disconnected|reconnecting\.\.\.|fetch failed|failed to fetch|socket hang up|network error|"
        r"unable to connect|\b(ECONNRESET|ECONNREFUSED|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EPIPE)\b",
        None,
    ),
)
"""What vendors write; the first match counts. Checked in late 2026 against public sources and issues."""

_LOST_SESSION_PATTERN = re.compile(
    r"no conversation found|no rollout found|invalid session identifier|session not found", re.IGNORECASE
)


def classify(text: str, now: int, zone: tzinfo | None = None) -> LimitReached | TransientFailure | None:
    """Return the limit or failure that a vendor's text names.

    `now` is the time of the text, in Unix milliseconds; times of day are of `zone`, else of this machine.
    """
    text = text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT // 2] + "\n" + text[-_MAX_TEXT // 2 :]
    for pattern, scope in PHRASES:
        match = pattern.search(text)
        if match is not None:
            message = _get_line(text, match.start())
            if scope is None:
                return TransientFailure(message)
            return LimitReached(find_reset(text, now, zone), message, scope)
    return None


def is_lost_session(text: str) -> bool:
    """Return whether an error of the vendor says that the session to continue does not exist."""
    return _LOST_SESSION_PATTERN.search(text) is not None


def find_reset(text: str, now: int, zone: tzinfo | None = None) -> int | None:
    """Return when a limit resets, in Unix milliseconds, if the text says it."""
    parsed = (_parse_epoch(text), _parse_iso(text), _parse_wait(text, now), _parse_clock(text, now, zone))
    return bound_reset(next((each for each in parsed if each is not None), None), now)


def bound_reset(moment: int | None, now: int) -> int | None:
    """Return when a limit resets; None if that is so far away that it was not understood."""
    return moment if moment is not None and moment - now <= _MAX_WAIT_MS else None


def _get_line(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    line = text[start:].split("\n", 1)[0].strip()
    return line if len(line) <= _MAX_MESSAGE else line[: _MAX_MESSAGE - 1] + "…"


# When a limit resets

_EPOCH_PATTERN = re.compile(r"\|\s*(\d{10}|\d{13})\b|\bresets?_?at\W{1,4}(\d{10}|\d{13})\b", re.IGNORECASE)
_ISO_PATTERN = re.compile(
    r"(?:reset|again|until|retry|after)\D{0,30}"
    r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d)?)",
    re.IGNORECASE,
)
_WAIT_PATTERN = re.compile(
    r"(?:try again|retry|resets?|available|wait)[\w\s-]{0,20}?(?:\bin|\bafter|\bfor|retry)\W{0,3}"
    r"((?:\d+(?:\.\d+)?\s*[a-z]+(?:,| and)?\s*){1,5}|\d+(?:\.\d+)?\b)",
    re.IGNORECASE,
)
_DURATION_PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_CLOCK = r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>[ap]\.?m\b\.?)?"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK_PATTERN = re.compile(
    r"(?:resets?|try again|retry|available(?: again)?|until)\s+(?:on\s+|at\s+)?"
    rf"(?:(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+"
    rf"(?:(?P<year>\d{{4}}),?\s+)?(?:at\s+)?)?(?:at\s+)?{_CLOCK}(?:\s*\((?P<zone>[A-Za-z_+\-/0-9]+)\))?",
    re.IGNORECASE,
)
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}


def _parse_epoch(text: str) -> int | None:
    match = _EPOCH_PATTERN.search(text)
    return read_moment(int(match[1] or match[2])) if match else None


def _parse_iso(text: str) -> int | None:
    match = _ISO_PATTERN.search(text)
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(match[1])
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def _parse_wait(text: str, now: int) -> int | None:
    match = _WAIT_PATTERN.search(text)
    if match is None:
        return None
    parts = _DURATION_PATTERN.findall(match[1])
    if not parts:
        parts = [(match[1], "s")]  # the seconds of a header
    lengths = [_measure(amount, unit) for amount, unit in parts]
    return now + int(sum(lengths)) if any(lengths) else None


def _measure(amount: str, unit: str) -> float:
    """Return a time in milliseconds; one beyond the bound is longer than any wait, and so not understood."""
    number = read_decimal(amount, _MAX_WAIT_MS)
    return (2 * _MAX_WAIT_MS if number is None else number) * _get_unit(unit)


def _get_unit(word: str) -> int:
    return _UNITS["ms"] if word.lower() in ("ms", "milliseconds") else _UNITS.get(word[0].lower(), 0)


def _parse_clock(text: str, now: int, zone: tzinfo | None) -> int | None:
    match = _CLOCK_PATTERN.search(text)
    if match is None or not (match["half"] or match["minute"]):
        return None
    try:
        local = datetime.fromtimestamp(now / 1000, _find_zone(match["zone"]) or zone)
        return int(_set_clock(local, match).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def _set_clock(local: datetime, match: re.Match[str]) -> datetime:
    """Return the next time after `local` at which the clock, or calendar, shows what the match says."""
    hour = int(match["hour"])
    if match["half"]:
        hour = hour % 12 + (12 if match["half"].lower().startswith("p") else 0)
    moment = local.replace(hour=hour, minute=int(match["minute"] or 0), second=0, microsecond=0)
    if match["month"]:
        month = _MONTHS.index(match["month"].lower()) + 1
        moment = moment.replace(year=int(match["year"] or local.year), month=month, day=int(match["day"]))
        is_next_year = not match["year"] and moment < local - timedelta(days=180)
        return moment.replace(year=local.year + 1) if is_next_year else moment
    return moment + timedelta(days=1) if moment < local - _JUST_PASSED else moment


def _find_zone(name: str | None) -> tzinfo | None:
    try:
        return ZoneInfo(name) if name else None
    except (KeyError, ValueError, OSError):
        return None
