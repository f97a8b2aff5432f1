"""Render a plan as text for a terminal or as a Mermaid flowchart; large plans are truncated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from deepwork.kernel.foreign_text import escape_mermaid
from deepwork.work.plans.models import Node, TaskStatus
from deepwork.work.plans.rules.graph import Graph

_MAX_NAME_LENGTH = 60
_MAX_NAMED_DEPENDENCIES = 4
_MAX_TASKS_PER_ROW = 20
_MAX_TEXT_ROWS = 100
_MAX_MERMAID_NODES = 150
_MAX_MERMAID_ARROWS = 400  # Mermaid's own limit is 500

_STATUS_MARKS = {
    TaskStatus.PENDING: "○",
    TaskStatus.BLOCKED: "·",
    TaskStatus.PLANNING: "▷",
    TaskStatus.IN_PROGRESS: "▶",
    TaskStatus.PAUSED: "‖",
    TaskStatus.COMPLETED: "✓",
    TaskStatus.FAILED: "✗",
    TaskStatus.SKIPPED: "-",
}
_STATUS_WORDS = {TaskStatus.PENDING: "ready", TaskStatus.BLOCKED: "waits"}
_MERMAID_CLASSES = {
    "done": "fill:#d8f3dc,stroke:#2d6a4f",
    "running": "fill:#dbeafe,stroke:#1d4ed8",
    "failed": "fill:#fee2e2,stroke:#b91c1c",
    "waits": "fill:#f5f5f5,stroke:#a3a3a3,color:#737373",
}


class DrawnLine(NamedTuple):
    """A line of a drawing; that of a task has its status."""

    text: str
    status: TaskStatus | None = None


class Drawing(NamedTuple):
    """A drawing of a plan."""

    lines: list[DrawnLine]
    is_folded: bool = False
    """Whether rows were left out because it would have been too long."""


_Part = tuple[list[tuple[int, list[Node]]], list[DrawnLine]]
"""Some rows with their places, and the lines that draw them."""


def render_text(nodes: Sequence[Node]) -> str:
    """Render the tasks from first to last; a bracket joins those that may run in parallel.

    An arrow names what a task waits for, unless that is exactly the row above.
    """
    return "\n".join(line.text for line in draw(nodes).lines)


def draw(
    nodes: Sequence[Node],
    notes: Mapping[str, str] | None = None,
    *,
    max_lines: int | None = None,
    whole: bool = False,
) -> Drawing:
    """Draw like `render_text`, with a note beside some tasks, by id.

    `max_lines`: fold finished rows, then waiting rows, if there would be more. `whole`: leave nothing out.
    """
    if not nodes:
        return Drawing([DrawnLine("There is no plan yet.")])
    graph = Graph(nodes)
    rows = graph.list_rows()
    most_tasks, most_rows = (len(nodes), len(nodes)) if whole else (_MAX_TASKS_PER_ROW, _MAX_TEXT_ROWS)
    width = min(_MAX_NAME_LENGTH, max(len(node.name) for row in rows for node in row[:most_tasks]))
    before = [[], *rows]
    blocks = [
        list(_render_row(graph, number, row, before[number - 1], width, notes or {}, most_tasks))
        for number, row in enumerate(rows, start=1)
    ]
    drawn = [line for block in blocks[:most_rows] for line in block]
    if max_lines and sum(map(len, blocks)) > max_lines:
        drawn, is_folded = _fold(graph, rows, blocks, max_lines), True
    else:
        is_folded = len(rows) > most_rows
        drawn += [DrawnLine(f"     … {len(rows) - most_rows:,} more rows")] * is_folded
    return Drawing([*drawn, DrawnLine(""), DrawnLine(_render_legend(graph))], is_folded)


def _fold(
    graph: Graph, rows: list[list[Node]], blocks: list[list[DrawnLine]], max_lines: int
) -> list[DrawnLine]:
    """Replace runs of finished rows by one line each; if that is not enough, waiting rows too."""
    parts = _fold_rows(graph, rows, blocks, ("done",))
    if _count_lines(parts) > max_lines:
        shown = next(each for each in range(len(parts), -1, -1) if _count_lines(parts[:each]) < max_lines)
        rest = [member for members, _ in parts[shown:] for member in members]
        if all(_classify_row(graph, row) == "waits" for _, row in rest):
            parts = [*parts[:shown], (rest, [_render_folded(graph, rest)])]
        else:
            parts = _fold_rows(graph, rows, blocks, ("done", "waits"))
    lines = [line for _, drawn in parts for line in drawn]
    if len(lines) <= max_lines:
        return lines
    return [*lines[: max_lines - 1], DrawnLine(f"     … {len(lines) - max_lines + 1:,} more lines")]


def _fold_rows(
    graph: Graph, rows: list[list[Node]], blocks: list[list[DrawnLine]], foldable: Collection[str]
) -> list[_Part]:
    """Join each run of rows of these kinds into one part; every other row is a part."""
    parts: list[_Part] = []
    for kind, group in groupby(enumerate(rows), key=lambda item: _classify_row(graph, item[1])):
        members = list(group)
        if kind in foldable and sum(len(blocks[place]) for place, _ in members) > 1:
            parts.append((members, [_render_folded(graph, members)]))
        else:
            parts += [([member], blocks[member[0]]) for member in members]
    return parts


def _count_lines(parts: Sequence[_Part]) -> int:
    return sum(len(lines) for _, lines in parts)


def _classify_row(graph: Graph, row: Sequence[Node]) -> str:
    statuses = {graph.get_effective_status(node) for node in row}
    if all(status.is_done for status in statuses):
        return "done"
    return "waits" if statuses == {TaskStatus.BLOCKED} else "open"


def _render_folded(graph: Graph, members: Sequence[tuple[int, list[Node]]]) -> DrawnLine:
    first, last = members[0][0] + 1, members[-1][0] + 1
    place = f"{first:>3}." if first == last else f"{first:>3}. to {last}."
    tasks = [node for _, row in members for node in row]
    return DrawnLine(f"{place}  … {_format_counts(graph, tasks)}", graph.get_effective_status(tasks[0]))


def render_mermaid(nodes: Sequence[Node]) -> str:
    """Render a flowchart coloured by status; of a plan that is too large, only rows are drawn."""
    graph = Graph(nodes)
    lines = (
        _render_mermaid_tasks(graph)
        if len(nodes) <= _MAX_MERMAID_NODES and _count_arrows(graph) <= _MAX_MERMAID_ARROWS
        else _render_mermaid_rows(graph)
    )
    classes = [f"    classDef {name} {style}" for name, style in _MERMAID_CLASSES.items()]
    return "\n".join(["flowchart TD", *lines, *classes])


def _render_row(
    graph: Graph,
    number: int,
    row: list[Node],
    above: list[Node],
    width: int,
    notes: Mapping[str, str],
    most_tasks: int,
) -> Iterator[DrawnLine]:
    shown = row[:most_tasks]
    for index, node in enumerate(shown):
        place = f"{number:>3}." if index == 0 else "    "
        status = graph.get_effective_status(node)
        bracket, waits_for = _choose_bracket(index, len(row)), _format_dependencies(graph, node, above)
        about = "  ".join(filter(None, [notes.get(node.id, ""), waits_for]))
        line = f"{place} {bracket} {_STATUS_MARKS[status]} {_truncate_name(node.name):<{width}}  {about}"
        yield DrawnLine(line.rstrip(), status)
    if len(row) > len(shown):
        counts = _format_counts(graph, row[len(shown) :])
        yield DrawnLine(f"     └ … {len(row) - len(shown):,} more: {counts}")


def _choose_bracket(index: int, size: int) -> str:
    if size == 1:
        return " "
    return {0: "┌", size - 1: "└"}.get(index, "├")


def _format_dependencies(graph: Graph, node: Node, above: Collection[Node]) -> str:
    if node.depends_on is None:
        previous = graph.previous_level[node.sequence]
        if previous is None or {each.id for each in graph.list_dependencies(node)} == {
            each.id for each in above
        }:
            return ""
        return f"← all of sequence {previous}"
    if not node.depends_on or node.depends_on == {each.id for each in above}:
        return ""
    named = [_truncate_name(other.name) for other in graph.list_dependencies(node, _MAX_NAMED_DEPENDENCIES)]
    more = len(node.depends_on) - len(named)
    return f"← {', '.join(named)}" + (f" and {more:,} more" if more else "")


def _format_counts(graph: Graph, nodes: Sequence[Node]) -> str:
    counts = Counter(graph.get_effective_status(node) for node in nodes)
    return ", ".join(
        f"{counts[status]:,} {_format_status(status)}" for status in _STATUS_MARKS if counts[status]
    )


def _render_legend(graph: Graph) -> str:
    """Explain the marks, and count the tasks with each."""
    counts = Counter(map(graph.get_effective_status, graph.nodes))
    return "  ".join(
        f"{mark} {_format_status(status)} {counts[status]:,}"
        for status, mark in _STATUS_MARKS.items()
        if counts[status]
    )


def _format_status(status: TaskStatus) -> str:
    return _STATUS_WORDS.get(status, status.value.replace("_", " "))


def _truncate_name(name: str) -> str:
    return name if len(name) <= _MAX_NAME_LENGTH else f"{name[: _MAX_NAME_LENGTH - 1]}…"


def _render_mermaid_tasks(graph: Graph) -> Iterator[str]:
    ids = {node.id: f"t{number}" for number, node in enumerate(graph.nodes, start=1)}
    for node in graph.nodes:
        label, status = escape_mermaid(_truncate_name(node.name)), graph.get_effective_status(node)
        yield f'    {ids[node.id]}["{label}"]{_format_class(status)}'
    for node in graph.nodes:
        yield from (f"    {ids[other.id]} --> {ids[node.id]}" for other in graph.list_dependencies(node))


def _render_mermaid_rows(graph: Graph) -> Iterator[str]:
    rows = graph.list_rows()
    for number, row in enumerate(rows[:_MAX_MERMAID_NODES], start=1):
        yield f'    r{number}["{len(row):,} tasks: {_format_counts(graph, row)}"]'
        if number > 1:
            yield f"    r{number - 1} --> r{number}"
    if len(rows) > _MAX_MERMAID_NODES:
        yield f'    r{_MAX_MERMAID_NODES} --> more["{len(rows) - _MAX_MERMAID_NODES:,} more rows"]'


def _count_arrows(graph: Graph) -> int:
    sizes = Counter[int | None](node.sequence for node in graph.nodes)
    return sum(
        sizes[graph.previous_level[node.sequence]] if node.depends_on is None else len(node.depends_on)
        for node in graph.nodes
    )


def _format_class(status: TaskStatus) -> str:
    if status.is_done:
        return ":::done"
    if status.is_running:
        return ":::running"
    return {TaskStatus.FAILED: ":::failed", TaskStatus.BLOCKED: ":::waits"}.get(status, "")
