"""Response models of a task's diff."""

from __future__ import annotations

from deepwork.kernel.answers import Answer


class FileDiff(Answer):
    path: str
    status: str
    attribution: str
    added: int | None = None
    removed: int | None = None
    is_binary: bool | None = None
    renamed_from: str | None = None
    shared_with: list[str] | None = None
    diff: str | None = None
    truncated: bool | None = None


class TaskDiff(Answer):
    task_id: str
    files: list[FileDiff]
    files_count: int
    truncated: bool | None = None
    """Whether files are missing from the list."""
    warning: str | None = None
