"""Shows what agents of a run wrote."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from deepwork.delivery.runner.adapters import get_adapter
from deepwork.delivery.runner.attempt_logs import LogEntry
from deepwork.delivery.runner.models import (
    FINAL_STAGES,
    AttemptStage,
    Ended,
    LimitReached,
    RunEvent,
    Said,
    SessionStarted,
    Signal,
    ToolStarted,
    TransientFailure,
)
from deepwork.delivery.runner.responses import AttemptView, RunView
from deepwork.edge.cli.framework import terminal
from deepwork.edge.cli.framework.output import to_printable
from deepwork.edge.cli.framework.progress import LiveLines, measure_lines
from deepwork.edge.cli.framework.tables import shorten
from deepwork.edge.cli.run.rendering import (
    Row,
    format_duration,
    format_local_time,
    format_tokens,
    name_agent,
    name_work_of,
    parse_time,
    render_screen,
    render_summary,
)
from deepwork.gates.budgets.rules import format_dollars
from deepwork.kernel.answers import Answer
from deepwork.kernel.events.log import Event
from deepwork.kernel.foreign_text import dump_json, escape_controls, split_lines

Render = Callable[[LogEntry], list[str]]


def choose_renderer(vendor: str, *, as_json: bool, is_raw: bool) -> Render:
    """Choose how a line is printed."""
    if as_json:
        return _render_json
    if is_raw:
        return lambda entry: [escape_controls(entry.line)]
    adapter = get_adapter(vendor)
    return lambda entry: [line for signal in adapter.read_line(entry.line) for line in render_signal(signal)]


def render_signal(signal: Signal) -> list[str]:
    """Render what a line of the stream says; most signals are of no interest to a person."""
    text = ""
    match signal:
        case SessionStarted(session_id=id):
            text = f"[session {id}]"
        case ToolStarted(name=name, detail=detail):
            text = f"[{name}] {detail}".rstrip()
        case Said(text=said):
            text = said
        case LimitReached(message=message):
            text = f"[limit] {message}"
        case TransientFailure(message=message):
            text = f"[failed request] {message}"
        case Ended(is_error=True, text=said, reason=reason):
            text = f"[error] {said or reason}"
    return [to_printable(line) for line in split_lines(text)]


def _render_json(entry: LogEntry) -> list[str]:
    about = {"type": "output", "id": entry.attempt_id, "start": entry.start}
    return [dump_json({**about, "line": entry.line})]


_TYPES = {"run": "run", "attempt": "attempt", "plan_task": "task", "landing": "landing"}
"""What an event is about, by the first word of its type."""
_TASK_ENDS = ("completed", "failed", "skipped")
_MAX_REASON, _MAX_AGENT = 200, 40
NameTask = Callable[[str], str]
Summarize = Callable[[Row], Iterable[str]]


class RunOutput(Protocol):
    """Where a run is shown."""

    def begin(self, run: Row, remarks: Sequence[str] = ()) -> None:
        """Show how the run is before anything new happens, and what else a person should know."""

    def show(self, run: Row, events: Sequence[Event]) -> None:
        """Show what has happened to the run, and how it is now."""

    def notice(self, text: str) -> None:
        """Say something to the person."""

    def end(self, run: Row) -> None:
        """Show how the run has ended, or was left."""


def choose_output(*, as_json: bool, summarize: Summarize = render_summary) -> RunOutput:
    """Choose how standard output shows a run."""
    if as_json:
        return JsonOutput()
    return LiveOutput(summarize) if terminal.supports_rich_output() else LineOutput(summarize)


class JsonOutput:
    """One JSON object per line."""

    def begin(self, run: Row, remarks: Sequence[str] = ()) -> None:
        for each in build_state_objects(run):
            print(dump_json(each))
        sys.stdout.flush()
        for remark in remarks:
            self.notice(remark)

    def show(self, run: Row, events: Sequence[Event]) -> None:  # noqa: ARG002
        for event in events:
            print(dump_json(build_event_object(event)))
        sys.stdout.flush()

    def notice(self, text: str) -> None:
        print(to_printable(text), file=sys.stderr, flush=True)

    def end(self, run: Row) -> None:
        print(dump_json(build_state_objects(run)[0]), flush=True)


class LineOutput:
    """One line for each event, for pipes and log files."""

    def __init__(self, summarize: Summarize = render_summary) -> None:
        """`summarize` renders how the run ended, or was left."""
        self._summarize = summarize
        self._names: dict[str, str] = {}
        self._lines = EventLines(lambda task_id: self._names.get(task_id) or task_id.rpartition("/")[2])

    def begin(self, run: Row, remarks: Sequence[str] = ()) -> None:
        self._lines.remember_run(run)
        print(describe_beginning(run), flush=True)
        for remark in remarks:
            self.notice(remark)

    def show(self, run: Row, events: Sequence[Event]) -> None:
        for line in self.render_events(run, events):
            print(line)
        sys.stdout.flush()

    def render_events(self, run: Row, events: Sequence[Event]) -> list[str]:
        """Render the events that say something new."""
        self._names.update(run["task_names"])
        return [line for event in events if (line := self._lines.render(event))]

    def notice(self, text: str) -> None:
        print(to_printable(text), file=sys.stderr, flush=True)

    def end(self, run: Row) -> None:
        for line in self._summarize(run):
            print(line)
        sys.stdout.flush()


class LiveOutput(LineOutput):
    """A screen that is drawn in place, below a line for each event."""

    def __init__(self, summarize: Summarize = render_summary) -> None:
        super().__init__(summarize)
        self._screen = LiveLines(sys.stdout)
        self._notice = ""

    def begin(self, run: Row, remarks: Sequence[str] = ()) -> None:
        self._lines.remember_run(run)
        self._draw(run, [to_printable(each) for each in remarks])

    def show(self, run: Row, events: Sequence[Event]) -> None:
        self._draw(run, self.render_events(run, events))

    def notice(self, text: str) -> None:
        """Draw a notice instead of the hint, at the next drawing."""
        self._notice = to_printable(text)

    def end(self, run: Row) -> None:
        columns, _ = terminal.get_size()
        self._screen.draw([], [], columns, above=[*self._summarize(run)])

    def _draw(self, run: Row, above: Sequence[str] = ()) -> None:
        columns, rows = terminal.get_size()
        lines = render_screen(run, columns, rows, hint=self._notice)
        painted = [terminal.paint(line.text, line.style) for line in lines]
        widths = measure_lines([line.text for line in lines])
        self._screen.draw(painted, widths, columns, above=above)


def describe_beginning(run: Row) -> str:
    """Say which run is followed."""
    return f"{run['id']}  {to_printable(name_work_of(run))}: {run['status']}"


class EventLines:
    """Renders the events of a run; what changes nothing that is shown is left out."""

    def __init__(self, name_task: NameTask) -> None:
        self._name_task = name_task
        self._shown: dict[str, tuple[Any, ...]] = {}

    def render(self, event: Event) -> str | None:
        """Render an event as a line; None if it says nothing new."""
        if event.type == RunEvent.ATTEMPT_PROGRESS or event.data.get("stage") == AttemptStage.PREPARING:
            return None
        status, text = self._describe(event)
        id = str(event.data.get("id", ""))
        if text is None or self._shown.get(id) == (status, text):
            return None
        self._shown[id] = (status, text)
        return f"{_format_time(event.ts)}  {id:<16}  {status:<12}  {text}".rstrip()

    def remember_run(self, run: Row) -> None:
        """Leave out the line that says how the run is now."""
        self._shown[run["id"]] = (run["status"], _print_reason(run.get("reason") or ""))

    def _describe(self, event: Event) -> tuple[str, str | None]:
        kind, data = find_type(event), event.data
        if kind == "attempt":
            return str(data.get("stage", "")), _describe_attempt(data, self._name_task)
        status = str(data.get("status", ""))
        if kind == "task":
            return status, to_printable(data.get("name", "")) if status in _TASK_ENDS else None
        if kind == "landing":
            return status, _describe_landing(data)
        return status, _print_reason(data.get("reason") or "")


def find_type(event: Event) -> str | None:
    """Return what an event is about: a run, an attempt, a task or a landing; None for anything else."""
    return _TYPES.get(event.type.partition(":")[0])


def belongs_to(event: Event, run: Row) -> bool:
    """Return whether an event is about a run; tasks and landings belong to every run of a plan."""
    kind = find_type(event)
    if kind in ("task", "landing"):
        return "workflow_id" in run and event.workflow_id == run["workflow_id"]
    return kind is not None and run["id"] in (event.data.get("run_id"), event.data.get("id"))


def build_event_object(event: Event) -> dict[str, Any]:
    """Build the JSON object of an event."""
    about = {"type": find_type(event), "id": event.data.get("id")}
    return about | dict(event.data) | {"event": event.type, "seq": event.seq, "ts": event.ts}


def build_state_objects(run: Row) -> list[dict[str, Any]]:
    """Build the JSON objects of a run and its attempts as they are now."""
    attempts = [{"type": "attempt", **_select(AttemptView, attempt)} for attempt in run["attempts"]]
    return [{"type": "run", **_select(RunView, run | {"attempts": None})}, *attempts]


def _select(view: type[Answer], found: Row) -> Row:
    """Select what the events about this thing say of it, too."""
    return {name: found[name] for name in view.model_fields if found.get(name) is not None}


def _describe_attempt(data: Mapping[str, Any], name_task: NameTask) -> str:
    parts = [to_printable(name_task(str(data.get("task_id", "")))), _describe_agent(data)]
    if data.get("not_before"):
        parts.append(f"goes on at {_format_not_before(data['not_before'])}")
    if data.get("stage") in FINAL_STAGES:
        parts.append(_describe_amounts(data))
    if reason := data.get("reason"):
        parts.append(shorten(_print_reason(reason), _MAX_REASON))
    return ", ".join(parts)


def _describe_landing(data: Mapping[str, Any]) -> str:
    parts = [
        to_printable(str(data.get("title", ""))),
        to_printable(str(data.get("branch") or data["target"])),
    ]
    if reason := data.get("reason"):
        parts.append(shorten(_print_reason(reason), _MAX_REASON))
    return ", ".join(parts)


def _print_reason(reason: object) -> str:
    """Return the first line of a reason: the output of a failing check may follow."""
    return to_printable(next((line for line in split_lines(str(reason)) if line.strip()), ""))


def _describe_agent(data: Mapping[str, Any]) -> str:
    number = data.get("number", 1)
    again = "" if number == 1 else f", attempt {number}"
    return f"{shorten(to_printable(name_agent(str(data.get('profile', '')))), _MAX_AGENT)}{again}"


def _describe_amounts(data: Mapping[str, Any]) -> str:
    tokens = sum(int(data.get(f"{kind}_tokens") or 0) for kind in ("input", "cached", "output"))
    began, ended = data.get("created_at"), data.get("ended_at")
    took = parse_time(ended) - parse_time(began) if began and ended else 0
    spent = format_dollars(float(data.get("usd") or 0))
    return f"{format_duration(took)}, {format_tokens(tokens)} tokens, {spent}"


def _format_time(ts: str) -> str:
    """Write the time of an event: as the clock shows it in a terminal, in UTC elsewhere."""
    if not terminal.supports_rich_output():
        return ts
    return f"{datetime.fromisoformat(ts).astimezone():%H:%M:%S}"


def _format_not_before(ts: str) -> str:
    if not terminal.supports_rich_output():
        return ts
    moment = parse_time(ts)
    return format_local_time(moment, moment)
