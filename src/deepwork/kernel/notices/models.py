"""Domain models of notices."""

from __future__ import annotations

from dataclasses import dataclass

from deepwork.kernel.names import CaseInsensitiveEnum


class NoticeType(CaseInsensitiveEnum):
    """What happened."""

    ANSWER = "answer"
    APPROVED = "approved"
    REFUSED = "refused"
    ACKNOWLEDGED = "acknowledged"
    NOTE = "note"
    MESSAGE = "message"
    PAUSED = "paused"
    RESUMED = "resumed"
    ENDED = "ended"
    RELEASED = "released"
    STATUS = "status"
    RETRY = "retry"
    REPLANNED = "replanned"
    PASSED = "passed"
    SENT_BACK = "sent_back"
    ROUND_GRANTED = "round_granted"


@dataclass(frozen=True)
class Notice:
    """What an agent, or the work on a workflow, must hear of; times in Unix milliseconds."""

    id: str
    type: NoticeType
    at: int
    by_whom: str
    """The person, such as `human:anna`, or `deepwork`."""
    text: str
    agent_id: str | None
    """The agent it is for; None if it is for the sessions that work on the workflow."""
    workflow_id: str | None
    """The plan, tracked workflow or job session."""
    task_id: str | None
    about: str | None
    """The issue that it answers, or the message."""
    carried_at: int | None = None
    """When the first answer or hook carried it. It is delivered when the agent makes a later call."""
