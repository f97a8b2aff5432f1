"""What a person reads at the end of a run: what was done, what it cost, what comes next."""

from __future__ import annotations

from collections.abc import Iterator

from deepwork.delivery.runner.models import TIME_IS_OVER, AttemptStage, Run, RunStatus
from deepwork.edge.cli.framework.output import to_printable
from deepwork.edge.cli.run_amounts import format_duration, format_usd
from deepwork.edge.cli.run_screen import count_done
from deepwork.edge.cli.run_state import RunState
from deepwork.edge.cli.states import name_state
from deepwork.kernel.states import State

DONE, FAILED, NEEDS_PERSON = 0, 1, 3
"""Exit codes of a run that has ended; docs/command-line.md documents them."""

_EXIT_CODES = {RunStatus.DONE: DONE, RunStatus.NEEDS_PERSON: NEEDS_PERSON}


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
        yield f"{standing.next}  # continues"
    yield f"deepwork runs show {run.id}  # its attempts"
