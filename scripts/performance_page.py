"""Generates the tables in docs/performance.md from the baseline of `make bench`; a test checks that they are up to date."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # for `benchmarks`, which is not installed

from benchmarks.report import (  # noqa: E402
    MAX_MISSES,
    Figure,
    format_limit,
    format_miss,
    format_value,
    is_beyond,
    is_missed,
    list_misses,
)
from benchmarks.rows import COMPARED, SECTIONS, WAITED_FOR  # noqa: E402
from benchmarks.run import BASELINE  # noqa: E402

PAGE = ROOT / "docs" / "performance.md"


def render_page() -> str:
    """Render the page with new tables; the text around them is kept."""
    figures: list[Figure] = json.loads(BASELINE.read_text(encoding="utf-8"))["rows"]
    page = PAGE.read_text(encoding="utf-8")
    parts: dict[str, Callable[[Sequence[Figure]], str]] = {
        "what a user waits for": render_summary,
        "how it compares": render_comparison,
        "missed targets": render_misses,
        "figures": render_figures,
    }
    for name, render in parts.items():
        page = _replace(page, name, render(figures))
    return page


def _replace(page: str, name: str, text: str) -> str:
    """Replace what is between the two marks of this name."""
    begin, end = f"<!-- {name}: written by `make docs` -->\n", f"<!-- end of {name} -->\n"
    before, _, rest = page.partition(begin)
    return before + begin + text + end + rest.partition(end)[2]


def render_summary(figures: Sequence[Figure]) -> str:
    """Render what users wait for, as far as it was measured."""
    known = {(figure["section"], figure["name"]): figure for figure in figures}
    lines = ["\n| a user waits for | takes | beside | ratio |\n|---|--:|---|--:|\n"]
    for about, section, name in WAITED_FOR:
        if figure := known.get((section, name)):
            beside = known[section, figure["floor"]]
            ratio = f"{figure['ratio']:.2f}{' (missed)' if is_missed(figure) else ''}"
            lines.append(
                f"| {about} | {format_value(figure)} | {_name_floor(figure)}, {format_value(beside)} | {ratio} |\n"
            )
    return "".join(lines) + "\n"


def render_comparison(figures: Sequence[Figure]) -> str:
    """Render the ratios of whole groups of rows to other servers, as far as they were measured."""
    known = {(figure["section"], figure["name"]): figure for figure in figures}
    lines = ["\n| | rows | median ratio | from, to | target |\n|---|--:|--:|--:|--:|\n"]
    for about, section, names in COMPARED:
        if rows := [known[section, name] for name in names if (section, name) in known]:
            ratios = sorted(row["ratio"] for row in rows)
            limits = " or ".join(sorted({format_limit(row) for row in rows}))
            span = f"{ratios[0]:.2f}, {ratios[-1]:.2f}" if len(rows) > 1 else ""
            lines.append(f"| {about} | {len(rows)} | {median(ratios):.2f} | {span} | {limits} |\n")
    return "".join(lines) + "\n"


def render_misses(figures: Sequence[Figure]) -> str:
    """Render at most ten entries, the worst first."""
    targets, missed = sum("target" in figure for figure in figures), sum(map(is_missed, figures))
    entries = [f"- {format_miss(miss)}\n" for miss in list_misses(figures)[:MAX_MISSES]]
    return f"\n{targets - missed} of {targets} targets are met. Not met:\n\n" + "".join(entries) + "\n"


def render_figures(figures: Sequence[Figure]) -> str:
    """Render one table per section; a floor is a column of the rows that are compared with it."""
    about = {section.name: section.about for section in SECTIONS}
    parts = []
    for name, rows in groupby(figures, lambda figure: figure["section"]):
        measured = list(rows)
        values = {row["name"]: format_value(row) for row in measured}
        floors = {row.get("floor") for row in measured}
        head = f"\n### {name}\n\n{about[name]}\n\n| | median | beside | its median | ratio | limit |\n|---|--:|---|--:|--:|--:|\n"
        shown = [row for row in measured if row["name"] not in floors]
        parts.append(head + "".join(_render_row(row, values) for row in shown))
    return "".join(parts) + "\n"


def _render_row(figure: Figure, values: dict[str, str]) -> str:
    beside = ("", "", "")
    if "floor" in figure:
        beside = (_name_floor(figure), values[figure["floor"]], f"{figure['ratio']:.2f}")
    mark = " (missed)" if is_missed(figure) else " (beyond)" if is_beyond(figure) else ""
    cells = (figure["name"], format_value(figure), *beside, format_limit(figure) + mark)
    return f"| {' | '.join(cells)} |\n"


def _name_floor(figure: Figure) -> str:
    """Name the floor, without what it has in common with the name of the row."""
    floor: str = figure["floor"]
    return floor.removeprefix(f"{figure['name']}: ")


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
