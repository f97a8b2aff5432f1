"""Answers about comments and reviews."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from deepwork.delivery.feedback.models import Comment, CommentState, Delivery, judge_comment
from deepwork.delivery.feedback.store import CommentStore
from deepwork.kernel.answers import Answer, IsoTime
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.values import format_optional_timestamp

CommentStateName = Literal["open", "delivered", "fixed", "withdrawn"]


class CommentView(Answer):
    """What a person says about one line of the work of a task."""

    id: str
    task_id: str
    attempt_id: str | None = None
    path: str
    side: str
    line: int
    line_text: str
    text: str
    by: str
    created_at: IsoTime
    state: CommentStateName
    sent_at: IsoTime | None = None
    """When it was given to the agents of the task; without it, it waits until the work is sent back."""
    delivered_at: IsoTime | None = None
    delivered_to: str | None = None
    """The attempt that heard it last, and in which of its starts."""
    start: int | None = None
    closed_by: str | None = None
    closed_at: IsoTime | None = None


class Comments(Answer):
    comments: list[CommentView]
    total: int


class WorkSentBack(Answer):
    """What became of work that a person sent back."""

    task_id: str
    comments: list[CommentView]
    reaches: str | None = None
    """When its agent hears it: `next_call`, `next_start` or `next_agent`; None: it is kept."""
    reopened: bool
    """Whether the work was done or waited for you, and is now worked on again."""
    next: str | None = None
    """The command that lets an agent work on it, if none will by itself."""


class Reviewed(Answer):
    """That a person reviewed the work of a task as it is."""

    task_id: str
    reviewed_by: str
    reviewed_at: IsoTime
    approval_id: str


def view_comments(tx: Transaction, comments: Sequence[Comment]) -> list[CommentView]:
    """Return comments with their states."""
    deliveries = CommentStore(tx).map_deliveries([each.id for each in comments])
    return [_view(each, deliveries.get(each.id, Delivery())) for each in comments]


def build_payload(view: CommentView) -> dict[str, Any]:
    """Return what events say about a comment: not its words."""
    return {name: value for name, value in view.model_dump().items() if name not in ("text", "line_text")}


def _view(comment: Comment, delivery: Delivery) -> CommentView:
    state = judge_comment(comment, delivery)
    is_approved = state is CommentState.FIXED and comment.closed_as is None
    return CommentView.of(
        comment,
        side=comment.side.value,
        by=comment.by_whom,
        state=state.value,
        delivered_at=format_optional_timestamp(delivery.at),
        delivered_to=delivery.attempt_id,
        start=delivery.start,
        closed_at=format_optional_timestamp(delivery.approved_at if is_approved else comment.closed_at),
    )
