"""Patches for people: first how much each file changed, then the lines, page by page at a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from deepwork.edge.cli.framework import terminal
from deepwork.edge.cli.framework.output import to_printable
from deepwork.kernel.foreign_text import split_lines

_STYLES = {"+": "green", "-": "red", "@": "cyan"}
_HEADERS = ("diff --git ", "index ", "--- ", "+++ ", "new file mode", "deleted file mode", "similarity ")


_WEAKENED = {
    "test_file_deleted": "a file of tests was deleted",
    "tests_deleted": "tests were deleted",
    "tests_replaced": "tests have other names now, or are others",
    "tests_skipped": "tests are skipped or expected to fail",
    "others_left_out": "the tests beside one do not run",
    "assertions_removed": "there are fewer assertions",
    "always_true": "assertions cannot fail",
    "guarded_file": "it decides whether checks pass",
}


def render_weakened(found: Mapping[str, Any]) -> Iterator[str]:
    """Render what makes tests say less than before: a person should look at these lines first."""
    for each in found.get("weakened") or ():
        what = _WEAKENED.get(each["kind"], each["kind"])
        yield terminal.paint(to_printable(f"! {each['path']}: {what} ({each['count']})"), "yellow")
        for line in each.get("lines") or ():
            sign = "-" if line["side"] == "old" else "+"
            yield to_printable(f"    {sign}{line['line']}: {line['text']}")


def render_stat(found: Mapping[str, Any]) -> Iterator[str]:
    """Render a line for each file that differs, and a line for all."""
    yield from render_weakened(found)
    files: Sequence[Mapping[str, Any]] = found["files"]
    for file in files:
        lines = (
            "binary" if file.get("is_binary") else f"+{file.get('added', '?')} -{file.get('removed', '?')}"
        )
        yield to_printable(f"{file['status']:9} {lines:>10}  {file['path']}")
    total = found["files_count"]
    if total > len(files):
        yield f"… {len(files)} of {total} files"
    if total:
        added, removed = (sum(file.get(key) or 0 for file in files) for key in ("added", "removed"))
        yield f"{total} file{'' if total == 1 else 's'} changed, +{added} -{removed}"
    elif not found.get("warning"):
        yield "No files changed."
    if found.get("warning"):
        yield to_printable(found["warning"])


def render_patch(found: Mapping[str, Any], more: str) -> Iterator[str]:
    """Render the lines that differ; `more` is what shows the rest if it was cut."""
    is_header = False
    for line in split_lines(found["patch"]):
        is_header = line.startswith("diff --git ") or (is_header and not line.startswith("@@"))
        text = to_printable(line)
        style = "bold" if is_header and line.startswith(_HEADERS) else _STYLES.get(line[:1], "")
        yield terminal.paint(text, style) if style else text
    if found.get("truncated"):
        yield f"… truncated; {more}"


def page_lines(lines: Iterable[str]) -> None:
    """Print lines; in a pager if they do not fit on the screen of a terminal."""
    found = list(lines)
    if not terminal.supports_rich_output() or len(found) < terminal.get_size()[1] or sys.platform == "win32":
        print("\n".join(found))
        return
    os.environ.setdefault("LESS", "FRX")
    click.echo_via_pager("\n".join([*found, ""]), color=True)
