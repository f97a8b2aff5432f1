"""Rounds of a step: how many it may take, and what they may cost."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

from deepwork.gates.budgets.models import Budget, Cost
from deepwork.gates.budgets.rules import find_own_refusal
from deepwork.gates.reviews.deltas import Delta, Tree, build_material, compute_delta
from deepwork.gates.reviews.round_trees import (
    RoundTrees,
    format_finding,
    render_changes,
    render_round,
    render_rules,
)
from deepwork.gates.reviews.rounds import (
    Finding,
    ReviewPolicy,
    Round,
    RoundVerdict,
    get_tree_to_compare,
    judge_round,
    may_call_reviewer,
)
from deepwork.kernel.call import ReportProgress, is_person
from deepwork.kernel.errors import Code, NotAllowed, ReviewerError
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import measure_duration, parse_timestamp
from deepwork.work.jobs.definitions.committed import CommittedJob, list_mappings
from deepwork.work.jobs.definitions.models import Job, StepReview
from deepwork.work.jobs.sessions.state import Session, list_rounds


def pin_budgets(session: Session, job: Job, at_head: CommittedJob) -> Session:
    """Return the session with the minutes that job.yml allows for its steps, and start to count them.

    What is committed counts; what only the file says can limit another step, but raises nothing.
    """
    current = {step.id: step.budget.minutes for step in job.steps if step.budget and step.budget.minutes}
    committed = dict(_list_committed_minutes(at_head.find("budget") or {}))
    named = {**current, **committed}
    steps = [step for entry in session.entries for step in entry.steps]
    minutes = {step: named[step] for step in steps if step in named}
    return replace(session, minutes=minutes, working_since=session.started_at) if minutes else session


def count_time(session: Session, now: str) -> Session:
    """Count the time since the agent got the current steps, or got them back; the clock runs on."""
    if not session.minutes:
        return session
    spent = {step: _measure(session, step, now) for step in session.current_entry.steps}
    return replace(session, worked_ms={**session.worked_ms, **spent}, working_since=now)


def start_clock(session: Session, now: str) -> Session:
    """Count from now on, if any step has a limit; what passed since the last count is not counted."""
    return replace(session, working_since=now) if session.minutes else session


def stop_clock(session: Session) -> Session:
    """Count nothing until the agent gets its step again: it waits for a person."""
    return replace(session, working_since=None)


def renew_minutes(session: Session) -> Session:
    """Give all steps their minutes again, because a person wants the work to go on."""
    return replace(session, worked_ms={}, working_since=None)


def compute_minutes_left(session: Session, now: str) -> float | None:
    """Return how many minutes the current steps may still take; None if they have no limit."""
    left = [
        session.minutes[step] - _measure(session, step, now) / 60_000
        for step in session.current_entry.steps
        if step in session.minutes
    ]
    return max(0.0, round(min(left), 2)) if left else None


def find_overrun(session: Session, steps: Iterable[str], now: str) -> str | None:
    """Return which of these steps has used up its minutes, as a sentence."""
    for step in steps:
        if step in session.minutes:
            spent = Cost(active_ms=_measure(session, step, now))
            if refusal := find_own_refusal(Budget(minutes=session.minutes[step]), spent, "", "step"):
                return f"Step {step!r}: {refusal.message}"
    return None


def require_minutes_left(session: Session, cleared: Iterable[str], caller: str, now: str) -> None:
    """Raise if an agent wants to begin steps again, and one of them has used up its minutes."""
    if not is_person(caller) and (overrun := find_overrun(session, cleared, now)):
        raise NotAllowed(
            overrun,
            code=Code.BUDGET_USED_UP,
            suggestion="Report the current step with {tool:finished_step}. At its gate, a person can give "
            f"all steps their minutes again: `deepwork sessions send-back {session.session_id} --text TEXT`.",
        )


def _measure(session: Session, step_id: str, now: str) -> int:
    """Return how long the step has been worked on, in milliseconds."""
    before = session.worked_ms.get(step_id, 0)
    if session.working_since is None or step_id not in session.current_entry.steps:
        return before
    return before + measure_duration(_parse(session.working_since), _parse(now))


def _parse(text: str) -> int:
    return parse_timestamp(text, "working_since")


def _list_committed_minutes(data: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """List the limits of a committed job.yml; those that are malformed are left out."""
    for step in list_mappings(data.get("steps")):
        budget = step.get("budget")
        minutes = budget.get("minutes") if isinstance(budget, Mapping) else None
        if isinstance(minutes, int | float) and not isinstance(minutes, bool) and minutes > 0:
            yield str(step.get("id")), float(minutes)


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
