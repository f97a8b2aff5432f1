"""Writes agents, times, tokens and dollars of runs in few characters."""

from __future__ import annotations

from datetime import datetime
from pathlib import PurePath

from deepwork.delivery.runner.models import Attempt
from deepwork.gates.budgets.models import MICROS_PER_USD

_SECOND, _MINUTE, _HOUR = 1000, 60_000, 3_600_000
_THOUSAND, _MILLION = 1000, 1_000_000
_MIN_COMMAND_WORDS = 2
_INTERPRETERS = frozenset({"bash", "env", "node", "python", "python3", "sh", "zsh"})


def format_duration(milliseconds: int) -> str:
    """Write how long something takes: `35 s`, `12 min`, `3 h 05 min`."""
    if milliseconds < _MINUTE:
        return f"{max(0, milliseconds) // _SECOND} s"
    if milliseconds < _HOUR:
        return f"{milliseconds // _MINUTE} min"
    return f"{milliseconds // _HOUR} h {milliseconds % _HOUR // _MINUTE:02d} min"


def format_countdown(milliseconds: int) -> str:
    """Write how long is left, to the second: `4:59`, `1:04:59`."""
    seconds = -(-max(0, milliseconds) // _SECOND)
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def format_tokens(tokens: int) -> str:
    """Write a number of tokens: `840`, `84k`, `1.2M`."""
    if tokens < _THOUSAND:
        return str(tokens)
    if tokens < _MILLION:
        return f"{tokens // _THOUSAND}k"
    return f"{tokens / _MILLION:.1f}M"


def format_usd(micros: int) -> str:
    """Write dollars with cents."""
    return f"${micros / MICROS_PER_USD:,.2f}"


def format_cost(attempt: Attempt) -> str:
    """Write what an attempt cost; `$?` if it used tokens whose price is not known."""
    if attempt.tokens and not attempt.usd_micros and attempt.usd_source is None:
        return "$?"
    return format_usd(attempt.usd_micros)


def name_agent(profile: str) -> str:
    """Return the name of a profile; of a command line, the name of its program or script."""
    words = profile.split()
    if len(words) < _MIN_COMMAND_WORDS:
        return profile
    names = [PurePath(word).name for word in words if not word.startswith("-")]
    return next((name for name in names if name not in _INTERPRETERS), names[0] if names else profile)


def format_local_time(milliseconds: int, now: int) -> str:
    """Write a time of the next day or so as this machine's clock shows it; a later one with its date."""
    moment = datetime.fromtimestamp(milliseconds / 1000).astimezone()
    return f"{moment:%H:%M}" if abs(milliseconds - now) < 20 * _HOUR else f"{moment:%Y-%m-%d %H:%M}"


def measure_attempt(attempt: Attempt, now: int) -> int:
    """Return how long an attempt has been going on, or took, in milliseconds; waiting counts."""
    return max(0, (attempt.ended_at or now) - attempt.created_at)
