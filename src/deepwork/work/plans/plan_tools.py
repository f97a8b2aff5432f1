"""Tools for planned workflows: creating, planning, monitoring and searching them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from deepwork.gates.approvals.acts import allow_person
from deepwork.kernel.answers import Done, Field, Id, Limit200, Limit1000, Name, Text
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import InvalidInput, NotFound
from deepwork.kernel.operations import Traits, WhenFalse, operation
from deepwork.kernel.text_budget import tokens
from deepwork.kernel.values import new_id
from deepwork.work.agents.presence import Presence
from deepwork.work.plans import summary as summaries
from deepwork.work.plans.claims import ClaimService
from deepwork.work.plans.context_loading import load_task_relations
from deepwork.work.plans.inbox import MAX_WAIT_SECONDS, wait_for_tasks
from deepwork.work.plans.interfaces import RepositoryRegistry
from deepwork.work.plans.models import FileConflicts, PlanStatus, SourceType, Task, TaskStatus, Workflow
from deepwork.work.plans.planning import Planner
from deepwork.work.plans.queue_responses import NextTasks, ProgressView
from deepwork.work.plans.recorder import (
    PlanRecorder,
    ask_for_plan,
    notify_of_plan_change,
    notify_of_plan_status,
    summarize_obstacle,
    withdraw_start_requests,
)
from deepwork.work.plans.responses import (
    HistoryEntry,
    PlanList,
    PlanSet,
    PlanTaskView,
    PlanView,
    Replanned,
    TaskAdded,
    TaskLine,
    TaskRemoved,
    WorkflowCreated,
    WorkflowLine,
)
from deepwork.work.plans.rules.graph import warn_of_missing_commits, warn_of_sequential_plan
from deepwork.work.plans.rules.levels import Levels
from deepwork.work.plans.rules.transitions import check_workflow_transition
from deepwork.work.plans.rules.weakening import require_no_open_gates
from deepwork.work.plans.scheduling import Scheduler, choose_limit
from deepwork.work.plans.stores.claim_store import ClaimStore
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.planning_store import PlanningStore
from deepwork.work.plans.stores.search_store import SearchStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.plans.summary import SearchResults, Summary, load_results
from deepwork.work.plans.task_proofs import (
    NamedChecks,
    TaskProver,
    list_named_checks,
    record_start,
    require_checked_names,
)

if TYPE_CHECKING:  # input models import pydantic: only calls that use them do
    from deepwork.work.plans.inputs import Plan, PlannedTask

Parallelism = Annotated[int, Field(ge=1, le=10_000)]

_MAX_HISTORY_LINES = 50


class PlanTools:
    """Tools with which agents create workflows, plan them and follow their progress."""

    traits: ClassVar = Traits(
        toolset="plans",
        one_transaction=True,
        aliases={"show": "get", "next": "next-tasks", "summary": "get-summary"},
    )

    def __init__(
        self,
        database: Database,
        presence: Presence,
        repositories: RepositoryRegistry,
        prover: TaskProver,
        *,
        has_many_projects: bool = False,
        file_conflicts: FileConflicts = FileConflicts.WARN,
    ) -> None:
        """`has_many_projects`: the store is shared by projects, so lists name the project of each plan."""
        self._database = database
        self._presence = presence
        self._repositories = repositories
        self._prover = prover
        self._has_many_projects = has_many_projects
        self._file_conflicts = file_conflicts

    @operation("work")
    def workflow_create(
        self,
        name: Name,
        source_type: SourceType,
        source_content: Annotated[str, Field(description="The prompt or issue itself")],
        source_ref: Annotated[str | None, Field(description="URL or identifier")] = None,
        repository_path: Annotated[str | None, Field(description="Default: this project")] = None,
        repository_paths: list[str] | None = None,
        max_parallel_tasks: Parallelism = 1,
        auto_create_workspaces: Annotated[
            bool, Field(description="A worktree for each parallel task")
        ] = False,
    ) -> WorkflowCreated:
        """Create a workflow for a request; next, set its plan."""
        located = self._locate_repository(repository_path, repository_paths or ())
        head = self._repositories.find_head(located)
        with self._database.transaction() as tx:
            self._repositories.ensure_known(tx, located)
            workflow = Planner(tx).create(
                Workflow(
                    id=new_id("wf"),
                    name=name,
                    source_type=source_type,
                    source_ref=source_ref,
                    source_content=source_content,
                    status=PlanStatus.PLANNING,
                    plan_summary=None,
                    initial_plan=None,
                    repository_path=located,
                    max_parallel_tasks=max_parallel_tasks,
                    auto_create_workspaces=auto_create_workspaces,
                    file_conflicts=self._file_conflicts,
                    created_by=tx.caller,
                    created_at=tx.now,
                    updated_at=tx.now,
                    base_commit=head.commit if head else None,
                    base_branch=head.branch if head else None,
                )
            )
            return WorkflowCreated.of(workflow)

    @operation("read")
    def workflow_get(
        self,
        id: Id,
        include_tasks: bool = False,
        include_task_summaries: Annotated[bool, Field(description="false: full tasks")] = True,
        include_history: bool = False,
        task_limit: Limit1000 = 100,
    ) -> PlanView:
        """Get a workflow: its request, plan and status."""
        with self._database.reading() as tx:
            workflow = PlanStore(tx).get(id)
            more: dict[str, Any] = {}
            if include_tasks:
                tasks, total = TaskStore(tx).list_by_workflow(id, task_limit)
                more |= {
                    "tasks": _build_task_views(tx, tasks, in_full=not include_task_summaries),
                    "tasks_total": total,
                }
            if include_history:
                more["history"] = _build_history(
                    PlanStore(tx).list_history(id, _MAX_HISTORY_LINES), task_limit
                )
            return PlanView.from_workflow(workflow, **more)

    @operation("read")
    def workflow_list(
        self,
        repository_path: str | None = None,
        status: list[PlanStatus] | None = None,
        limit: Limit200 = 20,
        offset: Annotated[int, Field(ge=0)] = 0,
    ) -> PlanList:
        """List workflows, newest first."""
        located = self._resolve_repository_filter(repository_path)
        with self._database.reading() as tx:
            found, total = PlanStore(tx).list_matching(
                statuses=status, repository_path=located, limit=limit, offset=offset
            )
            with_repository = located is None and self._has_many_projects
            lines = [WorkflowLine.from_workflow(each, with_repository=with_repository) for each in found]
            return PlanList(workflows=lines, total=total)

    @operation("work", changes_many=True, prepared_by="_check_plan")
    def workflow_set_plan(self, id: Id, plan: Plan) -> PlanSet:
        """Set a workflow's plan: creates all tasks and makes it ready."""
        with self._database.transaction() as tx:
            details = plan.model_dump(include={"approach", "risks", "assumptions"}, exclude_none=True)
            details |= plan.model_dump(include={"max_attempts", "commit"}, exclude_defaults=True)
            outlines, required = [task.to_outline() for task in plan.tasks], plan.to_requirements()
            workflow = PlanStore(tx).get_for_update(id)
            require_checked_names(workflow, list_named_checks(required, outlines))
            record_start(tx, workflow)
            workflow = Planner(tx).set_plan(workflow, plan.summary, outlines, details, required)
            approval = ask_for_plan(tx, self._presence, workflow)
            groups = {outline.parallel_group for outline in outlines} - {None}
            sequential = warn_of_sequential_plan(outlines, workflow.max_parallel_tasks)
            return PlanSet(
                workflow_id=id,
                tasks_created=len(outlines),
                parallelizable_groups=len(groups),
                status=workflow.status,
                approval=summarize_obstacle(approval) if approval else None,
                warning=" ".join(filter(None, [sequential, warn_of_missing_commits(workflow)])) or None,
            )

    def _check_plan(self, id: str, plan: Plan) -> NamedChecks:
        names = list_named_checks(plan.to_requirements(), [task.to_outline() for task in plan.tasks])
        return self._prover.check_names(id, names)

    @operation("work", prepared_by="_check_task", unlisted=(), for_people=True)
    def workflow_add_task(
        self,
        workflow_id: Id,
        task: PlannedTask,
        after: Annotated[list[str] | None, Field(description="Names or ids it waits for")] = None,
    ) -> TaskAdded:
        """Add a task to an existing plan."""
        with self._database.transaction() as tx:
            workflow = PlanStore(tx).get_for_update(workflow_id)
            outline = task.to_outline(None if after is None else _resolve_names(tx, workflow_id, after))
            require_checked_names(workflow, list_named_checks(None, [outline]))
            has_sequence = "sequence" in task.model_fields_set
            added = Planner(tx).add_task(workflow, outline, has_sequence=has_sequence)
            ask_for_plan(tx, self._presence, workflow)
            return TaskAdded(task_id=added.id)

    def _check_task(self, workflow_id: str, task: PlannedTask, **_: Any) -> NamedChecks:
        return self._prover.check_names(workflow_id, list_named_checks(None, [task.to_outline()]))

    @operation("work", destructive=True)
    def workflow_remove_task(self, workflow_id: Id, task_id: Id) -> TaskRemoved:
        """Remove a task that was never started; its dependents inherit its dependencies."""
        with self._database.transaction() as tx:
            workflow = PlanStore(tx).get_for_update(workflow_id)
            ClaimService(tx, self._presence).reclaim_expired(workflow)
            task = TaskStore(tx).get_for_update(task_id)
            if task.workflow_id != workflow_id:
                raise NotFound("task", task_id, suggestion=f"It belongs to workflow {task.workflow_id}.")
            rewired = Planner(tx).remove_task(workflow, task)
            withdraw_start_requests(tx, workflow, [task])
            ask_for_plan(tx, self._presence, workflow)
            notify_of_plan_change(tx, workflow, f"task {task.name!r} was removed")
            return TaskRemoved(rewired=[node.id for node in rewired[:100]])

    @operation(
        "work",
        destructive=True,
        changes_many=True,
        prepared_by="_check_tasks",
        unlisted=("estimated_complexity", "checks", "approval", "budget", "changes"),
    )
    def workflow_replan(
        self, workflow_id: Id, reason: Text, tasks: list[PlannedTask], summary: str | None = None
    ) -> Replanned:
        """Replace all tasks not yet started; the others stay, and the old plan is recorded."""
        with self._database.transaction() as tx:
            workflow = PlanStore(tx).get_for_update(workflow_id)
            ClaimService(tx, self._presence).reclaim_expired(workflow)
            outlines = [task.to_outline() for task in tasks]
            require_checked_names(workflow, list_named_checks(None, outlines))
            made, removed, kept = Planner(tx).replan(workflow, reason, outlines, summary)
            withdraw_start_requests(tx, workflow, removed)
            ask_for_plan(tx, self._presence, workflow)
            notify_of_plan_change(tx, workflow, f"{len(removed)} tasks replaced by {len(made)}: {reason}")
            return Replanned(tasks_created=len(made), tasks_removed=len(removed), tasks_kept=kept)

    def _check_tasks(self, workflow_id: str, tasks: list[PlannedTask], **_: Any) -> NamedChecks:
        names = list_named_checks(None, [task.to_outline() for task in tasks])
        return self._prover.check_names(workflow_id, names)

    @operation(
        "admin",
        idempotent=True,
        when_false=WhenFalse("force", default=False, scope="work"),
        for_people=True,
        changes_many=True,
    )
    def workflow_update_status(
        self,
        id: Id,
        status: PlanStatus,
        reason: str | None = None,
        force: Annotated[bool, Field(description="Complete it despite open tasks")] = False,
    ) -> Done:
        """Pause, resume, complete, fail or abandon a workflow; usually its status follows its tasks."""
        with self._database.transaction() as tx:
            workflow, tasks = PlanStore(tx).get_for_update(id), TaskStore(tx)
            open_count = tasks.count_open(id)
            after = check_workflow_transition(
                workflow, status, task_count=tasks.count(id), open_count=open_count, force=force
            )
            if after is None:
                return Done()
            if after is PlanStatus.COMPLETED:
                gated = PlanningStore(tx).count_open_gates(workflow) if open_count else 0
                with allow_person(tx):
                    require_no_open_gates(workflow, gated)
            changed = PlanRecorder(tx).save_workflow(workflow, replace(workflow, status=after), reason)
            notify_of_plan_status(tx, changed, reason)
            if after.is_final:
                ClaimService(tx, self._presence).release_all(changed, f"the workflow is {after}")
            return Done()

    @operation("work", idempotent=True, for_people=True)
    def workflow_set_parallelism(
        self,
        id: Id,
        max_parallel_tasks: Parallelism,
        auto_create_workspaces: bool | None = None,
        file_conflicts: Annotated[
            FileConflicts | None, Field(description="If a claim shares files with a running task")
        ] = None,
    ) -> Done:
        """Set how many tasks may run in parallel."""
        with self._database.transaction() as tx:
            workflow = PlanStore(tx).get_for_update(id)
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
                recorder = PlanRecorder(tx)
                recorder.save_workflow(workflow, changed)
                before, after = _format_parallelism(workflow), _format_parallelism(changed)
                recorder.record_history(id, None, "parallelism", before=before, after=after)
                notify_of_plan_change(tx, workflow, after)
            return Done()

    @operation("read", waits_with="wait_seconds")
    def workflow_next_tasks(
        self,
        workflow_id: Id,
        include_failed: Annotated[bool, Field(description="Offer failed tasks again")] = True,
        limit: Annotated[Limit200 | None, Field(description="Default: 20, or max_parallel_tasks")] = None,
        wait_seconds: Annotated[int, Field(ge=0, le=MAX_WAIT_SECONDS)] = 0,
    ) -> NextTasks:
        """List tasks that can start now: unclaimed, with all dependencies done."""

        def look() -> NextTasks:
            with self._database.reading() as tx:
                workflow = PlanStore(tx).get(workflow_id)
                offered = limit or choose_limit(workflow)
                return Scheduler(tx).list_next_tasks(workflow, include_failed=include_failed, limit=offered)

        return wait_for_tasks(self._database, look, wait_seconds) if wait_seconds else look()

    @operation("read")
    def workflow_progress(self, workflow_id: Id, limit: Limit1000 = 100) -> ProgressView:
        """A workflow's progress, and what blocks which tasks."""
        with self._database.reading() as tx:
            return Scheduler(tx).build_progress(PlanStore(tx).get(workflow_id), limit=limit)

    @operation("read")
    def workflow_get_summary(self, id: Id, format: Literal["json", "markdown"] = "json") -> Summary:
        """Summarize a workflow briefly, e.g. for CLAUDE.md."""
        with self._database.reading() as tx:
            overview = _load_overview(tx, PlanStore(tx).get(id))
        shown: str | dict[str, Any] = (
            summaries.build_summary(overview) if format == "json" else summaries.render_markdown(overview)
        )
        return Summary(
            summary=shown, token_estimate=tokens.estimate_tokens(json.dumps(shown, ensure_ascii=False))
        )

    @operation("read")
    def workflow_search(
        self, query: Text, limit: Limit200 = 20, workflow_id: Id | None = None
    ) -> SearchResults:
        """Find workflows, tasks and checkpoints by words in their texts."""
        with self._database.reading() as tx:
            if workflow_id is not None:
                PlanStore(tx).get(workflow_id)
            ids, total = SearchStore(tx).find(query, workflow_id, limit)
            return SearchResults(results=load_results(tx, ids, query), total=total)

    def _resolve_repository_filter(self, repository_path: str | None) -> str | None:
        """Return the repository whose plans a list shows; None for all."""
        return None if repository_path in (None, "*") else self._repositories.locate(repository_path)

    def _locate_repository(self, repository_path: str | None, listed: Sequence[str]) -> str:
        """Return the repository of a new plan, which is named once or in a list."""
        given = listed if repository_path is None else (repository_path, *listed)
        located = {self._repositories.locate(path) for path in given or (None,)}
        if len(located) > 1:
            raise InvalidInput(
                f"`repository_paths` names {len(located)} repositories; a plan is for one.",
                suggestion="Create a workflow for each repository.",
            )
        return located.pop()


def _build_task_views(
    tx: Transaction, tasks: Sequence[Task], *, in_full: bool
) -> list[TaskLine | PlanTaskView]:
    relations = load_task_relations(tx, tasks)
    return [
        PlanTaskView.from_task(task, relations) if in_full else TaskLine.from_task(task, relations)
        for task in tasks
    ]


def _resolve_names(tx: Transaction, workflow_id: str, named: Sequence[str]) -> list[str]:
    """Convert references to tasks of the workflow, by name or by id, to names."""
    found = TaskStore(tx).find_by_ids([each for each in named if each.startswith("tk_")]).values()
    names = {task.id: task.name for task in found if task.workflow_id == workflow_id}
    return [names.get(each, each) for each in named]


def _format_parallelism(workflow: Workflow) -> str:
    workspaces = ", a workspace for each" if workflow.auto_create_workspaces else ""
    return f"{workflow.max_parallel_tasks} in parallel, files {workflow.file_conflicts}{workspaces}"


def _build_history(rows: Sequence[Row], most_tasks: int) -> list[HistoryEntry]:
    """Build the history entries; replaced plans are shown as tasks, at most `most_tasks` in all."""
    lines = []
    for row in rows:
        entry = dict(row)
        if row["what"] in ("replanned", "removed"):
            tasks = json.loads(entry.pop("before"))
            entry |= {"old_tasks": tasks[:most_tasks], "old_tasks_total": len(tasks)}
            most_tasks -= len(entry["old_tasks"])
        lines.append(HistoryEntry(**entry))
    return lines


def _load_overview(tx: Transaction, workflow: Workflow) -> summaries.WorkflowOverview:
    store, scheduler = TaskStore(tx), Scheduler(tx)
    running, expired = scheduler.list_active(workflow.id)
    levels = Levels(store.count_by_status(workflow.id)).with_released(expired)
    counts, most = levels.by_status, summaries.MAX_TASKS_PER_SECTION
    ready, ready_total = scheduler.list_ready(
        workflow, levels, expired, include_failed=False, max_considered=most
    )
    failed, done = [TaskStatus.FAILED], [TaskStatus.COMPLETED, TaskStatus.SKIPPED]
    return summaries.WorkflowOverview(
        now=tx.now,
        workflow=workflow,
        by_status=counts,
        running=running,
        holders=ClaimStore(tx).find_holders([task.id for task in running[:most] if task.claimed_by]),
        ready=ready[:most],
        ready_total=ready_total,
        blocked=store.list_blocked(workflow.id, levels.free, most) if counts[TaskStatus.BLOCKED] else [],
        failed=store.list_by_status(workflow.id, failed, most) if counts[TaskStatus.FAILED] else [],
        done=store.list_by_status(workflow.id, done, most, newest_first=True) if levels.any_done else [],
    )
