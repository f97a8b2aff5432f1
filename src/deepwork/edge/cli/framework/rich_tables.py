"""Tables for terminals: fitted to the width, with coloured statuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deepwork.edge.cli.framework.tables import (
    COLUMN_GAP,
    MIN_TEXT_WIDTH,
    is_never_shortened,
    is_place,
    measure_width,
    select_columns,
    shorten,
    shorten_middle,
)
from deepwork.edge.cli.framework.terminal import to_heading

_MAX_CELL_WIDTH = 400
"""Longer text in a cell is cut; the object's own `get` command shows all of it."""

_COLOURS = {
    "green": "completed passed success online active merged done landed ok",
    "cyan": "in_progress running busy current planning ready",
    "yellow": "blocked paused waits waiting pending partial partial_success unread parked needs_you",
    "red": "failed broken error aborted unattended",
    "bright_black": "skipped abandoned stopped offline archived revoked",
}
_STYLES = {word: colour for colour, words in _COLOURS.items() for word in words.split()}


def render_table(title: str, names: Sequence[str], cells: Sequence[Sequence[str]], screen: int) -> list[str]:
    """Render a table as lines for a terminal of this width."""
    headings = dict(zip(names, map(to_heading, names), strict=True))
    widths = [max(map(measure_width, column)) for column in zip(headings.values(), *cells, strict=True)]
    # Empty columns are dropped to make room for the others.
    filled = [number for number in range(len(names)) if any(row[number] for row in cells)]
    kept = select_columns([names[each] for each in filled], [widths[each] for each in filled], screen)
    most = _share_room(
        {name: width for name, width in zip(names, widths, strict=True) if name in kept}, screen
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, widest in zip(names, widths, strict=True):
        if name in kept:
            whole = is_never_shortened(name)
            table.add_column(
                Text(headings[name]),
                no_wrap=whole,
                overflow="fold",
                min_width=widest if whole else min(widest, 8),
            )
    for row in cells:
        table.add_row(
            *(_render_cell(name, text, most) for name, text in zip(names, row, strict=True) if name in kept)
        )
    console = Console(width=screen, highlight=False, markup=False, emoji=False, soft_wrap=False)
    with console.capture() as captured:
        if title:
            console.print(Text(to_heading(title).upper(), style="bold"))
        console.print(table, no_wrap=False, crop=False)
        if left_out := [headings[names[each]] for each in filled if names[each] not in kept]:
            console.print(Text(f"Not shown (--json shows all): {', '.join(left_out)}", style="dim"))
    return [line.rstrip() for line in captured.get().split("\n")]


def _share_room(widths: Mapping[str, int], screen: int) -> int:
    """Return how wide columns can be that may be shortened: narrow ones leave their room to the others."""
    left = screen - COLUMN_GAP * (len(widths) - 1)
    left -= sum(width for name, width in widths.items() if is_never_shortened(name))
    free = sorted(width for name, width in widths.items() if not is_never_shortened(name))
    for place, width in enumerate(free):
        if width * (len(free) - place) > left:
            return max(MIN_TEXT_WIDTH, left // (len(free) - place))
        left -= width
    return _MAX_CELL_WIDTH


def _render_cell(name: str, text: str, most: int) -> Text:
    """Build a cell as `Text`, so that nothing an agent wrote is interpreted as rich markup.

    Sentences wrap; a path or a branch that wraps cannot be read, so it is cut in the middle.
    """
    is_word = name in ("state", "status") or name.endswith("_status")
    style = _STYLES.get(text.replace(" ", "_"), "") if is_word else ""
    cut = shorten_middle(text, most) if is_place(name) else shorten(text, _MAX_CELL_WIDTH)
    return Text(cut, style=style)
