"""Renders the state of a run for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from deepwork.delivery.runner.models import TIME_IS_OVER, Attempt, AttemptStage, ParkedFor, Run, RunStatus
from deepwork.delivery.runner.responses import build_payload, describe_run
from deepwork.edge.cli.framework.applications import call_operation, name_person
from deepwork.edge.cli.framework.output import render_lines, to_printable
from deepwork.edge.cli.framework.tables import measure_width, shorten
from deepwork.edge.cli.states import name_state
from deepwork.gates.budgets.models import MICROS_PER_USD
from deepwork.kernel.call import Call
from deepwork.kernel.states import State
from deepwork.views.overview.run_progress import RunState

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application

_MAX_PAGE = 500
_NO_NEXT = {"because": None, "next": None}
"""What a run has if there is nothing to say: programs find the keys in every run."""


def load_runs(app: Application, limit: int, *, is_open: bool) -> list[dict[str, Any]]:
    """Load runs as programs see them, the newest first."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while len(found) < limit:
        given = {"open": is_open, "limit": min(_MAX_PAGE, limit - len(found)), "cursor": cursor}
        answer = call_operation(app, "list_runs", given)
        found += [_NO_NEXT | run for run in answer["runs"]]
        cursor = answer["cursor"]
        if cursor is None:
            break
    return found


def decide(app: Application, operation: str, run_id: str, **arguments: Any) -> dict[str, Any]:
    """Pause, resume or stop a run in the name of the person at this shell; its driver carries that out."""
    call = Call(name_person(), operation, carries_notices=False)
    answer: dict[str, Any] = call_operation(app, operation, {"run_id": run_id, **arguments}, call)
    return answer


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
DONE, FAILED, NEEDS_PERSON = 0, 1, 3
"""Exit codes of a run that has ended; docs/command-line.md documents them."""
_EXIT_CODES = {RunStatus.DONE: DONE, RunStatus.NEEDS_PERSON: NEEDS_PERSON}
Row = dict[str, Any]
_SECOND, _MINUTE, _HOUR = 1000, 60_000, 3_600_000
_THOUSAND, _MILLION = 1000, 1_000_000
_MIN_COMMAND_WORDS = 2
_INTERPRETERS = frozenset({"bash", "env", "node", "python", "python3", "sh", "zsh"})


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


def choose_exit_code(run: Run) -> int:
    """Return the exit code for a run that ended in this way; one whose time is over can be run again."""
    if run.status is RunStatus.STOPPED and run.reason == TIME_IS_OVER:
        return NEEDS_PERSON
    return _EXIT_CODES.get(run.status, FAILED)


def render_summary(state: RunState) -> Iterator[str]:
    """Render how a run ended."""
    run, total = state.run, sum(state.tasks.values())
    facts = [f"{count_done(state)} of {total} {state.unit} done"] if total else []
    if failed := state.tasks.get("failed"):
        facts.append(f"{failed} failed")
    if state.landed is not None:
        facts.append(f"{state.landed} landed")
    took = format_duration((run.ended_at or state.now) - run.created_at)
    word = name_state(state.standing.state)
    yield f"{to_printable(state.name)}: {word}, {', '.join([*facts, took, format_usd(state.usd_micros)])}"
    if run.reason:
        yield to_printable(run.reason)
    yield from _list_next_commands(state)


def _list_next_commands(state: RunState) -> Iterator[str]:
    run, standing = state.run, state.standing
    if run.status is RunStatus.NEEDS_PERSON:
        yield "deepwork status  # what waits for you, and the command that answers it"
    if standing.state is State.UNATTENDED:
        working = sum(each.stage is AttemptStage.RUNNING for each in state.attempts)
        yield f"{working} of its agents may still work; nothing starts and nothing is checked until somebody"
        yield f"drives it: {standing.next}"
    elif standing.next:
        meaning = "brings its work into your branch" if standing.state is State.DONE else "continues"
        yield f"{standing.next}  # {meaning}"
    yield f"deepwork runs show {run.id}  # its attempts"


def build_run_rows(runs: Sequence[Row]) -> list[Row]:
    """Build what a person sees of runs; models only if one is known."""
    has_models = any(run["models"] for run in runs)
    return [_build_run_row(run, has_models=has_models) for run in runs]


def _build_run_row(run: Row, *, has_models: bool) -> Row:
    models = {"models": ", ".join(run["models"])} if has_models else {}
    return {
        "name": run["workflow"]["name"] if run.get("workflow_id") and run.get("workflow") else run.get("job"),
        "id": run["id"],
        "state": name_state(run["state"]),
        "because": (run.get("because") or "").partition(":")[0].replace("_", " "),
        "agents": len(run["attempts"]),
        **models,
        "cost": format_usd(round(run["usd"] * MICROS_PER_USD)),
        "started": run["created_at"],
    }


def build_run_answer(state: RunState) -> Row:
    """Build a run with its attempts and their states, for programs."""
    answer = build_payload(describe_run(state.run, state.attempts, usd_micros=state.usd_micros))
    attempts = [each | state.states[each["id"]].to_answer() for each in answer.get("attempts") or ()]
    return answer | {"attempts": attempts} | state.standing.to_answer()


def render_run(state: RunState) -> Iterator[str]:
    """Render a run and its attempts."""
    yield from render_summary(state)
    if state.attempts:
        yield ""
        rows = [_build_attempt_row(state, attempt) for attempt in state.attempts]
        if not any(attempt.model for attempt in state.attempts):
            rows = [{name: value for name, value in row.items() if name != "model"} for row in rows]
        yield from render_lines({"attempts": rows})
        yield f"deepwork runs logs {state.attempts[-1].id}  # what its agent did and said"


def _build_attempt_row(state: RunState, attempt: Attempt) -> Row:
    return {
        "id": attempt.id,
        "task": state.name_task(attempt.task_id),
        "state": name_state(state.states[attempt.id].state),
        "stage": attempt.stage.value,
        "number": attempt.number,
        "agent": name_agent(attempt.profile),
        "model": attempt.model or "",
        "time": format_duration(measure_attempt(attempt, state.now)),
        "tokens": format_tokens(attempt.tokens),
        "cost": format_cost(attempt),
        "reason": attempt.reason or "",
    }


def format_duration(milliseconds: int) -> str:
    """Write how long something takes: `35 s`, `12 min`, `3 h 05 min`."""
    if milliseconds < _MINUTE:
        return f"{max(0, milliseconds) // _SECOND} s"
    if milliseconds < _HOUR:
        return f"{milliseconds // _MINUTE} min"
    return f"{milliseconds // _HOUR} h {milliseconds % _HOUR // _MINUTE:02d} min"


def format_countdown(milliseconds: int) -> str:
    """Write how long is left, to the second: `4:59`, `1:04:59`."""
    seconds = -(-max(0, milliseconds) // _SECOND)
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def format_tokens(tokens: int) -> str:
    """Write a number of tokens: `840`, `84k`, `1.2M`."""
    if tokens < _THOUSAND:
        return str(tokens)
    if tokens < _MILLION:
        return f"{tokens // _THOUSAND}k"
    return f"{tokens / _MILLION:.1f}M"


def format_usd(micros: int) -> str:
    """Write dollars with cents."""
    return f"${micros / MICROS_PER_USD:,.2f}"


def format_cost(attempt: Attempt) -> str:
    """Write what an attempt cost; `$?` if it used tokens whose price is not known."""
    if attempt.tokens and not attempt.usd_micros and attempt.usd_source is None:
        return "$?"
    return format_usd(attempt.usd_micros)


def name_agent(profile: str) -> str:
    """Return the name of a profile; of a command line, the name of its program or script."""
    words = profile.split()
    if len(words) < _MIN_COMMAND_WORDS:
        return profile
    names = [PurePath(word).name for word in words if not word.startswith("-")]
    return next((name for name in names if name not in _INTERPRETERS), names[0] if names else profile)


def format_local_time(milliseconds: int, now: int) -> str:
    """Write a time of the next day or so as this machine's clock shows it; a later one with its date."""
    moment = datetime.fromtimestamp(milliseconds / 1000).astimezone()
    return f"{moment:%H:%M}" if abs(milliseconds - now) < 20 * _HOUR else f"{moment:%Y-%m-%d %H:%M}"


def measure_attempt(attempt: Attempt, now: int) -> int:
    """Return how long an attempt has been going on, or took, in milliseconds; waiting counts."""
    return max(0, (attempt.ended_at or now) - attempt.created_at)
