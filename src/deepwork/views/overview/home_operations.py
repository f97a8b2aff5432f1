"""What people read first: what needs a person, running runs, recently ended runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from deepwork.kernel.answers import Act, Answer
from deepwork.kernel.attention import Attention
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.events.log import EventStore
from deepwork.kernel.operations import Traits, operation
from deepwork.views.overview.inbox import list_inbox
from deepwork.views.overview.inbox_offers import list_offers
from deepwork.views.overview.run_lines import list_latest_runs
from deepwork.views.overview.run_store import ACTIVE_STATUSES, ENDED_STATUSES, WorkListStore
from deepwork.views.overview.states.totals import count_runs
from deepwork.views.overview.states.view import StateView
from deepwork.views.overview.status import MAX_RUNS, Waiting
from deepwork.views.overview.work_operations import RunLine, describe_runs
from deepwork.work.tracking.list_responses import RunRef


class TaskRef(Answer):
    id: str
    name: str


class Need(Waiting):
    """Something that waits for a person, and what they can do about it."""

    run: RunRef | None = None  # type: ignore[assignment]
    task: TaskRef | None = None
    actions: list[Act]


class WorkCounts(Answer):
    running: int
    blocked: int
    blockers: int
    completed: int
    failed: int
    total: int
    open: int
    """Runs that have not ended."""
    states: dict[str, int]
    """Runs that have not ended, by state; at most 500 of each kind."""
    tasks: dict[str, int]
    """Tasks of these plans, by state."""


class Home(Answer):
    needs_you: list[Need]
    needs_you_total: int
    running: list[RunLine]
    recent: list[RunLine]
    counts: WorkCounts
    last_seq: int


class HomeOperations:
    """Reads what the home page shows."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(self, database: Database, view_states: Callable[[Transaction], StateView]) -> None:
        self._database, self._view_states = database, view_states

    @operation("read")
    def get_home(self) -> Home:
        """What needs you, what is running, what ended recently."""
        with self._database.reading() as tx:
            view, store = self._view_states(tx), WorkListStore(tx)
            inbox, total = list_inbox(view)
            running, recent = (
                list_latest_runs(store, words, MAX_RUNS) for words in (ACTIVE_STATUSES, ENDED_STATUSES)
            )
            lines = {line.id: line for line in describe_runs(view, [*running, *recent])}
            return Home(
                needs_you=[_build_need(each) for each in inbox],
                needs_you_total=total,
                running=[lines[row["id"]] for row in running],
                recent=[lines[row["id"]] for row in recent],
                counts=WorkCounts(**count_runs(view)),
                last_seq=EventStore(tx).get_last_seq(),
            )


def _build_need(entry: Attention) -> Need:
    return Need.of(
        entry,
        run=RunRef(**entry.run) if entry.run else None,
        task=TaskRef(id=entry.task_id, name=entry.task_name or "") if entry.task_id else None,
        because=entry.why,
        actions=list_offers(entry),
    )
