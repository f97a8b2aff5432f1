"""Watches running agents: what they write, whether they must not go on, and what happens at their end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from deepwork.delivery.runner.attempt_files import CpuTimes, free_output
from deepwork.delivery.runner.attempt_progress import (
    Fail,
    Followed,
    ProgressRecorder,
    find_awaited_limit,
    finish_stream,
    read_stream,
    read_to_end,
)
from deepwork.delivery.runner.claiming import STOPPED, SpendingLimits
from deepwork.delivery.runner.models import (
    Attempt,
    AttemptStage,
    AttemptWish,
    Observation,
    ParkedFor,
    ProcessState,
    Run,
    RunStatus,
)
from deepwork.delivery.runner.preparing import AttemptPreparer
from deepwork.delivery.runner.processes import (
    ProcessIdentity,
    end_process,
    interrupt_process,
    observe,
    read_identity,
)
from deepwork.delivery.runner.profiles import COMMAND_KIND
from deepwork.delivery.runner.prompts import build_resume_prompt, build_words_prompt
from deepwork.delivery.runner.rules import (
    HELD_FOR,
    MS_PER_MINUTE,
    Action,
    NextMove,
    add_jitter,
    explain_hold,
    is_stalled,
    is_using_cpu,
    judge_ending,
)
from deepwork.delivery.runner.service import AttemptService
from deepwork.delivery.runner.store import AttemptStore
from deepwork.delivery.runner.stream_state import StreamState
from deepwork.delivery.runner.words import TOLD, has_unheard_words, name_person
from deepwork.delivery.runner.work_sources import Finisher, WorkItem, WorkSources
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.environment import get_host_name
from deepwork.kernel.records import dataclass
from deepwork.work.plans.models import TaskStatus

_GRACE_SECONDS = 10.0
_CLOSER_LOOK_MS = 20_000
"""How often it is looked what agents do that write nothing: whether they use the processor, or wait."""
_MAX_LIMIT_ERRORS = 3
"""At how many closer looks a silent agent may have met a limit once more, before it is parked."""
_COMPARE_MS = 10_000
"""How often all agents are compared with their budgets."""
_LAST_WORDS_SECONDS, _POLL_SECONDS = 5.0, 0.05
_LINGER_MS = 120_000
"""How long an agent that has completed its task may go on."""
_MAX_ANSWER_MS = 30_000
"""How long an agent that was interrupted because of a stall may take to go on."""

Later = Callable[[Attempt, Callable[[], object]], None]
"""Does something about an attempt in a worker thread, because it takes long."""


@dataclass(frozen=True)
class Looked:
    """A running attempt, with its run and its task as they are now."""

    run: Run
    attempt: Attempt
    task: WorkItem
    now: int


class AgentWatcher:
    """Looks at running agents, all in one thread."""

    def __init__(
        self,
        database: Database,
        preparer: AttemptPreparer,
        finisher: Finisher,
        sources: WorkSources,
        later: Later,
        fail: Fail,
    ) -> None:
        self._database, self._preparer, self._finisher, self._later = database, preparer, finisher, later
        self._sources = sources
        self._attempts = AttemptService(database)
        self._progress = ProgressRecorder(database, fail)
        self._limits = SpendingLimits(database, sources)
        self._compared_at = 0
        self._followed: dict[str, Followed] = {}
        self._identities: dict[tuple[str, int], ProcessIdentity] = {}
        self._measured: dict[str, tuple[int, int]] = {}
        """When the use of the processor was measured, and how much it was."""
        self._limit_errors: dict[str, set[float]] = {}
        """When each agent was seen to meet a limit, since its last output."""
        self._interrupted: dict[str, int] = {}

    def follow(self, looked: Looked) -> bool:
        """Read what an agent wrote; decide what happens if it has ended. Return whether anything changed."""
        attempt, now = looked.attempt, looked.now
        files = self._preparer.locate_files(attempt)
        followed = self._followed.get(attempt.id)
        if followed is None or followed.attempt.starts != attempt.starts:
            followed = Followed.begin(attempt)
        followed = followed.with_claim(attempt)
        observed = observe(files, self._find_identity(attempt))
        if observed.state is ProcessState.RUNNING:
            followed = read_stream(followed, files, now, is_over=False)
            is_due = self._is_closer_look_due(looked.run, followed, now)
            followed = self._measure_cpu(followed, now) if is_due else followed
            self._followed[attempt.id] = followed
            if is_due and self._keeps_meeting_limit(followed):
                self._later(attempt, partial(self.end_agent, attempt))  # its errors say why it ended
                return True
            return self._intervene(looked, followed)
        if observed.state is ProcessState.VANISHED:  # what it left must write nothing after the last reading
            end_process(files, self._find_identity(attempt), grace_seconds=0)
        # The agent may have ended long ago; "resets in an hour" is meant from then on.
        followed = read_stream(followed, files, observed.ended_at or now, is_over=True)
        if followed.is_behind:  # others are looked at meanwhile
            self._followed[attempt.id] = followed
            return True
        followed = finish_stream(followed, files, observed)
        self.forget(attempt)
        if saved := self._progress.save(followed, now):
            self._judge(looked, saved, observed)
        return True

    def save_progress(self, now: int) -> list[Attempt]:
        """Store what was read, of all agents at once; return the attempts that spent more than before."""
        spending = []
        for followed in self._progress.save_due(list(self._followed.values()), now):
            before = self._followed[followed.attempt.id]
            self._followed[followed.attempt.id] = followed
            free_output(self._preparer.locate_files(followed.attempt), followed.attempt.stream_offset)
            if followed.attempt.entries != before.attempt.entries:
                spending.append(followed.attempt)
        return spending

    def park_those_over_budget(self, runs: Mapping[str, Run], spending: Sequence[Attempt], now: int) -> bool:
        """End the agents that have used up a budget; return whether there are any.

        Those that spent more are looked at now, all others from time to time: minutes pass in silence.
        """
        attempts = {each.id: each for each in spending}
        if now - self._compared_at >= _COMPARE_MS:
            self._compared_at = now
            attempts |= {each.id: each for each in self.list_followed() if each.run_id in runs}
        overruns = self._limits.find_overruns(runs, list(attempts.values()))
        for attempt in attempts.values():
            if attempt.id in overruns:
                self.forget(attempt)
                self._later(attempt, partial(self._park_at_budget, attempt, overruns[attempt.id]))
        return bool(overruns)

    def _park_at_budget(self, attempt: Attempt, reason: str) -> None:
        """End an agent at a budget. Finished work is checked: another start for it would cost for nothing."""
        if self._has_finished(attempt):
            return  # the next look judges how it ended
        read = self._end_and_read(attempt)
        if read is not None and _has_said_that_it_is_done(attempt, read.state):
            self._attempts.move(attempt, AttemptStage.CHECKING, outcome=read.state.last_message or None)
        else:
            self._attempts.move(attempt, AttemptStage.PARKED, parked_for=ParkedFor.BUDGET, reason=reason)

    def _has_finished(self, attempt: Attempt) -> bool:
        """Return whether an agent has ended by itself; one that has said its last words gets a moment."""
        files, patience = self._preparer.locate_files(attempt), time.monotonic() + _LAST_WORDS_SECONDS
        has_said_all = StreamState.from_json(attempt.stream_state).ended is not None
        while True:
            observed = observe(files, self._find_identity(attempt))
            if observed.state is not ProcessState.RUNNING:
                return observed.state is ProcessState.EXITED
            if not has_said_all or time.monotonic() > patience:
                return False
            time.sleep(_POLL_SECONDS)

    def find_overrun(self, run: Run, attempt: Attempt) -> str | None:
        """Return which budget of an attempt is used up; None if it may spend more."""
        return self._limits.find_overruns({run.id: run}, [attempt]).get(attempt.id)

    def list_followed(self) -> list[Attempt]:
        """List the attempts that are being followed."""
        return [followed.attempt for followed in self._followed.values()]

    def end_agent(self, attempt: Attempt) -> None:
        """End the process of the attempt's current start with everything that it started."""
        if attempt.starts:
            files = self._preparer.locate_files(attempt)
            end_process(files, self._find_identity(attempt), grace_seconds=_GRACE_SECONDS)

    def _end_and_read(self, attempt: Attempt) -> Followed | None:
        """End an agent, and store what it wrote until then: what it spent counts in any case.

        Returns that, unless the attempt is not ours any more.
        """
        self.end_agent(attempt)
        with self._database.reading() as tx:
            stored, now = AttemptStore(tx).find(attempt.id), tx.now
        if stored is None or stored.starts != attempt.starts:
            return None
        files = self._preparer.locate_files(stored)
        return self._progress.save(read_to_end(Followed.begin(stored), files, now), now)

    def hold(self, attempt: Attempt) -> None:
        """End an agent that a person wants to pause, take over or stop; finished work is checked instead."""
        if self._has_finished(attempt):
            return  # the next look judges how it ended
        if read := self._end_and_read(attempt):
            self.carry_out_wish(read.attempt)

    def carry_out_wish(self, attempt: Attempt) -> None:
        """Do with an attempt without an agent what a person wants of it."""
        name = name_person(attempt.interrupted_by or "")
        if attempt.wish is AttemptWish.STOP:
            self._finisher.give_up(attempt, f"{name} stopped it.")
        elif parked_for := HELD_FOR.get(attempt.wish) if attempt.wish else None:
            reason = explain_hold(parked_for, name)
            self._attempts.move(attempt, AttemptStage.PARKED, parked_for=parked_for, reason=reason, wish=None)

    def _interrupt(self, attempt: Attempt, person: str, task_name: str) -> None:
        """End an agent because a person wants to be heard at once, and let its session continue."""
        if read := self._end_and_read(attempt):
            reason = f"{name_person(person)} told you something."
            prompt = build_resume_prompt(reason, task_name)
            self._attempts.start_again(read.attempt, prompt, reason, is_wanted=True)

    def forget_and_end(self, attempt: Attempt) -> None:
        """End an agent whose attempt has ended in the store."""
        self.forget(attempt)
        self._later(attempt, lambda: self.end_agent(attempt))

    def forget(self, attempt: Attempt) -> None:
        """Follow an attempt no more."""
        self._followed.pop(attempt.id, None)
        self._identities.pop((attempt.id, attempt.starts), None)
        self._measured.pop(attempt.id, None)
        self._limit_errors.pop(attempt.id, None)
        self._interrupted.pop(attempt.id, None)

    def _find_identity(self, attempt: Attempt) -> ProcessIdentity | None:
        key = attempt.id, attempt.starts
        if key not in self._identities:
            identity = read_identity(self._preparer.locate_files(attempt)) or _find_stored_identity(attempt)
            if identity is None:
                return None
            self._identities[key] = identity
        return self._identities[key]

    # The end

    def _judge(self, looked: Looked, followed: Followed, observed: Observation) -> None:
        attempt = followed.attempt
        with self._database.reading() as tx:
            task = self._sources.load(tx, [attempt]).get(attempt.task_id, looked.task)
        if was_dropped(looked.attempt, task):
            self._finisher.stop(attempt, describe_drop(looked.attempt))
        elif has_lost_claim(attempt, task):
            self._finisher.stop(attempt, "Its task was taken away.")
        elif looked.run.status is RunStatus.ENDING and observed.reason == "stopped":
            self._finisher.stop(attempt, looked.run.reason or STOPPED)
        else:
            options = looked.run.options
            verdict = judge_ending(attempt, options, task.status, observed, followed.state, looked.now)
            if attempt.wish is not None and verdict.action is not Action.FINISH:
                self.carry_out_wish(attempt)
                return
            self._carry_out(attempt, verdict, task, followed.state.last_message, looked.now)

    def _carry_out(self, attempt: Attempt, verdict: NextMove, task: WorkItem, message: str, now: int) -> None:
        if verdict.action is Action.FINISH and not task.status.is_done and self._has_unheard_words(attempt):
            prompt = build_words_prompt(task.name)
            self._attempts.start_again(attempt, prompt, TOLD, is_wanted=True)
        elif verdict.action is Action.FINISH:
            self._attempts.move(attempt, AttemptStage.CHECKING, outcome=message or None)
        elif verdict.action is Action.PARK:
            self._park(attempt, verdict, now)
        elif verdict.action is Action.RESUME:
            self._attempts.start_again(
                attempt, build_resume_prompt(verdict.reason, task.name), verdict.reason
            )
        elif verdict.action is Action.HAND_OVER:
            self._finisher.fail(attempt, verdict.reason, AttemptStage.HANDED_OVER)
        else:
            self._finisher.fail(attempt, verdict.reason)

    def _has_unheard_words(self, attempt: Attempt) -> bool:
        with self._database.reading() as tx:
            return has_unheard_words(tx, attempt.task_id)

    def _park(self, attempt: Attempt, verdict: NextMove, now: int) -> None:
        end = add_jitter(verdict.not_before or now, now, random.random())  # noqa: S311 - no secret
        self._attempts.move(
            attempt,
            AttemptStage.PARKED,
            parked_for=ParkedFor.LIMIT,
            reason=verdict.reason,
            not_before=end,
            waits=attempt.waits + 1,
        )

    # While it runs

    def _is_closer_look_due(self, run: Run, followed: Followed, now: int) -> bool:
        """Return whether to find out what an agent does that wrote nothing for a while.

        All are looked at at the same moments: the processes of the machine are listed once for all.
        """
        interval = round(min(_CLOSER_LOOK_MS, run.options.stall_minutes * MS_PER_MINUTE / 3)) or 1
        measured_at, _ = self._measured.get(followed.attempt.id, (0, 0))
        last = max(followed.attempt.active_at or now, measured_at)
        return now // interval != last // interval

    def _measure_cpu(self, followed: Followed, now: int) -> Followed:
        """Count the use of the processor as activity."""
        attempt = followed.attempt
        files = self._preparer.locate_files(attempt)
        cpu_ms = observe(files, self._find_identity(attempt), CpuTimes.read()).cpu_ms
        if cpu_ms is None:
            return followed
        at, before = self._measured.get(attempt.id, (attempt.active_at or now, attempt.cpu_ms))
        self._measured[attempt.id] = now, cpu_ms
        return followed.with_cpu(cpu_ms, now) if is_using_cpu(cpu_ms - before, now - at) else followed

    def _keeps_meeting_limit(self, followed: Followed) -> bool:
        """Return whether a silent agent asks again and again at a limit that only its errors name.

        One such error is not enough: it may have been answered at the next try, and be working.
        """
        id = followed.attempt.id
        found = find_awaited_limit(followed, self._preparer.locate_files(followed.attempt))
        if found is None:
            self._limit_errors.pop(id, None)
            return False
        times = self._limit_errors.setdefault(id, set())
        times.add(found.at)
        return len(times) >= _MAX_LIMIT_ERRORS

    def _intervene(self, looked: Looked, followed: Followed) -> bool:
        """End or interrupt an agent that must not go on; return whether that happened."""
        run, task, now = looked.run, looked.task, looked.now
        is_orphan = has_lost_claim(looked.attempt, task) or was_dropped(looked.attempt, task)
        is_lingering = task.status.is_done and now - (task.finished_at or now) > _LINGER_MS
        if is_orphan or is_lingering or run.status is RunStatus.ENDING:
            self._later(followed.attempt, lambda: self.end_agent(followed.attempt))
            return True
        if looked.attempt.wish is not None:
            self.forget(looked.attempt)
            self._later(looked.attempt, partial(self.hold, looked.attempt))
            return True
        if person := looked.attempt.interrupted_by:
            self.forget(looked.attempt)
            self._later(looked.attempt, partial(self._interrupt, looked.attempt, person, task.name))
            return True
        return self._handle_stall(run.options.stall_minutes, followed, now)

    def _handle_stall(self, minutes: float, followed: Followed, now: int) -> bool:
        attempt = followed.attempt
        if not is_stalled(now, attempt.active_at, len(followed.state.open_tools), minutes):
            self._interrupted.pop(attempt.id, None)
            return False
        since = self._interrupted.setdefault(attempt.id, now)
        identity = self._find_identity(attempt)
        if since == now and identity is not None:
            interrupt_process(self._preparer.locate_files(attempt), identity)
            return True
        if now - since <= min(minutes * MS_PER_MINUTE, _MAX_ANSWER_MS):
            return False

        if find_awaited_limit(followed, self._preparer.locate_files(attempt)):
            self._later(attempt, partial(self.end_agent, attempt))  # its errors say that it waits at a limit
            return True

        def end() -> None:
            self._end_and_read(attempt)
            reason = f"It wrote nothing, used no processor and no tool for {minutes:g} minutes."
            self._finisher.fail(attempt, reason, AttemptStage.STALLED)

        self.forget(attempt)
        self._later(attempt, end)
        return True


def _find_stored_identity(attempt: Attempt) -> ProcessIdentity | None:
    """Return the process that was stored when it was started: an agent can remove files, and go on."""
    if not (attempt.pid and attempt.boot_id and attempt.start_time):
        return None
    return ProcessIdentity(get_host_name(), attempt.boot_id, attempt.pid, attempt.start_time)


def _has_said_that_it_is_done(attempt: Attempt, state: StreamState) -> bool:
    """Return whether an agent's turn is over; what a command reports may be about a part of its work."""
    return attempt.vendor != COMMAND_KIND and state.ended is not None and not state.ended.is_error


def has_lost_claim(attempt: Attempt, task: WorkItem) -> bool:
    """Return whether the task was taken away from the attempt."""
    return not task.status.is_done and task.claimed_by != attempt.agent_id


def was_dropped(attempt: Attempt, task: WorkItem) -> bool:
    """Return whether a person took the task out of the plan while the attempt was at it."""
    return attempt.interrupted_by is not None and task.status is TaskStatus.SKIPPED


def describe_drop(attempt: Attempt) -> str:
    """Say why the agent of a dropped task was ended."""
    return f"{name_person(attempt.interrupted_by or '')} dropped its task."
