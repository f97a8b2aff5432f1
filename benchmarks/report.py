"""Figures: medians and ratios of what was measured, the table, what missed its target, what became slower."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any

from benchmarks.rows import SECTIONS, Guard, Row, Section
from benchmarks.timing import Samples

Figure = dict[str, Any]
SLOWER = 1.25
MAX_MISSES = 10


@dataclass(frozen=True)
class Miss:
    """Rows of a section that miss their targets for the same reason."""

    section: str
    why: str
    figures: tuple[Figure, ...]

    @property
    def factor(self) -> float:
        """How many times worse than its target the worst of them is."""
        return max(map(_get_factor, self.figures))


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
    if row.limit is not None:
        figure["guard" if isinstance(row.limit, Guard) else "target"] = float(row.limit)
    return figure


def get_limit(figure: Figure) -> float | None:
    """Return the target or the guard of a figure."""
    limit: float | None = figure.get("target", figure.get("guard"))
    return limit


def is_beyond(figure: Figure) -> bool:
    """Whether the figure is beyond its limit; a rate must reach it, everything else must not exceed it."""
    return get_limit(figure) is not None and _get_factor(figure) > 1


def is_missed(figure: Figure) -> bool:
    """Whether the figure misses a target; being beyond a guard is something else."""
    return "target" in figure and is_beyond(figure)


def _get_factor(figure: Figure) -> float:
    ratio, limit = max(figure["ratio"], 0.001), get_limit(figure) or 0.001
    return float(limit / ratio if figure["unit"] == "/s" else ratio / limit)


def list_misses(figures: Iterable[Figure]) -> list[Miss]:
    """List what misses its target, the worst first; rows of a section with the same reason are one entry."""
    found: dict[tuple[str, str], list[Figure]] = {}
    for figure in filter(is_missed, figures):
        found.setdefault((figure["section"], find_reason(figure)), []).append(figure)
    misses = [Miss(section, why, tuple(rows)) for (section, why), rows in found.items()]
    return sorted(misses, key=lambda miss: miss.factor, reverse=True)


def find_reason(figure: Figure) -> str:
    """Return why this row misses its target, as `rows.py` has it."""
    rows = (row for section in SECTIONS if section.name == figure["section"] for row in section.rows)
    return next((row.why for row in rows if row.name == figure["name"]), "")


def format_limit(figure: Figure) -> str:
    limit = get_limit(figure)
    if limit is None:
        return ""
    return f"{'' if 'target' in figure else 'guard '}{'≥' if figure['unit'] == '/s' else '≤'} {limit:g}"


def format_value(figure: Figure) -> str:
    value = figure["value"]
    digits = 3 if value < 1 else 2 if value < 10 else 1 if value < 1000 else 0
    return f"{value:,.{digits}f} {figure['unit']}"


def format_table(figures: Iterable[Figure]) -> str:
    lines = []
    for section, rows in groupby(figures, lambda figure: figure["section"]):
        lines += ["", f"{section:<52}{'median':>16}{'ratio':>9}{'limit':>15}"]
        for row in rows:
            ratio = f"{row['ratio']:.2f}" if "ratio" in row else ""
            mark = "  MISSED" if is_missed(row) else "  BEYOND" if is_beyond(row) else ""
            lines.append(f"  {row['name']:<50}{format_value(row):>16}{ratio:>9}{format_limit(row):>15}{mark}")
    return "\n".join(lines)


def format_misses(figures: Sequence[Figure]) -> str:
    """Say which targets are missed and why, in at most ten entries, and which guards are exceeded."""
    targets, missed = sum("target" in figure for figure in figures), sum(map(is_missed, figures))
    lines = [f"\n{targets - missed} of {targets} targets are met."]
    misses = list_misses(figures)
    lines += [f"  {format_miss(miss)}" for miss in misses[:MAX_MISSES]]
    if len(misses) > MAX_MISSES:
        lines.append(f"  and {len(misses) - MAX_MISSES} more, which are not as far from theirs")
    if guards := [each for each in figures if is_beyond(each) and not is_missed(each)]:
        lines.append("Beyond their guards: " + ", ".join(map(_format_ratio, guards)))
    return "\n".join(lines)


def format_miss(miss: Miss) -> str:
    rows = ", ".join(map(_format_ratio, miss.figures))
    return f"{miss.section}: {rows}. {miss.why or 'Nobody has found out why yet.'}"


def _format_ratio(figure: Figure) -> str:
    return f"{figure['name']} {figure['ratio']:g} ({format_limit(figure)})"


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
