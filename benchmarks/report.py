"""Figures: medians and ratios of what was measured, the table, what missed its target, what became slower."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from statistics import median
from typing import Any

from benchmarks.rows import SECTIONS, Row, Section
from benchmarks.timing import Samples

Figure = dict[str, Any]
SLOWER = 1.25


def build_figures(section: Section, samples: Samples) -> Iterator[Figure]:
    """Build the figures of a section; rows without a value were not measured on this machine."""
    if unknown := samples.keys() - {row.name for row in section.rows}:
        raise ValueError(f"Section {section.name} has no row {', '.join(sorted(unknown))}.")
    for row in section.rows:
        if row.name in samples:
            yield _build_figure(section, row, samples)


def _build_figure(section: Section, row: Row, samples: Samples) -> Figure:
    values = sorted(samples[row.name])
    value = median(values)
    figure: Figure = {"section": section.name, "name": row.name, "unit": row.unit, "value": round(value, 3)}
    if len(values) >= 100:
        figure["p99"] = round(values[int(len(values) * 0.99)], 3)
    if row.floor:
        figure |= {"floor": row.floor, "ratio": round(value / median(samples[row.floor]), 2)}
    if row.target is not None:
        figure["target"] = row.target
    return figure


def is_missed(figure: Figure) -> bool:
    """Whether the figure misses its target; a rate must reach it, everything else must not exceed it."""
    if "target" not in figure:
        return False
    over = figure["ratio"] - figure["target"]
    return bool(over < 0 if figure["unit"] == "/s" else over > 0)


def format_target(figure: Figure) -> str:
    if "target" not in figure:
        return ""
    return f"{'≥' if figure['unit'] == '/s' else '≤'} {figure['target']:g}"


def format_value(figure: Figure) -> str:
    value = figure["value"]
    digits = 3 if value < 1 else 2 if value < 10 else 1 if value < 1000 else 0
    return f"{value:,.{digits}f} {figure['unit']}"


def format_table(figures: Iterable[Figure]) -> str:
    lines = []
    for section, rows in groupby(figures, lambda figure: figure["section"]):
        lines += ["", f"{section:<52}{'median':>16}{'ratio':>9}{'target':>9}"]
        for row in rows:
            ratio = f"{row['ratio']:.2f}" if "ratio" in row else ""
            mark = "  MISSED" if is_missed(row) else ""
            lines.append(f"  {row['name']:<50}{format_value(row):>16}{ratio:>9}{format_target(row):>9}{mark}")
    return "\n".join(lines)


def format_misses(figures: Sequence[Figure]) -> str:
    targets = sum("target" in figure for figure in figures)
    missed = [
        f"  {each['section']}: {each['name']}: {each['ratio']:.2f} times {each['floor']}, target {format_target(each)}"
        for each in figures
        if is_missed(each)
    ]
    if not missed:
        return f"\nAll {targets} targets are met."
    return f"\n{len(missed)} of {targets} targets are missed:\n" + "\n".join(missed)


def compare_with_baseline(before: Iterable[Figure], now: Iterable[Figure]) -> str:
    """List the rows whose ratio is worse than in the saved baseline."""
    known = {(row["section"], row["name"]): row["ratio"] for row in before if row.get("floor")}
    slower = [
        f"  {row['section']}: {row['name']}: {old} → {row['ratio']}"
        for row in now
        if (old := known.get((row["section"], row["name"]))) and "ratio" in row and _is_slower(row, old)
    ]
    if not slower:
        return "\nNothing is slower than the baseline."
    return "\nSlower than the baseline:\n" + "\n".join(slower)


def replace_sections(before: Sequence[Figure], now: Sequence[Figure]) -> list[Figure]:
    """Return the figures of both; those of the sections that were measured now replace the others."""
    measured = {figure["section"] for figure in now}
    both = [*(figure for figure in before if figure.get("section") not in measured), *now]
    order = [section.name for section in SECTIONS]
    return sorted(
        (each for each in both if each.get("section") in order), key=lambda each: order.index(each["section"])
    )


def _is_slower(row: Figure, old: float) -> bool:
    worse = old / max(row["ratio"], 0.001) if row["unit"] == "/s" else row["ratio"] / old
    return bool(worse > SLOWER)
