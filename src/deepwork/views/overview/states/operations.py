"""The states of things of any kind, for interfaces whose answers come from operations that know no states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.kernel.answers import Answer, Id
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.states import Standing
from deepwork.views.overview.states.view import StateView

StatedKind = Literal["plan", "task", "run", "attempt", "landing", "session", "record", "tracked_task"]


class States(Answer):
    """State, reason and next command of each thing, by its id."""

    states: dict[str, dict[str, Any]]


class StateOperations:
    """Reads states."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(self, database: Database, view_states: Callable[[Transaction], StateView]) -> None:
        self._database, self._view_states = database, view_states

    @operation("read")
    def get_states(self, kind: StatedKind, ids: list[Id]) -> States:
        """The states of things of one kind; those that do not exist are left out."""
        with self._database.reading() as tx:
            return States(states=read_states(self._view_states(tx), kind, ids))


def read_states(view: StateView, kind: str, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return what is added to the answer about each of these things; empty if their kind has no states."""
    judge = _JUDGES.get(kind)
    return {id: each.to_answer() for id, each in judge(view, ids).items()} if judge and ids else {}


_JUDGES: Mapping[str, Callable[[StateView, Sequence[str]], Mapping[str, Standing]]] = {
    "plan": lambda view, ids: {id: plan.standing for id, plan in view.judge_plans(ids).items()},
    "task": lambda view, ids: view.judge_tasks(ids),
    "run": lambda view, ids: view.judge_runs(RunStore(view.tx).find_by_ids(ids)),
    "attempt": lambda view, ids: view.judge_attempts([*AttemptStore(view.tx).find_by_ids(ids).values()]),
    "landing": lambda view, ids: view.judge_landings(LandingStore(view.tx).find_by_ids(ids)),
    "session": lambda view, ids: view.judge_session_ids(ids),
    "record": lambda view, ids: view.judge_tracks(ids),
    "tracked_task": lambda view, ids: view.judge_tracked_tasks("id", ids),
}
