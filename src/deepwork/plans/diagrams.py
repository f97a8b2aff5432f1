"""Render a plan as text for a terminal or as a Mermaid flowchart; large plans are truncated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from deepwork.plans.models import Node, TaskStatus
from deepwork.plans.rules.graph import Graph

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
_MERMAID_SPECIAL_CHARS = '"#&<>`\\'


def render_text(nodes: Sequence[Node]) -> str:
    """Render the tasks from first to last; a bracket joins those that may run in parallel.

    An arrow names what a task waits for, unless that is exactly the row above.
    """
    if not nodes:
        return "There is no plan yet."
    graph = Graph(nodes)
    rows = graph.list_rows()
    width = min(_MAX_NAME_LENGTH, max(len(node.name) for row in rows for node in row[:_MAX_TASKS_PER_ROW]))
    drawn: list[str] = []
    above: list[Node] = []
    for number, row in enumerate(rows[:_MAX_TEXT_ROWS], start=1):
        drawn += _render_row(graph, number, row, above, width)
        above = row
    if len(rows) > _MAX_TEXT_ROWS:
        drawn.append(f"     … {len(rows) - _MAX_TEXT_ROWS:,} more rows")
    return "\n".join([*drawn, "", _render_legend(graph)])


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


def _render_row(graph: Graph, number: int, row: list[Node], above: list[Node], width: int) -> Iterator[str]:
    shown = row[:_MAX_TASKS_PER_ROW]
    for index, node in enumerate(shown):
        place = f"{number:>3}." if index == 0 else "    "
        mark, name = _STATUS_MARKS[graph.get_effective_status(node)], _truncate_name(node.name)
        bracket, waits_for = _choose_bracket(index, len(row)), _format_dependencies(graph, node, above)
        line = f"{place} {bracket} {mark} {name:<{width}}  {waits_for}"
        yield line.rstrip()
    if len(row) > len(shown):
        counts = _format_counts(graph, row[len(shown) :])
        yield f"     └ … {len(row) - len(shown):,} more: {counts}"


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
        label, status = _escape(_truncate_name(node.name)), graph.get_effective_status(node)
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


def _escape(text: str) -> str:
    """Escape characters that are special in Mermaid or HTML."""
    return "".join(
        f"#{ord(character)};"
        if character in _MERMAID_SPECIAL_CHARS or not character.isprintable()
        else character
        for character in text
    )
