"""Rules for workspaces: status transitions, and names of the trees that deepwork creates."""

from __future__ import annotations

import re

from deepwork.kernel.errors import Code, NotAllowed
from deepwork.work.workspaces.models import Workspace, WorkspaceStatus

_TRANSITIONS = {
    WorkspaceStatus.ACTIVE: {WorkspaceStatus.MERGED, WorkspaceStatus.ABANDONED},
    WorkspaceStatus.ABANDONED: {WorkspaceStatus.ACTIVE},
    WorkspaceStatus.MERGED: frozenset[WorkspaceStatus](),
}
_MAX_SLUG_LENGTH = 40


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
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_MAX_SLUG_LENGTH].strip("-")
    unique = id.rpartition("_")[2][:6]
    return f"{words}-{unique}" if words else unique
