"""The rounds of the reviews of a step: what the next one shows, how it is judged, and disputed findings."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from deepwork.gates.reviews.deltas import Delta, Tree, build_material, compute_delta
from deepwork.gates.reviews.round_text import format_finding, render_changes, render_round, render_rules
from deepwork.gates.reviews.round_trees import RoundTrees
from deepwork.gates.reviews.rounds import (
    Finding,
    ReviewPolicy,
    Round,
    RoundVerdict,
    get_tree_to_compare,
    judge_round,
    may_call_reviewer,
)
from deepwork.kernel.call import ReportProgress
from deepwork.kernel.errors import ReviewerError
from deepwork.work.jobs.definitions.models import StepReview
from deepwork.work.jobs.sessions.state import Session, list_rounds

FindRounds = Callable[[str], Sequence[Round]]
"""Finds the earlier rounds of a rule."""

_LINE_PATTERN = re.compile(
    r"^\s*dispute\s+(?P<place>all|\S+?)\s*:\s+(?P<why>.+)$", re.IGNORECASE | re.MULTILINE
)

DISPUTE_SYSTEM_PROMPT = (
    "You judge a dispute between the author of a work and its reviewer. You are neither of them. Answer with "
    "the JSON object that the schema describes: `upheld` lists the numbers of the findings that are right."
)
DISPUTE_VERDICT: dict[str, Any] = {
    "type": "object",
    "required": ["upheld"],
    "properties": {"upheld": {"type": "array", "items": {"type": "integer"}}, "feedback": {"type": "string"}},
}


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


def find_disputed(notes: str | None, findings: Sequence[Finding]) -> list[tuple[Finding, str]]:
    """Find the findings that lines of an author's notes dispute, each with the reason.

    A line is `dispute FILE:LINE: why`, `dispute FILE: why`, or `dispute all: why`.
    """
    reasons = {match["place"]: match["why"].strip() for match in _LINE_PATTERN.finditer(notes or "")}
    found = ((each, _find_reason(reasons, each)) for each in findings)
    return [(each, why) for each, why in found if why]


def render_dispute(disputed: Sequence[tuple[Finding, str]]) -> str:
    """Render the findings with both sides, numbered."""
    lines = [
        f"{number}. Reviewer: {format_finding(each)}\n   Author: {' '.join(why.split())}"
        for number, (each, why) in enumerate(disputed, start=1)
    ]
    return "\n".join(["## Disputed Findings", "", *lines, "", "Which of them are right? Judge by the files."])


def parse_upheld(disputed: Sequence[tuple[Finding, str]], verdict: Mapping[str, Any]) -> list[str]:
    """Return the fingerprints of the findings that the second reviewer upholds."""
    numbers = verdict.get("upheld")
    if not isinstance(numbers, list) or not all(type(each) is int for each in numbers):
        raise ReviewerError("The reviewer failed: its `upheld` is not a list of numbers.", recoverable=True)
    return [each.fingerprint for number, (each, _) in enumerate(disputed, start=1) if number in numbers]


def _find_reason(reasons: Mapping[str, str], finding: Finding) -> str | None:
    places = (f"{finding.file}:{finding.line}", finding.file or "all", "all")
    return next((reasons[place] for place in places if place in reasons), None)


class ReviewCounter:
    """Reports how many reviews of one call have started and finished."""

    def __init__(self, total: int, report_progress: ReportProgress) -> None:
        self._total, self._report_progress = total, report_progress
        self._started = self._finished = 0
        self._lock = threading.Lock()

    @contextmanager
    def count(self) -> Iterator[None]:
        """Count the review that the block runs."""
        with self._lock:
            self._started += 1
            self._report(f"Started review {self._started} of {self._total}")
        yield
        with self._lock:
            self._finished += 1
            self._report(f"Finished {self._finished} of {self._total} reviews")

    def _report(self, message: str) -> None:
        self._report_progress(self._finished, self._total, message)
