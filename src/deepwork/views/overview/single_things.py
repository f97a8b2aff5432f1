"""One thing by its id, of the kinds that no tool gets on their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from deepwork.delivery.landing.responses import LandingView
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.rewind.responses import describe_rewind
from deepwork.delivery.rewind.store import RewindStore
from deepwork.delivery.runner.responses import describe_attempt, describe_run
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.gates.approvals.operations import show_approval
from deepwork.kernel.answers import Answer, Id
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.notices.responses import NoticeView
from deepwork.kernel.notices.store import NoticeStore
from deepwork.kernel.operations import Traits, operation
from deepwork.views.overview.states.operations import read_states
from deepwork.views.overview.states.view import StateView
from deepwork.work.messages.responses import MessageView
from deepwork.work.messages.store import MessageStore
from deepwork.work.plans.responses import CheckpointView
from deepwork.work.plans.stores.search_store import CheckpointStore
from deepwork.work.tracking.note_store import NoteStore
from deepwork.work.tracking.responses import (
    DecisionView,
    IssueView,
    MilestoneView,
    PhaseView,
    TrackedTaskView,
)
from deepwork.work.tracking.staleness import STALE_MS
from deepwork.work.tracking.store import TrackStore
from deepwork.work.workspaces.responses import RepositoryView, WorkspaceView
from deepwork.work.workspaces.store import RepositoryStore, WorkspaceStore


class AnyThing(Answer):
    """A thing as tools and events show it, with its state if its kind has states."""

    thing: dict[str, Any]


class ThingOperations:
    """Reads things of any kind."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(self, database: Database, view_states: Callable[[Transaction], StateView]) -> None:
        self._database, self._view_states = database, view_states

    @operation("read")
    def get_thing(self, kind: str, id: Id) -> AnyThing:
        """One thing of any kind that has no operation of its own."""
        with self._database.reading() as tx:
            view = _READERS[kind](tx, id) if kind in _READERS else None
            if view is None:
                raise InvalidInput(f"There is no {kind} {id!r}.")
            state = read_states(self._view_states(tx), kind, [id]).get(id, {})
            return AnyThing(thing=view.model_dump(mode="json") | state)


def _read_tracked_task(tx: Transaction, id: str) -> Answer:
    return TrackedTaskView.from_task(TrackStore(tx).get_task(id), tx.now - STALE_MS)


def _read_phase(tx: Transaction, id: str) -> Answer:
    store = TrackStore(tx)
    phase = store.get_phase(id)
    return PhaseView.from_phase(phase, store.count_tasks_by_phase([id])[id], tx.now)


def _read_run(tx: Transaction, id: str) -> Answer | None:
    found = RunStore(tx).find(id)
    return describe_run(found, usd_micros=RunStore(tx).sum_usd_micros(id)) if found else None


def _read_attempt(tx: Transaction, id: str) -> Answer:
    return describe_attempt(AttemptStore(tx).get(id))


def _read_landing(tx: Transaction, id: str) -> Answer:
    return LandingView.of(LandingStore(tx).get(id))


def _read_rewind(tx: Transaction, id: str) -> Answer:
    store = RewindStore(tx)
    return describe_rewind(store.get(id), store.list_tasks(id))


def _read_decision(tx: Transaction, id: str) -> Answer | None:
    found = NoteStore(tx).find_decision(id)
    return DecisionView.from_note(found) if found else None


def _read_issue(tx: Transaction, id: str) -> Answer | None:
    found = NoteStore(tx).find_issue(id)
    return IssueView.from_note(found) if found else None


def _read_milestone(tx: Transaction, id: str) -> Answer | None:
    found = NoteStore(tx).find_milestone(id)
    return MilestoneView.from_note(found) if found else None


def _read_checkpoint(tx: Transaction, id: str) -> Answer | None:
    found = CheckpointStore(tx).find_by_ids([id]).get(id)
    return CheckpointView.from_checkpoint(found) if found else None


def _read_message(tx: Transaction, id: str) -> Answer:
    return MessageView.from_message(MessageStore(tx).get(id))


def _read_workspace(tx: Transaction, id: str) -> Answer:
    store = WorkspaceStore(tx)
    return WorkspaceView.from_workspace(store.get(id), store.list_task_ids([id]).get(id, ()))


def _read_repository(tx: Transaction, id: str) -> Answer | None:
    found = RepositoryStore(tx).find_by_id(id)
    return RepositoryView.of(found) if found else None


def _read_notice(tx: Transaction, id: str) -> Answer | None:
    found = NoticeStore(tx).find_by_ids([id])
    return NoticeView.from_notice(found[0]) if found else None


_READERS: dict[str, Callable[[Transaction, str], Answer | None]] = {
    "tracked_task": _read_tracked_task,
    "phase": _read_phase,
    "run": _read_run,
    "attempt": _read_attempt,
    "landing": _read_landing,
    "rewind": _read_rewind,
    "decision": _read_decision,
    "issue": _read_issue,
    "milestone": _read_milestone,
    "checkpoint": _read_checkpoint,
    "message": _read_message,
    "notice": _read_notice,
    "workspace": _read_workspace,
    "repository": _read_repository,
    "approval": show_approval,
}
