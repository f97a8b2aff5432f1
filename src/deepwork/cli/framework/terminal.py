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


def get_width() -> int:
    """Return the terminal's width in columns."""
    import shutil  # only tables need it

    return shutil.get_terminal_size((80, 24)).columns
