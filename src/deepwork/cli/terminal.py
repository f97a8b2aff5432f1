"""What whoever looks at our output can show."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TextIO


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a person looks at this stream in a terminal that understands more than plain lines."""
    if stream is None:  # closed before we began
        return False
    return stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown")


def is_rich() -> bool:
    """Whether answers may be more than plain lines."""
    return is_terminal(sys.stdout)


def columns() -> int:
    """How wide the terminal is."""
    return shutil.get_terminal_size((80, 24)).columns
