"""Creates and changes plans: outlines become tasks, and the names they depend on become edges."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from deepwork.gates.approvals.acts import allow_person
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import Code, InvalidInput, NotAllowed
from deepwork.kernel.values import new_ids
from deepwork.work.plans.models import Node, Outline, PlanEvent, PlanRequirements, PlanStatus, Task, Workflow
from deepwork.work.plans.recorder import PlanRecorder
from deepwork.work.plans.rules import graph
from deepwork.work.plans.rules.graph import Graph
from deepwork.work.plans.rules.transitions import get_max_attempts, require_open
from deepwork.work.plans.rules.weakening import (
    list_own_gates,
    require_removable,
    require_same_order,
    require_same_strength,
    require_still_asked,
)
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.planning_store import NewTask, PlanningStore
from deepwork.work.plans.stores.search_store import SearchEntry, SearchStore
from deepwork.work.plans.stores.task_store import TaskStore


class Planner:
    """Creates and changes plans atomically."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._plans = PlanStore(tx)
        self._tasks = TaskStore(tx)
        self._store = PlanningStore(tx)
        self._recorder = PlanRecorder(tx)
        self._search = SearchStore(tx)

    def create(self, workflow: Workflow) -> Workflow:
        """Store a new workflow and index it for search."""
        self._plans.add(workflow)
        self._search.add(
            [SearchEntry(workflow.id, workflow.id, f"{workflow.name}\n{workflow.source_content}")]
        )
        self._recorder.emit_workflow_event(PlanEvent.CREATED, workflow)
        return workflow

    def set_plan(
        self,
        workflow: Workflow,
        summary: str,
        outlines: Sequence[Outline],
        details: Mapping[str, Any],
        requirements: PlanRequirements | None = None,
    ) -> Workflow:
        """Store the plan of a workflow, which becomes ready."""
        require_open(workflow)
        if workflow.status is not PlanStatus.PLANNING:
            raise NotAllowed(
                f"Workflow {workflow.name!r} is {workflow.status} and already has a plan.",
                suggestion="Change it with {tool:workflow_add_task}, {tool:workflow_remove_task} or "
                "{tool:workflow_replan}.",
            )
        graph.validate_outlines(outlines)
        self._add_tasks(replace(workflow, initial_plan=details), outlines, [])
        self._index_workflow(workflow, summary, details.get("approach"))
        planned = replace(
            workflow,
            status=PlanStatus.READY,
            plan_summary=summary,
            initial_plan=dict(details),
            requirements=requirements,
        )
        return self._recorder.save_workflow(workflow, planned, f"{len(outlines)} tasks were planned")

    def add_task(self, workflow: Workflow, outline: Outline, *, has_sequence: bool = True) -> Task:
        """Add one task to an existing plan; if it has no sequence, choose one."""
        require_planned(workflow)
        existing = self._tasks.list_nodes(workflow.id)
        if not has_sequence:
            outline = outline._replace(sequence=_choose_sequence(outline, existing))
        graph.validate_outlines([outline], existing=existing)
        [task] = self._store.list_from_position(workflow.id, self._add_tasks(workflow, [outline], existing))
        self._recorder.record_history(workflow.id, task.id, "created", reason=f"task {task.name!r} was added")
        self._recorder.emit_task_event(PlanEvent.TASK_CREATED, task)
        return task

    def remove_task(self, workflow: Workflow, task: Task) -> list[Node]:
        """Remove a task that was never started; its dependents inherit its dependencies."""
        require_planned(workflow)
        if self._store.was_started(task):
            raise NotAllowed(
                f"Task {task.name!r} was started; only tasks that were never started can be removed.",
                suggestion="Skip it with {tool:task_update_status} instead.",
            )
        with allow_person(self._tx):
            require_removable(task, workflow)
            require_still_asked(workflow, lambda: len(self._store.list_unstarted(workflow.id)) - 1)
        plan = Graph(self._tasks.list_nodes(workflow.id))
        if len(plan.nodes) == 1:
            raise NotAllowed(
                f"Task {task.name!r} is the only task; a plan needs at least one.",
                suggestion="Add another task first, or abandon the workflow with "
                "{tool:workflow_update_status}.",
            )
        dependents = plan.list_dependents([task.id])
        inherited = frozenset(node.id for node in plan.list_dependencies(plan[task.id]))
        rest = [_inherit_dependencies(node, task.id, inherited) for node in plan.nodes if node.id != task.id]
        graph.validate_outlines([], existing=rest)
        old = _serialize_tasks(workflow, [task], self._tasks.list_dependency_names([task.id]))
        self._store.remove([task.id])
        self._store.add_edges(
            (node.id, other)
            for node in dependents
            for other in sorted(inherited - (node.depends_on or set()))
        )
        self._store.recount_dependencies(workflow.id)
        self._recorder.record_history(
            workflow.id, task.id, "removed", before=old, reason=f"task {task.name!r} was removed"
        )
        self._recorder.emit_task_event(PlanEvent.TASK_REMOVED, task)
        self._recorder.update_workflow_status(workflow, any_started=False, may_be_done=True)
        return dependents

    def reword_task(
        self, workflow: Workflow, task: Task, *, name: str | None, description: str | None
    ) -> Task:
        """Change what a task is called and says, unless it is done or waits for a person's verdict."""
        require_planned(workflow)
        if task.status.is_done:
            raise NotAllowed(
                f"Task {task.name!r} is {task.status}: what it says is what was done.",
                suggestion="Open it again with {tool:task_update_status}, or add another task.",
            )
        if task.waits_for is not None:
            raise NotAllowed(
                f"The work of task {task.name!r} waits for {task.waits_for}.",
                suggestion="Decide about that first; refusing it takes words for the agent, too.",
            )
        new_name = task.name if name is None else name.strip()
        others = [node.name for node in self._tasks.list_nodes(workflow.id) if node.id != task.id]
        if not new_name or new_name in others:
            problem = f"Another task is called {new_name!r}." if new_name else "A task needs a name."
            raise InvalidInput(problem, code=Code.DUPLICATE_TASK_NAME if new_name else Code.INVALID_INPUT)
        text = task.description if description is None else description
        after = replace(task, name=new_name, description=text)
        if after == task:
            return task
        self._search.add([SearchEntry(task.id, workflow.id, f"{after.name}\n{after.description}")])
        before, now = (f"{each.name}: {each.description}" for each in (task, after))
        self._recorder.record_history(workflow.id, task.id, "reworded", before=before, after=now)
        return self._recorder.save_task(task, after)

    def replan(
        self, workflow: Workflow, reason: str, outlines: Sequence[Outline], summary: str | None
    ) -> tuple[list[Task], list[Task], int]:
        """Replace every task that was not started; return the new and removed ones, and how many stay."""
        require_planned(workflow)
        removed = self._store.list_unstarted(workflow.id)
        gone = {task.id for task in removed}
        before = self._tasks.list_nodes(workflow.id)
        kept = [_drop_dependencies(node, gone) for node in before if node.id not in gone]
        outlines = _shift_sequences(outlines, _find_current_sequence(kept))
        graph.validate_outlines(outlines, existing=kept)
        with allow_person(self._tx):
            default_attempts = get_max_attempts(workflow.initial_plan)
            require_same_strength(removed, outlines, workflow.requirements, default_attempts=default_attempts)
            if gates := list_own_gates(self._store.list_open_requirements(workflow.id)):
                require_same_order(Graph(before), _draw_graph(outlines, kept), gates)
            require_still_asked(workflow, lambda: len(outlines))
        old = _serialize_tasks(workflow, removed, self._tasks.list_dependency_names(list(gone)))
        self._store.remove(list(gone))
        first = self._add_tasks(workflow, outlines, kept)
        self._store.recount_dependencies(workflow.id)
        made = self._store.list_from_position(workflow.id, first)
        self._recorder.record_history(workflow.id, None, "replanned", before=old, reason=reason)
        self._index_workflow(workflow, summary, reason)
        for task in removed:
            self._recorder.emit_task_event(PlanEvent.TASK_REMOVED, task)
        for task in made:
            self._recorder.emit_task_event(PlanEvent.TASK_CREATED, task)
        changed = replace(workflow, plan_summary=summary or workflow.plan_summary)
        changed = self._recorder.save_workflow(workflow, changed)
        self._recorder.update_workflow_status(changed, any_started=False, may_be_done=True)
        return made, removed, len(kept)

    def _index_workflow(self, workflow: Workflow, *texts: str | None) -> None:
        """Make the workflow searchable by these texts too."""
        text = "\n".join(filter(None, [workflow.name, *texts]))
        self._search.add([SearchEntry(workflow.id, workflow.id, text)])

    def _add_tasks(self, workflow: Workflow, outlines: Sequence[Outline], existing: Sequence[Node]) -> int:
        """Store the outlines as tasks, and return the position of the first."""
        ids = {node.name: node.id for node in existing}
        # Sorted in plan order, so that inserting them appends to the database index.
        own_ids = sorted(new_ids("tk", len(outlines)))
        ids |= dict(zip([outline.name.strip() for outline in outlines], own_ids, strict=True))
        done = {node.id for node in existing if node.status.is_done}
        first = self._store.get_last_position(workflow.id) + 1 if existing else 1
        tasks: list[NewTask] = []
        edges: list[tuple[str, str]] = []
        for place, (own, outline) in enumerate(zip(own_ids, outlines, strict=True), start=first):
            named = _resolve_names(outline.depends_on, ids) if outline.depends_on else []
            open_count = len(named) - sum([other in done for other in named]) if done else len(named)
            tasks.append(NewTask(own, place, outline, open_count))
            edges += [(own, other) for other in named]
        self._store.add_tasks(workflow.id, tasks, edges, max_attempts=get_max_attempts(workflow.initial_plan))
        self._search.add(
            [
                SearchEntry(own, workflow.id, f"{outline.name}\n{outline.description}")
                for own, outline in zip(own_ids, outlines, strict=True)
            ]
        )
        return first


def require_planned(workflow: Workflow) -> None:
    """Raise an error unless the workflow has a plan and is not over."""
    require_open(workflow)
    if workflow.status is PlanStatus.PLANNING:
        raise NotAllowed(
            f"Workflow {workflow.name!r} has no plan yet.",
            suggestion="Give it one with {tool:workflow_set_plan}.",
        )


def _draw_graph(outlines: Sequence[Outline], kept: Sequence[Node]) -> Graph:
    """Draw the plan that outlines make with the tasks that stay; a new task has its name as its id."""
    ids = {node.name: node.id for node in kept} | {name: name for name in (o.name.strip() for o in outlines)}
    new = [
        Node(
            outline.name.strip(),
            outline.name.strip(),
            outline.sequence,
            None if outline.depends_on is None else frozenset(_resolve_names(outline.depends_on, ids)),
        )
        for outline in outlines
    ]
    return Graph([*kept, *new])


def _resolve_names(names: Sequence[str], ids: Mapping[str, str]) -> list[str]:
    """Return the ids of the tasks with these names, without duplicates."""
    return list(dict.fromkeys([ids[name.strip()] for name in names]))


def _choose_sequence(outline: Outline, existing: Sequence[Node]) -> int:
    """Choose a sequence for a task without one: the current one, or the next after its dependencies."""
    wanted = {name.strip() for name in outline.depends_on or ()}
    return max(
        [_find_current_sequence(existing), *(node.sequence + 1 for node in existing if node.name in wanted)]
    )


def _shift_sequences(outlines: Sequence[Outline], lowest: int) -> list[Outline]:
    """Shift the outlines so that none of them comes before the sequence `lowest`."""
    shift = max(0, lowest - min((each.sequence for each in outlines), default=lowest))
    return [each._replace(sequence=each.sequence + shift) for each in outlines]


def _find_current_sequence(existing: Sequence[Node]) -> int:
    """Return the lowest sequence with open tasks: added tasks never come before started ones."""
    open_sequences = [node.sequence for node in existing if not node.status.is_done]
    return min(open_sequences, default=max((node.sequence for node in existing), default=1))


def _inherit_dependencies(node: Node, gone: str, inherited: frozenset[str]) -> Node:
    """Replace the removed dependency of the node by what that one depended on."""
    if node.depends_on is None or gone not in node.depends_on:
        return node
    return replace(node, depends_on=node.depends_on - {gone} | inherited)


def _drop_dependencies(node: Node, gone: set[str]) -> Node:
    return node if node.depends_on is None else replace(node, depends_on=node.depends_on - gone)


def _serialize_tasks(
    workflow: Workflow, tasks: Sequence[Task], depends_on: Mapping[str, Sequence[str]]
) -> str:
    """Serialize tasks for the history: enough to plan them again."""
    attempts = get_max_attempts(workflow.initial_plan)

    def write(task: Task) -> dict[str, Any]:
        hints = {name: value for name, value in task.context.items() if value is not None}
        outline = task.to_outline(depends_on.get(task.id, ()), attempts)
        return {"id": task.id, **outline.to_dict(), **hints}

    return json.dumps([write(task) for task in tasks], ensure_ascii=False)
