"""What an agent must know of people's decisions about its steps before it continues."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from deepwork.work.jobs.responses import DecisionInfo
from deepwork.work.jobs.sessions.state import GateDecision, PersonDecision, Session


def to_infos(decisions: Iterable[PersonDecision]) -> list[DecisionInfo] | None:
    """Convert decisions for an answer; None if there are none."""
    return [
        DecisionInfo(
            step_id=each.step_id, decision=each.decision.value, by=each.by, at=each.at, text=each.text
        )
        for each in decisions
    ] or None


def list_for_current_step(session: Session) -> list[PersonDecision]:
    """List the decisions about the current step since it began; those about an earlier run of it are over."""
    began = session.get_progress(session.current_step_id).started_at or ""
    return [
        each for each in session.decisions if each.step_id == session.current_step_id and each.at >= began
    ]


def has_passed_meanwhile(session: Session, step_id: str | None, news: Sequence[PersonDecision]) -> bool:
    """Whether a person let the step pass that the agent reports.

    An agent that names no step and has not read of a decision reports the step that it knows as current.
    """
    if step_id is None:
        return bool(news) and news[-1].decision is GateDecision.PASSED
    return step_id != session.current_step_id and any(
        each.decision is GateDecision.PASSED and each.step_id == step_id for each in session.decisions
    )


def find_send_back(news: Sequence[PersonDecision]) -> PersonDecision | None:
    """Find the decision by which a person sent the step back, if the agent has not read of it."""
    return next((each for each in reversed(news) if each.decision is GateDecision.SENT_BACK), None)


def format_send_back(decision: PersonDecision) -> str:
    """Format a person's feedback as that of a review."""
    return f"{decision.by} sent this step back: {decision.text}"
