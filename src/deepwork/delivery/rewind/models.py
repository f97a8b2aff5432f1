"""Rewinds of tasks: what goes back, how far a rewind is, and what it led to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deepwork.kernel.git.snapshot_types import Snapshot
from deepwork.kernel.git.tree_restores import TreeRestore
from deepwork.kernel.names import CaseInsensitiveEnum
from deepwork.work.tracking.models import Watch


class RewindStage(CaseInsensitiveEnum):
    """The last step of a rewind that is complete."""

    PLANNED = "planned"
    RESCUED = "rescued"  # everything uncommitted is on a rescue branch
    FILES = "files"  # files, branches and trees are as they shall be
    STATE = "state"  # and so are the tasks
    DONE = "done"
    CANCELLED = "cancelled"  # before anything was changed


class Dependents(CaseInsensitiveEnum):
    """What happens to tasks that build on the rewound one and have begun."""

    ASK = "ask"
    RESET = "reset"  # they go back to their start too
    KEEP = "keep"  # they stay, marked `stale_input`


class RewindRole(CaseInsensitiveEnum):
    """What a rewind did to a task."""

    REWOUND = "rewound"
    RESET = "reset"
    STALE = "stale"


class RewindEvent(CaseInsensitiveEnum):
    """The event of rewinds; the payload is the rewind as REST shows it."""

    UPDATED = "rewind:updated"


class TargetKind(CaseInsensitiveEnum):
    """A moment of a task that it can go back to."""

    START = "start"
    ATTEMPT = "attempt"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a task goes back to: its start, the start of an attempt, or a checkpoint."""

    kind: TargetKind
    number: int = 0

    def __str__(self) -> str:
        return self.kind.value if self.kind is TargetKind.START else f"{self.kind.value}:{self.number}"


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of an attempt that still counts: an earlier rewind may have undone its end."""

    watch: Watch
    """With the snapshot at the beginning of the segment."""
    ended_at: int | None = None
    """When the segment ended, on the clock of its host; None if the task is at work."""
    ended: Snapshot | None = None
    is_cut: bool = False
    """Whether an earlier rewind undid what came later in the attempt."""

    @property
    def attempt(self) -> int:
        return self.watch.attempt


@dataclass(frozen=True, slots=True)
class TargetMoment:
    """The moment that a task goes back to."""

    attempt: int
    """The attempts from this one on go back."""
    snapshot: Snapshot
    taken_at: int
    checkpoint: int | None = None


@dataclass(frozen=True, slots=True)
class SetAside:
    """A tree or branch of a task that makes room for a new one, and stays as it is under another name."""

    task_id: str
    repository: str
    workspace_id: str
    branch: str
    new_branch: str
    commit: str
    path: str | None = None
    new_path: str | None = None
    status: str = "active"
    """Of the workspace, before and then."""
    new_status: str = "abandoned"


@dataclass(frozen=True, slots=True)
class Revert:
    """A commit on a branch that a new commit undoes: landed work, or the undoing of it."""

    landing_id: str
    task_id: str
    repository: str
    branch: str
    commit: str
    title: str


@dataclass(frozen=True)
class Steps:
    """What a rewind does to files, trees and branches."""

    restores: tuple[TreeRestore, ...] = ()
    asides: tuple[SetAside, ...] = ()
    reverts: tuple[Revert, ...] = ()


@dataclass(frozen=True)
class RewindResults:
    """What the stages of a rewind led to."""

    rescue_branches: tuple[str, ...] = ()
    saved: Mapping[str, str] = field(default_factory=dict)
    """By tree, the commit with the files as they were."""
    after: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By tree, the snapshot after its files went back."""
    index_after: Mapping[str, str] = field(default_factory=dict)
    """By tree, the tree of its index after that."""
    reverted: tuple[Revert, ...] = ()
    """The commits that undo landed work, as what could be undone again."""
    kept: tuple[str, ...] = ()
    """Files that somebody changed meanwhile, and where their content is."""
    plan: Mapping[str, Any] = field(default_factory=dict)
    """The plan's status and totals before."""


@dataclass(frozen=True)
class RewindTask:
    """A task that a rewind changed, as it was before and after."""

    task_id: str
    role: RewindRole
    first_attempt: int = 1
    last_attempt: int = 0
    checkpoint: int | None = None
    state_before: Mapping[str, Any] | None = None
    state_after: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Rewind:
    """The journal of a rewind, or of its undoing; times are Unix milliseconds."""

    id: str
    workflow_id: str
    task_id: str
    number: int
    undoes: str | None
    undone_by: str | None
    target: str
    dependents: Dependents
    stage: RewindStage
    host: str
    digest: str
    """Of what the person saw when they decided."""
    steps: Steps
    results: RewindResults
    created_by: str
    created_at: int
    updated_at: int
    ended_at: int | None = None

    @property
    def is_effective(self) -> bool:
        """Whether tasks and files are rewound by it now."""
        return self.stage is RewindStage.DONE and self.undoes is None and self.undone_by is None
