"""Shortening text to one line, for lists."""

from __future__ import annotations

_MAX_LINE_LENGTH = 200


def truncate_to_line(text: str | None, longest: int = _MAX_LINE_LENGTH) -> str | None:
    """Return the beginning of the text on one line."""
    if text is None:
        return None
    line = " ".join(text[: longest * 2].split())
    return line if len(line) <= longest and len(text) <= longest * 2 else f"{line[: longest - 1]}…"
