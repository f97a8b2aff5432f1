"""What the terminal supports."""

from __future__ import annotations

import os
import sys
from typing import TextIO


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
