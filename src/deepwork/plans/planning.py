"""How a plan comes to be and how it changes: outlines become tasks, and names become edges."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from deepwork.database.transaction import Transaction
from deepwork.errors import NotAllowed
from deepwork.names import new_id
from deepwork.plans import graph
from deepwork.plans.chronicle import Chronicle
from deepwork.plans.graph import Graph
from deepwork.plans.models import Node, Outline, PlanEvent, Task, Workflow, WorkflowStatus
from deepwork.plans.planning_store import NewTask, PlanningStore
from deepwork.plans.search import Said, SearchStore
from deepwork.plans.store import PlanStore
from deepwork.plans.task_store import TaskStore
from deepwork.plans.transitions import require_open


class Planner:
    """Makes and changes plans, each as a whole or not at all."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._plans = PlanStore(tx)
        self._tasks = TaskStore(tx)
        self._store = PlanningStore(tx)
        self._chronicle = Chronicle(tx)
        self._search = SearchStore(tx)

    def create(self, workflow: Workflow) -> Workflow:
        """Keep a new workflow."""
        self._plans.add(workflow)
        self._search.add([Said(workflow.id, workflow.id, f"{workflow.name}\n{workflow.source_content}")])
        self._chronicle.tell_workflow(PlanEvent.CREATED, workflow)
        return workflow

    def set_plan(
        self, workflow: Workflow, summary: str, outlines: Sequence[Outline], details: Mapping[str, Any]
    ) -> Workflow:
        """Give the workflow its plan; it is ready then."""
        require_open(workflow)
        if workflow.status is not WorkflowStatus.PLANNING:
            raise NotAllowed(
                f"Workflow {workflow.name!r} is {workflow.status} and has its plan.",
                suggestion="Change it with workflow_add_task, workflow_remove_task or workflow_replan.",
            )
        graph.check(outlines)
        self._add(workflow, outlines, [])
        self._say(workflow, summary, details.get("approach"))
        planned = replace(
            workflow, status=WorkflowStatus.READY, plan_summary=summary, initial_plan=dict(details)
        )
        return self._chronicle.workflow_changed(workflow, planned, f"{len(outlines)} tasks were planned")

    def add_task(self, workflow: Workflow, outline: Outline, *, has_sequence: bool = True) -> Task:
        """Add one task to a plan that is there already; where it says no sequence, it finds its place."""
        require_planned(workflow)
        existing = self._tasks.nodes(workflow.id)
        if not has_sequence:
            outline = replace(outline, sequence=_place(outline, existing))
        graph.check([outline], existing=existing)
        [task] = self._store.since(workflow.id, self._add(workflow, [outline], existing))
        self._chronicle.note(workflow.id, task.id, "created", None, f"task {task.name!r} was added")
        self._chronicle.tell_task(PlanEvent.TASK_CREATED, task)
        return task

    def remove_task(self, workflow: Workflow, task: Task) -> list[Node]:
        """Take out a task that was never begun; who waited for it waits for what it waited for."""
        require_planned(workflow)
        if self._store.was_begun(task):
            raise NotAllowed(
                f"Task {task.name!r} was begun; only a task that nobody has begun can be removed.",
                suggestion="Skip it with task_update_status instead.",
            )
        plan = Graph(self._tasks.nodes(workflow.id))
        if len(plan.nodes) == 1:
            raise NotAllowed(
                f"Task {task.name!r} is the only one; a plan has at least one task.",
                suggestion="Add another first, or abandon the workflow with workflow_update_status.",
            )
        dependents = plan.dependents([task.id])
        inherited = frozenset(node.id for node in plan.dependencies(plan[task.id]))
        rest = [_inheriting(node, task.id, inherited) for node in plan.nodes if node.id != task.id]
        graph.check([], existing=rest)
        old = _outlined([task], self._tasks.dependency_names([task.id]))
        self._store.remove([task.id])
        self._store.add_edges(
            (node.id, other)
            for node in dependents
            for other in sorted(inherited - (node.depends_on or set()))
        )
        self._store.recount(workflow.id)
        self._chronicle.note(workflow.id, task.id, "removed", old, f"task {task.name!r} was removed")
        self._chronicle.tell_task(PlanEvent.TASK_REMOVED, task)
        self._chronicle.follow_tasks(workflow, any_begun=False, may_be_done=True)
        return dependents

    def replan(
        self, workflow: Workflow, reason: str, outlines: Sequence[Outline], summary: str | None
    ) -> tuple[list[Task], list[Task], int]:
        """Replace every task that nobody has begun; what was made, what was removed, how many were kept."""
        require_planned(workflow)
        removed = self._store.untouched(workflow.id)
        gone = {task.id for task in removed}
        kept = [_without(node, gone) for node in self._tasks.nodes(workflow.id) if node.id not in gone]
        outlines = _shifted(outlines, _current(kept))
        graph.check(outlines, existing=kept)
        old = _outlined(removed, self._tasks.dependency_names(list(gone)))
        self._store.remove(list(gone))
        first = self._add(workflow, outlines, kept)
        self._store.recount(workflow.id)
        made = self._store.since(workflow.id, first)
        self._chronicle.note(workflow.id, None, "replanned", old, reason)
        self._say(workflow, summary, reason)
        for task in removed:
            self._chronicle.tell_task(PlanEvent.TASK_REMOVED, task)
        for task in made:
            self._chronicle.tell_task(PlanEvent.TASK_CREATED, task)
        changed = replace(workflow, plan_summary=summary or workflow.plan_summary)
        changed = self._chronicle.workflow_changed(workflow, changed)
        self._chronicle.follow_tasks(changed, any_begun=False, may_be_done=True)
        return made, removed, len(kept)

    def _say(self, workflow: Workflow, *texts: str | None) -> None:
        """Let the workflow be found by these words too."""
        said = "\n".join(filter(None, [workflow.name, *texts]))
        self._search.add([Said(workflow.id, workflow.id, said)])

    def _add(self, workflow: Workflow, outlines: Sequence[Outline], existing: Sequence[Node]) -> int:
        """Keep the outlines as tasks; the place of the first of them in the plan."""
        ids = {node.name: node.id for node in existing}
        # In the order of the plan, so that the database's index of them grows at one place.
        fresh = sorted(new_id("tk") for _ in outlines)
        ids |= dict(zip((outline.name.strip() for outline in outlines), fresh, strict=True))
        done = {node.id for node in existing if node.status.is_done}
        first = self._store.last_position(workflow.id) + 1 if existing else 1
        tasks: list[NewTask] = []
        edges: list[tuple[str, str]] = []
        for place, outline in enumerate(outlines, start=first):
            own = ids[outline.name.strip()]
            named = [] if not outline.depends_on else _named(outline.depends_on, ids)
            tasks.append(NewTask(own, place, outline, sum(other not in done for other in named)))
            edges += [(own, other) for other in named]
        self._store.add_all(workflow.id, tasks, edges)
        self._search.add(
            Said(task.id, workflow.id, f"{task.outline.name}\n{task.outline.description}") for task in tasks
        )
        return first


def require_planned(workflow: Workflow) -> None:
    """Refuse to change a plan that is not there yet, or is over."""
    require_open(workflow)
    if workflow.status is WorkflowStatus.PLANNING:
        raise NotAllowed(
            f"Workflow {workflow.name!r} has no plan yet.",
            suggestion="Give it one with workflow_set_plan.",
        )


def _named(names: Sequence[str], ids: Mapping[str, str]) -> list[str]:
    """The ids of the tasks with these names, each once."""
    return list(dict.fromkeys(ids[name.strip()] for name in names))


def _place(outline: Outline, existing: Sequence[Node]) -> int:
    """The sequence of a task that says none: the one under way, or the next after what it waits for."""
    wanted = {name.strip() for name in outline.depends_on or ()}
    return max([_current(existing), *(node.sequence + 1 for node in existing if node.name in wanted)])


def _shifted(outlines: Sequence[Outline], lowest: int) -> list[Outline]:
    """The outlines in their own order, none of them before that sequence."""
    shift = max(0, lowest - min((each.sequence for each in outlines), default=lowest))
    return [replace(each, sequence=each.sequence + shift) for each in outlines]


def _current(existing: Sequence[Node]) -> int:
    """The sequence under way: nothing that is added later comes before what was begun."""
    under_way = [node.sequence for node in existing if not node.status.is_done]
    return min(under_way, default=max((node.sequence for node in existing), default=1))


def _inheriting(node: Node, gone: str, inherited: frozenset[str]) -> Node:
    """The node as it is without the one that is gone, waiting for what that one waited for."""
    if node.depends_on is None or gone not in node.depends_on:
        return node
    return replace(node, depends_on=node.depends_on - {gone} | inherited)


def _without(node: Node, gone: set[str]) -> Node:
    return node if node.depends_on is None else replace(node, depends_on=node.depends_on - gone)


def _outlined(tasks: Sequence[Task], depends_on: Mapping[str, Sequence[str]]) -> str:
    """Tasks as history keeps them: enough to plan them again."""
    return json.dumps([_outline(task, depends_on) for task in tasks], ensure_ascii=False)


def _outline(task: Task, depends_on: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    outline = {
        "id": task.id, "name": task.name, "description": task.description, "sequence": task.sequence,
        "parallel_group": task.parallel_group,
        "depends_on": list(depends_on.get(task.id, ())) if task.is_explicit else None,
        **task.context,
    }  # fmt: skip
    return {name: value for name, value in outline.items() if value is not None}
