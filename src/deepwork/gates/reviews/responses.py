"""Responses of the review tools."""

from __future__ import annotations

from typing import Self

from deepwork.gates.reviews.models import ReviewRule
from deepwork.kernel.answers import Answer
from deepwork.kernel.files.problems import FileProblem
from deepwork.kernel.files.stamps import to_printable_name


class RuleView(Answer):
    """A review rule, or a rule file that cannot be used."""

    name: str
    description: str
    defining_file: str

    @classmethod
    def from_rule(cls, rule: ReviewRule) -> Self:
        defining_file = to_printable_name(rule.defining_file)
        return cls(name=rule.name, description=rule.description, defining_file=defining_file)

    @classmethod
    def from_problem(cls, problem: FileProblem) -> Self:
        """Represent a problem as an entry of the list; leaving it out would look like no rule at all."""
        return cls(
            name=f"PARSE_ERROR:{problem.file}",
            description=problem.message,
            defining_file=f"{problem.file}:{problem.line}",
        )


class FindingView(Answer):
    severity: str
    file: str | None = None
    line: int | None = None
    claim: str
    failure: str | None = None
    effect: str


class ReviewPassed(Answer):
    review_id: str
    passed_at: str | None = None
    """Missing if its findings keep it from passing."""
    round: int | None = None
    rounds: int | None = None
    findings: list[FindingView] | None = None
    waiting_for: str | None = None
    """`person` if the rounds are used up, or there is no progress."""
    reason: str | None = None


class ReviewDecided(Answer):
    review_id: str
    review: str
    decision: str
    by: str
