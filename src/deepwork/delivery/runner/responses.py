"""Runs and attempts as people see them: in events, REST and the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from deepwork.delivery.runner.models import Attempt, AttemptStage, Run, RunStatus
from deepwork.delivery.runner.rules import PERSON_MOVES, find_run_overrun
from deepwork.delivery.runner.stream_state import StreamState, get_open_tool
from deepwork.gates.budgets.models import MICROS_PER_USD
from deepwork.kernel.answers import Act, Answer, IsoTime, offer
from deepwork.kernel.foreign_text import to_one_line
from deepwork.kernel.paging import Page
from deepwork.kernel.values import format_optional_timestamp

_MAX_LINE = 160


class AttemptView(Answer):
    """One agent's work on one task."""

    id: str
    run_id: str
    workflow_id: str | None = None
    task_id: str
    number: int
    profile: str
    model: str | None = None
    agent_id: str
    stage: str
    parked_for: str | None = None
    reason: str | None = None
    not_before: IsoTime | None = None
    host: str
    tree: str | None = None
    branch: str | None = None
    vendor_session: str | None = None
    starts: int
    resumes: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    usd: float
    usd_source: str | None = None
    now_doing: str | None = None
    tool: str | None = None
    """What the tool does that has not answered yet."""
    doing_since: IsoTime | None = None
    """When it began what it does now."""
    last_line: str | None = None
    """The last line that the agent said."""
    context_tokens: int | None = None
    """What the model has in its context, if its vendor says so."""
    active_at: IsoTime | None = None
    """When it last wrote something or used the processor."""
    interrupted_by: str | None = None
    """The person who wants to be heard, or who paused or took it."""
    wish: str | None = None
    """What that person wants, until it is done: pause, take, stop, continue."""
    outcome: str | None = None
    started_at: IsoTime | None = None
    created_at: IsoTime
    updated_at: IsoTime
    ended_at: IsoTime | None = None


class RunView(Answer):
    """A run, with its attempts if they were asked for."""

    id: str
    workflow_id: str | None = None
    job: str | None = None
    goal: str | None = None
    session_id: str | None = None
    status: str
    reason: str | None = None
    chain: list[str]
    max_usd: float | None = None
    until: IsoTime | None = None
    usd: float | None = None
    created_by: str
    created_at: IsoTime
    ended_at: IsoTime | None = None
    attempts: list[AttemptView] | None = None


class WorkRef(Answer):
    """The plan or the job session that agents work on."""

    id: str
    kind: str
    name: str


class AttemptLine(AttemptView):
    """An attempt, with its state and the names of its task and workflow."""

    state: str
    because: str | None = None
    next: str | None = None
    task_name: str
    workflow: WorkRef | None = None
    tokens: int


class Attempts(Page):
    attempts: list[AttemptLine]


class AgentRun(RunView):
    """A run of agents. In a list, `attempts` are those that have not ended."""

    state: str
    because: str | None = None
    next: str | None = None
    workflow: WorkRef | None = None
    tokens: int
    models: list[str]
    attempts_total: int | None = None
    attempts: list[AttemptLine]  # type: ignore[assignment]
    hosts: dict[str, int] | None = None
    actions: list[Act]


class AgentRuns(Page):
    runs: list[AgentRun]


class VendorWindow(Answer):
    """A usage limit that agents wait at: of a vendor, for the account of one profile on one machine."""

    vendor: str
    profile: str
    host: str
    waiting: int
    """How many attempts wait for its end."""
    ends_at: IsoTime | None = None
    """When the vendor says that it ends; None if it did not say."""
    next_try_at: IsoTime | None = None
    """When the first of them continues by itself."""
    scope: str | None = None
    """Which limit, such as `five_hour`, if the vendor says."""
    reason: str | None = None


class VendorWindows(Answer):
    windows: list[VendorWindow]


class SessionTree(Answer):
    tree: str | None = None


class SessionTrees(Answer):
    trees: list[str]


class AttemptOutput(Answer):
    """The end of what one start of an agent wrote, from the beginning of a line; controls are escaped."""

    attempt_id: str
    start: int
    stream: str
    text: str
    size: int | None = None
    """Bytes in the file; None if it is not on this machine."""
    reason: str | None = None
    """Why there is no text."""


def describe_attempt(attempt: Attempt) -> AttemptView:
    """Describe an attempt."""
    return AttemptView.of(attempt, **describe_activity(attempt))


def describe_activity(attempt: Attempt) -> dict[str, Any]:
    """Describe what an attempt has cost, and what its agent does now, as far as its stream says so."""
    state = StreamState.from_json(attempt.stream_state)
    is_at_work = attempt.stage is AttemptStage.RUNNING
    lines = state.last_message.strip().rpartition("\n")[2]
    return {
        "usd": attempt.usd_micros / MICROS_PER_USD,
        "model": state.model,
        "tool": (get_open_tool(state)[1] or None) if is_at_work else None,
        "doing_since": format_optional_timestamp(state.doing_since) if is_at_work else None,
        "last_line": to_one_line(lines)[:_MAX_LINE] or None,
        "context_tokens": state.context_tokens,
    }


def describe_run(
    run: Run, attempts: Iterable[Attempt] | None = None, *, usd_micros: int | None = None
) -> RunView:
    """Describe a run."""
    return RunView.of(
        run,
        max_usd=run.options.max_usd,
        until=format_optional_timestamp(run.options.until),
        usd=None if usd_micros is None else usd_micros / MICROS_PER_USD,
        attempts=None if attempts is None else [describe_attempt(attempt) for attempt in attempts],
    )


def offer_run_actions(run: Run, usd_micros: int) -> list[Act]:
    """List what a person can do about a run of agents that cost this much."""
    acts = {
        RunStatus.PAUSED: offer("Pause", "pause_run", run_id=run.id),
        RunStatus.ACTIVE: offer("Resume", "resume_run", run_id=run.id),
        RunStatus.STOPPING: offer("Stop", "stop_run", run_id=run.id),
        RunStatus.ENDING: offer("Stop now", "stop_run", run_id=run.id, now=True),
    }
    moves = [acts[move] for move in PERSON_MOVES.get(run.status, ())]
    may_continue = not run.status.is_final or run.status is RunStatus.NEEDS_PERSON
    return (
        [offer_raise(run.id), *moves] if may_continue and find_run_overrun(run.options, usd_micros) else moves
    )


def offer_raise(run_id: str) -> Act:
    """Offer to raise what a run may cost."""
    asked = {"max_usd": "How many dollars may it cost in all?"}
    return offer("Raise the limit", "set_run", asked, run_id=run_id)


def build_payload(view: Answer) -> dict[str, Any]:
    """Return the payload of an event."""
    payload: dict[str, Any] = view.model_dump(mode="json")
    return {name: value for name, value in payload.items() if value is not None}
