"""The review tools."""

from __future__ import annotations

from typing import Annotated, ClassVar

from deepwork.database.transaction import Database
from deepwork.reviews import rules
from deepwork.reviews.models import ReviewEvent
from deepwork.reviews.planner import ReviewPlanner, resolve_path
from deepwork.reviews.responses import ReviewPassed, RuleView
from deepwork.reviews.store import PassedReviews
from deepwork.timestamps import format_timestamp
from deepwork.tool_declarations import Traits, tool
from deepwork.tool_types import Field, Id, Limit1000


class ReviewTools:
    """Tools to plan reviews of changed files and to record passed ones."""

    traits: ClassVar = Traits(toolset="reviews")

    def __init__(self, planner: ReviewPlanner, database: Database, platform: str) -> None:
        self.planner = planner
        self._database = database
        self._platform = platform

    @tool("work", idempotent=True)
    def get_review_instructions(
        self,
        files: Annotated[
            list[str] | None, Field(description="Default: files changed in git against the default branch")
        ] = None,
    ) -> str:
        """Review changed files by .deepreview rules: returns review tasks to run in parallel."""
        return self.planner.plan(files, is_cut=True).render(self._platform)

    @tool("read")
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

    @tool("work", idempotent=True)
    def mark_review_passed(self, review_id: Id) -> ReviewPassed:
        """Record that a review found nothing to change; it is left out until its rule or files change."""
        title = self.planner.instructions.get_title(review_id)
        with self._database.transaction() as tx:
            passed = PassedReviews(tx)
            if passed.save({review_id}):
                tx.emit(ReviewEvent.PASSED, {"review_id": review_id, "review": title})
            return ReviewPassed(
                review_id=review_id, passed_at=format_timestamp(passed.find_passed_at(review_id) or tx.now)
            )
