"""Domain models of plans: workflows, tasks, checkpoints, their statuses and what they require."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, Self, TypeVar

from deepwork.gates.budgets.models import Budget
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum

DEFAULT_MAX_ATTEMPTS = 3
"""How often a task may fail, if neither it nor its plan says otherwise."""


class ApprovalTime(CaseInsensitiveEnum):
    """When a person must approve a task: before it is handed out, after its work is done, before it lands."""

    BEFORE = "before"
    AFTER = "after"
    LANDING = "landing"


@dataclass(frozen=True)
class TaskRequirements:
    """What one task requires, beside what its plan does."""

    checks: tuple[str, ...] = ()
    approval: tuple[ApprovalTime, ...] = ()
    budget: Budget | None = None
    changes: str | None = None
    """`none`: its work need not change any file."""


@dataclass(frozen=True)
class PlanRequirements:
    """What a plan requires of all its tasks together, and of each of them."""

    checks: tuple[str, ...] = ()
    approval: tuple[ApprovalTime, ...] = ()
    budget: Budget | None = None
    approve_plan: bool = False
    max_unreviewed: int | None = None


Requirements = TypeVar("Requirements", PlanRequirements, TaskRequirements)


def serialize_requirements(required: PlanRequirements | TaskRequirements | None) -> str | None:
    """Return the JSON text that is stored; None if nothing is required."""
    if required is None:
        return None
    given = {name: value for name, value in asdict(required).items() if value not in (None, False, ())}
    return json.dumps(given, separators=(",", ":")) if given else None


def requirements_to_dict(required: PlanRequirements | TaskRequirements | None) -> dict[str, Any]:
    """Return what is required in the form in which a plan is written; empty if nothing is."""
    found: dict[str, Any] = json.loads(serialize_requirements(required) or "{}")
    if budget := found.get("budget"):
        found["budget"] = {name: amount for name, amount in budget.items() if amount is not None}
    return found


def read_requirements(kind: type[Requirements], written: Mapping[str, Any]) -> Requirements | None:
    """Read what is required from the form in which plans and tasks are written; None if nothing is."""
    given = {name: written[name] for name in kind.__dataclass_fields__ if written.get(name)}
    times = given.get("approval", ())
    named = (times,) if isinstance(times, str) else times
    given["approval"] = [time for time in ApprovalTime if time in named]
    required = kind(**_convert(given))
    return None if required == kind() else required


def parse_plan_requirements(text: str | None) -> PlanRequirements | None:
    """Parse what is stored with a plan."""
    return PlanRequirements(**_convert(json.loads(text))) if text else None


def parse_task_requirements(text: str | None) -> TaskRequirements | None:
    """Parse what is stored with a task."""
    return TaskRequirements(**_convert(json.loads(text))) if text else None


def list_required_checks(plan: PlanRequirements | None, task: TaskRequirements | None) -> tuple[str, ...]:
    """Return the checks of a task: those of its plan, then its own."""
    named = (*(plan.checks if plan else ()), *(task.checks if task else ()))
    return tuple(dict.fromkeys(named))


def list_required_approvals(
    plan: PlanRequirements | None, task: TaskRequirements | None
) -> frozenset[ApprovalTime]:
    """Return when a person must approve a task."""
    return frozenset((*(plan.approval if plan else ()), *(task.approval if task else ())))


def _convert(values: Mapping[str, Any]) -> dict[str, Any]:
    budget = values.get("budget")
    return {
        **values,
        "checks": tuple(values.get("checks", ())),
        "approval": tuple(map(ApprovalTime, values.get("approval", ()))),
        "budget": Budget(**budget) if budget else None,
    }


class PlanStatus(CaseInsensitiveEnum):
    PLANNING = "planning"
    READY = "ready"
    IN_PROGRESS = "in_progress"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    ABANDONED = "abandoned"

    @property
    def is_final(self) -> bool:
        """Whether nothing of the workflow changes any more."""
        return self in (PlanStatus.COMPLETED, PlanStatus.ABANDONED)

    @property
    def hands_out_tasks(self) -> bool:
        """Whether agents may claim its tasks."""
        return self in (PlanStatus.READY, PlanStatus.IN_PROGRESS)


class TaskStatus(CaseInsensitiveEnum):
    PENDING = "pending"
    BLOCKED = "blocked"  # never stored: a pending task that waits for others
    PLANNING = "planning"
    IN_PROGRESS = "in_progress"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def is_done(self) -> bool:
        """Whether the task is finished, so that its dependents may start."""
        return self in (TaskStatus.COMPLETED, TaskStatus.SKIPPED)

    @property
    def is_running(self) -> bool:
        """Whether the task was started and has not ended."""
        return self in (TaskStatus.PLANNING, TaskStatus.IN_PROGRESS, TaskStatus.PAUSED)

    @property
    def can_start(self) -> bool:
        """Whether the task can be started, for the first time or again."""
        return self in (TaskStatus.PENDING, TaskStatus.FAILED)


class CheckpointType(CaseInsensitiveEnum):
    PLAN = "plan"
    PROGRESS = "progress"
    DECISION = "decision"
    ERROR = "error"
    RECOVERY = "recovery"
    COMPLETE = "complete"
    REPLAN = "replan"


class SourceType(CaseInsensitiveEnum):
    """Where the request for a workflow came from."""

    PROMPT = "prompt"
    GITHUB_ISSUE = "github_issue"
    LINEAR = "linear"
    JIRA = "jira"
    CUSTOM = "custom"
    TEMPLATE = "template"


class Complexity(CaseInsensitiveEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class FileConflicts(CaseInsensitiveEnum):
    """What a claim does about files that a running task is likely to change too."""

    WARN = "warn"
    REFUSE = "refuse"
    IGNORE = "ignore"


class PlanEvent(CaseInsensitiveEnum):
    """Event types of plans; the payload is the view of the workflow, task or checkpoint."""

    CREATED = "plan:created"
    UPDATED = "plan:updated"
    TASK_CREATED = "plan_task:created"
    TASK_UPDATED = "plan_task:updated"
    TASK_CLAIMED = "plan_task:claimed"
    TASK_RELEASED = "plan_task:released"
    TASK_REMOVED = "plan_task:removed"
    CHECKPOINT = "checkpoint:created"


@dataclass(frozen=True)
class Workflow:
    """A request and the plan to fulfil it; times are Unix milliseconds."""

    id: str
    name: str
    source_type: SourceType
    source_ref: str | None
    source_content: str
    status: PlanStatus
    plan_summary: str | None
    initial_plan: Mapping[str, Any] | None
    """The plan as it was first given, approach, risks and assumptions included."""
    repository_path: str | None
    max_parallel_tasks: int
    auto_create_workspaces: bool
    file_conflicts: FileConflicts
    created_by: str
    created_at: int
    updated_at: int
    completed_tasks: int = 0
    completed_ms: int = 0
    """The total time spent on completed tasks."""
    requirements: PlanRequirements | None = None
    base_commit: str | None = None
    """The commit that HEAD had when the workflow was created; None without a git repository."""
    base_branch: str | None = None
    """The branch that was checked out then; None if HEAD was detached."""


@dataclass(frozen=True)
class Task:
    """One task of a plan."""

    id: str
    workflow_id: str
    position: int
    """Its index in the plan as written."""
    name: str
    description: str
    status: TaskStatus
    sequence: int
    parallel_group: str | None
    is_explicit: bool
    """Whether it names what it waits for; if not, it waits for the next lower sequence."""
    open_dependencies: int
    """How many of those it names are not done."""
    plan: Mapping[str, Any] | None
    context: Mapping[str, Any]
    outcome: str | None
    outcome_detail: Mapping[str, Any] | None
    error: str | None
    attempts: int
    """How often it was started."""
    checkpoints: int
    """How many checkpoints it has; the next one's number is one more."""
    workspace_id: str | None
    created_at: int
    started_at: int | None
    finished_at: int | None
    updated_at: int
    claimed_by: str | None = None
    """The agent that last claimed it and neither finished nor released it; its lease may have expired."""
    failures: int = 0
    """How often it failed since a person last let it be tried again."""
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    """How often it may fail before it waits for a person."""
    requirements: TaskRequirements | None = None
    waits_for: str | None = None
    """`approval` while its work is done and a person has not decided about it."""
    active_ms: int = 0
    """How long it was claimed or running, without the time that goes on."""
    active_since: int | None = None
    """Since when it is claimed or running."""
    stale_input: tuple[Mapping[str, str], ...] | None = None
    """The tasks it builds on whose work was rewound after it began: each with `rewind`, `task_id`, `name`."""
    completed_tree: str | None = None
    """The git tree of all files in its worktree when its checks were proved and it was completed. None: it
    has no worktree here, or an older version completed it, so that is not known."""
    completed_head: str | None = None
    """The commit that was checked out there then."""

    @property
    def waits_for_person(self) -> bool:
        """Whether it has failed as often as it may."""
        return self.status is TaskStatus.FAILED and self.failures >= self.max_attempts

    @property
    def files(self) -> tuple[str, ...]:
        """Paths and globs of the files it is likely to change."""
        return parse_likely_files(self.context)

    @property
    def required_capabilities(self) -> frozenset[str]:
        """The capabilities an agent needs to claim it."""
        return frozenset(_parse_strings(self.context.get("required_capabilities")))

    def to_outline(self, depends_on: Sequence[str], default_attempts: int = DEFAULT_MAX_ATTEMPTS) -> Outline:
        """Return the task as it is written in a plan; `depends_on` are names, used if it names any."""
        complexity = self.context.get("estimated_complexity")  # callers may write anything into the context
        return Outline(
            self.name,
            self.description,
            self.sequence,
            self.parallel_group,
            tuple(depends_on) if self.is_explicit else None,
            Complexity(complexity) if complexity in list(Complexity) else None,
            self.files,
            tuple(sorted(self.required_capabilities)),
            None if self.max_attempts == default_attempts else self.max_attempts,
            self.requirements,
        )


class RelatedTask(NamedTuple):
    """A task reduced to what is shown with another one; a tuple, because hundreds are read at once."""

    id: str
    name: str
    status: TaskStatus
    description: str = ""
    outcome: str | None = None
    outcome_detail: Mapping[str, Any] | None = None
    error: str | None = None
    finished_at: int | None = None


class WaitingTask(NamedTuple):
    """A task that waits for others, reduced to what says for which."""

    id: str
    workflow_id: str
    name: str
    sequence: int
    is_explicit: bool
    open_dependencies: int


def parse_likely_files(context: Mapping[str, object]) -> tuple[str, ...]:
    """Return the paths and globs of the files that a task with this context is likely to change."""
    return _parse_strings(context.get("files_likely_affected"))


def _parse_strings(value: object) -> tuple[str, ...]:
    """Return the strings of a list; a task's context is free-form, so the value may be anything."""
    if isinstance(value, str):
        return (value,)
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


@dataclass(frozen=True)
class Checkpoint:
    """Progress, a decision or an error recorded while working on a task."""

    id: str
    task_id: str
    sequence: int
    type: CheckpointType
    summary: str
    detail: Mapping[str, Any] | None
    files_changed: tuple[str, ...]
    agent_id: str | None
    created_at: int


@dataclass(frozen=True, slots=True)
class Node:
    """A task reduced to what the dependency graph needs."""

    id: str
    name: str
    sequence: int = 1
    depends_on: frozenset[str] | None = None
    """Ids of tasks; None if the plan names none, so that it waits for the next lower sequence."""
    status: TaskStatus = TaskStatus.PENDING
    parallel_group: str | None = None


class Outline(NamedTuple):
    """A task as written in a plan, before it has an id; it refers to other tasks by name.

    A tuple, because a plan may have 20,000 of them, and frozen dataclasses take six times as long to create.
    """

    name: str
    description: str = ""
    sequence: int = 1
    parallel_group: str | None = None
    depends_on: tuple[str, ...] | None = None
    estimated_complexity: Complexity | None = None
    files_likely_affected: tuple[str, ...] = ()
    required_capabilities: tuple[str, ...] = ()
    max_attempts: int | None = None
    requirements: TaskRequirements | None = None

    @classmethod
    def read(cls, written: Mapping[str, Any]) -> Self:
        """Read a task from the form in which plans, templates and their files have it."""
        named, complexity = written.get("depends_on"), written.get("estimated_complexity")
        return cls(
            written["name"],
            written.get("description") or "",
            written.get("sequence", 1),
            written.get("parallel_group"),
            None if named is None else tuple(named),
            None if complexity is None else Complexity(complexity),
            tuple(written.get("files_likely_affected") or ()),
            tuple(written.get("required_capabilities") or ()),
            written.get("max_attempts"),
            read_requirements(TaskRequirements, written),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return that form, without empty fields.

        An empty `depends_on` stays: it means no dependencies, while a missing one means the default order.
        """
        fields = self._asdict() | requirements_to_dict(self.requirements)
        del fields["requirements"]
        return {
            name: value
            for name, value in fields.items()
            if value is not None and (value != () or name == "depends_on")
        }


@dataclass(frozen=True)
class PlanChange:
    """A history entry: a change of a workflow or of one of its tasks, and why."""

    workflow_id: str
    task_id: str | None
    what: str
    before: str | None
    after: str | None
    reason: str | None
    by_whom: str


@dataclass(frozen=True)
class StatusCount:
    """How many tasks of one sequence have one status."""

    sequence: int
    status: TaskStatus
    count: int
    waiting: int
    """How many of them have open tasks in `depends_on`."""
    implied: int
    """How many of them have no `depends_on`, and so wait for the next lower sequence."""
