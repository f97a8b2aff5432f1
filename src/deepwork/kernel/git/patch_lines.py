"""Finds a line of a file in another version of it, by the patch between the two."""

from __future__ import annotations

import re
from collections.abc import Iterator

_HUNK_PATTERN = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def find_line_before(patch: str, line: int) -> int | None:
    """Return the number that a line of the new version has in the old one; None if the patch added it.

    A patch without hunks changes no line. Of a patch that is cut off, only lines before the cut are right.
    """
    offset = 0
    for old, new, kind in _list_lines(patch):
        if new > line:
            break
        if kind == "+" and new == line:
            return None
        if kind == " " and new == line:
            return old
        offset = _get_offset_after(old, new, kind)
    return line + offset


def _get_offset_after(old: int, new: int, kind: str) -> int:
    """Return old minus new for the lines after this one."""
    return old + (kind != "+") - new - (kind != "-")


def _list_lines(patch: str) -> Iterator[tuple[int, int, str]]:
    """List the lines of the hunks: the next line in the old and in the new version, and the kind of line."""
    old = new = left_old = left_new = 0
    for text in patch.split("\n"):
        kind = text[:1] or " "  # some programs cut white space at the end of lines
        if left_old <= 0 and left_new <= 0:
            if found := _HUNK_PATTERN.match(text):
                left_old, left_new = int(found[2] or 1), int(found[4] or 1)
                # Without lines of a version, git names the line before the hunk.
                old, new = int(found[1]) + (left_old == 0), int(found[3]) + (left_new == 0)
            continue
        if kind not in " +-":
            continue
        yield old, new, kind
        is_old, is_new = kind != "+", kind != "-"
        old, left_old, new, left_new = old + is_old, left_old - is_old, new + is_new, left_new - is_new


def reverse_patch(patch: str) -> str:
    """Return the patch from the new version to the old one, as far as `find_line_before` reads it."""
    swapped = {"+": "-", "-": "+"}
    lines = []
    for text in patch.split("\n"):
        if found := _HUNK_PATTERN.match(text):
            lines.append(f"@@ -{found[3]},{found[4] or 1} +{found[1]},{found[2] or 1} @@")
        else:
            lines.append(swapped.get(text[:1], text[:1]) + text[1:])
    return "\n".join(lines)
