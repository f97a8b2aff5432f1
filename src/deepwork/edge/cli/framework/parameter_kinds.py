"""Which kind of thing a parameter names: for shell completion, and to find it by a part of its id."""

from __future__ import annotations

_KINDS = {
    "agent_id": "agent",
    "sender_id": "agent",
    "recipient_id": "agent",
    "issue_id": "issue",
    "job_name": "job",
    "phase_id": "phase",
    "session_id": "session",
    "task_id": "task",
    "task_ids": "task",
    "template_id": "template",
    "message_ids": "message",
    "workflow_id": "plan",
    "from_workflow_id": "plan",
    "workspace_id": "workspace",
}
_KINDS_BY_GROUP = {
    ("plans", "id"): "plan",
    ("tasks", "id"): "task",
    ("agents", "id"): "agent",
    ("messages", "id"): "message",
    ("workspaces", "id"): "workspace",
    ("jobs", "name"): "job",
    ("jobs", "targets"): "job",
    ("track", "workflow_id"): "record",
    ("track", "task_id"): "tracked_task",
    ("track", "parent_task_id"): "tracked_task",
    ("diff", "task_id"): "any_task",
    ("answer", "id"): "any_issue",
    ("approvals", "id"): "approval",
    ("tell", "agent"): "agent",
    ("show", "id"): "any",
    ("run", "target"): "plan_or_job",
    ("land", "work"): "task_or_plan",
    ("landings", "id"): "landing",
    ("landings", "plan"): "plan",
    ("runs", "id"): "run",
    ("runs", "attempt_id"): "attempt",
}
"""(first word of the command, parameter) -> kind of value, where the parameter's name is ambiguous."""


def find_kind(group: str, parameter: str) -> str:
    """Return the kind of thing that a command's parameter names; empty if it names none."""
    return _KINDS_BY_GROUP.get((group, parameter)) or _KINDS.get(parameter, "")


def is_stored(kind: str) -> bool:
    """Whether things of this kind are only in the store; jobs and templates are also files."""
    return kind not in ("", "job", "template")
