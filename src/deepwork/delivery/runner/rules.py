"""Decisions about attempts, as pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from deepwork.delivery.runner.models import (
    FINAL_STAGES,
    Attempt,
    AttemptStage,
    AttemptWish,
    Observation,
    ParkedFor,
    ProcessState,
    RunOptions,
    RunStatus,
)
from deepwork.gates.budgets.models import MICROS_PER_USD
from deepwork.gates.budgets.rules import format_dollars, format_usd
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum
from deepwork.work.plans.models import TaskStatus

if TYPE_CHECKING:
    from deepwork.delivery.runner.models import LimitReached
    from deepwork.delivery.runner.stream_state import StreamState

MS_PER_MINUTE = 60_000
_PROBE_MINUTES = (5, 10, 20, 40, 60)
"""How long to wait at a limit that names no reset, each time in a row."""
_SURE_SIGNS = 2
_MAX_JITTER_MS = 120_000
_RESET_PRECISION_MS = 60_000
"""Some vendors name only the minute of a reset."""

_ENDS = frozenset({AttemptStage.FAILED, AttemptStage.STALLED, AttemptStage.HANDED_OVER, AttemptStage.STOPPED})
MOVES: Mapping[AttemptStage, frozenset[AttemptStage]] = {
    AttemptStage.CLAIMED: frozenset({AttemptStage.PREPARING}) | _ENDS,
    AttemptStage.PREPARING: frozenset({AttemptStage.RUNNING, AttemptStage.PARKED, AttemptStage.CHECKING})
    | _ENDS,
    AttemptStage.RUNNING: frozenset({AttemptStage.PARKED, AttemptStage.PREPARING, AttemptStage.CHECKING})
    | _ENDS,
    AttemptStage.PARKED: frozenset({AttemptStage.PREPARING, AttemptStage.CHECKING, AttemptStage.DONE})
    | _ENDS,
    AttemptStage.CHECKING: frozenset(
        {
            AttemptStage.PREPARING,
            AttemptStage.PARKED,
            AttemptStage.REVIEWING,
            AttemptStage.LANDING,
            AttemptStage.DONE,
        }
    )
    | _ENDS,
    AttemptStage.REVIEWING: frozenset(
        {AttemptStage.PREPARING, AttemptStage.CHECKING, AttemptStage.LANDING, AttemptStage.DONE}
    )
    | _ENDS,
    AttemptStage.LANDING: frozenset({AttemptStage.PREPARING, AttemptStage.PARKED, AttemptStage.DONE}) | _ENDS,
} | dict.fromkeys(FINAL_STAGES, frozenset())
"""The moves that exist. `preparing` is also where the next start of a running or parked attempt begins."""

PERSON_MOVES: Mapping[RunStatus, tuple[RunStatus, ...]] = {
    RunStatus.ACTIVE: (RunStatus.PAUSED, RunStatus.STOPPING, RunStatus.ENDING),
    RunStatus.PAUSED: (RunStatus.ACTIVE, RunStatus.STOPPING, RunStatus.ENDING),
    RunStatus.STOPPING: (RunStatus.ACTIVE, RunStatus.ENDING),
}
"""What a person may make of a run; agents that are being ended are not called back."""


class Action(CaseInsensitiveEnum):
    """What happens to an attempt whose process has ended."""

    FINISH = "finish"  # check the work and complete the task
    PARK = "park"  # wait for the end of a limit
    RESUME = "resume"  # go on in the same session
    FAIL = "fail"
    HAND_OVER = "hand_over"  # the next agent of the chain takes over


@dataclass(frozen=True)
class NextMove:
    """What to do, why, and not before when."""

    action: Action
    reason: str = ""
    not_before: int | None = None


def judge_ending(
    attempt: Attempt,
    options: RunOptions,
    task_status: TaskStatus,
    process: Observation,
    stream: StreamState,
    now: int,
) -> NextMove:
    """Decide what happens after a process ended. Only the task's state and its checks mean done."""
    if task_status.is_done:
        return NextMove(Action.FINISH)
    if task_status is TaskStatus.FAILED:
        return NextMove(Action.FAIL, "The agent reported that the task failed.")
    if process.code == 0 and not _was_cut_short(process) and not (stream.ended and stream.ended.is_error):
        return NextMove(Action.FINISH)
    if stream.limit:
        return _judge_limit(attempt, options, stream.limit, process.ended_at or now, now)
    return _judge_failure(attempt, options, process, stream)


def _was_cut_short(process: Observation) -> bool:
    """Return whether somebody ended it with a signal: some agents exit with 0 then."""
    return process.reason in ("stopped", "timeout")


def _judge_failure(
    attempt: Attempt, options: RunOptions, process: Observation, stream: StreamState
) -> NextMove:
    if process.state is not ProcessState.EXITED:
        return _resume(attempt, options, _describe_interruption(process.state))
    if process.reason == "timeout":
        return NextMove(Action.FAIL, f"It ran for more than {options.minutes:g} minutes.")
    if interruption := _find_interruption(process, stream):
        return _resume(attempt, options, interruption)
    return NextMove(Action.FAIL, _describe_failure(process, stream))


def _find_interruption(process: Observation, stream: StreamState) -> str | None:
    """Return what interrupted a process that says nothing about the work."""
    if process.reason == "stopped":
        return "The process was ended."
    if process.code is not None and process.code < 0:
        return f"The process was ended by signal {-process.code}."
    if stream.is_session_lost:
        return "The session of the agent is gone."
    return f"The request failed: {stream.transient.message}" if stream.transient else None


def _judge_limit(
    attempt: Attempt, options: RunOptions, limit: LimitReached, met_at: int, now: int
) -> NextMove:
    if attempt.resumes >= options.resumes:
        return NextMove(Action.HAND_OVER, f"It met a limit for the {attempt.resumes + 1}th time.")
    end = max(now, compute_limit_end(limit.resets_at, attempt.waits, met_at))
    minutes = (end - now) / MS_PER_MINUTE
    if minutes > options.wait_at_limit:
        return NextMove(
            Action.HAND_OVER,
            f"The limit ends in {minutes:.0f} minutes, and `wait_at_limit` is {options.wait_at_limit:g}.",
        )
    return NextMove(Action.PARK, limit.message or "It met a usage limit.", end)


def compute_limit_end(resets_at: int | None, waits: int, met_at: int) -> int:
    """Return when to try again: at the reset, or after 5, 10, 20, 40, 60 minutes if none is known.

    It counts from when the limit was met, which may be long ago: nobody looked while no runner ran.
    """
    if resets_at is not None and resets_at > met_at - _RESET_PRECISION_MS:
        return resets_at if resets_at > met_at else met_at + _RESET_PRECISION_MS
    return met_at + _PROBE_MINUTES[min(waits, len(_PROBE_MINUTES) - 1)] * MS_PER_MINUTE


def is_limit_sure(waiting: int, unanswered: int) -> bool:
    """Return whether a vendor's limit holds for all agents with the same account, so that none is started.

    `waiting` attempts are parked at a limit that has not ended; to `unanswered` ones that were started the
    vendor has said nothing yet. One that waits may be wrong about the others: the next one tries, alone.
    """
    return waiting >= _SURE_SIGNS or (waiting > 0 and unanswered > 0)


def add_jitter(end: int, now: int, share: float) -> int:
    """Delay the end of a wait by a share (0 to 1) of at most a tenth of it, so that not all start at once."""
    longest = min((end - now) // 10, _MAX_JITTER_MS)
    return end + round(max(0, longest) * share)


def _resume(attempt: Attempt, options: RunOptions, reason: str) -> NextMove:
    if attempt.resumes >= options.resumes:
        return NextMove(Action.FAIL, f"{reason} It was resumed {attempt.resumes} times.")
    return NextMove(Action.RESUME, reason)


def _describe_interruption(state: ProcessState) -> str:
    return "The machine was restarted." if state is ProcessState.REBOOTED else "The process was killed."


def _describe_failure(process: Observation, stream: StreamState) -> str:
    said = (stream.ended.text or stream.ended.reason) if stream.ended else ""
    return f"It ended with exit code {process.code}. {said}".strip()


def is_stalled(now: int, active_at: int | None, open_tools: int, stall_minutes: float) -> bool:
    """Return whether an agent stalls: no output, no use of the processor and no open tool for this long."""
    return active_at is not None and not open_tools and now - active_at > stall_minutes * MS_PER_MINUTE


def is_using_cpu(used_ms: int, elapsed_ms: int) -> bool:
    """Return whether an agent used the processor: at least 0.5 % of the time.

    An agent that waits uses a little for its timers, and to ask again at a limit every half minute.
    """
    return used_ms > 0 and used_ms * 200 >= elapsed_ms


def is_working(attempt: Attempt) -> bool:
    """Return whether an attempt goes on without a person, so that it counts against the number of agents."""
    if attempt.stage is AttemptStage.PARKED:
        return attempt.parked_for is ParkedFor.LIMIT
    return attempt.stage is not AttemptStage.REVIEWING


HELD_FOR: Mapping[AttemptWish, ParkedFor] = {
    AttemptWish.PAUSE: ParkedFor.PAUSED,
    AttemptWish.TAKE: ParkedFor.TAKEN,
}


def explain_hold(held_for: ParkedFor, person: str) -> str:
    """Say why an attempt is held."""
    return f"{person} has taken over its session." if held_for is ParkedFor.TAKEN else f"{person} paused it."


def is_held(attempt: Attempt) -> bool:
    """Return whether a person keeps an attempt, so that its run goes on until the person is done."""
    return attempt.parked_for is not None and attempt.parked_for.is_held


def choose_profile(chain: Sequence[str], failed: Sequence[Attempt], max_attempts: int) -> str | None:
    """Return who works on a task next: the first of the chain that may still try; None if none may."""
    for profile in chain:
        own = [attempt for attempt in failed if attempt.profile == profile]
        is_over = any(attempt.stage is AttemptStage.HANDED_OVER for attempt in own)
        if not is_over and len(own) < max_attempts:
            return profile
    return None


def find_run_overrun(options: RunOptions, spent: int) -> str | None:
    """Return why a run may spend no more; `spent` is in millionths of a dollar."""
    most = options.max_usd
    if most is None or spent < most * MICROS_PER_USD:
        return None
    return f"The run has spent {format_usd(spent)} of {format_dollars(most)}."


def explain_absence(attempt: Attempt) -> str:
    """Say why nothing is known of what an agent wrote."""
    if not attempt.starts:
        return "The agent was not started yet."
    return f"The output is on the machine {attempt.host}, or was removed."
