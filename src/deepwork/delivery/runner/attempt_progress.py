"""Follows running agents: reads their streams, stores progress and spending, notices what they spent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from deepwork.delivery.runner.adapters import get_adapter
from deepwork.delivery.runner.attempt_files import AttemptFiles, read_lines, read_tail, read_times
from deepwork.delivery.runner.models import Attempt, LimitReached, Observation, ProcessState, RunEvent
from deepwork.delivery.runner.responses import build_payload, describe_attempt
from deepwork.delivery.runner.store import AttemptStore
from deepwork.delivery.runner.stream_state import StreamState, apply, describe_now, note_time
from deepwork.gates.budgets.models import CostSource, Entry, Usage
from deepwork.gates.budgets.service import BudgetService
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import StorageError
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import copy_with

_READ_BYTES = 1_000_000
_MAX_READS = 8
"""How often one look reads on: a flood of output must not starve the other agents."""
_STDERR_BYTES = 8_000
_SAVE_MS, _SAVE_MS_PER_AGENT, _EVENT_MS = 1_000, 60, 5_000
"""Progress is stored at most once a second, and less often the more agents there are: fifty every three."""


@dataclass(frozen=True)
class Followed:
    """What is known of a running attempt, some of it not stored yet."""

    attempt: Attempt
    state: StreamState
    offset: int
    saved_at: int = 0
    shown_at: int = 0
    is_unsaved: bool = False
    is_behind: bool = False
    """Whether more was written than one look reads."""

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
    """Read what the agent wrote since, not later than `now`; some of it, if it is much."""
    adapter = get_adapter(followed.attempt.vendor)
    state, offset, is_behind = followed.state, followed.offset, True
    for _ in range(_MAX_READS):
        lines, after = read_lines(files, offset, _READ_BYTES, is_over=is_over)
        if after == offset:
            is_behind = False
            break
        signals = (signal for line in lines for signal in adapter.read_line(line, now=now))
        state = note_time(apply(state, signals), state, now)
        offset = after
    if offset == followed.offset:
        return replace(followed, is_behind=False) if followed.is_behind else followed
    attempt: Attempt = copy_with(followed.attempt, active_at=now)
    return replace(
        followed, attempt=attempt, state=state, offset=offset, is_unsaved=True, is_behind=is_behind
    )


def read_to_end(followed: Followed, files: AttemptFiles, now: int) -> Followed:
    """Read all that an agent wrote which has ended."""
    followed = read_stream(followed, files, now, is_over=True)
    while followed.is_behind:
        followed = read_stream(followed, files, now, is_over=True)
    return followed


def finish_stream(followed: Followed, files: AttemptFiles, observed: Observation) -> Followed:
    """Return what the stream says after its end, with the exit code and the last errors."""
    code = observed.code if observed.state is ProcessState.EXITED else None
    tail = _read_errors(files)
    adapter = get_adapter(followed.attempt.vendor)
    state = adapter.finish(followed.state, code, tail, now=observed.ended_at)
    return replace(followed, state=state, is_unsaved=True)


class AwaitedLimit(NamedTuple):
    """A limit that only the errors of an agent name, and when it met it."""

    limit: LimitReached
    at: float


def find_awaited_limit(followed: Followed, files: AttemptFiles) -> AwaitedLimit | None:
    """Return the limit that the last error of an agent names, if it wrote nothing to its output since."""
    written, complained = read_times(files)
    if followed.state.open_tools or complained <= written:
        return None
    adapter = get_adapter(followed.attempt.vendor)
    limit = adapter.find_awaited_limit(_read_errors(files), now=round(complained))
    return AwaitedLimit(limit, complained) if limit else None


def _read_errors(files: AttemptFiles) -> str:
    """Return the last errors, without what no store takes."""
    return read_tail(files.stderr, _STDERR_BYTES).replace("\0", "")


Fail = Callable[[Attempt, Exception], None]
"""Ends an attempt that cannot go on; raises the error if it is not about the attempt."""


class ProgressRecorder:
    """Stores progress at most once a second, with what was spent, and announces it every five."""

    def __init__(self, database: Database, fail: Fail | None = None) -> None:
        """`fail` gets the attempts whose progress cannot be stored; without it, the error is raised."""
        self._database, self._fail = database, fail

    def save(self, followed: Followed, now: int) -> Followed | None:
        """Store what was read to the end; None if the attempt is not ours to change any more."""
        with self._database.transaction() as tx:
            return next(iter(_save_all(tx, [followed], now)), None)

    def save_due(self, all_followed: Sequence[Followed], now: int) -> list[Followed]:
        """Store what was read of all that are due, in one transaction; return them.

        If that fails, each is stored by itself, so that only those are left out which cannot be stored.
        """
        interval = max(_SAVE_MS, _SAVE_MS_PER_AGENT * len(all_followed))
        due = [each for each in all_followed if each.is_unsaved and now - each.saved_at >= interval]
        if not due:
            return []
        try:
            with self._database.transaction() as tx:
                return _save_all(tx, due, now)
        except Exception as error:
            if self._fail is None or (isinstance(error, StorageError) and error.recoverable):
                raise
            return list(self._save_each(due, now, self._fail))

    def _save_each(self, due: Sequence[Followed], now: int, fail: Fail) -> Iterator[Followed]:
        for followed in due:
            try:
                if saved := self.save(followed, now):
                    yield saved
            except Exception as error:  # noqa: BLE001 - of this attempt, whatever it is
                fail(followed.attempt, error)


def _save_all(tx: Transaction, all_followed: Sequence[Followed], now: int) -> list[Followed]:
    """Store what was read of each attempt that is still ours, and what was spent since; return those."""
    stored = AttemptStore(tx).find_by_ids(each.attempt.id for each in all_followed)
    # In the order of their ids, as everywhere, so that two runners never wait for each other.
    pairs = [(stored[each.attempt.id], each) for each in all_followed if each.attempt.id in stored]
    saved: list[Followed] = []
    entries: list[Entry] = []
    for before, followed in sorted(pairs, key=lambda pair: pair[0].id):
        if after := _save_progress(tx, before, followed, now):
            saved.append(after)
            entries.extend(_list_spending(before, after))
    BudgetService(tx).record_all(entries)
    return saved


def _save_progress(tx: Transaction, before: Attempt, followed: Followed, now: int) -> Followed | None:
    after = _add_progress(before, followed)
    expected = copy_with(before, stage=followed.attempt.stage, starts=followed.attempt.starts)
    if not AttemptStore(tx).save(expected, after):
        return None
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


def _list_spending(before: Attempt, followed: Followed) -> Iterator[Entry]:
    """List what was spent since, for the transaction that stores how far the stream was read."""
    after, state = followed.attempt, followed.state
    if after.entries == before.entries:
        return
    usage = Usage(
        tokens=after.tokens - before.tokens,
        usd_micros=after.usd_micros - before.usd_micros,
        source=state.usd_source or CostSource.UNVERIFIED,
        model=state.model,
        vendor=after.vendor,
    )
    task_id = after.task_id if after.workflow_id else None
    yield Entry(
        f"attempt:{after.id}", after.entries, usage, after.workflow_id, task_id, after.agent_id, after.run_id
    )
