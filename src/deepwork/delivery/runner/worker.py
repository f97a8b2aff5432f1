"""Works on one attempt of this host, for whatever starts one process for each task: timers, containers."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Protocol

from deepwork.delivery.runner.attempt_engine import AttemptEngine
from deepwork.delivery.runner.claiming import NothingClaimed
from deepwork.delivery.runner.models import Attempt, AttemptStage, Run, WorkResult, WorkStatus
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.kernel.database.engine import Listener
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import DeepworkError, NotAllowed, StorageError
from deepwork.work.plans.stores.task_store import TaskStore

_WAITING = frozenset({AttemptStage.PARKED, AttemptStage.REVIEWING})
_NOTHING = "No task is ready."
_LEFT = "It was left; the next worker on this host goes on with it."
_TRIES = 3
"""How often a task is claimed whose run was ended by another process meanwhile."""
log = logging.getLogger("deepwork")
_SHORTEST_WAIT, _LONGEST_WAIT = 0.05, 1.0
_LONGEST_PAUSE, _LONGEST_COSTLY_WAIT = 0.5, 3.0
_CHANGED_SHARE, _QUIET_SHARE = 20, 100
"""A look that changed nothing is followed by this many times its CPU time of rest: so looking takes at most
a twentieth of a core while the store changes all the time, and a hundredth while nothing does."""
_STORE_WAIT = 2.0


class PlanDone(NotAllowed):
    """Every task of the plan is done: there is nothing to run, and nothing wrong."""


class Worker:
    """Brings one attempt to its end; others of this host may work on others at the same time."""

    def __init__(
        self,
        database: Database,
        engine: AttemptEngine,
        host: str,
        join: Callable[[str], tuple[Run, Sequence[str]]],
        labels: frozenset[str] | None = None,
    ) -> None:
        """`labels`: the capabilities that tasks may require; None: any, because others chose the worker."""
        self._database, self._engine, self._host = database, engine, host
        self._join, self._labels = join, labels

    def work(self, plans: Iterable[str], only: str | None, stop: threading.Event) -> WorkResult:
        """Go on with an attempt that was left on this host, or start a task of the first plan that has one.

        `only` restricts what was left to this plan.
        """
        waiting = None
        for left in self._list_left(only):
            ended = self._continue(left, stop)
            if isinstance(ended, WorkResult):
                return ended
            waiting = waiting or ended
        reason = None
        for plan in plans:
            started = self._start(plan, is_named=only is not None)
            if isinstance(started, Attempt):
                return self._finish(started, stop)
            reason = reason or started
        if waiting is not None:
            return build_result(waiting)
        return WorkResult(WorkStatus.NOTHING, reason=reason or _NOTHING)

    # What was left

    def _list_left(self, only: str | None) -> list[Attempt]:
        with self._database.reading() as tx:
            found = AttemptStore(tx).list_open_of_host(self._host)
            left = [each for each in found if each.workflow_id and only in (None, each.workflow_id)]
            if self._labels is None or not left:
                return left
            tasks = TaskStore(tx).find_by_ids([each.task_id for each in left])
        able = {id for id, task in tasks.items() if task.required_capabilities <= self._labels}
        return [each for each in left if each.task_id in able or each.task_id not in tasks]

    def _continue(self, left: Attempt, stop: threading.Event) -> WorkResult | Attempt | None:
        """Go on with an attempt, unless another process does; return it is if it is still parked."""
        if not self._engine.take(left):
            return None
        before = self._join_again(self._read(left))
        ended = self._finish(before, stop)  # also renews the claim of one that waits
        after = ended.attempt or before
        if before.stage not in _WAITING or after.starts > before.starts:
            return ended
        return after if after.stage is AttemptStage.PARKED else None

    def _join_again(self, left: Attempt) -> Attempt:
        """Let an attempt go on in an open run of its plan, if there can be one."""
        with self._database.reading() as tx:
            run = RunStore(tx).find(left.run_id)
        if left.workflow_id and (run is None or run.status.is_final):
            with suppress(NotAllowed):
                self._join(left.workflow_id)
        return self._read(left)

    # A new attempt

    def _start(self, plan: str, *, is_named: bool) -> Attempt | str | None:
        """Claim a task of the plan; return why not, if there is more to say than that there is none."""
        reason = None
        try:
            for _ in range(_TRIES):
                run, chain = self._join(plan)
                started = self._engine.scheduler.start_one(run, chain, self._labels)
                if not isinstance(started, NothingClaimed):
                    return started
                reason = started.reason
        except StorageError:
            raise
        except DeepworkError as error:
            if is_named and not isinstance(error, PlanDone):
                raise
            return error.message
        return reason

    # Its end

    def _finish(self, attempt: Attempt, stop: threading.Event) -> WorkResult:
        """Look after the attempt until it has ended or waits."""
        latest = attempt

        def is_over(has_news: bool) -> bool:
            nonlocal latest
            latest = self._read(attempt)
            return latest.stage.is_final or (latest.stage in _WAITING and not has_news)

        repeat_until_over(self._database, stop, partial(self._engine.tick_one, attempt.id), is_over)
        if not stop.is_set():
            self._engine.scheduler.settle(latest.run_id)
        return build_result(latest)

    def _read(self, attempt: Attempt) -> Attempt:
        with self._database.reading() as tx:
            return AttemptStore(tx).find(attempt.id) or attempt


def build_result(attempt: Attempt) -> WorkResult:
    """Say what an attempt came to."""
    if attempt.stage in (AttemptStage.DONE, AttemptStage.REVIEWING):
        return WorkResult(WorkStatus.WORKED, attempt, attempt.reason)
    if attempt.stage.is_final:
        return WorkResult(WorkStatus.FAILED, attempt, attempt.reason)
    return WorkResult(WorkStatus.PARKED, attempt, attempt.reason or _LEFT)


class Tick(Protocol):
    """One look; `is_changed`: whether the store may have changed since the last one."""

    def __call__(self, *, is_changed: bool) -> bool:
        """Return whether anything happened."""


def repeat_until_over(
    database: Database, stop: threading.Event, tick: Tick, is_over: Callable[[bool], bool]
) -> None:
    """Tick until it is over or `stop` is set; `is_over` gets whether the tick had news.

    While the store cannot be used it waits: agents go on meanwhile.
    """
    wait, is_changed = _SHORTEST_WAIT, True
    listener = _listen(database, stop)
    if listener is None:
        return
    with closing(listener):
        while not stop.is_set():
            began = time.thread_time()
            try:
                has_news = tick(is_changed=is_changed)
                if (has_news or is_changed) and is_over(has_news):
                    return
            except StorageError as error:
                _wait_for_store(error, stop)
                is_changed = True  # what was read before it may be old
                continue
            cost = 0.0 if has_news else time.thread_time() - began
            wait = _SHORTEST_WAIT if has_news else min(_LONGEST_WAIT, wait * 2)
            # Many small changes are looked at together.
            stop.wait(max(_SHORTEST_WAIT, min(cost * _CHANGED_SHARE, _LONGEST_PAUSE)))
            rest = max(wait, min(cost * _QUIET_SHARE, _LONGEST_COSTLY_WAIT))
            is_changed = listener.wait(rest) or has_news


def _listen(database: Database, stop: threading.Event) -> Listener | None:
    """Listen for changes as soon as the store can be used; None if `stop` was set before."""
    while not stop.is_set():
        try:
            return database.listen()
        except StorageError as error:
            _wait_for_store(error, stop)
    return None


def _wait_for_store(error: StorageError, stop: threading.Event) -> None:
    log.warning("The store cannot be used; trying again: %s", error.message)
    stop.wait(_STORE_WAIT)
