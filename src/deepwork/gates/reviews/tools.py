"""The review tools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from deepwork.gates.approvals.acts import allow_person
from deepwork.gates.reviews import rules
from deepwork.gates.reviews.instructions import ReviewRequest
from deepwork.gates.reviews.models import Review, ReviewEvent
from deepwork.gates.reviews.planner import ReviewPlanner, resolve_path
from deepwork.gates.reviews.responses import FindingView, ReviewPassed, RuleView, to_shown
from deepwork.gates.reviews.round_trees import format_findings
from deepwork.gates.reviews.rounds import (
    Finding,
    Round,
    RoundVerdict,
    is_same_round,
    list_open_findings,
    read_findings,
)
from deepwork.gates.reviews.rule_rounds import RuleRounds, name_rule
from deepwork.gates.reviews.store import PassedReviews, RoundStore
from deepwork.kernel.answers import Field, Id, Limit1000
from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import Code, GateClosed, NotAllowed, StorageError
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.values import format_timestamp

if TYPE_CHECKING:
    from deepwork.gates.reviews.inputs import FindingInput


MAX_EVENT_FINDINGS = 10
FindActor = Callable[[Transaction], str | None]


class ReviewTools:
    """Tools to plan reviews of changed files and to record passed ones."""

    traits: ClassVar = Traits(toolset="reviews")

    def __init__(
        self,
        planner: ReviewPlanner,
        database: Database,
        platform: str,
        find_actor: FindActor = lambda _: None,
    ) -> None:
        """`find_actor` returns the id of the agent that a call acts as; None if that is unknown."""
        self.planner, self._find_actor = planner, find_actor
        self._database = database
        self._platform = platform

    @operation("work", idempotent=True)
    def get_review_instructions(
        self,
        files: Annotated[
            list[str] | None, Field(description="Default: files changed in git against the default branch")
        ] = None,
    ) -> str:
        """Review changed files by .deepreview rules: returns review tasks to run in parallel."""
        return self.planner.plan(files, is_cut=True, asked_by=self._find_asker()).render(self._platform)

    @operation("read")
    def get_configured_reviews(
        self,
        only_rules_matching_files: Annotated[
            list[str] | None, Field(description="Only rules that match one of these files")
        ] = None,
        limit: Limit1000 = 200,
    ) -> list[RuleView]:
        """List the project's review rules and where each is defined."""
        found = self.planner.load_rules()
        if only_rules_matching_files is not None:
            files = [resolve_path(self.planner.root, file) for file in only_rules_matching_files]
            found = rules.filter_rules(found, files)
        views = [RuleView.from_rule(rule) for rule in found.rules]
        return [*views, *map(RuleView.from_problem, found.problems)][:limit]

    @operation("work", idempotent=True)
    def mark_review_passed(self, review_id: Id, findings: list[FindingInput] | None = None) -> ReviewPassed:
        """Record a review; without blocking findings it is left out until its rule or files change."""
        title = self.planner.instructions.get_title(review_id)
        review, request = self.planner.get_requested(review_id)
        with self._database.transaction() as tx:
            reviewer = self._find_actor(tx) or tx.caller
            with allow_person(tx):
                require_other(review, request, reviewer)
            found = read_findings([each.model_dump() for each in findings or ()])
            return self._record_round(tx, review_id, title, review, found, reviewer)

    def _find_asker(self) -> str:
        """Return who asks for reviews: an agent, if that is known, else the caller."""
        try:
            with self._database.reading() as tx:
                return self._find_actor(tx) or tx.caller
        except StorageError:  # reviews are planned without the database too
            return current_call().caller

    def _record_round(
        self,
        tx: Transaction,
        review_id: str,
        title: str,
        review: Review,
        findings: tuple[Finding, ...],
        reviewer: str,
    ) -> ReviewPassed:
        """Record a round of the review; without findings only if it had one that failed before."""
        store = RoundStore(tx, self.planner.project)
        rounds = self.planner.build_rounds(store.list_series())
        series = rounds.get_series(review)
        if not findings and not series.rounds:
            return self._save_passed(tx, review_id, title)
        is_current = self.planner.instructions.is_current(review_id, review)
        judged = rounds.judge(review, RoundVerdict(not findings, findings), reviewer, is_current=is_current)
        if series.rounds and is_same_round(series.rounds[-1], judged):
            return build_failed(review_id, rounds, review, series.rounds[-1])
        require_open(rounds, review, review_id)
        after = rounds.add(review, judged)
        waiting = describe_waiting(after, review, review_id, title)
        store.add_round(name_rule(review), series.last_number + 1, judged, waiting)
        if judged.passed:
            return self._save_passed(tx, review_id, title, judged)
        found = to_shown(judged.findings[:MAX_EVENT_FINDINGS])
        tx.emit(ReviewEvent.FAILED, {"review_id": review_id, "review": title, "findings": found})
        return build_failed(review_id, after, review, judged)

    def _save_passed(
        self, tx: Transaction, review_id: str, title: str, judged: Round | None = None
    ) -> ReviewPassed:
        passed = PassedReviews(tx)
        if passed.save({review_id}):
            tx.emit(ReviewEvent.PASSED, {"review_id": review_id, "review": title})
        return ReviewPassed(
            review_id=review_id,
            passed_at=format_timestamp(passed.find_passed_at(review_id) or tx.now),
            findings=to_views(judged.findings) or None if judged else None,
        )


_MAX_SHOWN = 20


def to_views(findings: Sequence[Finding]) -> list[FindingView]:
    """Convert the first findings for an answer."""
    return [FindingView.of(each) for each in findings[:_MAX_SHOWN]]


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
