"""What a repository and a workspace are."""

from __future__ import annotations

from dataclasses import dataclass

from deepwork.names import Word


class WorkspaceStatus(Word):
    """Whether work goes on in a workspace, or what became of it."""

    ACTIVE = "active"
    MERGED = "merged"
    ABANDONED = "abandoned"


class PlaceEvent(Word):
    """What this slice tells."""

    REPOSITORY_REGISTERED = "repository:registered"
    WORKSPACE_CREATED = "workspace:created"
    WORKSPACE_UPDATED = "workspace:updated"
    WORKSPACE_REMOVED = "workspace:removed"


@dataclass(frozen=True)
class Repository:
    """A repository on one machine; times are Unix milliseconds."""

    id: str
    host: str
    """The machine; a path means nothing on another one."""
    path: str
    name: str
    created_at: int
    updated_at: int


@dataclass(frozen=True)
class Workspace:
    """A working tree with a branch of its own, where tasks of one workflow are worked on."""

    id: str
    workflow_id: str
    host: str
    repository_path: str
    path: str
    branch: str
    base_branch: str | None
    base_commit: str | None
    """Where the branch began; None for a tree that was registered only, or is not made yet."""
    status: WorkspaceStatus
    merge_commit: str | None
    rescue_branch: str | None
    """Where the work is that was not committed when the tree was removed."""
    is_made: bool
    """Whether deepwork made the tree, and so may remove it."""
    created_by: str
    created_at: int
    updated_at: int
