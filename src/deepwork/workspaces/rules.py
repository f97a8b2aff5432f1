"""What may become of workspaces, and how those are called that deepwork makes."""

from __future__ import annotations

import re

from deepwork.errors import Code, NotAllowed
from deepwork.workspaces.models import Workspace, WorkspaceStatus

_MOVES = {
    WorkspaceStatus.ACTIVE: {WorkspaceStatus.MERGED, WorkspaceStatus.ABANDONED},
    WorkspaceStatus.ABANDONED: {WorkspaceStatus.ACTIVE},
    WorkspaceStatus.MERGED: frozenset[WorkspaceStatus](),
}
_LONGEST_SLUG = 40


def require_move(workspace: Workspace, status: WorkspaceStatus) -> None:
    """Refuse a change of status that makes no sense; the status it already has is no change."""
    possible = _MOVES[workspace.status]
    if status is workspace.status or status in possible:
        return
    others = " or ".join(sorted(possible)) or "nothing else"
    raise NotAllowed(
        f"Workspace {workspace.id} is {workspace.status} and can become {others}, not {status}.",
        code=Code.INVALID_TRANSITION,
        suggestion="Create a new workspace to go on working.",
    )


def require_active(workspace: Workspace) -> None:
    """Refuse to put work where none goes on."""
    if workspace.status is not WorkspaceStatus.ACTIVE:
        raise NotAllowed(
            f"Workspace {workspace.id} is {workspace.status}; tasks are assigned to active ones.",
            suggestion="See workspace_list for the active ones, or create one with workspace_create.",
        )


def slug(name: str, id: str) -> str:
    """A name that files and branches may have, and that no other thing has: `parse-input-3k9x0q`."""
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST_SLUG].strip("-")
    unique = id.rpartition("_")[2][:6]
    return f"{words}-{unique}" if words else unique
