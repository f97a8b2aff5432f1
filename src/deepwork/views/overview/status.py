"""What `deepwork status` shows, from one consistent read; imports little: people wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from deepwork.kernel.answers import Answer, IsoTime
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.events.log import EventStore
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.states import Cause
from deepwork.views.overview.current_work_store import CurrentWorkStore
from deepwork.views.overview.inbox import list_inbox
from deepwork.views.overview.run_lines import build_run_lines, list_latest_runs
from deepwork.views.overview.run_store import ACTIVE_STATUSES, WorkListStore
from deepwork.views.overview.states.totals import count_runs
from deepwork.views.overview.states.view import StateView

MAX_RUNS = 20
_MAX_ROWS = 20
_MAX_EVENTS = 5


class Waiting(Answer):
    """Something that waits for a person: about what, why, since when, and the command that answers it."""

    kind: str
    """The name of its source."""
    id: str
    title: str
    detail: str
    run: dict[str, Any] | None = None
    """None for a review of a `.deepreview` rule, which belongs to no run."""
    agent_name: str | None = None
    since: IsoTime
    because: Cause
    next: str | None = None


class StatusNow(Answer):
    needs_you: list[Waiting]
    needs_you_total: int
    running: list[dict[str, Any]]
    counts: dict[str, Any]
    held: list[dict[str, Any]]
    unread: list[dict[str, Any]]
    """The agents with messages that they did not read."""
    steps: dict[str, str]
    """The current steps of job sessions, by id."""
    events: list[dict[str, Any]]


class StatusOperations:
    """Reads what waits for a person, what runs, who holds what, and what happened last."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(self, database: Database, view_states: Callable[[Transaction], StateView]) -> None:
        self._database, self._view_states = database, view_states

    @operation("read")
    def get_current_work(self) -> StatusNow:
        """What needs you, what is running, who holds what, and what happened last."""
        with self._database.reading() as tx:
            view, store, log = self._view_states(tx), CurrentWorkStore(tx), EventStore(tx)
            inbox, total = list_inbox(view)
            events = log.list_after(log.get_last_seq() - _MAX_EVENTS, _MAX_EVENTS)
            return StatusNow(
                needs_you=[Waiting.of(each, because=each.why) for each in inbox],
                needs_you_total=total,
                running=build_run_lines(view, list_latest_runs(WorkListStore(tx), ACTIVE_STATUSES, MAX_RUNS)),
                counts=count_runs(view),
                held=store.list_claims(_MAX_ROWS),
                unread=store.list_inboxes(_MAX_ROWS),
                steps={row["id"]: row["step_id"] for row in store.list_active_jobs(_MAX_ROWS)},
                events=[
                    {"seq": each.seq, "ts": each.ts, "type": each.type, "data": dict(each.data)}
                    for each in events
                ],
            )
