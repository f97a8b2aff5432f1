"""Shows a plan before it starts, its planning while it happens, and wishes in a list."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deepwork.edge.cli.framework import terminal
from deepwork.edge.cli.framework.output import to_printable
from deepwork.edge.cli.framework.progress import LiveLines, measure_lines
from deepwork.edge.cli.framework.tables import measure_width, shorten
from deepwork.edge.cli.run.rendering import Row, format_countdown, name_agent, parse_time
from deepwork.gates.budgets.rules import format_dollars
from deepwork.kernel.events.log import Event
from deepwork.kernel.foreign_text import dump_json

_MAX_NAME, _MAX_SUMMARY = 28, 48
_MAX_SHOWN = 40


def render_plan(plan: Mapping[str, Any], default_checks: Sequence[str]) -> Iterator[str]:
    """Render the tasks of a plan: what each is, what it waits for or runs beside, and what it must pass."""
    tasks = plan["tasks"]
    numbers = {task["name"]: number for number, task in enumerate(tasks, start=1)}
    rows = [
        (
            str(numbers[task["name"]]),
            shorten(to_printable(task["name"]), _MAX_NAME),
            shorten(to_printable(_summarize(task)), _MAX_SUMMARY),
            ", ".join(_list_gates(task, plan, default_checks)) or "nothing checks it",
            _describe_order(task, tasks, numbers),
        )
        for task in tasks[:_MAX_SHOWN]
    ]
    widths = [max((measure_width(row[column]) for row in rows), default=0) for column in range(4)]
    for row in rows:
        cells = [text + " " * (width - measure_width(text)) for text, width in zip(row, widths, strict=False)]
        yield f"  {'  '.join([*cells, row[4]])}".rstrip()
    if len(tasks) > _MAX_SHOWN:
        yield f"  and {len(tasks) - _MAX_SHOWN} more tasks"


def _summarize(task: Mapping[str, Any]) -> str:
    """Return the first line of what a task is for."""
    lines = (line.strip(" #*-") for line in str(task.get("description") or "").splitlines())
    first = next((line for line in lines if line), "")
    return first.partition(": ")[2] if first.lower().startswith("goal: ") else first


def _list_gates(task: Mapping[str, Any], plan: Mapping[str, Any], default: Sequence[str]) -> Iterator[str]:
    """List what a task must pass: its checks, and a person."""
    yield from dict.fromkeys([*(plan.get("checks") or ()), *(task.get("checks") or ())]) or default
    if [*(plan.get("approval") or ()), *(task.get("approval") or ())]:
        yield "your approval"


def _describe_order(
    task: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]], numbers: Mapping[str, int]
) -> str:
    """Say what a task comes after; else which it runs beside."""
    if after := sorted(numbers[name] for name in task.get("depends_on") or () if name in numbers):
        return f"after {', '.join(map(str, after))}"
    if task.get("depends_on") is None and (
        earlier := [each for each in tasks if each.get("sequence", 1) < task.get("sequence", 1)]
    ):
        level = max(each.get("sequence", 1) for each in earlier)
        before = [numbers[each["name"]] for each in earlier if each.get("sequence", 1) == level]
        return f"after {', '.join(map(str, before))}"
    return ""


class PlanningOutput:
    """One line while a planner works: who, how long, what it costs, and what it does."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._screen = LiveLines(sys.stdout) if terminal.supports_rich_output() and not as_json else None
        self._shown, self._planner = "", "an agent"

    def begin(self, run: Row, remarks: Sequence[str] = ()) -> None:  # noqa: ARG002
        self.show(run, ())

    def show(self, run: Row, events: Sequence[Event]) -> None:  # noqa: ARG002
        attempt = next(iter(run["attempts"]), None)
        if attempt is not None:
            self._planner = name_agent(attempt["profile"])
        if self._screen is not None:
            doing = (attempt or {}).get("now_doing") or ""
            self._draw([f"{self._describe(run)}  {doing}".rstrip()])
        elif attempt is not None and not self._shown and not self._as_json:
            self._shown = f"Planning with {self._planner} …"
            print(to_printable(self._shown), flush=True)

    def notice(self, text: str) -> None:
        if self._screen is not None:
            self._draw([], above=[text])
        else:
            print(to_printable(text), file=sys.stderr, flush=True)

    def end(self, run: Row) -> None:
        if self._as_json:
            print(dump_json({"type": "planning", "id": run["id"], "status": run["status"]}), flush=True)
        elif self._screen is not None:
            self._draw([], above=[self._describe(run)])
        else:
            print(to_printable(self._describe(run)), flush=True)

    def _describe(self, run: Row) -> str:
        took = parse_time(run.get("ended_at") or run["now"]) - parse_time(run["created_at"])
        return f"Planning with {self._planner} …  {format_countdown(took)}  {format_dollars(run['usd'])}"

    def _draw(self, lines: Sequence[str], *, above: Sequence[str] = ()) -> None:
        assert self._screen is not None, "this is a terminal"
        columns, _ = terminal.get_size()
        shown = [shorten(to_printable(line), columns - 1) for line in lines]
        self._screen.draw(shown, measure_lines(shown), columns, above=[to_printable(line) for line in above])
