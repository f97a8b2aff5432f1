"""A plan as a graph: each task with what it waits for, its state, and who works or worked on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from deepwork.kernel.answers import Answer, Id
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.operations import Traits, operation
from deepwork.views.overview.states.view import StateView
from deepwork.views.overview.task_row_store import TaskRowStore
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore

MAX_TASKS = 20_000


class PlanGraph(Answer):
    """A plan and its tasks, in the order in which they were written."""

    name: str
    state: str
    because: str | None = None
    next: str | None = None
    tasks: list[dict[str, Any]]
    """The fields of `Node`, with `state`, `agent`, and `since`: when it ended, or else started, in Unix
    milliseconds."""


class PlanGraphOperations:
    """Reads plans as graphs."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(self, database: Database, view_states: Callable[[Transaction], StateView]) -> None:
        self._database, self._view_states = database, view_states

    @operation("read")
    def get_plan_graph(self, id: Id) -> PlanGraph:
        """A plan and its tasks, with what they wait for and how they are."""
        with self._database.reading() as tx:
            workflow, nodes, view = PlanStore(tx).get(id), TaskStore(tx).list_nodes(id), self._view_states(tx)
            rows = {row["id"]: row for row in TaskRowStore(tx).list_planned(id, None, MAX_TASKS)}
            plan, states = view.judge_plans([id])[id].standing, view.judge_tasks_of_plan(id)
        tasks = [
            {
                "id": node.id,
                "name": node.name,
                "sequence": node.sequence,
                "depends_on": None if node.depends_on is None else sorted(node.depends_on),
                "status": node.status,
                "parallel_group": node.parallel_group,
                "state": states[node.id].state,
                "agent": rows[node.id]["agent_name"],
                "since": rows[node.id]["completed_at"] or rows[node.id]["started_at"],
            }
            for node in nodes
        ]
        return PlanGraph.of(workflow, **plan.to_answer(), tasks=tasks)
