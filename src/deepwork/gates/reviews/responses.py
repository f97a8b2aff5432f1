"""Responses of the review tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, Self

from deepwork.gates.reviews.models import ReviewRule
from deepwork.gates.reviews.round_trees import format_finding
from deepwork.gates.reviews.rounds import Finding, FindingEffect
from deepwork.gates.reviews.store import RuleEntry
from deepwork.kernel.answers import Answer
from deepwork.kernel.files.private import to_printable_name
from deepwork.kernel.files.problems import FileProblem


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


class DueReviews(Answer):
    """Reviews to do now, or why there are none."""

    kept_nulls: ClassVar = frozenset({"base", "message"})

    tasks: list[dict[str, Any]]
    passed_before: int
    base: str | None = None
    """The commit git compared with; null for named files and before the first commit."""
    message: str | None = None
    problems: list[str]
    missing: list[str]
    waiting_for_person: list[dict[str, Any]]
    text: str
    """All this, as an agent reads it."""


class FindingView(Answer):
    severity: str
    file: str | None = None
    line: int | None = None
    claim: str
    failure: str | None = None
    effect: str


def to_shown(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Convert findings for people, agents and events: their keys, and what each does."""
    return [FindingView.of(each).model_dump(mode="json") for each in findings]


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


class ReviewRoundRow(Answer):
    """A finding of a round; or a round without any, or a decision of a person, which have none."""

    kept_nulls: ClassVar[frozenset[str]] = frozenset({"by", "finding", "effect"})

    rule: str
    number: int
    verdict: str
    by: str | None
    finding: str | None = None
    effect: FindingEffect | None = None

    @classmethod
    def list_of(cls, entry: RuleEntry) -> list[Self]:
        """List the rows of a round, or of a decision."""
        passed = "passed" if entry.round and entry.round.passed else "failed"
        row = cls.of(entry, verdict=entry.decision.value if entry.decision else passed)
        findings = entry.round.findings if entry.round else ()
        return [
            row.model_copy({"finding": format_finding(each), "effect": each.effect}) for each in findings
        ] or [row]


class ReviewRounds(Answer):
    rounds: list[ReviewRoundRow]
