"""Numbers that others wrote, turned into bounded ones: agents, vendors and damaged files say anything.

A number outside its bounds is unknown. JSON has integers of any length and, in Python, NaN and Infinity; a
text may have hundreds of digits. None of them may overflow a column, a clock or a sum.
"""

from __future__ import annotations

from typing import Final

MAX_TOKENS: Final = 10**12
"""The most tokens that one report, or one attempt, counts with."""
MAX_USD: Final = 1_000_000
"""The most dollars that one report, or one attempt, counts with."""
MAX_MOMENT: Final = 253_370_764_800_000
"""The beginning of the year 9999, in Unix milliseconds: later ones cannot be shown in every time zone."""
MAX_PID: Final = 2**31 - 1
_FIRST_PID = 2
_MAX_DIGITS = 40
"""A longer number in a text is beyond every bound, and takes long to read."""
_LAST_SECOND = 100_000_000_000


def read_number(value: object, most: float, *, least: float = 0) -> float | None:
    """Return a number within these bounds; None for all others, for booleans and for texts."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if least <= value <= most else None  # NaN is not


def read_whole_number(value: object, most: int, *, least: int = 0) -> int | None:
    """Return a number within these bounds without its fraction; None for anything else."""
    number = read_number(value, most, least=least)
    return None if number is None else int(number)


def read_decimal(text: object, most: float) -> float | None:
    """Return the number that a text, or a number, is, from 0 on; None if it is none within its bound."""
    if isinstance(text, str):
        try:
            return read_number(float(text) if len(text) <= _MAX_DIGITS else None, most)
        except ValueError:
            return None
    return read_number(text, most)


def read_moment(value: object) -> int | None:
    """Return a time in Unix milliseconds, given in seconds or milliseconds; None if it is none."""
    moment = read_number(value, MAX_MOMENT)
    if moment is None:
        return None
    return int(moment * 1000 if moment < _LAST_SECOND else moment) or None  # seconds until the year 5138


def read_pid(value: object) -> int | None:
    """Return the number of a process; None for 0, 1 and negative ones, which would mean many processes."""
    return value if type(value) is int and _FIRST_PID <= value <= MAX_PID else None
