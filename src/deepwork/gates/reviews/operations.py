"""What people read and decide about reviews: their rounds, and what becomes of one that ended without a pass.

Each decision takes the proof of a person.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from deepwork.gates.approvals.acts import require_proven
from deepwork.gates.reviews.models import ReviewEvent
from deepwork.gates.reviews.planner import ReviewPlan, ReviewPlanner
from deepwork.gates.reviews.rendering import build_tasks
from deepwork.gates.reviews.responses import DueReviews, ReviewDecided, ReviewRoundRow, ReviewRounds
from deepwork.gates.reviews.rule_rounds import name_rule
from deepwork.gates.reviews.store import PassedReviews, RoundStore, RuleDecision, Series
from deepwork.kernel.answers import Field, Id
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.operations import Traits, operation


class ReviewOperations:
    """The rounds of reviews of `.deepreview` rules, and decisions of people about them."""

    traits: ClassVar = Traits(toolset="reviews", people_only=True)

    def __init__(self, planner: ReviewPlanner, database: Database) -> None:
        self._planner, self._database = planner, database

    @operation("work", read_only=True)
    def list_due_reviews(
        self,
        platform: Annotated[str, Field(description="Whose agents the text is for")],
        files: Annotated[
            list[str] | None, Field(description="Default: files changed in git against the base")
        ] = None,
        base_ref: Annotated[str | None, Field(description="A branch, tag or commit")] = None,
        again: Annotated[bool, Field(description="Include reviews that already passed")] = False,
    ) -> DueReviews:
        """All reviews of changed files that are due, with their instructions."""
        return _describe_plan(self._planner.plan(files, base_ref, again=again), platform)

    @operation("work", for_people=True)
    def pass_review(self, review_id: Id) -> ReviewDecided:
        """Let a review pass whatever its reviewer found."""
        return self._decide(review_id, RuleDecision.PASSED)

    @operation("work", for_people=True)
    def send_back_review(self, review_id: Id) -> ReviewDecided:
        """Let the rounds of a review begin again."""
        return self._decide(review_id, RuleDecision.SENT_BACK)

    @operation("work", for_people=True)
    def grant_review_round(self, review_id: Id) -> ReviewDecided:
        """Allow a review one more round."""
        return self._decide(review_id, RuleDecision.ROUND_GRANTED)

    @operation("read")
    def list_review_rounds(self) -> ReviewRounds:
        """List the rounds of reviews with their findings, and what people decided."""
        with self._database.reading() as tx:
            entries = RoundStore(tx, self._planner.project).list_entries()
        return ReviewRounds(rounds=[row for entry in entries for row in ReviewRoundRow.list_of(entry)])

    def _decide(self, review_id: str, decision: RuleDecision) -> ReviewDecided:
        title = self._planner.instructions.get_title(review_id)
        review, _ = self._planner.get_requested(review_id)
        rule = name_rule(review)
        with self._database.transaction() as tx:
            store = RoundStore(tx, self._planner.project)
            series = store.list_series().get(rule, Series())
            if not series.rounds:
                raise NotAllowed(
                    f"Review {review_id} ({title}) has no round that failed: there is nothing to decide.",
                    suggestion="See `deepwork review rounds`.",
                )
            require_proven(tx)
            store.add_decision(rule, series.last_number + 1, decision)
            if decision is RuleDecision.PASSED:
                PassedReviews(tx).save({review_id})
                tx.emit(ReviewEvent.PASSED, {"review_id": review_id, "review": title, "by": tx.caller})
            return ReviewDecided(review_id=review_id, review=title, decision=decision.value, by=tx.caller)


def _describe_plan(plan: ReviewPlan, platform: str) -> DueReviews:
    tasks = zip(plan.reviews, build_tasks(plan.reviews, platform), strict=True)
    return DueReviews(
        tasks=[{"review_id": each.id, **task} for each, task in tasks],
        passed_before=plan.passed,
        base=plan.base,
        message=plan.reason or None,
        problems=list(map(str, plan.problems)),
        missing=list(plan.missing),
        waiting_for_person=[
            {"review_id": each.review.id, "rule": each.review.review.rule.name, "reason": each.reason.value}
            for each in plan.stuck
        ],
        text=plan.render(platform),
    )
