"""Tables in a terminal: fitted to its width, statuses in colour beside their words."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deepwork.cli.tables import fitting, is_whole, shortened, width

_LONGEST = 400
"""Of one cell, in places; whoever wants the whole text asks for the thing itself."""

_COLOURS = {
    "green": "completed passed success online active merged done ok",
    "cyan": "in_progress busy current planning ready",
    "yellow": "blocked paused waits waiting pending partial partial_success unread",
    "red": "failed broken error aborted",
    "bright_black": "skipped abandoned offline archived revoked",
}
_STYLES = {word: colour for colour, words in _COLOURS.items() for word in words.split()}


def drawn(title: str, names: Sequence[str], cells: Sequence[Sequence[str]], screen: int) -> list[str]:
    """A table as lines for a terminal of this width."""
    widths = [max(map(width, column)) for column in zip(names, *cells, strict=True)]
    # Whatever nobody has anything to say about makes room for the rest.
    told = [number for number in range(len(names)) if any(row[number] for row in cells)]
    kept = fitting([names[each] for each in told], [widths[each] for each in told], screen)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, widest in zip(names, widths, strict=True):
        if name in kept:
            whole = is_whole(name)
            table.add_column(
                Text(name), no_wrap=whole, overflow="fold", min_width=widest if whole else min(widest, 8)
            )
    for row in cells:
        table.add_row(*(_cell(name, text) for name, text in zip(names, row, strict=True) if name in kept))
    console = Console(width=screen, highlight=False, markup=False, emoji=False, soft_wrap=False)
    with console.capture() as captured:
        if title:
            console.print(Text(title.upper(), style="bold"))
        console.print(table, no_wrap=False, crop=False)
        if left_out := [names[each] for each in told if names[each] not in kept]:
            console.print(Text(f"No room for: {', '.join(left_out)}; --json has all.", style="dim"))
    return [line.rstrip() for line in captured.get().split("\n")]


def _cell(name: str, text: str) -> Text:
    """What an agent wrote stays text: nothing in it is read as markup."""
    style = _STYLES.get(text, "") if name == "status" or name.endswith("_status") else ""
    return Text(shortened(text, _LONGEST), style=style)
