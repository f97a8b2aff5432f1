"""Keeps text of others from controlling the terminal, whatever a command prints and how.

Commands format text of others with `output.to_printable`. What they forget, and what click, tracebacks and
logs print, is escaped here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from deepwork.edge.cli.framework.terminal import is_terminal
from deepwork.kernel.foreign_text import escape_controls

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
