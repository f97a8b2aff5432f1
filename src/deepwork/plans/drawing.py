"""A plan drawn, as text for a terminal or as Mermaid for a page; a large plan is cut short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from deepwork.plans.graph import Graph
from deepwork.plans.models import Node, TaskStatus

_LONGEST_NAME = 60
_MOST_NAMED = 4
_MOST_IN_ROW = 20
_MOST_ROWS = 100
_MOST_DRAWN = 150
_MOST_ARROWS = 400  # Mermaid draws 500

_MARKS = {
    TaskStatus.PENDING: "○",
    TaskStatus.BLOCKED: "·",
    TaskStatus.PLANNING: "▷",
    TaskStatus.IN_PROGRESS: "▶",
    TaskStatus.PAUSED: "‖",
    TaskStatus.COMPLETED: "✓",
    TaskStatus.FAILED: "✗",
    TaskStatus.SKIPPED: "-",
}
_WORDS = {TaskStatus.PENDING: "ready", TaskStatus.BLOCKED: "waits"}
_CLASSES = {
    "done": "fill:#d8f3dc,stroke:#2d6a4f",
    "running": "fill:#dbeafe,stroke:#1d4ed8",
    "failed": "fill:#fee2e2,stroke:#b91c1c",
    "waits": "fill:#f5f5f5,stroke:#a3a3a3,color:#737373",
}
_UNSAFE = '"#&<>`\\'


def as_text(nodes: Sequence[Node]) -> str:
    """The tasks from first to last, those that may run side by side joined by a bracket.

    An arrow names what a task waits for, unless that is just the whole row above.
    """
    if not nodes:
        return "There is no plan yet."
    graph = Graph(nodes)
    rows = graph.levels()
    width = min(_LONGEST_NAME, max(len(node.name) for row in rows for node in row[:_MOST_IN_ROW]))
    drawn: list[str] = []
    above: list[Node] = []
    for number, row in enumerate(rows[:_MOST_ROWS], start=1):
        drawn += _row_lines(graph, number, row, above, width)
        above = row
    if len(rows) > _MOST_ROWS:
        drawn.append(f"     … {len(rows) - _MOST_ROWS:,} more rows")
    return "\n".join([*drawn, "", _legend(graph)])


def as_mermaid(nodes: Sequence[Node]) -> str:
    """A flowchart, coloured by how far each task is; a plan too large for one is drawn row by row."""
    graph = Graph(nodes)
    lines = (
        _of_tasks(graph) if len(nodes) <= _MOST_DRAWN and _arrows(graph) <= _MOST_ARROWS else _of_rows(graph)
    )
    classes = [f"    classDef {name} {style}" for name, style in _CLASSES.items()]
    return "\n".join(["flowchart TD", *lines, *classes])


def _row_lines(graph: Graph, number: int, row: list[Node], above: list[Node], width: int) -> Iterator[str]:
    shown = row[:_MOST_IN_ROW]
    for index, node in enumerate(shown):
        place = f"{number:>3}." if index == 0 else "    "
        mark, name = _MARKS[_status(graph, node)], _short(node.name)
        line = f"{place} {_bracket(index, len(row))} {mark} {name:<{width}}  {_waits(graph, node, above)}"
        yield line.rstrip()
    if len(row) > len(shown):
        counts = _counted(graph, row[len(shown) :])
        yield f"     └ … {len(row) - len(shown):,} more: {counts}"


def _bracket(index: int, size: int) -> str:
    if size == 1:
        return " "
    return {0: "┌", size - 1: "└"}.get(index, "├")


def _waits(graph: Graph, node: Node, above: Collection[Node]) -> str:
    if node.depends_on is None:
        previous = graph.previous_level[node.sequence]
        if previous is None or {each.id for each in graph.dependencies(node)} == {each.id for each in above}:
            return ""
        return f"← all of sequence {previous}"
    if not node.depends_on or node.depends_on == {each.id for each in above}:
        return ""
    named = [_short(other.name) for other in graph.dependencies(node, _MOST_NAMED)]
    more = len(node.depends_on) - len(named)
    return f"← {', '.join(named)}" + (f" and {more:,} more" if more else "")


def _status(graph: Graph, node: Node) -> TaskStatus:
    waits = node.status is TaskStatus.PENDING and graph.is_blocked(node)
    return TaskStatus.BLOCKED if waits else node.status


def _counted(graph: Graph, nodes: Sequence[Node]) -> str:
    counts = Counter(_status(graph, node) for node in nodes)
    return ", ".join(f"{counts[status]:,} {_word(status)}" for status in _MARKS if counts[status])


def _legend(graph: Graph) -> str:
    """What the marks mean, and how many tasks have each."""
    counts = graph.progress().by_status
    return "  ".join(
        f"{mark} {_word(status)} {counts[status]:,}" for status, mark in _MARKS.items() if counts[status]
    )


def _word(status: TaskStatus) -> str:
    return _WORDS.get(status, status.value.replace("_", " "))


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _of_tasks(graph: Graph) -> Iterator[str]:
    ids = {node.id: f"t{number}" for number, node in enumerate(graph.nodes, start=1)}
    for node in graph.nodes:
        yield f'    {ids[node.id]}["{_safe(_short(node.name))}"]{_class(_status(graph, node))}'
    for node in graph.nodes:
        yield from (f"    {ids[other.id]} --> {ids[node.id]}" for other in graph.dependencies(node))


def _of_rows(graph: Graph) -> Iterator[str]:
    rows = graph.levels()
    for number, row in enumerate(rows[:_MOST_DRAWN], start=1):
        yield f'    r{number}["{len(row):,} tasks: {_counted(graph, row)}"]'
        if number > 1:
            yield f"    r{number - 1} --> r{number}"
    if len(rows) > _MOST_DRAWN:
        yield f'    r{_MOST_DRAWN} --> more["{len(rows) - _MOST_DRAWN:,} more rows"]'


def _arrows(graph: Graph) -> int:
    sizes = Counter[int | None](node.sequence for node in graph.nodes)
    return sum(
        sizes[graph.previous_level[node.sequence]] if node.depends_on is None else len(node.depends_on)
        for node in graph.nodes
    )


def _class(status: TaskStatus) -> str:
    if status.is_done:
        return ":::done"
    if status.is_running:
        return ":::running"
    return {TaskStatus.FAILED: ":::failed", TaskStatus.BLOCKED: ":::waits"}.get(status, "")


def _safe(text: str) -> str:
    """Text that means nothing to Mermaid or to the page it is on."""
    return "".join(
        f"#{ord(character)};" if character in _UNSAFE or not character.isprintable() else character
        for character in text
    )
