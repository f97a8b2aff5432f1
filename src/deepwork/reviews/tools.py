"""What can be asked about reviews."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from deepwork.database.transaction import Database
from deepwork.events.log import iso
from deepwork.reviews import rules
from deepwork.reviews.desk import ReviewDesk, located
from deepwork.reviews.models import ReviewEvent
from deepwork.reviews.responses import ReviewPassed, RuleView
from deepwork.reviews.store import PassedReviews
from deepwork.shapes import Id, Limit1000, Traits


class ReviewTools:
    """Changed files meet the rules that say who must look at them."""

    traits: ClassVar = Traits(
        toolset="reviews",
        read_only=frozenset({"get_configured_reviews"}),
        idempotent=frozenset({"get_review_instructions", "mark_review_passed"}),
    )

    def __init__(self, desk: ReviewDesk, database: Database, platform: str) -> None:
        self.desk = desk
        self._database = database
        self._platform = platform

    def get_review_instructions(
        self,
        files: Annotated[
            list[str] | None, Field(description="Default: what changed in git against the default branch")
        ] = None,
    ) -> str:
        """Review changed files by .deepreview rules: a list of review tasks to run in parallel."""
        return self.desk.docket(files).as_text(self._platform)

    def get_configured_reviews(
        self,
        only_rules_matching_files: Annotated[
            list[str] | None, Field(description="Only rules that match one of these files")
        ] = None,
        limit: Limit1000 = 200,
    ) -> list[RuleView]:
        """List the review rules of the project: name, description, and the file and line that define them."""
        found = self.desk.rules()
        if only_rules_matching_files is not None:
            files = [located(self.desk.root, file) for file in only_rules_matching_files]
            found = rules.about(found, files)
        views = [RuleView.of(rule) for rule in found.rules]
        return [*views, *map(RuleView.of_flaw, found.flaws)][:limit]

    def mark_review_passed(self, review_id: Id) -> ReviewPassed:
        """Record that a review found nothing to change; it is left out until its rule or files change."""
        title = self.desk.instructions.title(review_id)
        with self._database.transaction() as tx:
            passed = PassedReviews(tx)
            if passed.remember({review_id}):
                tx.emit(ReviewEvent.PASSED, {"review_id": review_id, "review": title})
            return ReviewPassed(review_id=review_id, passed_at=iso(passed.passed_at(review_id) or tx.now))
