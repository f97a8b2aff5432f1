"""What can be asked of planned workflows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from deepwork.agents.presence import Presence
from deepwork.database.engine import Row
from deepwork.database.transaction import Database, Transaction
from deepwork.errors import NotFound
from deepwork.names import new_id
from deepwork.plans import summary as summaries
from deepwork.plans import tokens
from deepwork.plans.checkpoints import CheckpointStore
from deepwork.plans.chronicle import Chronicle
from deepwork.plans.claims import ClaimDesk
from deepwork.plans.inputs import Plan, PlannedTask
from deepwork.plans.levels import Levels
from deepwork.plans.models import (
    FileConflicts,
    SourceType,
    Task,
    TaskStatus,
    Workflow,
    WorkflowStatus,
)
from deepwork.plans.planning import Planner
from deepwork.plans.responses import (
    Found,
    HistoryLine,
    NextTasks,
    PlanSet,
    ProgressView,
    Replanned,
    SearchResults,
    Seen,
    Summary,
    TaskAdded,
    TaskLine,
    TaskRemoved,
    TaskView,
    WorkflowCreated,
    WorkflowLine,
    Workflows,
    WorkflowView,
    one_line,
)
from deepwork.plans.scheduling import DEFAULT_OFFERED, MOST_OFFERED, Scheduler
from deepwork.plans.search import SearchStore
from deepwork.plans.store import PlanStore
from deepwork.plans.task_store import TaskStore
from deepwork.plans.transitions import next_workflow_status
from deepwork.plans.workplaces import Repositories
from deepwork.shapes import Done, Id, Limit200, Limit1000, Name, Text, Traits

Parallelism = Annotated[int, Field(ge=1, le=10_000, description="1 = one after another")]

_HISTORY = 50
_DEPENDENCIES = 100
_DEPENDENCIES_IN_LIST = 10
_SUMMED_UP = 50


class PlanTools:
    """Wishes become plans, plans become work, and everybody can see how far it is."""

    traits: ClassVar = Traits(
        toolset="plans",
        read_only=frozenset(
            {
                "workflow_get", "workflow_list", "workflow_get_summary", "workflow_next_tasks",
                "workflow_progress", "workflow_search",
            }
        ),
        idempotent=frozenset({"workflow_update_status", "workflow_set_parallelism"}),
        destructive=frozenset({"workflow_remove_task", "workflow_replan"}),
        aliases={"show": "get", "next": "next-tasks", "summary": "get-summary"},
    )  # fmt: skip

    def __init__(
        self,
        database: Database,
        presence: Presence,
        repositories: Repositories,
        *,
        has_many_projects: bool = False,
    ) -> None:
        """`has_many_projects`: the store is a user's one for all, so lists show this project's alone."""
        self._database = database
        self._presence = presence
        self._repositories = repositories
        self._has_many_projects = has_many_projects

    def workflow_create(
        self,
        name: Name,
        source_type: SourceType,
        source_content: Annotated[Text, Field(description="The prompt or issue itself")],
        source_ref: Annotated[str | None, Field(description="URL or identifier")] = None,
        repository_path: Annotated[str | None, Field(description="Default: this project")] = None,
        max_parallel_tasks: Parallelism = 1,
        auto_create_workspaces: Annotated[
            bool, Field(description="A worktree for each parallel task")
        ] = False,
    ) -> WorkflowCreated:
        """Create a workflow for something to be done; give it a plan next."""
        located = self._repositories.locate(repository_path)
        with self._database.transaction() as tx:
            self._repositories.note(tx, located)
            workflow = Planner(tx).create(
                Workflow(
                    id=new_id("wf"), name=name, source_type=source_type, source_ref=source_ref,
                    source_content=source_content, status=WorkflowStatus.PLANNING, plan_summary=None,
                    initial_plan=None, repository_path=located,
                    max_parallel_tasks=max_parallel_tasks, auto_create_workspaces=auto_create_workspaces,
                    file_conflicts=FileConflicts.WARN, created_by=tx.caller,
                    created_at=tx.now, updated_at=tx.now,
                )
            )  # fmt: skip
            return WorkflowCreated(
                id=workflow.id, name=workflow.name, status=workflow.status,
                max_parallel_tasks=workflow.max_parallel_tasks,
            )  # fmt: skip

    def workflow_get(
        self,
        id: Id,
        include_tasks: bool = False,
        include_task_summaries: Annotated[bool, Field(description="false: whole tasks")] = True,
        include_history: bool = False,
        task_limit: Limit1000 = 100,
    ) -> WorkflowView:
        """One workflow: what it is for, its plan, its status."""
        with self._database.reading() as tx:
            workflow = PlanStore(tx).get(id)
            more: dict[str, Any] = {}
            if include_tasks:
                tasks, total = TaskStore(tx).of_workflow(id, task_limit)
                more |= {"tasks": _shown(tx, tasks, in_full=not include_task_summaries), "tasks_total": total}
            if include_history:
                more["history"] = _told(PlanStore(tx).history(id, _HISTORY), task_limit)
            return WorkflowView.of(workflow, **more)

    def workflow_list(
        self,
        repository_path: Annotated[str | None, Field(description="`*`: of all repositories")] = None,
        status: list[WorkflowStatus] | None = None,
        limit: Limit200 = 20,
        offset: Annotated[int, Field(ge=0)] = 0,
    ) -> Workflows:
        """Workflows, newest first."""
        located = self._only_of(repository_path)
        with self._database.reading() as tx:
            found, total = PlanStore(tx).matching(
                statuses=status, repository_path=located, limit=limit, offset=offset
            )
            return Workflows(workflows=[WorkflowLine.of(workflow) for workflow in found], total=total)

    def workflow_set_plan(self, id: Id, plan: Plan) -> PlanSet:
        """Give a workflow its plan: creates all tasks, and makes it ready."""
        with self._database.transaction() as tx:
            details = plan.model_dump(include={"approach", "risks", "assumptions"}, exclude_none=True)
            outlines = [task.outline() for task in plan.tasks]
            workflow = Planner(tx).set_plan(PlanStore(tx).hold(id), plan.summary, outlines, details)
            groups = {outline.parallel_group for outline in outlines} - {None}
            return PlanSet(
                workflow_id=id, tasks_created=len(outlines), parallelizable_groups=len(groups),
                status=workflow.status,
            )  # fmt: skip

    def workflow_add_task(
        self,
        workflow_id: Id,
        task: PlannedTask,
        after: Annotated[list[str] | None, Field(description="Names or ids it must wait for")] = None,
    ) -> TaskAdded:
        """Add a task to a plan that is under way."""
        with self._database.transaction() as tx:
            workflow = PlanStore(tx).hold(workflow_id)
            outline = task.outline(None if after is None else _names(tx, workflow_id, after))
            has_sequence = "sequence" in task.model_fields_set
            return TaskAdded(task_id=Planner(tx).add_task(workflow, outline, has_sequence=has_sequence).id)

    def workflow_remove_task(self, workflow_id: Id, task_id: Id) -> TaskRemoved:
        """Remove a task nobody has begun; its dependents then wait for what it waited for."""
        with self._database.transaction() as tx:
            workflow = PlanStore(tx).hold(workflow_id)
            ClaimDesk(tx, self._presence).reclaim(workflow)
            task = TaskStore(tx).hold(task_id)
            if task.workflow_id != workflow_id:
                raise NotFound("task", task_id, suggestion=f"It is a task of workflow {task.workflow_id}.")
            rewired = Planner(tx).remove_task(workflow, task)
            return TaskRemoved(rewired=[node.id for node in rewired[:100]])

    def workflow_replan(
        self, workflow_id: Id, reason: Text, tasks: list[PlannedTask], summary: str | None = None
    ) -> Replanned:
        """Replace every task not yet begun; what was begun stays, and the old plan is recorded."""
        with self._database.transaction() as tx:
            workflow = PlanStore(tx).hold(workflow_id)
            ClaimDesk(tx, self._presence).reclaim(workflow)
            outlines = [task.outline() for task in tasks]
            made, removed, kept = Planner(tx).replan(workflow, reason, outlines, summary)
            return Replanned(tasks_created=len(made), tasks_removed=len(removed), tasks_kept=kept)

    def workflow_update_status(
        self,
        id: Id,
        status: WorkflowStatus,
        reason: str | None = None,
        force: Annotated[bool, Field(description="Complete it although tasks are open")] = False,
    ) -> Done:
        """Pause, resume, complete, fail or abandon a workflow; mostly its status follows its tasks."""
        with self._database.transaction() as tx:
            workflow, tasks = PlanStore(tx).hold(id), TaskStore(tx)
            after = next_workflow_status(
                workflow, status, task_count=tasks.count(id), open_count=tasks.count_open(id), force=force
            )
            if after is None:
                return Done()
            changed = Chronicle(tx).workflow_changed(workflow, replace(workflow, status=after), reason)
            if after.is_final:
                ClaimDesk(tx, self._presence).release_all(changed, f"the workflow is {after}")
            return Done()

    def workflow_set_parallelism(
        self,
        id: Id,
        max_parallel_tasks: Parallelism,
        auto_create_workspaces: bool | None = None,
        file_conflicts: Annotated[
            FileConflicts | None, Field(description="What a claim does about files of running tasks")
        ] = None,
    ) -> Done:
        """Set how many tasks may run at once."""
        with self._database.transaction() as tx:
            workflow = PlanStore(tx).hold(id)
            changed = replace(
                workflow,
                max_parallel_tasks=max_parallel_tasks,
                auto_create_workspaces=(
                    workflow.auto_create_workspaces
                    if auto_create_workspaces is None
                    else auto_create_workspaces
                ),
                file_conflicts=file_conflicts or workflow.file_conflicts,
            )
            if changed != workflow:
                chronicle = Chronicle(tx)
                chronicle.workflow_changed(workflow, changed)
                before, after = _parallelism(workflow), _parallelism(changed)
                chronicle.note(id, None, "parallelism", before, None, after)
            return Done()

    def workflow_next_tasks(
        self,
        workflow_id: Id,
        include_failed: Annotated[bool, Field(description="Offer failed tasks again")] = True,
        limit: Annotated[Limit200 | None, Field(description="Default: 20, or max_parallel_tasks")] = None,
    ) -> NextTasks:
        """What can be begun now: tasks that wait for nothing and that nobody holds."""
        with self._database.reading() as tx:
            workflow = PlanStore(tx).get(workflow_id)
            offered = limit or min(MOST_OFFERED, max(DEFAULT_OFFERED, workflow.max_parallel_tasks))
            return Scheduler(tx).next_tasks(workflow, include_failed=include_failed, limit=offered)

    def workflow_progress(self, workflow_id: Id, limit: Limit1000 = 100) -> ProgressView:
        """How far a workflow is, what is blocked and by what."""
        with self._database.reading() as tx:
            return Scheduler(tx).progress(PlanStore(tx).get(workflow_id), limit=limit)

    def workflow_get_summary(self, id: Id, format: Literal["json", "markdown"] = "json") -> Summary:
        """A short summary of a workflow, fit for CLAUDE.md."""
        with self._database.reading() as tx:
            overview = _overview(tx, PlanStore(tx).get(id))
        shown: str | dict[str, Any] = (
            summaries.as_object(overview) if format == "json" else summaries.as_markdown(overview)
        )
        return Summary(summary=shown, token_estimate=tokens.estimate(json.dumps(shown, ensure_ascii=False)))

    def workflow_search(
        self, query: Text, limit: Limit200 = 20, workflow_id: Id | None = None
    ) -> SearchResults:
        """Find workflows, tasks and checkpoints by words in names, descriptions, outcomes and notes."""
        with self._database.reading() as tx:
            if workflow_id is not None:
                PlanStore(tx).get(workflow_id)
            ids, total = SearchStore(tx).find(query, workflow_id, limit)
            return SearchResults(results=_looked_up(tx, ids, query), total=total)

    def _only_of(self, repository_path: str | None) -> str | None:
        """Whose plans a list shows; None for everybody's."""
        if repository_path == "*" or (repository_path is None and not self._has_many_projects):
            return None
        return self._repositories.locate(repository_path)


def seen(tx: Transaction, tasks: Sequence[Task]) -> Seen:
    """What the rows of these tasks do not tell."""
    store = TaskStore(tx)
    levels = {id: Levels(store.tallies(id)) for id in {task.workflow_id for task in tasks}}
    previous = {sequence: before for level in levels.values() for sequence, before in level.previous.items()}
    waiting = {
        task.id
        for task in tasks
        if task.status is TaskStatus.PENDING and levels[task.workflow_id].is_blocked(task)
    }
    explicit = [task.id for task in tasks if task.is_explicit]
    most = _DEPENDENCIES if len(tasks) == 1 else _DEPENDENCIES_IN_LIST
    return Seen(
        blocked=waiting,
        names=store.dependency_names(explicit, most),
        counts=store.dependency_counts(explicit),
        holders=store.holders([task.id for task in tasks if task.claimed_by]),
        previous=previous,
    )


def _shown(tx: Transaction, tasks: Sequence[Task], *, in_full: bool) -> list[TaskLine | TaskView]:
    around = seen(tx, tasks)
    return [TaskView.of(task, around) if in_full else TaskLine.of(task, around) for task in tasks]


def _names(tx: Transaction, workflow_id: str, named: Sequence[str]) -> list[str]:
    """Names of tasks of the workflow that are given by name or by id."""
    found = TaskStore(tx).named([each for each in named if each.startswith("tk_")]).values()
    names = {task.id: task.name for task in found if task.workflow_id == workflow_id}
    return [names.get(each, each) for each in named]


def _parallelism(workflow: Workflow) -> str:
    workspaces = ", a workspace for each" if workflow.auto_create_workspaces else ""
    return f"{workflow.max_parallel_tasks} at once, files {workflow.file_conflicts}{workspaces}"


def _told(rows: Sequence[Row], most_tasks: int) -> list[HistoryLine]:
    """History as it is shown; old plans are shown as tasks, no more than so many in all."""
    lines = []
    for row in rows:
        told = dict(row)
        if row["what"] in ("replanned", "removed"):
            tasks = json.loads(told.pop("before"))
            told |= {"old_tasks": tasks[:most_tasks], "old_tasks_total": len(tasks)}
            most_tasks -= len(told["old_tasks"])
        lines.append(HistoryLine.model_validate(told))
    return lines


def _overview(tx: Transaction, workflow: Workflow) -> summaries.Overview:
    store, scheduler = TaskStore(tx), Scheduler(tx)
    running, lapsed = scheduler.under_way(workflow.id)
    levels = Levels(store.tallies(workflow.id)).released(lapsed)
    ready, ready_total = scheduler.ready(workflow, levels, lapsed, include_failed=False)
    return summaries.Overview(
        workflow=workflow,
        by_status=levels.by_status,
        running=running[:_SUMMED_UP],
        holders=store.holders([task.id for task in running]),
        ready=ready[:_SUMMED_UP],
        ready_total=ready_total,
        blocked=store.blocked(workflow.id, levels.free, _SUMMED_UP),
        failed=store.with_status(workflow.id, [TaskStatus.FAILED], _SUMMED_UP),
        done=store.with_status(
            workflow.id, [TaskStatus.COMPLETED, TaskStatus.SKIPPED], _SUMMED_UP, newest_first=True
        ),
    )


def _looked_up(tx: Transaction, ids: Sequence[str], query: str) -> list[Found]:
    """What these ids stand for, without those that are gone; in the same order."""
    tasks = TaskStore(tx).named([id for id in ids if id.startswith("tk_")])
    notes = CheckpointStore(tx).named([id for id in ids if id.startswith("cp_")])
    behind = TaskStore(tx).named([note.task_id for note in notes.values()])
    workflows = PlanStore(tx).named([id for id in ids if id.startswith("wf_")])
    found: list[Found] = []
    for id in ids:
        if id in tasks:
            task = tasks[id]
            text = "\n".join(filter(None, [task.outcome, task.error, task.description]))
            found.append(_found("task", id, task.workflow_id, task.name, _snippet(text, query)))
        elif id in notes and notes[id].task_id in behind:
            task = behind[notes[id].task_id]
            snippet = _snippet(notes[id].summary, query)
            found.append(_found("checkpoint", id, task.workflow_id, task.name, snippet, task_id=task.id))
        elif id in workflows:
            workflow = workflows[id]
            text = "\n".join(filter(None, [workflow.plan_summary, workflow.source_content]))
            found.append(_found("workflow", id, id, workflow.name, _snippet(text, query)))
    return found


def _found(
    kind: Literal["workflow", "task", "checkpoint"],
    id: str,
    workflow_id: str,
    name: str,
    snippet: str,
    task_id: str | None = None,
) -> Found:
    return Found(kind=kind, id=id, workflow_id=workflow_id, task_id=task_id, name=name, snippet=snippet)


def _snippet(text: str, query: str) -> str:
    """Where the first of the words stands, with a little around it."""
    folded = text.casefold()
    places = [place for word in query.casefold().split() if (place := folded.find(word)) >= 0]
    start = max(0, min(places, default=0) - 60)
    return ("…" if start else "") + (one_line(text[start:]) or "")
