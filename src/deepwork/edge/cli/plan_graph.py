"""`deepwork plans show --graph`: a plan as text with agents and ages, drawn once or at each change."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework import terminal
from deepwork.edge.cli.framework.output import to_printable
from deepwork.edge.cli.states import name_state
from deepwork.kernel.states import Standing, State
from deepwork.views.overview.states.view import StateView
from deepwork.views.overview.task_row_store import TaskRowStore
from deepwork.work.plans.diagrams import DrawnLine, draw
from deepwork.work.plans.models import TaskStatus
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application

MAX_LINES = 40
_MAX_TASKS = 20_000
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
    with app.database.reading() as tx:
        workflow, nodes = PlanStore(tx).get(id), TaskStore(tx).list_nodes(id)
        rows = TaskRowStore(tx).list_planned(id, None, _MAX_TASKS)
        view = StateView(tx, app.processes)
        plan, states = view.judge_plans([id])[id].standing, view.judge_tasks_of_plan(id)
    yield to_printable(f"{workflow.name}: {name_state(plan.state)}")
    if plan.next and plan.state in (State.NEEDS_YOU, State.UNATTENDED):
        yield to_printable(f"{plan.because}: {plan.next}")
    notes = {row["id"]: note for row in rows if (note := _format_note(row, states[row["id"]]))}
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


def _format_note(row: Mapping[str, Any], standing: Standing) -> str:
    """Format its state, who works or worked on a task, and since when it runs or when it ended."""
    state = "" if standing.state in _TOLD_BY_STATUS else name_state(standing.state)
    moment = row["completed_at"] or row["started_at"]
    age = terminal.format_moment(moment) if moment and row["status"] != TaskStatus.PENDING else ""
    return ", ".join(filter(None, [state, row["agent_name"], age]))


def _paint(line: DrawnLine) -> str:
    return terminal.paint(to_printable(line.text), _COLOURS.get(line.status, "") if line.status else "")
