"""Loads what is known about a task to be rewound, and about the tasks that build on it."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.delivery.landing.models import Landing, LandingStatus
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.rewind.models import RewindTask, Segment, has_begun, list_dependents, list_segments
from deepwork.delivery.rewind.store import RewindStore
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.records import dataclass
from deepwork.work.agents.store import LeaseStore
from deepwork.work.messages.store import MessageStore
from deepwork.work.plans.models import PlanStatus, Task, Workflow
from deepwork.work.plans.rules.graph import Graph
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.models import CheckpointTree
from deepwork.work.tracking.watch_store import WatchStore
from deepwork.work.workspaces.models import Workspace, WorkspaceStatus
from deepwork.work.workspaces.repositories import RepositoryLocator
from deepwork.work.workspaces.store import WorkspaceStore


@dataclass(frozen=True)
class RewoundTask:
    """A task, what counts of its attempts, and the tree that it has for itself."""

    task: Task
    epoch: int | None
    segments: tuple[Segment, ...] = ()
    checkpoints: tuple[CheckpointTree, ...] = ()
    workspace: Workspace | None = None
    is_alone: bool = False
    """Whether no other task has its workspace."""
    last_attempt: int = 0
    messages: int = 0

    @property
    def tree(self) -> str | None:
        """The working tree of its last attempt."""
        return self.segments[-1].watch.tree_path if self.segments else None

    @property
    def has_own_tree(self) -> bool:
        """Whether it has a tree that deepwork created for it alone."""
        found = self.workspace
        return (
            found is not None
            and found.is_made
            and self.is_alone
            and found.status is WorkspaceStatus.ACTIVE
            and self.tree == found.path
        )


@dataclass(frozen=True)
class RewindFacts:
    """The task to be rewound, its plan, and the tasks that build on it and have begun."""

    workflow: Workflow
    main: RewoundTask
    dependents: tuple[RewoundTask, ...]
    landed: tuple[Landing, ...] = ()
    """The landed work of all these tasks that was not undone, the newest first."""


def load_facts(database: Database, repositories: RepositoryLocator, task_id: str) -> RewindFacts:
    """Load what a rewind is decided by; raises if the task cannot be rewound."""
    with database.reading() as tx:
        task = TaskStore(tx).get(task_id)
        workflow = repositories.localize(tx, PlanStore(tx).get(task.workflow_id))
        require_rewindable(workflow, task)
        plan = Graph(TaskStore(tx).list_nodes(workflow.id))
        others = [node.id for node in list_dependents(plan, task_id)]
        found = TaskStore(tx).find_by_ids(others)
        begun = [found[id] for id in others if has_begun(found[id])]
        _require_not_landing(tx, task)
        landed = _load_landed(tx, [task.id, *(each.id for each in begun)])
        return RewindFacts(workflow, *_split(_load_all(tx, [task, *begun])), landed=landed)


def _require_not_landing(tx: Transaction, task: Task) -> None:
    landing = LandingStore(tx).find_open(task.id)
    if landing is not None and landing.status in (LandingStatus.CHECKING, LandingStatus.MOVING):
        raise NotAllowed(
            f"The work of task {task.name!r} is being landed ({landing.id}).",
            suggestion="Wait until that has ended, then call again.",
            recoverable=True,
        )


def _load_landed(tx: Transaction, task_ids: Sequence[str]) -> tuple[Landing, ...]:
    landed = LandingStore(tx).list_landed_of_tasks(task_ids)
    if not landed:
        return ()
    reverted = RewindStore(tx).list_reverted_landings(task_ids)
    return tuple(each for each in landed if each.id not in reverted)


def require_rewindable(workflow: Workflow, task: Task) -> None:
    """Raise NotAllowed if there is nothing to go back from, or the plan was given up."""
    if workflow.status is PlanStatus.ABANDONED:
        raise NotAllowed(
            f"Plan {workflow.name!r} is abandoned; its tasks can no longer change.",
            suggestion="Create a new plan for the remaining work.",
        )
    if not has_begun(task):
        raise NotAllowed(
            f"Work on task {task.name!r} has not begun, so there is nothing to rewind.",
            suggestion="`deepwork rewinds list` shows what was rewound before.",
        )


def _split(found: Sequence[RewoundTask]) -> tuple[RewoundTask, tuple[RewoundTask, ...]]:
    return found[0], tuple(found[1:])


def _load_all(tx: Transaction, tasks: Sequence[Task]) -> list[RewoundTask]:
    rewound = RewindStore(tx).list_effective_of_tasks([task.id for task in tasks])
    spaces = {task.workspace_id for task in tasks if task.workspace_id}
    users = WorkspaceStore(tx).list_task_ids(sorted(spaces)) if spaces else {}
    return [_load_one(tx, task, rewound.get(task.id, []), users) for task in tasks]


def _load_one(
    tx: Transaction, task: Task, rewound: Sequence[RewindTask], users: dict[str, list[str]]
) -> RewoundTask:
    watches = WatchStore(tx).list_of_task(task.id)
    checkpoints = WatchStore(tx).list_checkpoint_trees(task.id)
    lease = LeaseStore(tx, lease_ms=0).find(task.id)
    return RewoundTask(
        task=task,
        epoch=lease.epoch if lease else None,
        segments=tuple(list_segments(watches, checkpoints, rewound)),
        checkpoints=tuple(checkpoints),
        workspace=WorkspaceStore(tx).find(task.workspace_id) if task.workspace_id else None,
        is_alone=users.get(task.workspace_id or "") == [task.id],
        last_attempt=max((watch.attempt for watch in watches), default=0),
        messages=MessageStore(tx).count_of_task(task.id),
    )
