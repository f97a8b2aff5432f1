"""Lines at the end of a terminal's output that are drawn again in place, below lines that stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from deepwork.edge.cli.framework.protected_output import get_unprotected
from deepwork.edge.cli.framework.tables import measure_width

_ERASE_TO_LINE_END, _ERASE_BELOW = "\x1b[K", "\x1b[J"


class LiveLines:
    """Draws lines in place. The caller escapes the text of others: the stream is not protected here.

    Nothing else may be written to the terminal between two drawings.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = get_unprotected(stream)
        self._widths: list[int] = []
        """The widths of the lines that were drawn."""

    def draw(
        self, lines: Sequence[str], widths: Sequence[int], columns: int, *, above: Sequence[str] = ()
    ) -> None:
        """Draw lines of these widths instead of those drawn before; those `above` stay for good."""
        drawn = "".join(f"{line}{_ERASE_TO_LINE_END}\n" for line in [*above, *lines])
        self._stream.write(f"{self._move_up(columns)}{drawn}{_ERASE_BELOW}")
        self._stream.flush()
        self._widths = list(widths)

    def _move_up(self, columns: int) -> str:
        """Return the sequence that moves to the first line; a narrower terminal has wrapped some of them."""
        rows = sum(max(1, -(-width // max(1, columns))) for width in self._widths)
        return f"\x1b[{rows}F" if rows else ""


def measure_lines(lines: Sequence[str]) -> list[int]:
    """Return the widths of lines without control sequences."""
    return [measure_width(line) for line in lines]
