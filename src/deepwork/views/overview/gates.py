"""Which steps of jobs are at their quality gate and wait for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.views.overview.run_event_store import MAX_REVIEWS, RunEventStore
from deepwork.views.overview.session_rows import SessionRow

_MAX_UNREVIEWED = 3
"""Submissions of a step without a failed review, after which a person should look at it."""


@dataclass(frozen=True)
class Gate:
    """A session whose current step waits for a person, with the events of its reviews."""

    session: SessionRow
    reviews: Sequence[Row]
    has_failed: bool


def list_gates(tx: Transaction, active: Sequence[SessionRow]) -> Iterator[Gate]:
    """List the active sessions whose current step waits for a person or failed its review.

    One to which a person granted another review waits for its agent. A step that was only submitted waits for
    its review, which the server or the agent runs.
    """
    held = [
        session
        for session in active
        if session.person_reason
        or (session.get_step_status(session.step_id) == "needs_work" and not session.waits_for_agent)
    ]
    reviews = RunEventStore(tx).list_reviews([session.id for session in held], MAX_REVIEWS) if held else []
    for session in held:
        of_step = [event for event in reviews if _is_of_current_step(event, session)]
        has_failed = session.has_failed_self_review or any(map(_is_failure_of_runner, of_step))
        if session.person_reason or has_failed or _is_never_reviewed(session):
            yield Gate(session, of_step, has_failed)


def _is_of_current_step(event: Row, session: SessionRow) -> bool:
    is_of_step = (event["workflow_id"], event["data"].get("step_id")) == (session.id, session.step_id)
    return is_of_step and bool(event["ts"] >= session.sent_back_at)


def _is_failure_of_runner(event: Row) -> bool:
    """Whether a review failed that the server ran; those of the agent are in the session itself."""
    return event["type"] == "review:failed" and not event["data"].get("self_review")


def _is_never_reviewed(session: SessionRow) -> bool:
    """Whether the agent submits the current step again and again without a review."""
    progress = session.get_progress(session.step_id)
    granted: int = progress.get("granted_attempts") or 0
    tried: int = progress.get("quality_attempts") or 0
    return tried >= _MAX_UNREVIEWED + granted
