"""Landings: work that is merged into a branch, tested there, and then moves the branch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deepwork.kernel.names import CaseInsensitiveEnum

MAX_BATCH = 4
"""How many landings are checked together."""
MAX_RETURNS = 2
"""How often work goes back to the agent that did it, before a person has to look."""


class LandingKind(CaseInsensitiveEnum):
    """What a landing brings to a branch."""

    TASK = "task"  # the branch of a task, by a merge commit
    COMMIT = "commit"  # a commit that was prepared for the branch, such as a revert


class LandingStatus(CaseInsensitiveEnum):
    """Where a landing is.

    A landing that was returned, waits or needs a person stays open: landing the same task again goes on
    with it, so the number of returns is kept.
    """

    QUEUED = "queued"
    CHECKING = "checking"  # merged; its checks run
    WAITING = "waiting"  # for the approval of a person
    MOVING = "moving"  # everything passed, and the branch is being moved
    RETURNED = "returned"  # to the agent that did the work
    NEEDS_PERSON = "needs_person"
    LANDED = "landed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether the landing has ended."""
        return self in (LandingStatus.LANDED, LandingStatus.CANCELLED)

    @property
    def is_pending(self) -> bool:
        """Whether a process works on it, or has to."""
        return self in (LandingStatus.QUEUED, LandingStatus.CHECKING, LandingStatus.MOVING)


class Problem(CaseInsensitiveEnum):
    """Why a landing did not end with its branch moved."""

    CONFLICT = "conflict"  # with what landed before
    RED = "red"  # a check fails on the merged result
    REFUSED = "refused"  # by the person who had to approve it
    APPROVAL = "approval"  # a person has not decided yet
    CHECKS = "checks"  # they cannot run: not trusted, or not defined on the target
    TARGET_RED = "target_red"  # a check fails on the target itself
    TARGET_CONFLICT = "target_conflict"  # the target conflicts with the integration branch
    BRANCH = "branch"  # the branch cannot be moved, such as an integration branch that is checked out


class LandingEvent(CaseInsensitiveEnum):
    """Event types of landings; the payload is the landing as REST shows it."""

    QUEUED = "landing:queued"
    UPDATED = "landing:updated"
    ENDED = "landing:ended"


@dataclass(frozen=True)
class Landing:
    """One task's way to a branch; times are Unix milliseconds."""

    id: str
    kind: LandingKind
    subject_id: str
    """What it is about: at most one landing of a subject is open. The id of the task, for a task."""
    workflow_id: str | None
    task_id: str | None
    title: str
    host: str
    repository_path: str
    target: str
    """The branch that the work is meant for."""
    status: LandingStatus
    done_at: int
    """When the task was completed: the oldest lands first."""
    created_by: str
    created_at: int
    updated_at: int
    branch: str | None = None
    """The branch that is moved: the target, or an integration branch if the target is checked out."""
    source_branch: str | None = None
    source_commit: str | None = None
    base_commit: str | None = None
    """Where the branch was before it is moved; None if it did not exist."""
    merge_commit: str | None = None
    merge_tree: str | None = None
    branch_commit: str | None = None
    """Where the branch is moved to: the merge commit of the last landing of the same batch."""
    attempt_id: str | None = None
    agent_id: str | None = None
    problem: Problem | None = None
    reason: str | None = None
    """Why it has its status, for people and for the agent that did the work."""
    returns: int = 0
    """How often the work went back to the agent that did it."""
    ended_at: int | None = None

    @property
    def is_integrated(self) -> bool:
        """Whether it moves an integration branch instead of its target."""
        return self.branch is not None and self.branch != self.target


@dataclass(frozen=True)
class BranchLease:
    """The right to move one branch of one repository: one process at a time, until the time is over.

    It counts for all machines, each of which has a clone of the repository.
    """

    repository: str
    """The first commit of the branch, which all clones have in common."""
    branch: str
    holder: str
    epoch: int


@dataclass(frozen=True)
class WorkOrigin:
    """The attempt and the agent that did the work of a task."""

    attempt_id: str | None = None
    agent_id: str | None = None


@dataclass(frozen=True)
class FinishedBranch:
    """The branch of a task that is done, ready to land."""

    task_id: str
    workflow_id: str
    name: str
    branch: str
    commit: str
    tree: str
    done_at: int
    outcome: str | None = None


@dataclass(frozen=True)
class Skipped:
    """A task that has nothing to land, or that cannot land now, and why."""

    task_id: str
    name: str
    reason: str
    is_refused: bool = False
    """Whether a person has to do something first, such as commit what is uncommitted."""
    branch: str | None = None
    host: str | None = None
    """The machine that has its work, if this repository does not have it: then nothing of its plan lands."""


@dataclass(frozen=True)
class PreparedCommit:
    """A commit to be built on the current tip of a branch and landed there, such as a revert.

    `build` gets the tip and returns the commit; its first parent is the tip. It is called again if the branch
    moved meanwhile, so it must not have any other effect. It runs outside transactions.
    """

    subject_id: str
    title: str
    repository_path: str
    target: str
    build: Callable[[str], str]
    workflow_id: str | None = None
    task_id: str | None = None
    project_path: str | None = None
    """The folder of the project whose checks run; else that of the repository."""
    checks: tuple[str, ...] = ()
    """Checks that it has to pass, as the target defines them."""
