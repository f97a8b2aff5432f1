"""Marks what a store from elsewhere says that people did: nobody here can confirm it; pure functions."""

from __future__ import annotations

import json
from typing import Any

from deepwork.kernel.reserved_names import looks_like_person

PREFIX = "unverified:"

NAME_COLUMNS = {
    "agents": ("name", "registered_by"),
    "plans": ("created_by",),
    "plan_history": ("by_whom",),
    "workspaces": ("created_by",),
    "tokens": ("created_by",),
    "tracked_workflows": ("created_by",),
    "tracked_tasks": ("created_by", "agent_name"),
    "decisions": ("agent_name",),
    "issues": ("agent_name", "resolved_by"),
    "milestones": ("agent_name",),
    "notices": ("by_whom",),
    "approvals": ("asked_by", "decided_by"),
    "proofs": ("asked_by", "waived_by"),
    "runner_runs": ("created_by",),
    "landings": ("created_by",),
    "rewinds": ("created_by",),
}
"""The columns that name who did something, by table."""
JSON_COLUMNS = {
    "events": ("data",),
    "idempotency_keys": ("answer",),
    "job_sessions": ("data",),
    "milestones": ("metadata",),
    "tracked_tasks": ("metadata", "outcome", "result"),
    "plan_tasks": ("context", "outcome_detail"),
    "checkpoints": ("detail",),
}
"""The columns with JSON that may name who did something, by table."""


def mark_name(name: Any) -> Any:
    """Mark a name if it is that of a person, or looks like one."""
    return PREFIX + name if isinstance(name, str) and looks_like_person(name) else name


def mark_json(text: Any) -> Any:
    """Mark the names of people in a JSON text; leaves anything else as it is."""
    if not isinstance(text, str):
        return text
    try:
        data = json.loads(text)
    except ValueError:
        return text
    marked = _mark_values(data)
    return text if marked == data else json.dumps(marked, separators=(",", ":"))


def _mark_values(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _mark_values(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_mark_values(value) for value in data]
    return mark_name(data)
