"""The rounds of the reviews of a step: what the next one shows, and how it is judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from deepwork.gates.reviews.deltas import Delta, Tree, build_material, compute_delta
from deepwork.gates.reviews.round_text import render_changes, render_round, render_rules
from deepwork.gates.reviews.round_trees import RoundTrees
from deepwork.gates.reviews.rounds import (
    ReviewPolicy,
    Round,
    RoundVerdict,
    get_tree_to_compare,
    judge_round,
    may_call_reviewer,
)
from deepwork.work.jobs.definitions.models import StepReview
from deepwork.work.jobs.sessions.state import Session, list_rounds

FindRounds = Callable[[str], Sequence[Round]]
"""Finds the earlier rounds of a rule."""


@dataclass(frozen=True)
class OpenRound:
    """The round of one review that is about to be judged."""

    rule: str
    policy: ReviewPolicy
    earlier: Sequence[Round] = ()
    tree: Tree = field(default_factory=dict)
    tree_name: str | None = None
    delta: Delta | None = None
    granted: int = 0

    @property
    def guidelines(self) -> str:
        """What a reviewer must know about findings and rounds."""
        shows_changes = self.changes is not None
        round_text = render_round(self.policy, self.earlier, self.granted, shows_changes=shows_changes)
        return "\n\n".join(filter(None, [render_rules(self.policy), round_text]))

    @property
    def changes(self) -> str | None:
        """What changed since the round before; None if the reviewer is to read everything."""
        return render_changes(self.policy, self.delta)

    def judge(self, verdict: RoundVerdict, reviewer: str) -> JudgedRound:
        """Judge what the reviewer says."""
        judged = judge_round(self.policy, self.earlier, verdict, build_material(self.tree, self.delta))
        round = replace(judged, tree=self.tree_name, reviewer=reviewer)
        return JudgedRound(self.rule, self.policy, round, (*self.earlier, round))


@dataclass(frozen=True)
class JudgedRound:
    """A round of one review, and those before it."""

    rule: str
    policy: ReviewPolicy
    round: Round
    rounds: Sequence[Round] = ()


class StepRounds:
    """Opens the next round of each review of a step."""

    def __init__(
        self, trees: RoundTrees, find_rounds: FindRounds, default_rounds: int, granted: int = 0
    ) -> None:
        self._trees, self._find_rounds = trees, find_rounds
        self._default_rounds, self._granted = default_rounds, granted

    def open(self, rule: str, review: StepReview, paths: Iterable[str]) -> OpenRound:
        """Read and store the files to judge, and compare them with those of the round before."""
        earlier = self._find_rounds(rule)
        tree = self._trees.read(paths)
        before = self._trees.load(get_tree_to_compare(earlier))
        return OpenRound(
            rule,
            review.build_policy(self._default_rounds),
            earlier,
            tree,
            self._trees.save(tree),
            None if before is None else compute_delta(before, tree),
            self._granted,
        )


def may_ask_reviewer(session: Session, rule: str, policy: ReviewPolicy, *, times: int = 1) -> bool:
    """Whether the reviewer of a review of the current step may be asked so many times more."""
    progress = session.get_progress(session.current_step_id)
    rounds = list_rounds(session, session.current_step_id, rule)
    disputes = any(round.disputed for round in rounds)
    used = len(rounds) + progress.reviewer_failures + disputes
    return may_call_reviewer(policy, used + times - 1, progress.granted_attempts)
