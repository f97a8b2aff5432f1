"""What a terminal shows: colours, times, headings, and text that cannot take it over.

Commands format text of others with `output.to_printable`. What they forget, and what click, tracebacks and
logs print, is escaped here.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TextIO

from deepwork.kernel.foreign_text import escape_controls
from deepwork.kernel.values import format_timestamp

_WORDS = {
    "agent_name": "agent",
    "at": "when",
    "by_whom": "by",
    "duration_seconds": "seconds",
    "is_stale": "silent",
    "last_heartbeat": "last seen",
    "manual_review_needed": "needs review",
    "message_type": "type",
    "phase_name": "phase",
    "phase_number": "number",
    "phase_summary": "phases",
    "plan_summary": "summary",
    "requires_human_review": "needs a person",
    "seq": "number",
    "task_name": "task",
    "ts": "when",
    "until_at": "claim ends",
}


def to_heading(key: str) -> str:
    """Return a field's name as words: `created_at` is `created`, `files_changed` is `files changed`."""
    return _WORDS.get(key) or key.removesuffix("_at").replace("_", " ")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether the stream is a terminal that supports control sequences."""
    if stream is None:  # closed before the process started
        return False
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def supports_rich_output() -> bool:
    """Whether answers may use colours and box drawing."""
    return is_terminal(sys.stdout)


def supports_colour() -> bool:
    """Whether answers may be coloured: in a terminal, unless NO_COLOR is set."""
    return supports_rich_output() and not os.environ.get("NO_COLOR")


_SEQUENCES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def paint(text: str, style: str) -> str:
    """Colour a text for the reader of standard output; where colours are not wanted, it stays as it is."""
    if not style or not supports_colour():
        return text
    return f"\x1b[{_SEQUENCES[style]}m{text}\x1b[0m"


def get_size() -> tuple[int, int]:
    """Return the terminal's columns and rows; 80 and 24 if they are unknown."""
    import shutil

    found = shutil.get_terminal_size((80, 24))
    return found.columns, found.lines


def get_width() -> int:
    """Return the terminal's width in columns."""
    import shutil  # only tables need it

    return shutil.get_terminal_size((80, 24)).columns


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
    if supports_rich_output():
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


_STYLE = r"(?:[0-2]|[39][0-7])"
_OWN_SEQUENCE_PATTERN = re.compile(rf"(\x1b\[{_STYLE}(?:;{_STYLE})*m|\x1b\[H\x1b\[2J\x1b\[3J)")
"""Colours, bold and dim, and the sequence that clears the screen: what `terminal` and `plan_graph` print."""


class ProtectedStream:
    """A standard stream that escapes control characters; to a terminal, it writes our own colours."""

    def __init__(self, stream: TextIO) -> None:
        self.unprotected = stream

    def write(self, text: str) -> int:
        if not isinstance(text, str):  # click finds out in this way that the stream is for text
            raise TypeError("This stream takes text.")
        self.unprotected.write(self._escape(text))
        return len(text)

    def writelines(self, lines: Iterator[str]) -> None:
        for line in lines:
            self.write(line)

    def _escape(self, text: str) -> str:
        if not is_terminal(self.unprotected):
            return escape_controls(text)
        parts = _OWN_SEQUENCE_PATTERN.split(text)
        return "".join(part if place % 2 else escape_controls(part) for place, part in enumerate(parts))

    def __getattr__(self, name: str) -> Any:
        """Delegate the rest, except the stream of bytes, which would bypass the protection."""
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self.unprotected, name)


@contextmanager
def protect_output() -> Iterator[None]:
    """Protect standard output and standard error inside the block."""
    before = {name: getattr(sys, name) for name in ("stdout", "stderr")}
    protected = {
        name: ProtectedStream(stream)
        for name, stream in before.items()
        if stream is not None and not isinstance(stream, ProtectedStream)
    }
    for name, stream in protected.items():
        setattr(sys, name, stream)
    try:
        yield
    finally:
        for name, stream in protected.items():
            if getattr(sys, name) is stream:  # click replaces it when the reader has closed the pipe
                setattr(sys, name, before[name])


def get_unprotected(stream: TextIO) -> TextIO:
    """Return the stream itself, for a library that controls the terminal and prints nothing of others."""
    return stream.unprotected if isinstance(stream, ProtectedStream) else stream
