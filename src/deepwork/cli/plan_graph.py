"""`deepwork plans show --graph`: a plan as text with agents and ages, drawn once or at each change."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from deepwork.cli.framework import clock, terminal
from deepwork.cli.framework.output import to_printable
from deepwork.overview.task_row_store import TaskRowStore
from deepwork.plans.diagrams import Line, draw
from deepwork.plans.models import TaskStatus
from deepwork.plans.stores.plan_store import PlanStore
from deepwork.plans.stores.task_store import TaskStore

if TYPE_CHECKING:
    from deepwork.database.transaction import Database
    from deepwork.server.application import Application

MAX_LINES = 40
_MAX_TASKS = 20_000
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


def render_graph(database: Database, id: str, *, whole: bool = False) -> Iterator[str]:
    """Render a plan: its name and status, then its tasks with their agents and ages."""
    with database.reading() as tx:
        workflow, nodes = PlanStore(tx).get(id), TaskStore(tx).list_nodes(id)
        rows = TaskRowStore(tx).list_planned(id, None, _MAX_TASKS)
    yield to_printable(f"{workflow.name}: {workflow.status.replace('_', ' ')}")
    notes = {row["id"]: note for row in rows if (note := _format_note(row))}
    drawing = draw(nodes, notes, max_lines=None if whole else MAX_LINES, whole=whole)
    yield from map(_paint, drawing.lines)
    if drawing.is_folded:
        yield "Finished or waiting rows are folded; --all shows every task."


def watch_graph(app: Application, id: str, *, whole: bool) -> None:
    """Draw the plan, and again after each of its events, until the person stops it."""
    seen = app.feed.get_last_seq()
    _draw_screen(app.database, id, whole=whole)
    for _ in app.feed.follow(seen, workflow_id=id, notice=_print_notice):
        _draw_screen(app.database, id, whole=whole)


def _draw_screen(database: Database, id: str, *, whole: bool) -> None:
    lines = list(render_graph(database, id, whole=whole))
    if terminal.supports_rich_output():
        print(_CLEAR_SCREEN, end="")
    print("\n".join(lines), end="\n" if terminal.supports_rich_output() else "\n\n")
    sys.stdout.flush()


def _print_notice(text: str) -> None:
    click.echo(f"({text})", err=True)


def _format_note(row: Mapping[str, Any]) -> str:
    """Format who works or worked on a task, and since when it runs or when it ended."""
    moment = row["completed_at"] or row["started_at"]
    age = clock.format_moment(moment) if moment and row["status"] != TaskStatus.PENDING else ""
    return ", ".join(filter(None, [row["agent_name"], age]))


def _paint(line: Line) -> str:
    return terminal.paint(to_printable(line.text), _COLOURS.get(line.status, "") if line.status else "")
