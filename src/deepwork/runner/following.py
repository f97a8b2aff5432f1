"""Follows running agents: reads their streams, stores progress and spending, notices stalls and budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deepwork.budgets.models import MICROS_PER_USD, Entry, Source, Usage
from deepwork.budgets.service import BudgetService
from deepwork.database.transaction import Database, Transaction
from deepwork.plans.admission import Admission
from deepwork.plans.stores.plan_store import PlanStore
from deepwork.plans.stores.task_store import TaskStore
from deepwork.records import copy_with
from deepwork.runner.adapters import get_adapter
from deepwork.runner.attempt_files import AttemptFiles, read_lines, read_tail
from deepwork.runner.models import Attempt, Observation, ProcessState, Run, RunEvent
from deepwork.runner.responses import build_payload, describe_attempt
from deepwork.runner.store import AttemptStore
from deepwork.runner.stream_state import StreamState, apply, describe_now

_READ_BYTES = 1_000_000
_MAX_READS = 8
"""How often one look reads on: a flood of output must not starve the other agents."""
_STDERR_BYTES = 8_000
_SAVE_MS, _EVENT_MS = 1_000, 5_000


@dataclass(frozen=True)
class Followed:
    """What is known of a running attempt, some of it not stored yet."""

    attempt: Attempt
    state: StreamState
    offset: int
    saved_at: int = 0
    shown_at: int = 0
    is_unsaved: bool = False

    @classmethod
    def begin(cls, attempt: Attempt) -> Followed:
        """Continue from what is stored."""
        return cls(attempt, StreamState.from_json(attempt.stream_state), attempt.stream_offset)

    def with_claim(self, stored: Attempt) -> Followed:
        """Return it with the claim that is stored, which may be a new one after an outage."""
        if stored.claim_epoch == self.attempt.claim_epoch:
            return self
        attempt: Attempt = copy_with(self.attempt, claim_epoch=stored.claim_epoch)
        return replace(self, attempt=attempt)

    def with_cpu(self, cpu_ms: int, now: int) -> Followed:
        """Return it with the use of the processor as its last activity."""
        attempt: Attempt = copy_with(self.attempt, cpu_ms=cpu_ms, active_at=now)
        return replace(self, attempt=attempt, is_unsaved=True)


def read_stream(followed: Followed, files: AttemptFiles, now: int, *, is_over: bool) -> Followed:
    """Read what the agent wrote since, not later than `now`; to its end if it has exited."""
    adapter = get_adapter(followed.attempt.vendor)
    state, offset = followed.state, followed.offset
    reads = 0
    while is_over or reads < _MAX_READS:
        lines, after = read_lines(files, offset, _READ_BYTES, is_over=is_over)
        if after == offset:
            break
        for line in lines:
            state = apply(state, adapter.read_line(line, now=now))
        offset, reads = after, reads + 1
    if offset == followed.offset:
        return followed
    attempt: Attempt = copy_with(followed.attempt, active_at=now)
    return replace(followed, attempt=attempt, state=state, offset=offset, is_unsaved=True)


def finish_stream(followed: Followed, files: AttemptFiles, observed: Observation) -> Followed:
    """Return what the stream says after its end, with the exit code and the last errors."""
    code = observed.code if observed.state is ProcessState.EXITED else None
    tail = read_tail(files.stderr, _STDERR_BYTES)
    adapter = get_adapter(followed.attempt.vendor)
    state = adapter.finish(followed.state, code, tail, now=observed.ended_at)
    return replace(followed, state=state, is_unsaved=True)


class ProgressRecorder:
    """Stores progress at most once a second, with what was spent, and announces it every five."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, followed: Followed, now: int) -> Followed | None:
        """Store what was read to the end; None if the attempt is not ours to change any more."""
        with self._database.transaction() as tx:
            return _save(tx, followed, now)

    def save_due(self, all_followed: Sequence[Followed], now: int) -> list[Followed]:
        """Store what was read of all that are due, in one transaction; return them."""
        due = [each for each in all_followed if each.is_unsaved and now - each.saved_at >= _SAVE_MS]
        if not due:
            return []
        with self._database.transaction() as tx:
            return [saved for each in due if (saved := _save(tx, each, now))]

    def find_overrun(self, run: Run, attempt: Attempt) -> str | None:
        """Return which budget is used up: that of the run, the task, the plan or the day."""
        with self._database.reading() as tx:
            if run.options.max_usd is not None:
                spent = AttemptStore(tx).sum_usd_micros(run.id)
                if spent >= run.options.max_usd * MICROS_PER_USD:
                    return f"The run has spent {spent / MICROS_PER_USD:.2f} $ of {run.options.max_usd:g} $."
            if attempt.workflow_id is None:
                return None
            task = TaskStore(tx).get(attempt.task_id)
            workflow = PlanStore(tx).get(task.workflow_id)
            if Admission(tx, workflow, is_claim=False).find_overrun(task) is None:
                return None
        return self._announce_overrun(attempt)

    def _announce_overrun(self, attempt: Attempt) -> str | None:
        with self._database.transaction() as tx:
            task = TaskStore(tx).get(attempt.task_id)
            workflow = PlanStore(tx).get_for_update(task.workflow_id)
            overrun = Admission(tx, workflow, is_claim=True).find_overrun(task)
            return overrun.message if overrun else None


def _save(tx: Transaction, followed: Followed, now: int) -> Followed | None:
    before = AttemptStore(tx).find(followed.attempt.id)
    if before is None:
        return None
    after = _add_progress(before, followed)
    expected = copy_with(before, stage=followed.attempt.stage, starts=followed.attempt.starts)
    if not AttemptStore(tx).save(expected, after):
        return None
    record_spending(tx, before, after, followed.state)
    is_shown = now - followed.shown_at >= _EVENT_MS
    if is_shown:
        tx.emit(RunEvent.ATTEMPT_PROGRESS, build_payload(describe_attempt(after)), after.workflow_id)
    return replace(
        followed,
        attempt=after,
        saved_at=now,
        shown_at=now if is_shown else followed.shown_at,
        is_unsaved=False,
    )


def _add_progress(before: Attempt, followed: Followed) -> Attempt:
    state = followed.state
    changed: Attempt = copy_with(
        before,
        stream_state=state.to_json(),
        stream_offset=followed.offset,
        vendor_session=state.session_id or before.vendor_session,
        input_tokens=state.input_tokens,
        cached_tokens=state.cached_tokens,
        output_tokens=state.output_tokens,
        usd_micros=state.usd_micros,
        usd_source=state.usd_source.value if state.usd_source else None,
        now_doing=describe_now(state) or None,
        active_at=followed.attempt.active_at,
        cpu_ms=followed.attempt.cpu_ms,
        entries=before.entries + _has_spent_more(before, state),
    )
    return changed


def _has_spent_more(before: Attempt, state: StreamState) -> bool:
    return (before.tokens, before.usd_micros) != (state.tokens, state.usd_micros)


def record_spending(tx: Transaction, before: Attempt, after: Attempt, state: StreamState) -> None:
    """Add what was spent since to the ledger, in the transaction that stores how far the stream was read."""
    if after.entries == before.entries:
        return
    usage = Usage(
        tokens=after.tokens - before.tokens,
        usd_micros=after.usd_micros - before.usd_micros,
        source=state.usd_source or Source.UNVERIFIED,
        model=state.model,
        vendor=after.vendor,
    )
    task_id = after.task_id if after.workflow_id else None
    entry = Entry(f"attempt:{after.id}", after.entries, usage, after.workflow_id, task_id, after.agent_id)
    BudgetService(tx).record(entry)
