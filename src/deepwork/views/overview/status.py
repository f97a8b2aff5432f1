"""What `deepwork status` shows, from one consistent read; it imports no operations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from deepwork.kernel.attention import Attention
from deepwork.kernel.database.engine import Engine, Row
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.events.log import Event, EventStore, append_events
from deepwork.views.overview.current_work_store import CurrentWorkStore
from deepwork.views.overview.inbox import list_inbox
from deepwork.views.overview.run_lines import build_run_lines, list_latest_runs
from deepwork.views.overview.run_store import ACTIVE_STATUSES, WorkListStore
from deepwork.views.overview.states.store import LocalProcesses
from deepwork.views.overview.states.totals import count_runs
from deepwork.views.overview.states.view import StateView

RUNS_SHOWN = 20
ROWS_SHOWN = 20
EVENTS_SHOWN = 5


class StatusFacts(NamedTuple):
    """What waits for a person, what runs, who holds what, and what happened last."""

    inbox: Sequence[Attention]
    inbox_total: int
    running: Sequence[Mapping[str, Any]]
    counts: Mapping[str, Any]
    held: Sequence[Row]
    unread: Sequence[Row]
    steps: Mapping[str, str]
    """The current steps of job sessions, by id."""
    events: Sequence[Event]


def read_current_work(engine: Engine, processes: LocalProcesses) -> StatusFacts:
    """Open the store and read the current work."""
    database = Database(engine, append_events)
    try:
        with database.reading() as tx:
            return _read(tx, processes)
    finally:
        database.close()


def _read(tx: Transaction, processes: LocalProcesses) -> StatusFacts:
    view, store, log = StateView(tx, processes), CurrentWorkStore(tx), EventStore(tx)
    return StatusFacts(
        *list_inbox(view),
        running=build_run_lines(view, list_latest_runs(WorkListStore(tx), ACTIVE_STATUSES, RUNS_SHOWN)),
        counts=count_runs(view),
        held=store.list_claims(ROWS_SHOWN),
        unread=store.list_inboxes(ROWS_SHOWN),
        steps={row["id"]: row["step_id"] for row in store.list_active_jobs(ROWS_SHOWN)},
        events=log.list_after(log.get_last_seq() - EVENTS_SHOWN, EVENTS_SHOWN),
    )
