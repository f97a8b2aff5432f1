"""The screen of a run: one line for each agent, and a bar for the plan; a pure function of the state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from deepwork.delivery.runner.models import Attempt, AttemptStage, ParkedFor, RunStatus
from deepwork.edge.cli.framework.output import to_printable
from deepwork.edge.cli.framework.tables import measure_width, shorten
from deepwork.edge.cli.run_amounts import (
    format_cost,
    format_countdown,
    format_duration,
    format_local_time,
    format_tokens,
    format_usd,
    measure_attempt,
    name_agent,
)
from deepwork.edge.cli.run_state import RunState

_STYLES = {
    AttemptStage.RUNNING: "cyan",
    AttemptStage.PARKED: "yellow",
    AttemptStage.CHECKING: "cyan",
    AttemptStage.REVIEWING: "cyan",
    AttemptStage.LANDING: "cyan",
}
_RUN_NOTES = {
    RunStatus.PAUSED: "paused: nothing new starts",
    RunStatus.STOPPING: "stopping: it ends when its agents have ended",
    RunStatus.ENDING: "ending its agents",
}
_PARKED_WORDS = {ParkedFor.LIMIT: "limit", ParkedFor.PERSON: "waits for you", ParkedFor.BUDGET: "budget"}
_HINT = "Ctrl-C leaves the agents running; twice stops them."
_MIN_WIDTH, _MIN_NAME = 20, 12
_MIN_HEIGHT = 5
"""Of the heading, an agent, the bar, and the hint, with one line to spare."""
_MAX_BAR = 30
_MAX_PROFILE = 14
_AMOUNT_WIDTHS = (10, 6, 7)


class ScreenLine(NamedTuple):
    """A line of the screen, and its style."""

    text: str
    style: str = ""


def render_screen(state: RunState, width: int, height: int, *, hint: str = "") -> list[ScreenLine]:
    """Render the state on at most this many columns and lines; the last one is the hint."""
    width, height = max(width, _MIN_WIDTH) - 1, max(height, _MIN_HEIGHT)
    lines = [
        _render_heading(state),
        *_render_agents(state, width, height - _MIN_HEIGHT + 1),
        ScreenLine(_render_bar(state, width)),
        ScreenLine(hint or _HINT, "yellow" if hint else "dim"),
    ]
    return [ScreenLine(shorten(line.text, width), line.style) for line in lines]


def _render_heading(state: RunState) -> ScreenLine:
    note = _RUN_NOTES.get(state.run.status, "")
    parts = [to_printable(state.name), state.run.id, note]
    return ScreenLine("  ".join(filter(None, parts)), "bold")


def _render_agents(state: RunState, width: int, room: int) -> Iterator[ScreenLine]:
    if not state.attempts:
        yield ScreenLine("  No agent is at work.", "dim")
        return
    is_cut = len(state.attempts) > room
    shown = state.attempts[: room - 1] if is_cut else state.attempts
    columns = (
        _align([state.name_task(attempt.task_id) for attempt in shown], max(_MIN_NAME, width // 3)),
        _align([name_agent(attempt.profile) for attempt in shown], _MAX_PROFILE),
    )
    for attempt, name, profile in zip(shown, *columns, strict=True):
        amounts = _render_amounts(attempt, state.now)
        cells = [name, profile, f"{attempt.stage.value:<9}", *amounts, _render_doing(attempt, state.now)]
        yield ScreenLine(f"  {'  '.join(cells)}".rstrip(), _STYLES.get(attempt.stage, ""))
    if is_cut:
        yield ScreenLine(f"  and {len(state.attempts) - len(shown)} more agents", "dim")


def _align(texts: Sequence[str], most: int) -> list[str]:
    """Give the texts of a column the same width."""
    cut = [shorten(to_printable(text), most) for text in texts]
    widest = max(map(measure_width, cut), default=0)
    return [text + " " * (widest - measure_width(text)) for text in cut]


def _render_amounts(attempt: Attempt, now: int) -> list[str]:
    amounts = (
        format_duration(measure_attempt(attempt, now)),
        format_tokens(attempt.tokens),
        format_cost(attempt),
    )
    return [f"{amount:>{wide}}" for amount, wide in zip(amounts, _AMOUNT_WIDTHS, strict=True)]


def _render_doing(attempt: Attempt, now: int) -> str:
    """Say which tool the agent is in, or what a parked one waits for."""
    if attempt.stage is not AttemptStage.PARKED:
        return to_printable(attempt.now_doing or "")
    text = _PARKED_WORDS[attempt.parked_for] if attempt.parked_for else "waits"
    if attempt.not_before is not None:
        at = format_local_time(attempt.not_before, now)
        text += f", goes on in {format_countdown(attempt.not_before - now)} (at {at})"
    return f"{text}: {to_printable(attempt.reason)}" if attempt.reason else text


def _render_bar(state: RunState, width: int) -> str:
    facts = list(_list_facts(state))
    total = sum(state.tasks.values())
    if not total:
        return "  ".join(facts)
    done = count_done(state)
    size = min(_MAX_BAR, max(5, width // 3))
    filled = size * done // total
    return "  ".join([f"{'█' * filled}{'░' * (size - filled)}", f"{done} of {total} {state.unit}", *facts])


def count_done(state: RunState) -> int:
    """Return how many tasks of the plan are finished."""
    return state.tasks.get("completed", 0) + state.tasks.get("skipped", 0)


def _list_facts(state: RunState) -> Iterator[str]:
    if failed := state.tasks.get("failed"):
        yield f"{failed} failed"
    most = state.run.options.max_usd
    spent = format_usd(state.usd_micros)
    yield spent if most is None else f"{spent} of ${most:,.2f}"
    if state.run.options.until is not None:
        yield f"until {format_local_time(state.run.options.until, state.now)}"
