"""Renders `deepwork status` for people, on one screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deepwork.edge.cli.framework import terminal
from deepwork.edge.cli.framework.output import to_printable
from deepwork.edge.cli.framework.tables import measure_width, shorten
from deepwork.edge.cli.states import name_state
from deepwork.gates.budgets.rules import format_dollars
from deepwork.kernel.records import dataclass
from deepwork.kernel.user_settings import render_untrusted_line

_RUN_KINDS = {"sessions": "job", "plans": "plan", "tracked": "track"}
_ALL = "deepwork status --all"
_MIN_FIRST_COLUMN = 12
_MAX_WHY_LINES = 4


@dataclass(frozen=True)
class _Section:
    """A list of items, each of one or two lines, that may be cut."""

    title: str
    items: Sequence[Sequence[str]]
    total: int
    more: str
    """The command that shows those that were cut; empty if nothing should point to them."""

    def count_lines(self, shown: int) -> int:
        """Count the lines of the section with this many items: a blank line, the title, items, the rest."""
        cut = shown < self.total and bool(self.more)
        return 2 + sum(len(item) for item in self.items[:shown]) + cut

    def render(self, shown: int) -> Iterator[str]:
        yield ""
        yield terminal.paint(self.title, "bold")
        for item in self.items[:shown]:
            yield from item
        if shown < self.total and self.more:
            yield f"  and {self.total - shown:,} more: {self.more}"


def render_page(answer: dict[str, Any], *, whole: bool = False) -> Iterator[str]:
    """Render the answer, without its empty sections; lists are cut to what fits on the screen."""
    if answer["store"] is None:
        yield from _render_first_steps(answer)
        return
    columns, rows = terminal.get_size()
    head = list(_render_head(answer, columns))
    yield from head
    sections = [section for section in _build_sections(answer, columns) if section.items]
    room = rows - 1 - len(head)  # one line for the prompt
    while not whole and sections and sum(section.count_lines(1) for section in sections) > room:
        sections.pop()
    counts = [len(section.items) for section in sections] if whole else _fit(sections, room)
    for section, shown in zip(sections, counts, strict=True):
        yield from section.render(shown)
    if not answer["counts"]["total"]:
        yield "\nNo work yet. Agents start it, or you do: `deepwork jobs list`, `deepwork plans create`."


def _fit(sections: Sequence[_Section], room: int) -> list[int]:
    """Choose how many items of each section to show: one of each, then more in turn while there is room."""
    shown = [1] * len(sections)
    has_grown = True
    while has_grown:
        has_grown = False
        for place, section in enumerate(sections):
            if shown[place] == len(section.items):
                continue
            wider = [*shown[:place], shown[place] + 1, *shown[place + 1 :]]
            if sum(each.count_lines(count) for each, count in zip(sections, wider, strict=True)) <= room:
                shown, has_grown = wider, True
    return shown


def _render_first_steps(answer: Mapping[str, Any]) -> Iterator[str]:
    begun = not any(step.startswith("deepwork init") for step in answer["next"])
    yield f"There is no store for {answer['project']} yet. " + (
        "The first work creates it. Next:" if begun else "Start with:"
    )
    yield from (f"  {to_printable(step)}" for step in answer["next"])
    if answer["untrusted_settings"]:
        yield render_untrusted_line(answer["untrusted_settings"])


def _render_head(answer: Mapping[str, Any], columns: int) -> Iterator[str]:
    counts = answer["counts"]
    openers = ", ".join(answer["servers"]) or "no other process"
    yield shorten(to_printable(f"project  {answer['project']}"), columns)
    yield shorten(to_printable(f"store    {answer['store']}, open by {openers}"), columns)
    yield f"work     {_format_counts(counts['states'], ended=counts['completed'])}"
    if any(counts["tasks"].values()):
        yield f"tasks    {_format_counts(counts['tasks'])}"
    if answer["untrusted_settings"]:
        yield terminal.paint(render_untrusted_line(answer["untrusted_settings"]), "yellow")
    if trouble := answer["hook_failures"]:
        yield to_printable(
            f"hooks    {trouble['count']} failures in {trouble['log']}; latest: {trouble['last']}"
        )


def _build_sections(answer: Mapping[str, Any], columns: int) -> Iterator[_Section]:
    needs = [_format_need(need, columns) for need in answer["needs_you"]]
    yield _Section(f"NEEDS YOU ({answer['needs_you_total']})", needs, answer["needs_you_total"], _ALL)
    runs = list(_list_runs(answer, columns))
    yield _Section("OPEN", runs, max(answer["counts"]["open"], len(runs)), _ALL)
    held = [_build_held_row(row) for row in answer["held"]]
    yield _Section("HELD", _align(held, columns), len(held), _ALL)
    unread = [(row["agent"], _format_unread(row), row["agent_id"]) for row in answer["unread"]]
    yield _Section("UNREAD", _align(unread, columns), len(unread), _ALL)
    events = [(each["what"], each["type"], _format_time(each["ts"], "ts")) for each in answer["events"][::-1]]
    yield _Section("LATEST", _align(events, columns), len(events), "")


def _format_need(need: Mapping[str, Any], columns: int) -> list[str]:
    about = f"  ({need['run']}, {_format_time(need['since'], 'since')})"
    what = shorten(to_printable(need["what"]), max(20, columns - 2 - measure_width(about)))
    first = shorten(f"  {what}{to_printable(about)}", columns)
    why = textwrap.wrap(
        to_printable(need["why"] or ""), max(20, columns - 4), max_lines=_MAX_WHY_LINES, placeholder=" …"
    )
    return [first, *(f"    {line}" for line in why), f"    {terminal.paint(need['command'], 'cyan')}"]


def _format_counts(states: Mapping[str, int], ended: int = 0) -> str:
    """Format how many things have which state."""
    found = [f"{count} {name_state(state)}" for state, count in states.items() if count]
    return ", ".join([*found, f"{ended} completed"] if ended else found) or "none"


def _list_runs(answer: Mapping[str, Any], columns: int) -> Iterator[list[str]]:
    """Format the runs, each with the command that moves it on, if a person has to."""
    runs = [(run, kind) for key, kind in _RUN_KINDS.items() for run in answer[key]]
    lines = _align([_build_run_row(run, kind) for run, kind in runs], columns)
    for (run, _), line in zip(runs, lines, strict=True):
        is_persons = run["state"] in ("needs_you", "unattended") and run["next"]
        yield [*line, f"    {terminal.paint(run['next'], 'cyan')}"] if is_persons else line


def _build_run_row(run: Mapping[str, Any], kind: str) -> tuple[str, ...]:
    place = run.get("step") or f"{run['done']}/{run['total']} done"
    why = f" ({run['because'].partition(':')[0].replace('_', ' ')})" if run["because"] else ""
    cost = format_dollars(run["usd"]) if run["usd"] else ""
    return f"{kind:<5}  {run['name']}", f"{name_state(run['state'])}{why}", place, cost, run["id"]


def _build_held_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    return row["task"], row["agent"], f"claim ends {terminal.format_moment(row['until_at'])}", row["task_id"]


def _format_unread(row: Mapping[str, Any]) -> str:
    return f"{row['unread']} unread" + (f", {row['urgent']} urgent" if row["urgent"] else "")


def _format_time(value: Any, key: str) -> str:
    moment = value if isinstance(value, int) else terminal.parse_moment(key, value)
    return str(value) if moment is None else terminal.format_moment(moment)


def _align(rows: Sequence[Sequence[Any]], columns: int) -> list[list[str]]:
    """Format rows as lines of the screen's width; the first column is cut if they do not fit."""
    if not rows:
        return []
    texts = [[to_printable(str(cell)) for cell in row] for row in rows]
    widths = [max(map(measure_width, column)) for column in zip(*texts, strict=True)]
    room = columns - 2 - sum(width + 2 for width in widths[1:])
    widths[0] = min(widths[0], max(_MIN_FIRST_COLUMN, room))
    return [[_join_cells(row, widths)] for row in texts]


def _join_cells(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [shorten(row[0], widths[0]), *row[1:]]
    padded = (cell + " " * (width - measure_width(cell)) for cell, width in zip(cells, widths, strict=True))
    return f"  {'  '.join(padded)}".rstrip()
