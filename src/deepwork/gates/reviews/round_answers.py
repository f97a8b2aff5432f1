"""Answers about the rounds of a `.deepreview` rule, and refusals of what a round does not allow."""

from __future__ import annotations

from collections.abc import Sequence

from deepwork.gates.reviews.models import Review
from deepwork.gates.reviews.requests import ReviewRequest
from deepwork.gates.reviews.responses import FindingView, ReviewPassed
from deepwork.gates.reviews.round_records import to_shown
from deepwork.gates.reviews.round_text import format_findings
from deepwork.gates.reviews.rounds import Finding, Round, list_open_findings
from deepwork.gates.reviews.rule_rounds import RuleRounds
from deepwork.kernel.errors import Code, GateClosed, NotAllowed

_MAX_SHOWN = 20


def to_views(findings: Sequence[Finding]) -> list[FindingView]:
    """Convert the first findings for an answer."""
    return [FindingView(**each) for each in to_shown(findings[:_MAX_SHOWN])]


def build_failed(review_id: str, rounds: RuleRounds, review: Review, judged: Round) -> ReviewPassed:
    """Answer that findings keep the review open, and whether a person must decide now."""
    series, policy = rounds.get_series(review), rounds.build_policy(review)
    reason = rounds.find_person_reason(review)
    return ReviewPassed(
        review_id=review_id,
        round=len(series.rounds),
        rounds=policy.rounds + series.granted,
        findings=to_views(judged.findings),
        waiting_for="person" if reason else None,
        reason=reason.value if reason else None,
    )


def describe_waiting(rounds: RuleRounds, review: Review, review_id: str, title: str) -> dict[str, str] | None:
    """Describe a review about which a person must decide now; None if it can go on."""
    reason = rounds.find_person_reason(review)
    if reason is None:
        return None
    found = format_findings(list_open_findings(rounds.get_series(review).rounds))
    return {"review_id": review_id, "review": title, "reason": reason.value, "findings": found}


def require_other(review: Review, request: ReviewRequest, reviewer: str) -> None:
    """Raise if the rule wants another reviewer than the author: the agent that first asked for the review."""
    if review.rule.policy.by_other and reviewer == request.asked_by:
        raise NotAllowed(
            f"Rule {review.rule.name!r} must be reviewed by another agent than the author, {reviewer}.",
            suggestion="Let another registered agent review and call {tool:mark_review_passed}.",
        )


def require_open(rounds: RuleRounds, review: Review, review_id: str) -> None:
    """Raise if only a person can decide about the review."""
    if reason := rounds.find_person_reason(review):
        raise GateClosed(
            f"Review {review_id} is not recorded: its rounds ended without a pass ({reason.value}).",
            code=Code.REVIEW_FAILED,
            suggestion=f"Ask a person, who decides with `deepwork review pass {review_id}`, `send-back` or "
            "`grant-round`.",
            evidence={"waiting_for": "person", "reason": reason.value},
        )
