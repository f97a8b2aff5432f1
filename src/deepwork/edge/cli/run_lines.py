"""Events of a run, one line for each: for people, and as JSON for programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from deepwork.delivery.runner.models import FINAL_STAGES, AttemptStage, Run, RunEvent
from deepwork.delivery.runner.responses import build_payload, describe_attempt, describe_run
from deepwork.edge.cli.framework import terminal
from deepwork.edge.cli.framework.output import to_printable
from deepwork.edge.cli.framework.tables import shorten
from deepwork.edge.cli.run_amounts import (
    format_duration,
    format_local_time,
    format_tokens,
    format_usd,
    name_agent,
)
from deepwork.edge.cli.run_state import RunState
from deepwork.gates.budgets.models import MICROS_PER_USD
from deepwork.kernel.events.log import Event

_TYPES = {"run": "run", "attempt": "attempt", "plan_task": "task", "landing": "landing"}
"""What an event is about, by the first word of its type."""
_TASK_ENDS = ("completed", "failed", "skipped")
_MAX_REASON, _MAX_AGENT = 200, 40

NameTask = Callable[[str], str]


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

    def remember_run(self, run: Run) -> None:
        """Leave out the line that says how the run is now."""
        self._shown[run.id] = (run.status.value, to_printable(run.reason or ""))

    def _describe(self, event: Event) -> tuple[str, str | None]:
        kind, data = find_type(event), event.data
        if kind == "attempt":
            return str(data.get("stage", "")), _describe_attempt(data, self._name_task)
        status = str(data.get("status", ""))
        if kind == "task":
            return status, to_printable(data.get("name", "")) if status in _TASK_ENDS else None
        if kind == "landing":
            return status, _describe_landing(data)
        return status, to_printable(data.get("reason") or "")


def find_type(event: Event) -> str | None:
    """Return what an event is about: a run, an attempt, a task or a landing; None for anything else."""
    return _TYPES.get(event.type.partition(":")[0])


def belongs_to(event: Event, run: Run) -> bool:
    """Return whether an event is about a run; tasks and landings belong to every run of a plan."""
    kind = find_type(event)
    if kind in ("task", "landing"):
        return run.workflow_id is not None and event.workflow_id == run.workflow_id
    return kind is not None and run.id in (event.data.get("run_id"), event.data.get("id"))


def build_event_object(event: Event) -> dict[str, Any]:
    """Build the JSON object of an event."""
    about = {"type": find_type(event), "id": event.data.get("id")}
    return about | dict(event.data) | {"event": event.type, "seq": event.seq, "ts": event.ts}


def build_state_objects(state: RunState) -> list[dict[str, Any]]:
    """Build the JSON objects of a run and its attempts as they are now."""
    run = build_payload(describe_run(state.run, usd_micros=state.usd_micros))
    return [
        {"type": "run", **run},
        *({"type": "attempt", **build_payload(describe_attempt(attempt))} for attempt in state.attempts),
    ]


def _describe_attempt(data: Mapping[str, Any], name_task: NameTask) -> str:
    parts = [to_printable(name_task(str(data.get("task_id", "")))), _describe_agent(data)]
    if data.get("not_before"):
        parts.append(f"goes on at {_format_not_before(data['not_before'])}")
    if data.get("stage") in FINAL_STAGES:
        parts.append(_describe_amounts(data))
    if reason := data.get("reason"):
        parts.append(shorten(to_printable(reason), _MAX_REASON))
    return ", ".join(parts)


def _describe_landing(data: Mapping[str, Any]) -> str:
    parts = [
        to_printable(str(data.get("title", ""))),
        to_printable(str(data.get("branch") or data["target"])),
    ]
    if reason := data.get("reason"):
        parts.append(shorten(to_printable(str(reason)), _MAX_REASON))
    return ", ".join(parts)


def _describe_agent(data: Mapping[str, Any]) -> str:
    number = data.get("number", 1)
    again = "" if number == 1 else f", attempt {number}"
    return f"{shorten(to_printable(name_agent(str(data.get('profile', '')))), _MAX_AGENT)}{again}"


def _describe_amounts(data: Mapping[str, Any]) -> str:
    tokens = sum(int(data.get(f"{kind}_tokens") or 0) for kind in ("input", "cached", "output"))
    began, ended = data.get("created_at"), data.get("ended_at")
    took = _parse(ended) - _parse(began) if began and ended else 0
    usd = round(float(data.get("usd") or 0) * MICROS_PER_USD)
    return f"{format_duration(took)}, {format_tokens(tokens)} tokens, {format_usd(usd)}"


def _format_time(ts: str) -> str:
    """Write the time of an event: as the clock shows it in a terminal, in UTC elsewhere."""
    if not terminal.supports_rich_output():
        return ts
    return f"{datetime.fromisoformat(ts).astimezone():%H:%M:%S}"


def _format_not_before(ts: str) -> str:
    if not terminal.supports_rich_output():
        return ts
    moment = _parse(ts)
    return format_local_time(moment, moment)


def _parse(ts: str) -> int:
    return round(datetime.fromisoformat(ts).timestamp() * 1000)
