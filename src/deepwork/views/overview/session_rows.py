"""Job sessions as the store has them: their steps, how far each is, and which wait for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import dataclass
from deepwork.views.overview.run_search_store import MAX_REVIEWS, RunEventStore

MAX_ACTIVE_SESSIONS = 200
RUNNING_STATUSES = ("in_progress", "needs_work")
"""Statuses of steps that an agent works on."""


@dataclass(frozen=True)
class SessionRow:
    """A session, parsed from its row."""

    id: str
    name: str
    goal: str
    status: str
    step_id: str
    data: Mapping[str, Any]
    updated_at: int
    created_seq: int = 0

    @property
    def entries(self) -> list[list[str]]:
        """The step ids of each entry; steps of one entry run concurrently."""
        return [list(entry["steps"]) for entry in self.data["entries"]]

    @property
    def steps(self) -> list[str]:
        return [step for entry in self.entries for step in entry]

    @property
    def is_at_gate(self) -> bool:
        """Whether the current step was submitted and did not pass yet: a person can decide about it."""
        return (
            self.status == "active" and self.get_progress(self.step_id).get("submitted_outputs") is not None
        )

    @property
    def person_reason(self) -> str | None:
        """Why only a person can decide about the current step; None if work on it goes on."""
        reason: str | None = self.get_progress(self.step_id).get("person_reason")
        return reason if self.is_at_gate else None

    @property
    def waits_for_agent(self) -> bool:
        """Whether a person granted the current step a review that has not begun."""
        decided = [each for each in self.data.get("decisions", ()) if each["step_id"] == self.step_id]
        attempts = self.get_progress(self.step_id).get("quality_attempts")
        return (
            bool(decided)
            and decided[-1]["decision"] == "round_granted"
            and decided[-1]["attempts"] == attempts
        )

    @property
    def sent_back_at(self) -> str:
        """When a person last sent the current step back, which begins it again; empty if never."""
        decided = [each for each in self.data.get("decisions", ()) if each["step_id"] == self.step_id]
        return max((each["at"] for each in decided if each["decision"] == "sent_back"), default="")

    @property
    def has_failed_self_review(self) -> bool:
        """Whether the agent's last own review of the current step, since it began, failed."""
        began = max(self.sent_back_at, self.get_progress(self.step_id).get("started_at") or "")
        made = [each for each in self.data.get("self_reviews", ()) if each["step_id"] == self.step_id]
        return bool(made) and made[-1]["at"] >= began and not made[-1]["passed"]

    def get_progress(self, step: str) -> Mapping[str, Any]:
        progress: Mapping[str, Any] = self.data["step_progress"].get(step, {})
        return progress

    def get_step_status(self, step: str) -> str:
        """Return the status of a step; `needs_work` if it failed its review."""
        progress = self.get_progress(step)
        if progress.get("completed_at"):
            return "completed"
        has_started = step in self.entries[self.data.get("current_entry_index", 0)] or progress.get(
            "started_at"
        )
        if not has_started:
            return "pending"
        if self.status != "active":
            return self.status
        return "needs_work" if progress.get("quality_attempts") else "in_progress"


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
