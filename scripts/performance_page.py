"""Generates the table in docs/performance.md from the baseline of `make bench`; a test checks that it is up to date."""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # for `benchmarks`, which is not installed

from benchmarks.report import format_target, format_value, is_missed  # noqa: E402
from benchmarks.rows import SECTIONS  # noqa: E402
from benchmarks.run import BASELINE  # noqa: E402

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- figures: written by `make docs` -->\n", "<!-- end of the figures -->\n"


def render_page() -> str:
    """Render the page with new tables; the text around them is kept."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    return before + BEGIN + render_figures(json.loads(BASELINE.read_text(encoding="utf-8"))) + END + after


def render_figures(baseline: dict[str, Any]) -> str:
    """Render one table per section."""
    about = {section.name: section.about for section in SECTIONS}
    parts = [f"\nMeasured with Python {baseline['python']}.\n"]
    for name, figures in groupby(baseline["rows"], lambda figure: figure["section"]):
        head = f"\n### {name}\n\n{about[name]}\n\n| | median | ratio to | | target |\n|---|--:|---|--:|--:|\n"
        parts.append(head + "".join(map(_render_row, figures)))
    return "".join(parts) + "\n"


def _render_row(figure: dict[str, Any]) -> str:
    ratio = f"{figure['ratio']:.2f}" if "ratio" in figure else ""
    target = format_target(figure) + (" (missed)" if is_missed(figure) else "")
    return f"| {figure['name']} | {format_value(figure)} | {figure.get('floor', '')} | {ratio} | {target} |\n"


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
