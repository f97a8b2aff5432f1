"""What a person reads at the end of a run: what was done, what it cost, what comes next."""

from __future__ import annotations

from collections.abc import Iterator

from deepwork.cli.framework.output import to_printable
from deepwork.cli.run_amounts import format_duration, format_usd
from deepwork.cli.run_screen import count_done
from deepwork.cli.run_state import RunState
from deepwork.runner.models import TIME_IS_OVER, Run, RunStatus

DONE, FAILED, NEEDS_PERSON = 0, 1, 3
"""Exit codes of a run that has ended; docs/command-line.md documents them."""

_EXIT_CODES = {RunStatus.DONE: DONE, RunStatus.NEEDS_PERSON: NEEDS_PERSON}
_WORDS = {RunStatus.NEEDS_PERSON: "needs you"}


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
    status = _WORDS.get(run.status, run.status.value)
    yield f"{to_printable(state.name)}: {status}, {', '.join([*facts, took, format_usd(state.usd_micros)])}"
    if run.reason:
        yield to_printable(run.reason)
    yield from _list_next_commands(state)


def _list_next_commands(state: RunState) -> Iterator[str]:
    run = state.run
    if run.status is RunStatus.NEEDS_PERSON:
        yield "deepwork status  # what waits for you, and the command that answers it"
    elif not run.status.is_final:
        yield "The agents go on."
        yield f"deepwork runs attach {run.id}  # come back to them"
    yield f"deepwork runs show {run.id}  # its attempts"
