"""Starts, joins and ends runs; moves attempts from stage to stage. Each change is one transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deepwork.delivery.runner.models import (
    Attempt,
    AttemptStage,
    AttemptWish,
    Run,
    RunEvent,
    RunOptions,
    RunStatus,
)
from deepwork.delivery.runner.responses import build_payload, describe_attempt, describe_run
from deepwork.delivery.runner.rules import MOVES, find_run_overrun
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.delivery.runner.stream_state import StreamState
from deepwork.gates.budgets.service import BudgetService
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import InvalidInput, NotAllowed, StorageError
from deepwork.kernel.values import copy_with, new_id

AllowParallelTasks = Callable[[Transaction, str, int], None]
"""Lets at least so many tasks of a plan run in parallel."""

_TRIES = 3
"""How often a run is looked for that others begin and end meanwhile."""


class RunService:
    """The runs of a store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def start(
        self,
        new: Run,
        host: str,
        agents: int | None,
        *,
        changed: Sequence[str] = (),
        known: Run | None = None,
    ) -> Run:
        """Store a new run, or join the open run of the same plan; `changed` names options to take over then.

        Attempts that an earlier run of the plan left open continue in this one. `known` is a run of the same
        job that is not done yet: it goes on, and so does the run of a plan that used up its `max_usd`.
        `agents`: how many the host starts; None if another engine does.
        """
        with self._database.transaction() as tx:
            store = RunStore(tx)
            known = known or self._find_used_up(tx, new)
            run = self._open(tx, new) if known is None else self._reopen(tx, known.id, new)
            if run.id != new.id:
                is_of_person = any(store.list_hosts(run.id).values())
                run = self._change(tx, run, new, changed if is_of_person else None)
            if agents is None:
                store.join_for_work(run.id, host)
            else:
                store.join(run.id, host, agents)
            return run

    def _change(self, tx: Transaction, run: Run, new: Run, names: Sequence[str] | None) -> Run:
        """Take over these options; all, and the agents, if only workers made the run."""
        if names is None:
            return self._save(tx, run, chain=new.chain, options=new.options)
        given = {name: getattr(new.options, name) for name in names}
        return self._save(tx, run, options=replace(run.options, **given)) if given else run

    def join_for_work(self, new: Run, host: str) -> tuple[Run, bool]:
        """Store a new run, or join the open run of the same plan; return it, and whether a person started it.

        No host starts tasks of such a run by itself: each worker starts one, and adds its agents to those
        of the other workers.
        """
        with self._database.transaction() as tx:
            store = RunStore(tx)
            run = self._open(tx, new)
            is_of_person = any(store.list_hosts(run.id).values())
            if not is_of_person and (added := [name for name in new.chain if name not in run.chain]):
                run = self._save(tx, run, chain=(*run.chain, *added))
            store.join_for_work(run.id, host)
            return run, is_of_person

    def join_host(self, run_id: str, host: str) -> None:
        """Let a host look after attempts of the run; unless it has joined already, it starts no tasks."""
        with self._database.transaction() as tx:
            RunStore(tx).join_for_work(run_id, host)

    def _open(self, tx: Transaction, new: Run) -> Run:
        """Return the open run of the same plan, locked; or this one, stored now."""
        store = RunStore(tx)
        for _ in range(_TRIES):
            if store.add(new):
                store.adopt_open_attempts(new)
                tx.emit(RunEvent.STARTED, build_payload(describe_run(new)), new.workflow_id)
                return new
            found = store.find_open_of_plan(new.workflow_id or "")
            if found and not (locked := store.get_for_update(found.id)).status.is_final:
                return locked
        raise StorageError("Other runs of the plan begin and end all the time.", suggestion="Try again.")

    def set_status(self, id: str, status: RunStatus, reason: str | None = None) -> Run:
        """Pause, resume or stop a run, or end it; raises NotAllowed if it has ended."""
        with self._database.transaction() as tx:
            run = RunStore(tx).get_for_update(id)
            if run.status is status:
                return run
            if run.status.is_final:
                raise _build_ended_error(run)
            return self._save(tx, run, status=status, reason=reason)

    def set_max_usd(self, id: str, max_usd: float) -> Run:
        """Change what a run may cost; one that ended because that was used up can continue."""
        with self._database.transaction() as tx:
            store = RunStore(tx)
            run, spent = store.get_for_update(id), store.sum_usd_micros(id)
            options = replace(run.options, max_usd=max_usd)
            if overrun := find_run_overrun(options, spent):
                raise InvalidInput(overrun, suggestion="Give more than it has spent.")
            if not run.status.is_final:
                return self._save(tx, run, options=options)
            if run.status is not RunStatus.NEEDS_PERSON or not find_run_overrun(run.options, spent):
                raise _build_ended_error(run)
            if other := store.find_open_of_plan(run.workflow_id or ""):
                raise NotAllowed(
                    f"Run {other.id} works on the same plan now.",
                    suggestion=f"`deepwork runs set {other.id} --max-usd {max_usd:g}`.",
                )
            store.adopt_open_attempts(run)
            return self._save(tx, run, **_BEGUN, options=options)

    def set_agents(self, id: str, agents: int, allow_parallel_tasks: AllowParallelTasks) -> Run:
        """Change how many agents each machine of a run starts; the plan allows at least as many tasks."""
        with self._database.transaction() as tx:
            run = RunStore(tx).get_for_update(id)  # before the plan, as claims do
            if run.status.is_final:
                raise _build_ended_error(run)
            if run.workflow_id is None:
                raise InvalidInput(
                    "The steps of a job run one after another.", suggestion="Change its dollars only."
                )
            if not RunStore(tx).set_agents(id, agents):
                raise NotAllowed(
                    f"No machine starts agents of run {id} by itself: each worker starts one.",
                    suggestion="Start more or fewer of them.",
                )
            allow_parallel_tasks(tx, run.workflow_id, agents)
            return self._save(tx, run)

    def set_reason(self, id: str, reason: str | None) -> None:
        """Say what an open run waits for; None if for nothing any more."""
        with self._database.transaction() as tx:
            run = RunStore(tx).get_for_update(id)
            if not run.status.is_final:
                self._save(tx, run, reason=reason)

    def _find_used_up(self, tx: Transaction, new: Run) -> Run | None:
        """Return the last run of the plan if it has spent all it may: a new one does not get that again."""
        store = RunStore(tx)
        last = store.find_last_of_plan(new.workflow_id or "") if new.options.max_usd is not None else None
        if last is None or last.status is not RunStatus.NEEDS_PERSON:
            return None
        return last if find_run_overrun(last.options, store.sum_usd_micros(last.id)) else None

    def _reopen(self, tx: Transaction, id: str, new: Run) -> Run:
        """Let a run go on that has ended without being done, as it is asked for now."""
        run = RunStore(tx).get_for_update(id)
        if not run.status.is_final:
            return run
        RunStore(tx).adopt_open_attempts(run)
        return self._save(tx, run, **_BEGUN, chain=new.chain, options=new.options)

    def set_session(self, id: str, session_id: str) -> Run:
        """Remember the session of the job that a run works on."""
        with self._database.transaction() as tx:
            return self._save(tx, RunStore(tx).get_for_update(id), session_id=session_id)

    def find(self, id: str) -> Run | None:
        """Return the run with this id."""
        with self._database.reading() as tx:
            return RunStore(tx).find(id)

    def _save(self, tx: Transaction, run: Run, **changes: Any) -> Run:
        changed: Run = copy_with(run, updated_at=tx.now, **changes)
        if changed.status.is_final:
            changed = copy_with(changed, ended_at=tx.now)
        RunStore(tx).save(changed)
        event = RunEvent.ENDED if changed.status.is_final else RunEvent.UPDATED
        tx.emit(event, build_payload(describe_run(changed)), changed.workflow_id)
        return changed


_BEGUN: Mapping[str, Any] = {"status": RunStatus.ACTIVE, "reason": None, "ended_at": None}


def _build_ended_error(run: Run) -> NotAllowed:
    return NotAllowed(
        f"Run {run.id} has ended: {run.status}.",
        suggestion=f"Start another one with `deepwork run {run.workflow_id or run.job}`.",
    )


def create_run(
    *,
    repository_path: str,
    chain: Sequence[str],
    options: RunOptions,
    created_by: str,
    now: int,
    workflow_id: str | None = None,
    job: str | None = None,
    goal: str | None = None,
) -> Run:
    """Create a run that is not stored yet."""
    return Run(
        id=new_id("rn"),
        workflow_id=workflow_id,
        job=job,
        goal=goal,
        session_id=None,
        repository_path=repository_path,
        status=RunStatus.ACTIVE,
        chain=tuple(chain),
        options=options,
        reason=None,
        created_by=created_by,
        created_at=now,
        updated_at=now,
    )


class AttemptService:
    """Moves attempts; a move that another runner made first has no effect."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def move(self, attempt: Attempt, stage: AttemptStage, **changes: Any) -> Attempt | None:
        """Move an attempt, and return it; None if it is not where it was."""
        with self._database.transaction() as tx:
            return move_attempt(tx, attempt, stage, **changes)

    def update(self, attempt: Attempt, **changes: Any) -> Attempt | None:
        """Store progress without an event; None if the attempt is not where it was."""
        with self._database.transaction() as tx:
            after: Attempt = copy_with(attempt, updated_at=tx.now, **changes)
            return after if AttemptStore(tx).save(attempt, after) else None

    def start_again(
        self, attempt: Attempt, prompt: str, reason: str, *, is_wanted: bool = False
    ) -> Attempt | None:
        """Begin the next start of an attempt, in the same tree, and in the same session if there is one.

        One that a person wants does not count against how often the attempt may go on.
        """
        is_lost = StreamState.from_json(attempt.stream_state).is_session_lost
        session = None if is_lost else attempt.vendor_session
        is_still_wished = attempt.wish not in (None, AttemptWish.CONTINUE)
        return self.move(
            attempt,
            AttemptStage.PREPARING,
            starts=attempt.starts + 1,
            resumes=attempt.resumes + (not is_wanted),
            vendor_session=session,
            next_prompt=prompt if session else None,  # a new session needs the whole prompt again
            reason=reason,
            pid=None,
            boot_id=None,
            start_time=None,
            started_at=None,
            # What a person wants of an attempt between two starts is for the next one.
            interrupted_by=attempt.interrupted_by if is_still_wished else None,
            wish=attempt.wish if is_still_wished else None,
            stream_offset=0,
            cpu_ms=0,
        )


def has_room(tx: Transaction, run_id: str, host: str) -> bool:
    """Return whether the host may start one more agent of the run, whose row this locks until the end.

    So of two processes that start the last one, one finds no room. A host that only works on single tasks has
    no limit of its own.
    """
    RunStore(tx).get_for_update(run_id)
    most = RunStore(tx).list_hosts(run_id).get(host, 0)
    return not most or AttemptStore(tx).count_working(run_id, host) < most


def move_attempt(tx: Transaction, attempt: Attempt, stage: AttemptStage, **changes: Any) -> Attempt | None:
    """Move an attempt in this transaction, with its event; None if it is not where it was."""
    if stage is not attempt.stage and stage not in MOVES[attempt.stage]:
        raise AssertionError(f"No move leads from {attempt.stage} to {stage}.")
    if stage is not AttemptStage.PARKED:
        changes = {"parked_for": None, "not_before": None, **changes}
    if stage.is_final:
        changes = {"ended_at": tx.now, "now_doing": None, **changes}
    after: Attempt = copy_with(attempt, stage=stage, updated_at=tx.now, **changes)
    if not AttemptStore(tx).save(attempt, after):
        return None
    if (
        attempt.stage is AttemptStage.RUNNING
        and attempt.workflow_id is None
        and attempt.started_at is not None
    ):
        BudgetService(tx).add_active_time_of_step(attempt.task_id, attempt.started_at, tx.now)
    event = RunEvent.ATTEMPT_ENDED if stage.is_final else RunEvent.ATTEMPT_UPDATED
    tx.emit(event, build_payload(describe_attempt(after)), after.workflow_id)
    return after
