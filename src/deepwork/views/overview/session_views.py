"""Job sessions as people see them: steps with their outputs and reviews."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from deepwork.kernel.answers import Answer
from deepwork.kernel.database.engine import Row
from deepwork.views.overview.session_rows import SessionRow
from deepwork.views.overview.states.work_rules import SessionFacts, judge_step


class Criterion(Answer):
    name: str | None = None
    passed: bool
    feedback: str | None = None


class ReviewRound(Answer):
    """One review of a step."""

    at: str
    passed: bool
    criteria: list[Criterion]
    feedback: str | None = None
    is_self_review: bool | None = None
    """Whether the agent's own reviewer judged, not one that the server ran."""


class PersonDecisionView(Answer):
    """What a person decided about a step at its quality gate."""

    decision: str
    by: str
    at: str
    text: str | None = None
    attempts: int


class StepFinding(Answer):
    """What a review found; `effect` is `blocks`, or why it does not: `noted`, `late`, `rejected`."""

    severity: str
    claim: str
    file: str | None = None
    line: int | None = None
    failure: str | None = None
    effect: str


class RoundView(Answer):
    """One round of a review of a step."""

    rule: str
    round: int
    passed: bool
    reviewer: str | None = None
    findings: list[StepFinding]
    disputed: bool
    at: str
    is_over: bool
    """Whether the step began again afterwards."""


class StepView(Answer):
    state: str
    because: str | None = None
    """Why: a code, or a code and a detail after a colon."""
    next: str | None = None
    """The command that moves it on."""
    id: str
    status: str
    started_at: str | None = None
    completed_at: str | None = None
    outputs: dict[str, Any]
    notes: str | None = None
    attempts: list[ReviewRound]
    attempts_total: int
    override_reason: str | None = None
    gate_decisions: list[PersonDecisionView]
    rounds: list[RoundView] | None = None
    waiting_for: str | None = None
    """`person` if only a person can decide about the step now."""
    waiting_reason: str | None = None


class SessionStackEntry(Answer):
    session_id: str
    workflow: str
    step: str


class SessionPart(Answer):
    """The fields that only job sessions have."""

    stack: list[SessionStackEntry]
    step_id: str
    branch: str | None = None
    abort_reason: str | None = None
    steps: list[StepView]


def build_session_part(
    facts: SessionFacts, reviews: Sequence[Row], active: Sequence[SessionRow]
) -> SessionPart:
    """Build a session with its steps.

    `reviews` are review events, oldest first; `active` are the active sessions, for the stack.
    """
    session, attempts = facts.session, group_attempts(reviews)
    stack = list_stack(session, active)
    return SessionPart(
        stack=[SessionStackEntry(session_id=it.id, workflow=it.name, step=it.step_id) for it in stack],
        step_id=session.step_id,
        branch=session.data.get("branch"),
        abort_reason=session.data.get("abort_reason"),
        steps=[build_step_view(facts, step, attempts.get(step, ())) for step in session.steps],
    )


def list_stack(session: SessionRow, active: Sequence[SessionRow]) -> list[SessionRow]:
    """List the active sessions that this one is nested in or contains, outermost first; none if it ended."""
    if session.status != "active":
        return []
    together = [each for each in active if _get_stack_key(each) == _get_stack_key(session)]
    return sorted(together, key=lambda it: (it.data["started_at"], it.created_seq))


def _get_stack_key(session: SessionRow) -> tuple[str | None, str | None]:
    """Return the caller and the process: each process keeps a stack for each caller."""
    return session.data.get("caller"), session.data.get("process")


def build_step_view(facts: SessionFacts, step: str, attempts: Sequence[ReviewRound]) -> StepView:
    """Build a step with its state and its reviews."""
    session = facts.session
    progress = session.get_progress(step)
    reasons = [each["reason"] for each in session.data.get("overrides", ()) if each["step_id"] == step]
    return StepView.of(
        judge_step(facts, step),
        id=step,
        status=session.get_step_status(step),
        started_at=progress.get("started_at"),
        completed_at=progress.get("completed_at"),
        outputs=dict(progress.get("outputs") or {}),
        notes=progress.get("notes"),
        attempts=list(attempts),
        attempts_total=progress.get("quality_attempts") or 0,
        override_reason=reasons[-1] if reasons else None,
        gate_decisions=[
            PersonDecisionView(**each)
            for each in session.data.get("decisions", ())
            if each["step_id"] == step
        ],
        rounds=list_rounds(session, step) or None,
        waiting_for="person" if progress.get("person_reason") else None,
        waiting_reason=progress.get("person_reason"),
    )


def list_rounds(session: SessionRow, step: str) -> list[RoundView]:
    """List the rounds of the reviews of a step, oldest first."""
    return [
        RoundView(**each | {"findings": [StepFinding(**finding) for finding in each["findings"]]})
        for each in session.data.get("review_rounds", ())
        if each["step_id"] == step
    ]


def group_attempts(reviews: Sequence[Row]) -> dict[str, list[ReviewRound]]:
    """Group review events by step; events with the same timestamp are one attempt."""
    together: dict[tuple[str, str], list[Row]] = {}
    for event in reviews:
        together.setdefault((event["data"].get("step_id", ""), event["ts"]), []).append(event)
    found: dict[str, list[ReviewRound]] = {}
    for (step, at), events in together.items():
        found.setdefault(step, []).append(_build_attempt(at, events))
    return found


def _build_attempt(at: str, events: Sequence[Row]) -> ReviewRound:
    results = [event["data"] for event in events if event["type"] == "review:failed"]
    criteria = [
        Criterion(name=it.get("criterion"), passed=bool(it.get("passed")), feedback=it.get("feedback"))
        for result in results
        for it in result.get("criteria_results") or ()
    ]
    feedback = "; ".join(result.get("feedback") or "" for result in results)
    is_self_review = any(event["data"].get("self_review") for event in events) or None
    return ReviewRound(
        at=at, passed=not results, criteria=criteria, feedback=feedback or None, is_self_review=is_self_review
    )
