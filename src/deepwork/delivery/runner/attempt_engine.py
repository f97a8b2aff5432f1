"""The local engine: looks after the attempts of this host, tick by tick.

Whatever takes long (git, set-up, checks, ending processes) runs in a worker thread, one at a time for each
attempt; everything else runs in the tick. What a tick decides is stored before it has an effect, or can be
repeated.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import field, replace
from functools import partial
from typing import Any

from deepwork.delivery.runner.agent_watcher import (
    AgentWatcher,
    Looked,
    describe_drop,
    has_lost_claim,
    was_dropped,
)
from deepwork.delivery.runner.attempt_files import AttemptFiles, AttemptLocks, list_unclosed, mark_closed
from deepwork.delivery.runner.claiming import STOPPED
from deepwork.delivery.runner.finishing import AttemptLander, is_lost_claim
from deepwork.delivery.runner.models import Attempt, AttemptStage, AttemptWish, ParkedFor, Run, RunStatus
from deepwork.delivery.runner.plan_work import PlanWork
from deepwork.delivery.runner.preparing import AttemptPreparer
from deepwork.delivery.runner.processes import end_process
from deepwork.delivery.runner.profiles import AgentProfile
from deepwork.delivery.runner.prompts import build_correction_prompt, build_resume_prompt, build_words_prompt
from deepwork.delivery.runner.rules import is_held
from deepwork.delivery.runner.scheduling import RunScheduler
from deepwork.delivery.runner.service import AttemptService, has_room
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.delivery.runner.words import has_unheard_words, name_person
from deepwork.delivery.runner.work_sources import Finisher, WorkItem, WorkSources
from deepwork.kernel.database.transaction import Database, Transaction, join_transaction
from deepwork.kernel.errors import DeepworkError, NotFound, StorageError
from deepwork.kernel.foreign_text import to_one_line
from deepwork.kernel.records import dataclass
from deepwork.work.plans.models import CheckpointType
from deepwork.work.plans.stores.search_store import CheckpointStore
from deepwork.work.workspaces.models import LOCAL_HOST

log = logging.getLogger("deepwork")

_LOOK_AGAIN_MS = 10_000
"""How often an attempt that waits for a person looks whether it can go on."""
_LAND_AGAIN_MS = 1_000
"""How often an attempt looks whether another process has landed its work."""
_REFRESH_MS = 3_000
"""How old what was read from the store may be, if no event says that it changed."""
_RETRY_SECONDS = 2.0
_MAX_WORKERS = 8
_PATIENCE_SECONDS = 5.0
_MAX_CAUSE = 300
_MAX_DECISIONS = 100


@dataclass(frozen=True)
class _View:
    """What the store says about this host."""

    read_at: int = 0
    now: int = 0
    runs: Mapping[str, tuple[Run, int]] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()
    tasks: Mapping[str, WorkItem] = field(default_factory=dict)


class AttemptEngine:
    """Moves the attempts of this host on.

    Several processes may do this at the same time: each attempt is looked after by the one that holds its
    lock, and by another one as soon as that one has ended.
    """

    def __init__(
        self,
        database: Database,
        plans: PlanWork,
        scheduler: RunScheduler,
        preparer: AttemptPreparer,
        finisher: Finisher,
        lander: AttemptLander,
        sources: WorkSources,
        locks: AttemptLocks,
        get_profile: Callable[[str], AgentProfile],
        host: str,
        lease_ms: int,
        record_heartbeats: Callable[[Collection[str]], Mapping[str, Collection[str]]],
    ) -> None:
        self._database, self._plans, self._host = database, plans, host
        self._record_heartbeats = record_heartbeats
        self.scheduler, self._preparer, self._finisher = scheduler, preparer, finisher
        self._get_profile, self._lease_ms, self._sources = get_profile, lease_ms, sources
        self._lander = lander
        self._attempts = AttemptService(database)
        self._watcher = AgentWatcher(database, preparer, finisher, sources, self._submit, self._fail)
        self._locks = locks
        self._pool = ThreadPoolExecutor(_MAX_WORKERS, thread_name_prefix="deepwork-attempt")
        self._working: dict[str, Future[None]] = {}
        self._view = _View()
        self._looked_at: dict[str, int] = {}
        self._renewed_at: dict[str, int] = {}
        self._shown_at = 0
        self._refused_since: dict[str, float] = {}
        """Since when files of an attempt cannot be read or written, although the store works."""
        self._has_ended_strays = False
        self._unlocked: set[str] = set()
        """Runs whose locks cannot be taken."""

    def close(self) -> None:
        """Wait for what is being done; agents go on."""
        self._pool.shutdown(wait=True)
        self._preparer.close()
        self._locks.release_others(())

    def preview(self, run: Run, task_id: str, profile: AgentProfile) -> dict[str, Any]:
        """Describe the start of a task by this agent; starts and stores nothing."""
        return self._preparer.preview(run, task_id, profile)

    # One look at everything

    def tick(self, run_id: str, *, is_changed: bool = True) -> bool:
        """Look after a run and its attempts on this host once; return whether anything happened.

        `is_changed`: whether the store may have changed since the last look. Other runs of this host spend
        nothing meanwhile: who continues them is for a person to say.
        """
        has_news = self._look(partial(self._read, run_id), is_changed=is_changed)
        for run, agents in self._view.runs.values():
            has_news |= self.scheduler.advance(run, agents, self._view.now, is_urgent=has_news)
        return has_news

    def tick_one(self, attempt_id: str, *, is_changed: bool = True) -> bool:
        """Look after one attempt only, unless another process does; starts no task."""
        return self._look(partial(self._read_one, attempt_id), is_changed=is_changed)

    def take(self, attempt: Attempt) -> bool:
        """Let this process look after an attempt, if no other process does."""
        try:
            return self._locks.take(attempt.id)
        except StorageError as error:  # something is in the place of its lock
            self._fail(attempt, error)
            return False

    def _look(self, read: Callable[[Transaction], _View], *, is_changed: bool) -> bool:
        has_news = self._collect_workers()
        with self._database.reading() as tx:
            now = tx.now
            if is_changed or has_news or now - self._view.read_at > _REFRESH_MS:
                self._view = read(tx)
        self._show_presence(now)
        # Another process may have moved an attempt just before its lock was taken here.
        if self._renew_leases(self._view.attempts, now) or self._locks.has_new():
            with self._database.reading() as tx:
                self._view = read(tx)
        view = self._view = replace(self._view, now=now)
        for attempt in view.attempts:
            run = view.runs[attempt.run_id][0]
            has_news |= self._look_after(run, attempt, view.tasks.get(attempt.task_id), now)
        return self._save_progress(view, now) or has_news

    def _show_presence(self, now: int) -> None:
        """Let the other machines of the runs see that this one is there, more often than leases end."""
        is_due = self._view.runs and now - self._shown_at >= self._lease_ms / 3
        if self._host == LOCAL_HOST or not is_due:
            return
        with self._database.transaction() as tx:
            RunStore(tx).record_seen(self._host, self._view.runs)
        self._shown_at = now

    def _read(self, run_id: str, tx: Transaction) -> _View:
        found = RunStore(tx).find_open_of_host(run_id, self._host)
        runs = {run_id: found} if found else {}
        opened = {attempt.id: attempt for attempt in AttemptStore(tx).list_open_of_host(self._host)}
        self._end_closed({*opened, *runs})
        self._lock_runs(runs)
        self._end_strays(tx, opened)
        mine = tuple(each for each in opened.values() if each.run_id in runs and self.take(each))
        return _View(tx.now, tx.now, runs, mine, self._sources.load(tx, mine))

    def _lock_runs(self, run_ids: Collection[str]) -> None:
        """Hold the locks of runs: one that is free says that nobody drives the run."""
        for run_id in run_ids:
            try:
                self._locks.take(run_id)
            except StorageError as error:
                if run_id not in self._unlocked:
                    log.warning("Run %s looks unattended to others: %s", run_id, error.message)
                self._unlocked.add(run_id)

    def _read_one(self, attempt_id: str, tx: Transaction) -> _View:
        attempt = AttemptStore(tx).find(attempt_id)
        run = RunStore(tx).find(attempt.run_id) if attempt and not attempt.stage.is_final else None
        self._end_closed([attempt_id] if run else [])
        if attempt is None or run is None or not self.take(attempt):
            return _View(tx.now, tx.now)
        tasks = self._sources.load(tx, [attempt])
        return _View(tx.now, tx.now, {run.id: (run, 0)}, (attempt,), tasks)

    def _look_after(self, run: Run, attempt: Attempt, task: WorkItem | None, now: int) -> bool:
        if attempt.id in self._working:
            return False
        try:
            has_news = self._advance(run, attempt, task, now)
        except Exception as error:  # noqa: BLE001 - of this attempt, whatever it is
            self._fail(attempt, error)
            return True
        if attempt.id not in self._working:
            self._refused_since.pop(attempt.id, None)
        return has_news

    def _advance(self, run: Run, attempt: Attempt, task: WorkItem | None, now: int) -> bool:
        if task is None:
            self._stop(attempt, "Its task was removed.")
        elif was_dropped(attempt, task) and attempt.stage is not AttemptStage.RUNNING:
            self._stop(attempt, describe_drop(attempt))
        elif attempt.stage in (AttemptStage.CLAIMED, AttemptStage.PREPARING):
            self._begin(run, attempt)
        elif attempt.stage is AttemptStage.CHECKING:
            self._submit(attempt, lambda: self._finisher.finish(attempt))
        elif attempt.stage is AttemptStage.RUNNING:
            self._preparer.answer(attempt)
            return self._watcher.follow(Looked(run, attempt, task, now))
        elif attempt.stage is AttemptStage.PARKED:
            return self._wait(run, attempt, task, now)
        elif attempt.stage is AttemptStage.LANDING:
            return self._land(run, attempt, now)
        else:
            return self._review(run, attempt, task)
        return True

    def _save_progress(self, view: _View, now: int) -> bool:
        spending = self._watcher.save_progress(now)
        runs = {run.id: run for run, _ in view.runs.values()}
        return self._watcher.park_those_over_budget(runs, spending, now)

    # Work that takes long

    def _submit(self, attempt: Attempt, work: Callable[[], object]) -> None:
        def guarded() -> None:
            try:
                work()
                self._refused_since.pop(attempt.id, None)
            except Exception as error:  # noqa: BLE001 - of this attempt, whatever it is
                if self._may_pass(attempt, error):
                    log.warning("Attempt %s is tried again: %s", attempt.id, error)
                    time.sleep(_RETRY_SECONDS)
                else:
                    self._handle_error(attempt, error)

        self._working[attempt.id] = self._pool.submit(guarded)

    def _collect_workers(self) -> bool:
        """Forget workers that have ended; raises only what says that the store cannot be used."""
        ended = [id for id, future in self._working.items() if future.done()]
        for id in ended:
            self._working.pop(id).result()
        return bool(ended)

    def _fail(self, attempt: Attempt, error: Exception) -> None:
        """End an attempt that cannot go on, and no other; raises what says that the store cannot be used."""
        if self._may_pass(attempt, error):
            if isinstance(error, StorageError) and (error.recoverable or not self._is_store_usable()):
                raise error
        elif attempt.id not in self._working:
            self._watcher.forget(attempt)
            self._submit(attempt, partial(self._handle_error, attempt, error))

    def _may_pass(self, attempt: Attempt, error: Exception) -> bool:
        """Return whether to try again: a full disk or an outage passes, and so may a file that is not there.

        What concerns an attempt's own files while the store works is tried for some seconds.
        """
        if not isinstance(error, StorageError):
            return False
        if error.recoverable or not self._is_store_usable():
            return True
        since = self._refused_since.setdefault(attempt.id, time.monotonic())
        return time.monotonic() - since < _PATIENCE_SECONDS

    def _is_store_usable(self) -> bool:
        try:
            with self._database.transaction() as tx:
                return tx.now > 0
        except StorageError:
            return False

    def _handle_error(self, attempt: Attempt, error: Exception) -> None:
        """End an attempt that cannot go on, and no other; the reason says why and what to do.

        What cannot even be ended as it should be ends in the store alone.
        """
        with self._database.reading() as tx:
            current = AttemptStore(tx).find(attempt.id)
        if current is None or current.stage.is_final:
            return
        reason = describe_error(error, current)
        try:
            self._watcher.end_agent(current)
        except Exception as second:
            if isinstance(second, StorageError) and second.recoverable:
                raise
            reason = f"{reason} {describe_error(second, current)}"
        try:
            if isinstance(error, NotFound) or (isinstance(error, DeepworkError) and is_lost_claim(error)):
                self._finisher.stop(current, reason)
            else:
                self._finisher.fail(current, reason)
        except Exception as second:  # noqa: BLE001 - the next line fails too if the store cannot be used
            reason = f"{reason} {describe_error(second, current)}"
            if self._attempts.move(current, AttemptStage.FAILED, reason=reason) and current.workflow_id:
                self._release(current, reason)

    def _release(self, attempt: Attempt, reason: str) -> None:
        """Let others take the task at once; otherwise they can when its lease has ended."""
        try:
            self._plans.release(attempt, reason[:_MAX_CAUSE])
        except DeepworkError as error:
            log.warning("The task of %s is free when its lease ends: %s", attempt.id, error.message)

    def _stop(self, attempt: Attempt, reason: str) -> None:
        def stop() -> None:
            self._watcher.end_agent(attempt)
            self._finisher.stop(attempt, reason)

        self._submit(attempt, stop)

    # Starting

    def _begin(self, run: Run, attempt: Attempt) -> None:
        if run.status is RunStatus.ENDING:
            self._stop(attempt, run.reason or STOPPED)
            return
        if attempt.starts > 1 and (overrun := self._watcher.find_overrun(run, attempt)):
            self._attempts.move(attempt, AttemptStage.PARKED, parked_for=ParkedFor.BUDGET, reason=overrun)
            return
        profile = self._get_profile(attempt.profile)

        def prepare() -> None:
            is_new = attempt.stage is AttemptStage.CLAIMED
            current = self._attempts.move(attempt, AttemptStage.PREPARING, starts=1) if is_new else attempt
            if current is None:
                return
            if current.wish is not None and not self._preparer.has_started(current):
                self._watcher.carry_out_wish(current)
            else:
                self._preparer.prepare(run, current, profile)

        self._submit(attempt, prepare)

    # Waiting

    def _wait(self, run: Run, attempt: Attempt, task: WorkItem, now: int) -> bool:
        if run.status in (RunStatus.ENDING, RunStatus.STOPPING):
            self._stop(attempt, run.reason or STOPPED)
            return True
        if has_lost_claim(attempt, task):
            self._stop(attempt, "Its task was taken away.")
            return True
        if is_held(attempt) or attempt.wish is AttemptWish.STOP:
            return self._wait_for_holder(run, attempt, task)
        if attempt.parked_for is ParkedFor.LIMIT:
            return self._wait_for_limit(run, attempt, task, now)
        return self._wait_for_person(run, attempt, task, now)

    def _wait_for_person(self, run: Run, attempt: Attempt, task: WorkItem, now: int) -> bool:
        if now - self._looked_at.get(attempt.id, 0) < _LOOK_AGAIN_MS:
            return False
        self._looked_at[attempt.id] = now
        if attempt.parked_for is ParkedFor.BUDGET:
            return self._wait_for_budget(run, attempt, task)
        return self._attempts.move(attempt, AttemptStage.CHECKING) is not None

    def _wait_for_limit(self, run: Run, attempt: Attempt, task: WorkItem, now: int) -> bool:
        if run.status is RunStatus.PAUSED or now < (attempt.not_before or 0):
            return False
        reason = f"A usage limit has ended: {attempt.reason}"
        return self._attempts.start_again(attempt, build_resume_prompt(reason, task.name), reason) is not None

    def _wait_for_budget(self, run: Run, attempt: Attempt, task: WorkItem) -> bool:
        if self._watcher.find_overrun(run, attempt):
            return False
        return self._start_parked(run, attempt, task, "The budget was used up, and has been raised.")

    def _wait_for_holder(self, run: Run, attempt: Attempt, task: WorkItem) -> bool:
        """Let an attempt that a person paused or took over continue, or end, when the person says so."""
        if attempt.wish is AttemptWish.STOP:
            self._submit(attempt, partial(self._watcher.carry_out_wish, attempt))
            return True
        if attempt.wish is not AttemptWish.CONTINUE:
            return False
        if task.status.is_done:  # the person has completed it
            kept = {"wish": None, "interrupted_by": None}
            return self._attempts.move(attempt, AttemptStage.CHECKING, **kept) is not None
        name = name_person(attempt.interrupted_by or "")
        was_taken = attempt.parked_for is ParkedFor.TAKEN
        did = "worked in your session and your folder, and gives them back" if was_taken else "paused you"
        return self._start_parked(run, attempt, task, f"{name} {did}.", is_wanted=True)

    def _start_parked(
        self, run: Run, attempt: Attempt, task: WorkItem, reason: str, *, is_wanted: bool = False
    ) -> bool:
        """Start the agent of an attempt again, once the host may start one more."""
        prompt = build_resume_prompt(reason, task.name)
        with self._database.transaction() as tx, join_transaction(tx):
            if not has_room(tx, run.id, self._host):
                return False
            if attempt.started_at is None:  # it was parked before this start, which keeps its prompt
                kept = {"wish": None, "interrupted_by": None}
                return self._attempts.move(attempt, AttemptStage.PREPARING, **kept) is not None
            return self._attempts.start_again(attempt, prompt, reason, is_wanted=is_wanted) is not None

    def _land(self, run: Run, attempt: Attempt, now: int) -> bool:
        """Land work that is done; what is queued lands with the next `deepwork land` if the run is ended."""
        if run.status is RunStatus.ENDING:
            self._stop(attempt, run.reason or STOPPED)
            return True
        if now - self._looked_at.get(attempt.id, 0) < _LAND_AGAIN_MS:
            return False
        self._looked_at[attempt.id] = now
        self._submit(attempt, lambda: self._lander.land(attempt))
        return True

    def _review(self, run: Run, attempt: Attempt, task: WorkItem) -> bool:
        """Follow what a person decides about work that is done."""
        if task.status.is_done:
            return self._finisher.end_reviewed(attempt) is not None
        if run.status in (RunStatus.ENDING, RunStatus.STOPPING):
            self._stop(attempt, run.reason or STOPPED)
            return True
        if attempt.workflow_id is None:  # a step is reported again when a person has decided
            return not task.waits_for and self._attempts.move(attempt, AttemptStage.CHECKING) is not None
        if task.waits_for or task.claimed_by:
            return False
        comment, is_notified = self._find_refusal(task.id)
        prompt = build_words_prompt(task.name) if is_notified else build_correction_prompt(comment, task.name)
        with self._database.transaction() as tx, join_transaction(tx):
            moved = self._claim_again(attempt) if has_room(tx, run.id, self._host) else None
            return moved is not None and self._attempts.start_again(moved, prompt, comment) is not None

    def _find_refusal(self, task_id: str) -> tuple[str, bool]:
        """Return the refusal, and whether it waits to open the prompt of the next start."""
        with self._database.reading() as tx:
            is_notified = has_unheard_words(tx, task_id)
            decisions, _ = CheckpointStore(tx).list_after(
                task_id, 0, [CheckpointType.DECISION], _MAX_DECISIONS
            )
        return decisions[-1].summary if decisions else "A person refused the work.", is_notified

    # Claims

    def _renew_leases(self, attempts: Collection[Attempt], now: int) -> bool:
        """Renew the leases of all agents in time; return whether one had ended and was taken back."""
        due = [each for each in attempts if now - self._renewed_at.get(each.id, 0) >= self._lease_ms / 3]
        held = [each for each in due if each.stage is not AttemptStage.REVIEWING]
        lost = self._record_heartbeats({each.agent_id for each in held}) if held else {}
        self._renewed_at |= dict.fromkeys([each.id for each in due], now)
        taken_back = [self._take_back(each) for each in held if each.task_id in lost.get(each.agent_id, ())]
        return any(taken_back)

    def _take_back(self, attempt: Attempt) -> bool:
        """Claim a task again whose lease has ended, such as while the store could not be used."""
        try:
            return self._claim_again(attempt) is not None
        except StorageError:
            raise
        except DeepworkError as error:
            log.warning("Could not renew the claim of %s: %s", attempt.id, error.message)
            return False

    def _claim_again(self, attempt: Attempt) -> Attempt | None:
        """Claim the task again, unless another agent has it; its epoch is a new one."""
        claimed = self._plans.claim(attempt.task_id, attempt.agent_id)
        return self._attempts.update(attempt, claim_epoch=claimed.claim_epoch) if claimed.success else None

    # Agents that nobody looks after

    def end_strays(self) -> None:
        """End agents whose attempts ended in the store while no runner looked after them."""
        with self._database.reading() as tx:
            self._end_strays(tx, {each.id for each in AttemptStore(tx).list_open_of_host(self._host)})

    def _end_closed(self, opened: Collection[str]) -> None:
        """End agents whose attempts ended in the store, such as by another host that took the task."""
        for attempt in self._watcher.list_followed():
            if attempt.id not in opened and attempt.id not in self._working:
                self._watcher.forget_and_end(attempt)
        self._locks.release_others({*opened, *self._working})

    def _end_strays(self, tx: Transaction, opened: Collection[str]) -> None:
        """Once, end agents whose attempts ended in the store while no runner looked after them."""
        if self._has_ended_strays:
            return
        self._has_ended_strays = True
        for attempt_id, files in list_unclosed(self._preparer.state_folder, opened):
            attempt = AttemptStore(tx).find(attempt_id)  # files of another store may be in the same project
            if attempt is not None and self.take(attempt):
                self._submit(attempt, partial(self._close, attempt_id, files))

    def _close(self, attempt_id: str, files: AttemptFiles) -> None:
        end_process(files)
        mark_closed(self._preparer.state_folder, attempt_id)


def describe_error(error: Exception, attempt: Attempt) -> str:
    """Say what ended an attempt, and what to do; what nobody foresaw is logged with its place."""
    if isinstance(error, DeepworkError):
        return f"{error.message} {error.suggestion or ''}".strip()
    log.error("Attempt %s failed by a fault of deepwork.", attempt.id, exc_info=error)
    text = to_one_line(f"{type(error).__name__}: {error}")[:_MAX_CAUSE]
    return f"deepwork failed: {text} Please report this; the log has the details."
