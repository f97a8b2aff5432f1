"""`deepwork plans show --graph`: a plan as text with agents and ages, drawn once or at each change."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework import terminal
from deepwork.edge.cli.framework.applications import call_operation
from deepwork.edge.cli.framework.output import to_printable
from deepwork.edge.cli.states import name_state
from deepwork.kernel.states import State
from deepwork.work.plans.diagrams import DrawnLine, draw
from deepwork.work.plans.models import Node, TaskStatus

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application

MAX_LINES = 40
_TOLD_BY_STATUS = ("waiting", "ready", "running", "done", "failed")
"""States that the drawing shows by the status of a task."""
_CLEAR_SCREEN = "\x1b[H\x1b[2J\x1b[3J"
_COLOURS = {
    TaskStatus.BLOCKED: "dim",
    TaskStatus.SKIPPED: "dim",
    TaskStatus.PLANNING: "cyan",
    TaskStatus.IN_PROGRESS: "cyan",
    TaskStatus.PAUSED: "yellow",
    TaskStatus.COMPLETED: "green",
    TaskStatus.FAILED: "red",
}


def render_graph(app: Application, id: str, *, whole: bool = False) -> Iterator[str]:
    """Render a plan: its name and state, then its tasks with their states, agents and ages."""
    plan = call_operation(app, "get_plan_graph", {"id": id})
    yield to_printable(f"{plan['name']}: {name_state(plan['state'])}")
    if plan.get("next") and plan["state"] in (State.NEEDS_YOU, State.UNATTENDED):
        yield to_printable(f"{plan['because']}: {plan['next']}")
    nodes = [_read_node(task) for task in plan["tasks"]]
    notes = {task["id"]: note for task in plan["tasks"] if (note := _format_note(task))}
    drawing = draw(nodes, notes, max_lines=None if whole else MAX_LINES, whole=whole)
    yield from map(_paint, drawing.lines)
    if drawing.is_folded:
        yield "Finished or waiting rows are folded; --all shows every task."


def watch_graph(app: Application, id: str, *, whole: bool) -> None:
    """Draw the plan, and again after each of its events, until the person stops it."""
    seen = app.feed.get_last_seq()
    _draw_screen(app, id, whole=whole)
    for _ in app.feed.follow(seen, workflow_id=id, notice=_print_notice):
        _draw_screen(app, id, whole=whole)


def _draw_screen(app: Application, id: str, *, whole: bool) -> None:
    lines = list(render_graph(app, id, whole=whole))
    if terminal.supports_rich_output():
        print(_CLEAR_SCREEN, end="")
    print("\n".join(lines), end="\n" if terminal.supports_rich_output() else "\n\n")
    sys.stdout.flush()


def _print_notice(text: str) -> None:
    click.echo(f"({text})", err=True)


def _read_node(task: Mapping[str, Any]) -> Node:
    depends_on = None if task["depends_on"] is None else frozenset(task["depends_on"])
    status, group = TaskStatus(task["status"]), task["parallel_group"]
    return Node(task["id"], task["name"], task["sequence"], depends_on, status, group)


def _format_note(task: Mapping[str, Any]) -> str:
    """Format its state, who works or worked on a task, and since when it runs or when it ended."""
    state = "" if task["state"] in _TOLD_BY_STATUS else name_state(task["state"])
    is_begun = task["since"] and task["status"] != TaskStatus.PENDING
    age = terminal.format_moment(task["since"]) if is_begun else ""
    return ", ".join(filter(None, [state, task["agent"], age]))


def _paint(line: DrawnLine) -> str:
    return terminal.paint(to_printable(line.text), _COLOURS.get(line.status, "") if line.status else "")
