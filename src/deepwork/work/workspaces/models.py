"""Repositories, workspaces and the words that describe them."""

from __future__ import annotations

import re

from deepwork.kernel.call import ActionOutcome
from deepwork.kernel.errors import Code, NotAllowed
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum

LOCAL_HOST = "local"
"""The machine of a store in a file: always this one, even if it is renamed."""

WORK_ELSEWHERE = "work_elsewhere"
"""Why a task waits: the work of a dependency is on another machine, and not in the repository of this one."""

_MAX_SLUG_LENGTH = 40


class WorkspaceStatus(CaseInsensitiveEnum):
    """Whether a workspace is in use, or how it ended."""

    ACTIVE = "active"
    MERGED = "merged"
    ABANDONED = "abandoned"


_TRANSITIONS = {
    WorkspaceStatus.ACTIVE: {WorkspaceStatus.MERGED, WorkspaceStatus.ABANDONED},
    WorkspaceStatus.ABANDONED: {WorkspaceStatus.ACTIVE},
    WorkspaceStatus.MERGED: frozenset[WorkspaceStatus](),
}


class WorkspaceEvent(CaseInsensitiveEnum):
    """Events about repositories and workspaces; the payload is the view of either."""

    REPOSITORY_REGISTERED = "repository:registered"
    WORKSPACE_CREATED = "workspace:created"
    WORKSPACE_UPDATED = "workspace:updated"
    WORKSPACE_REMOVED = "workspace:removed"


@dataclass(frozen=True)
class Repository:
    """A repository on one machine; times are Unix milliseconds."""

    id: str
    host: str
    """The machine's name; a path is only meaningful on its own machine."""
    path: str
    name: str
    created_at: int
    updated_at: int


@dataclass(frozen=True)
class Workspace:
    """A working tree with its own branch, for tasks of one workflow."""

    id: str
    workflow_id: str
    host: str
    repository_path: str
    path: str
    branch: str
    base_branch: str | None
    base_commit: str | None
    """The commit the branch started at; None if the tree was only registered or does not exist yet."""
    status: WorkspaceStatus
    merge_commit: str | None
    rescue_branch: str | None
    """The branch that holds work that was uncommitted when the tree was removed."""
    is_made: bool
    """Whether deepwork created the tree and may therefore remove it."""
    created_by: str
    created_at: int
    updated_at: int
    builds_on: tuple[str, ...] = ()
    """The branches of dependencies that the branch began with, beside its base."""
    unmerged: tuple[str, ...] = ()
    """The branches of dependencies that it began without, because they conflicted or were not here."""


@dataclass(frozen=True)
class TreeRemoval(ActionOutcome):
    """What became of the tree of a closed workspace."""

    rescue_branch: str | None = None
    warning: str | None = None


@dataclass(frozen=True)
class CheckoutWork:
    """What a completed task did in the checkout of another machine itself, not in a worktree."""

    host: str
    path: str
    branch: str | None
    head: str | None
    """The commit that was checked out when the task ended; None if its end was not seen."""
    trees: frozenset[str]
    """The files of that checkout when the task ended, and when each later task there did: they have its work,
    too. Empty if it changed nothing."""


@dataclass(frozen=True)
class FinishedTask:
    """The workspace of a completed task, and what it was completed with: see `Task.completed_tree`."""

    workspace: Workspace
    completed_tree: str | None
    completed_head: str | None


def require_transition(workspace: Workspace, status: WorkspaceStatus) -> None:
    """Raise NotAllowed for an impossible transition; keeping the current status is allowed."""
    possible = _TRANSITIONS[workspace.status]
    if status is workspace.status or status in possible:
        return
    others = " or ".join(sorted(possible)) or "nothing else"
    raise NotAllowed(
        f"Workspace {workspace.id} is {workspace.status} and can become {others}, not {status}.",
        code=Code.INVALID_TRANSITION,
        suggestion="Create a new workspace to continue working.",
    )


def require_active(workspace: Workspace) -> None:
    """Raise NotAllowed unless the workspace is active."""
    if workspace.status is not WorkspaceStatus.ACTIVE:
        raise NotAllowed(
            f"Workspace {workspace.id} is {workspace.status}; tasks can only be assigned to active ones.",
            suggestion="See {tool:workspace_list} for the active ones, or create one with "
            "{tool:workspace_create}.",
        )


def build_slug(name: str, id: str) -> str:
    """Build a unique name that is valid for files and branches, such as `parse-input-3k9x0q`."""
    words = re.sub(r"[\W_]+", "-", _to_plain_letters(name.lower())).strip("-")[:_MAX_SLUG_LENGTH].strip("-")
    unique = id.rpartition("_")[2][:6]
    return f"{words}-{unique}" if words else unique


def _to_plain_letters(text: str) -> str:
    """Write Latin letters without marks, such as `u` for `ü`; letters of other scripts stay."""
    if text.isascii():
        return text
    import unicodedata  # noqa: PLC0415 - most names are ASCII

    apart = unicodedata.normalize("NFKD", text.translate(_LATIN_LETTERS))
    return unicodedata.normalize("NFC", re.sub("(?<=[a-z])[\u0300-\u036f]+", "", apart))


_LATIN_LETTERS = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "þ": "th", "\u0131": "i"}
)
"""Letters that are not a plain one with a mark."""
