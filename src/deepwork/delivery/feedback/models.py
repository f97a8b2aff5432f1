"""Comments on lines of work, and what a person saw who says that they reviewed it."""

from __future__ import annotations

from typing import Any

from deepwork.kernel.foreign_text import quote_line, to_one_line, truncate_to_line
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum
from deepwork.work.plans.models import Task

MAX_COMMENT = 1500
"""Characters of a comment: with its place it fits into a notice, so nothing of it is cut."""
_MAX_PATH, _MAX_LINE = 200, 120


class CommentSide(CaseInsensitiveEnum):
    """In which version of a file the line is."""

    OLD = "old"
    NEW = "new"


class CommentState(CaseInsensitiveEnum):
    """Where a comment is."""

    OPEN = "open"  # written, and no agent heard it yet
    DELIVERED = "delivered"
    FIXED = "fixed"  # a person says so, or approved the work after the agent had heard it
    WITHDRAWN = "withdrawn"


class CommentEvent(CaseInsensitiveEnum):
    """Event types of comments; the payload is the comment without its words."""

    ADDED = "comment:added"
    UPDATED = "comment:updated"


@dataclass(frozen=True)
class Comment:
    """What a person says about one line of the work of a task; times are Unix milliseconds."""

    id: str
    task_id: str
    workflow_id: str
    attempt_id: str | None
    path: str
    side: CommentSide
    line: int
    line_text: str
    text: str
    tree: str
    """The files of the task, as they were when it was written."""
    by_whom: str
    created_at: int
    sent_at: int | None = None
    """When it was given to the agents of the task; None: it waits until its author sends the work back."""
    notice_id: str | None = None
    closed_as: CommentState | None = None
    closed_by: str | None = None
    closed_at: int | None = None


@dataclass(frozen=True)
class Delivery:
    """What became of a comment since."""

    at: int | None = None
    """When something carried it to an agent."""
    attempt_id: str | None = None
    start: int | None = None
    approved_at: int | None = None
    """When a person approved the work last."""


def judge_comment(comment: Comment, delivery: Delivery) -> CommentState:
    """Return where a comment is. What an agent says or does makes it never fixed: only people do."""
    if comment.closed_as is not None:
        return comment.closed_as
    if delivery.at is None:
        return CommentState.OPEN
    is_approved = delivery.approved_at is not None and delivery.approved_at >= delivery.at
    return CommentState.FIXED if is_approved else CommentState.DELIVERED


def build_comment_text(comment: Comment) -> str:
    """Describe a comment to the agent that did the work."""
    path = truncate_to_line(to_one_line(comment.path), _MAX_PATH)
    before = " as it was before your work" if comment.side is CommentSide.OLD else ""
    line = quote_line(comment.line_text, _MAX_LINE)
    return f"On line {comment.line} of {path}{before}, {line}: {comment.text}"


def describe_work(task: Task) -> dict[str, Any]:
    """Return what a review of completed work is good for; another attempt makes it something else."""
    return {
        "name": task.name,
        "outcome": task.outcome,
        "tree": task.completed_tree,
        "head": task.completed_head,
        "finished_at": task.finished_at,
        "attempts": task.attempts,
    }
