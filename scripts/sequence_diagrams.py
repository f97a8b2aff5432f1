"""Reads the sequence diagrams of the pages, and draws them for the website, which loads no script to do it.

The pages use a small part of the notation of Mermaid, which GitHub draws by itself.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

_FENCE = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PART = re.compile(r"(?:participant|actor) (\w+)(?: as (.+))?")
_STEP = re.compile(r"(\w+)(--?>>)(\w+): (.+)")

COLUMN, MARGIN, LINE, CHARACTER = 150, 80, 16, 7


class DiagramError(ValueError):
    """A line is not in the part of the notation that we draw."""


@dataclass(frozen=True)
class Step:
    """One arrow; an answer has a dashed one."""

    source: str
    target: str
    text: str
    is_answer: bool


@dataclass(frozen=True)
class Diagram:
    """Who takes part, by short name, and what happens."""

    parts: dict[str, str]
    steps: tuple[Step, ...]


def find_diagrams(markdown: str) -> list[Diagram]:
    """Read all diagrams of a page."""
    return [read_diagram(text) for text in _FENCE.findall(markdown)]


def read_diagram(text: str) -> Diagram:
    """Read one diagram; who takes part is declared first."""
    parts: dict[str, str] = {}
    steps: list[Step] = []
    head, *lines = [line.strip() for line in text.splitlines() if line.strip()]
    if head != "sequenceDiagram":
        raise DiagramError(f"{head!r} is not a sequence diagram.")
    for line in lines:
        if part := _PART.fullmatch(line):
            parts[part[1]] = part[2] or part[1]
        elif (step := _STEP.fullmatch(line)) and {step[1], step[3]} <= parts.keys():
            steps.append(Step(step[1], step[3], step[4], is_answer=step[2] == "-->>"))
        elif line != "autonumber":
            raise DiagramError(f"{line!r} is not drawn: docs/about-these-pages.md has the notation.")
    return Diagram(parts, tuple(steps))


def draw_diagrams(markdown: str) -> str:
    """Replace the diagrams of a page by pictures."""
    return _FENCE.sub(lambda fence: draw(read_diagram(fence[1])), markdown)


def draw(diagram: Diagram) -> str:
    """Draw a diagram as SVG, in the colours of the page around it."""
    places = {name: MARGIN + COLUMN * number for number, name in enumerate(diagram.parts)}
    width = max(places.values()) + MARGIN
    labels = {name: _split_label(label) for name, label in diagram.parts.items()}
    top = 12 + LINE * max(map(len, labels.values()))
    drawn, bottom = list[str](), top + 12
    for number, step in enumerate(diagram.steps, 1):
        lines, bottom = _draw_step(number, step, places, width, bottom)
        drawn += lines
    bottom += 12
    heads = [line for name in places for line in _draw_part(places[name], labels[name], top, bottom)]
    said = "; ".join(f"{step.source} to {step.target}: {step.text}" for step in diagram.steps)
    begin = (
        f'<div style="overflow-x: auto"><svg role="img" aria-label="{escape(said)}" viewBox="0 0 {width} {bottom}"'
        f' style="min-width: {width * 2 // 3}px; max-width: {width}px; width: 100%; font: 12px monospace">'
    )
    return "\n".join([begin, *heads, *drawn, "</svg></div>"])


def _split_label(label: str) -> list[str]:
    """Break a path after its slashes, so that it fits on the head of a column."""
    lines = [""]
    for piece in re.findall(r"[^/]+/?", label):
        if len(lines[-1] + piece) * CHARACTER > COLUMN - 20 and lines[-1]:
            lines.append("")
        lines[-1] += piece
    return lines


def _draw_part(x: int, lines: list[str], top: int, bottom: int) -> Iterator[str]:
    yield f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}" stroke="currentColor" stroke-opacity=".3"/>'
    yield (
        f'<rect x="{x - COLUMN // 2 + 5}" y="1" width="{COLUMN - 10}" height="{top - 1}" rx="4"'
        ' fill="none" stroke="currentColor" stroke-opacity=".6"/>'
    )
    for number, line in enumerate(lines):
        yield _write(x, 16 + LINE * number, line, anchor="middle")


def _draw_step(
    number: int, step: Step, places: dict[str, int], width: int, above: int
) -> tuple[list[str], int]:
    """Draw an arrow with its text above it; return what it ends at, too."""
    begin, end = places[step.source], places[step.target]
    left = max(8, min(begin + 8, end + 8, width - 2 * COLUMN))
    room = max(abs(end - begin), min(2 * COLUMN, width - left)) - 12
    lines = textwrap.wrap(f"{number}. {step.text}", room // CHARACTER)
    y = above + LINE * len(lines) + 8
    drawn = [_write(left, above + 12 + LINE * place, line) for place, line in enumerate(lines)]
    dashes = ' stroke-dasharray="5 4"' if step.is_answer else ""
    if begin == end:
        path, tip, y = f"M{begin} {y}h24v12h-20", begin + 4, y + 12
        ahead = -1
    else:
        ahead = 1 if end > begin else -1
        path, tip = f"M{begin} {y}H{end - ahead}", end
    drawn += [
        f'<path d="{path}" fill="none" stroke="currentColor"{dashes}/>',
        f'<path d="M{tip} {y}l{-8 * ahead} -4v8z" fill="currentColor"/>',
    ]
    return drawn, y + 8


def _write(x: int, y: int, text: str, *, anchor: str = "start") -> str:
    """Write text that stays readable where a line passes behind it."""
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" fill="currentColor" paint-order="stroke"'
        f' stroke="var(--md-default-bg-color)" stroke-width="4">{escape(text)}</text>'
    )
