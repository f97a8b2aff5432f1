"""The rounds of `.deepreview` rules: what a reviewer is shown, and when a person decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from deepwork.gates.reviews.deltas import build_material, compute_delta
from deepwork.gates.reviews.models import Review, Strategy
from deepwork.gates.reviews.round_trees import RoundTrees, render_changes, render_round, render_rules
from deepwork.gates.reviews.rounds import (
    PersonReason,
    ReviewPolicy,
    Round,
    RoundVerdict,
    find_person_reason,
    get_tree_to_compare,
    judge_round,
)
from deepwork.gates.reviews.store import Series
from deepwork.kernel.records import dataclass


def name_rule(review: Review) -> str:
    """Name what has rounds of its own: a rule, or each of its files if they are reviewed one by one."""
    rule = review.rule
    name = f"{rule.file}:{rule.name}"
    return f"{name}:{review.files[0]}" if rule.strategy is Strategy.INDIVIDUAL else name


@dataclass(frozen=True)
class RuleRounds:
    """The rounds of a project's rules, as they are stored now."""

    trees: RoundTrees
    series: Mapping[str, Series]
    default_rounds: int

    def get_series(self, review: Review) -> Series:
        return self.series.get(name_rule(review), Series())

    def add(self, review: Review, round: Round) -> RuleRounds:
        """Return the rounds after this one."""
        series = self.get_series(review)
        after = replace(series, rounds=(*series.rounds, round), has_unused_grant=False)
        return replace(self, series={**self.series, name_rule(review): after})

    def build_policy(self, review: Review) -> ReviewPolicy:
        return review.rule.build_policy(self.default_rounds)

    def find_person_reason(self, review: Review) -> PersonReason | None:
        """Return why a person must decide about a review; None if it can be done."""
        series = self.get_series(review)
        if series.has_unused_grant:
            return None
        return find_person_reason(self.build_policy(review), series.rounds, series.granted)

    def render_guidelines(self, review: Review) -> str:
        """Tell the reviewer what a finding is and when a person decides."""
        policy, series = self.build_policy(review), self.get_series(review)
        ends = f"After {policy.rounds + series.granted} rounds, or without progress, a person decides."
        shows_changes = self.render_changes(review) is not None
        round_text = render_round(policy, series.rounds, series.granted, shows_changes=shows_changes)
        return "\n\n".join(filter(None, [f"{render_rules(policy)} {ends}", round_text]))

    def render_changes(self, review: Review) -> str | None:
        """Render what changed since the round before; None if the reviewer is to read everything."""
        series = self.get_series(review)
        before = self.trees.load(get_tree_to_compare(series.rounds))
        if before is None:
            return None
        return render_changes(self.build_policy(review), compute_delta(before, self.trees.read(review.files)))

    def judge(self, review: Review, verdict: RoundVerdict, reviewer: str, *, is_current: bool) -> Round:
        """Judge what a reviewer says; the files are stored if they are still those that it judged."""
        series = self.get_series(review)
        tree = self.trees.read(review.files)
        before = self.trees.load(get_tree_to_compare(series.rounds))
        material = build_material(tree, None if before is None else compute_delta(before, tree))
        judged = judge_round(self.build_policy(review), series.rounds, verdict, material)
        return replace(judged, tree=self.trees.save(tree) if is_current else None, reviewer=reviewer)
