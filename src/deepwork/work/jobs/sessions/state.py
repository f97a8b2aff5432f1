"""The state of a job session, and pure functions that return the next state."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import Any

from deepwork.gates.reviews.rounds import Round
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum

Outputs = Mapping[str, str | list[str]]


class SessionStatus(CaseInsensitiveEnum):
    ACTIVE = "active"
    COMPLETED = "completed"
    ABORTED = "aborted"


class SessionEvent(CaseInsensitiveEnum):
    """Events about job sessions."""

    STARTED = "session:started"
    UPDATED = "session:updated"
    COMPLETED = "session:completed"
    ABORTED = "session:aborted"


@dataclass(frozen=True)
class Override:
    """A review that was skipped, and the reason given."""

    step_id: str
    reason: str
    at: str


@dataclass(frozen=True)
class SelfReview:
    """The verdicts of a reviewer that the agent started itself."""

    step_id: str
    at: str
    passed: bool
    results: tuple[Mapping[str, Any], ...]
    """Review results as `finished_step` takes them."""


@dataclass(frozen=True)
class StepRound:
    """One round of a review of a step."""

    step_id: str
    rule: str
    """The review: what it runs for, and its file if it has one for each."""
    at: str
    round: Round
    is_over: bool = False
    """Whether the step began again afterwards, so that its rounds are counted from zero."""


class GateDecision(CaseInsensitiveEnum):
    """What a person decided about a step that is at its quality gate."""

    PASSED = "passed"
    SENT_BACK = "sent_back"
    ROUND_GRANTED = "round_granted"


@dataclass(frozen=True)
class PersonDecision:
    """A person's decision about a step, and what they wrote to the agent."""

    step_id: str
    decision: GateDecision
    by: str
    at: str
    text: str | None = None
    attempts: int = 0
    """How many reviews the step had when they decided."""
    is_seen: bool = False
    """Whether an answer to a call that continues the session has shown it to the agent."""


@dataclass(frozen=True)
class StepProgress:
    """The progress of one step of a session."""

    step_id: str
    started_at: str | None = None
    completed_at: str | None = None
    outputs: Outputs = field(default_factory=dict)
    notes: str | None = None
    quality_attempts: int = 0
    granted_attempts: int = 0
    """Reviews that a person allowed in addition to the usual limit."""
    submitted_outputs: Outputs | None = None
    """The outputs that are at the quality gate; None while there is nothing to decide about."""
    submitted_notes: str | None = None
    proofs: tuple[str, ...] = ()
    """The ids of the proofs with which its checks passed."""
    reviewer_failures: int = 0
    """How often the reviewer gave no verdict, even when asked twice."""
    person_reason: str | None = None
    """Why only a person can decide about the step now; None while reviews go on."""
    gate_feedback: str | None = None
    """What the last review said, for the person and for an agent that reports the step again."""
    allowed_rounds: int | None = None
    """How many rounds its reviews may have, without those that a person granted; None before the first."""


@dataclass(frozen=True)
class PinnedEntry:
    """An entry of the workflow as it was when the session started; editing job.yml does not change it."""

    steps: tuple[str, ...]
    is_concurrent: bool = False


@dataclass(frozen=True)
class LastAnswer:
    """The last answer that a tool gave to a call with an idempotency key."""

    key: str
    digest: str
    answer: Mapping[str, Any]
    before: tuple[str, ...] = ()
    """Keys of earlier calls, whose answers are no longer stored."""

    def has(self, key: str) -> bool:
        """Whether a call with this key was executed."""
        return key == self.key or key in self.before


@dataclass(frozen=True)
class Session:
    """One run of a job's workflow; times are ISO 8601 in UTC."""

    session_id: str
    job_name: str
    workflow_name: str
    goal: str
    entries: tuple[PinnedEntry, ...]
    current_step_id: str
    started_at: str
    caller: str
    owner: str
    """The process that works on it; after that has exited, another may take the session over."""
    instance_id: str | None = None
    branch: str | None = None
    way_back: str | None = None
    """The command that leaves the branch, if this or an earlier session switched the working tree to it."""
    current_entry_index: int = 0
    step_progress: Mapping[str, StepProgress] = field(default_factory=dict)
    completed_at: str | None = None
    status: SessionStatus = SessionStatus.ACTIVE
    abort_reason: str | None = None
    overrides: tuple[Override, ...] = ()
    self_reviews: tuple[SelfReview, ...] = ()
    review_rounds: tuple[StepRound, ...] = ()
    decisions: tuple[PersonDecision, ...] = ()
    base_commit: str | None = None
    """The commit that HEAD had when the session started; None without a git repository."""
    base_branch: str | None = None
    checks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By step, the checks that it must pass, as job.yml named them at that commit."""
    approvals: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By step, what a person must approve (`of`) and how long that is good for (`expires_ms`)."""
    minutes: Mapping[str, float] = field(default_factory=dict)
    """By step, how long it may be worked on; the runner limits its own sessions."""
    worked_ms: Mapping[str, int] = field(default_factory=dict)
    """By step with such a limit, how long it was worked on, as last counted."""
    working_since: str | None = None
    """Since when the current steps are worked on; None while they wait, or if no step has a limit."""
    last_answers: Mapping[str, LastAnswer] = field(default_factory=dict)
    """By tool, so that a late retry still gets its own answer."""
    generation: int = 0
    created_seq: int = 0
    """Orders sessions that started in the same millisecond."""

    @property
    def workflow(self) -> str:
        """`job/workflow`, as the stack shows it."""
        return f"{self.job_name}/{self.workflow_name}"

    @property
    def is_active(self) -> bool:
        return self.status is SessionStatus.ACTIVE

    @property
    def unseen_decisions(self) -> list[PersonDecision]:
        """What a person decided since the agent last continued the session."""
        return [each for each in self.decisions if not each.is_seen]

    @property
    def is_at_gate(self) -> bool:
        """Whether the current step was submitted and did not pass yet."""
        return self.is_active and self.get_progress(self.current_step_id).submitted_outputs is not None

    @property
    def current_entry(self) -> PinnedEntry:
        return self.entries[self.current_entry_index]

    @property
    def next_entry(self) -> PinnedEntry | None:
        """The entry after the current one; None at the end."""
        following = self.entries[self.current_entry_index + 1 :]
        return following[0] if following else None

    def list_current_checks(self) -> tuple[str, ...]:
        """Return the checks that the current steps must pass, without duplicates."""
        named = [name for step in self.current_entry.steps for name in self.checks.get(step, ())]
        return tuple(dict.fromkeys(named))

    def get_progress(self, step_id: str) -> StepProgress:
        return self.step_progress.get(step_id, StepProgress(step_id))


def collect_outputs(session: Session) -> dict[str, str | list[str]]:
    """Collect the outputs of all completed steps; a later step overrides an earlier one of the same name."""
    order = [step for entry in session.entries for step in entry.steps]
    done = [session.step_progress[step] for step in order if step in session.step_progress]
    return {name: value for each in done if each.completed_at for name, value in each.outputs.items()}


def start_step(session: Session, step_id: str, now: str) -> Session:
    """Mark a step as started and make it the current one."""
    begun = replace(session.get_progress(step_id), started_at=now)
    since = now if session.minutes else None
    return replace(_replace_progress(session, begun), current_step_id=step_id, working_since=since)


def complete_step(session: Session, step_id: str, outputs: Outputs, notes: str | None, now: str) -> Session:
    """Mark a step as completed with these outputs."""
    done = replace(session.get_progress(step_id), outputs=dict(outputs), notes=notes, completed_at=now)
    closed = replace(done, submitted_outputs=None, submitted_notes=None, person_reason=None)
    return _replace_progress(session, replace(closed, started_at=done.started_at or now))


def advance(session: Session, now: str) -> Session:
    """Move to the next entry, or complete the session after the last one."""
    entry = session.next_entry
    if entry is None:
        return replace(session, status=SessionStatus.COMPLETED, completed_at=now)
    moved = replace(session, current_entry_index=session.current_entry_index + 1)
    return start_step(moved, entry.steps[0], now)


def add_attempt(session: Session, step_id: str, by: int = 1) -> Session:
    """Count one more review attempt of a step; `by=-1` takes one back."""
    progress = session.get_progress(step_id)
    return _replace_progress(
        session, replace(progress, quality_attempts=max(0, progress.quality_attempts + by))
    )


def add_self_review(
    session: Session, results: tuple[Mapping[str, Any], ...], now: str, *, passed: bool, counts: bool
) -> Session:
    """Record the agent's own review of the current step.

    If it `counts`, it is an attempt, unless an earlier submission asked for it: that counted already.
    """
    step_id = session.current_step_id
    before = sum(each.step_id == step_id for each in session.self_reviews)
    if counts and session.get_progress(step_id).quality_attempts <= before:
        session = add_attempt(session, step_id)
    made = SelfReview(step_id, now, passed, results)
    return replace(session, self_reviews=(*session.self_reviews, made))


def list_rounds(session: Session, step_id: str, rule: str) -> tuple[Round, ...]:
    """Return the rounds of a review since the step began."""
    return tuple(
        each.round
        for each in session.review_rounds
        if each.step_id == step_id and each.rule == rule and not each.is_over
    )


def add_rounds(session: Session, rounds: Mapping[str, Round], allowed: int, now: str) -> Session:
    """Record a round of each of these reviews of the current step; one with a known number replaces it."""
    step_id = session.current_step_id
    known = {(step_id, rule, round.number) for rule, round in rounds.items()}
    kept = tuple(
        each
        for each in session.review_rounds
        if each.is_over or (each.step_id, each.rule, each.round.number) not in known
    )
    made = tuple(StepRound(step_id, rule, now, round) for rule, round in rounds.items())
    progress = replace(session.get_progress(step_id), allowed_rounds=allowed)
    return _replace_progress(replace(session, review_rounds=(*kept, *made)), progress)


def add_reviewer_failure(session: Session) -> Session:
    """Count that the reviewer of the current step gave no verdict."""
    progress = session.get_progress(session.current_step_id)
    return _replace_progress(session, replace(progress, reviewer_failures=progress.reviewer_failures + 1))


def wait_for_person(session: Session, reason: str, feedback: str) -> Session:
    """Let only a person decide about the current step."""
    progress = session.get_progress(session.current_step_id)
    return _replace_progress(session, replace(progress, person_reason=reason, gate_feedback=feedback))


def add_proofs(session: Session, proofs: Sequence[str]) -> Session:
    """Remember the proofs with which the checks of the current step passed."""
    progress = session.get_progress(session.current_step_id)
    return _replace_progress(session, replace(progress, proofs=tuple(proofs)))


def submit_outputs(session: Session, outputs: Outputs, notes: str | None) -> Session:
    """Remember what was submitted for the current step, so that a person can let it pass."""
    progress = session.get_progress(session.current_step_id)
    return _replace_progress(
        session, replace(progress, submitted_outputs=dict(outputs), submitted_notes=notes)
    )


def send_back(session: Session) -> Session:
    """Let the current step begin again: nothing is submitted, and its reviews are counted from zero."""
    progress = session.get_progress(session.current_step_id)
    begun = StepProgress(
        progress.step_id, progress.started_at, progress.completed_at, progress.outputs, progress.notes
    )
    return _replace_progress(_end_rounds(session, [progress.step_id]), begun)


def grant_attempt(session: Session, limit: int) -> Session:
    """Allow the current step one review more than it had, or than the limit allows."""
    progress = session.get_progress(session.current_step_id)
    allowed = max(limit + progress.granted_attempts, progress.quality_attempts) + 1
    granted = replace(progress, granted_attempts=allowed - limit, person_reason=None)
    return _replace_progress(session, granted)


def add_decision(
    session: Session, decision: GateDecision, by: str, text: str | None, now: str
) -> tuple[Session, PersonDecision]:
    """Record what a person decided about the current step."""
    step_id = session.current_step_id
    attempts = session.get_progress(step_id).quality_attempts
    made = PersonDecision(step_id, decision, by, now, text, attempts)
    return replace(session, decisions=(*session.decisions, made)), made


def mark_decisions_seen(session: Session) -> Session:
    """Mark every decision as shown to the agent."""
    seen = tuple(replace(each, is_seen=True) for each in session.decisions)
    return replace(session, decisions=seen)


def add_override(session: Session, step_id: str, reason: str, now: str) -> Session:
    """Record that the review of a step was skipped, and why."""
    return replace(session, overrides=(*session.overrides, Override(step_id, reason, now)))


def abort(session: Session, reason: str, now: str) -> Session:
    """Mark the session as aborted."""
    return replace(session, status=SessionStatus.ABORTED, abort_reason=reason, completed_at=now)


def go_back(session: Session, entry_index: int, step_id: str, now: str) -> tuple[Session, list[str]]:
    """Return to an earlier entry; also return the steps whose progress this clears."""
    later = [step for entry in session.entries[entry_index:] for step in entry.steps]
    cleared = [step for step in later if step in session.step_progress]
    kept = {step: progress for step, progress in session.step_progress.items() if step not in cleared}
    moved = replace(session, current_entry_index=entry_index, step_progress=kept)
    return start_step(_end_rounds(moved, cleared), step_id, now), cleared


def _end_rounds(session: Session, steps: Collection[str]) -> Session:
    """Keep the rounds of steps that begin again, but do not count them."""
    rounds = tuple(
        replace(each, is_over=True) if each.step_id in steps else each for each in session.review_rounds
    )
    return replace(session, review_rounds=rounds)


def _replace_progress(session: Session, progress: StepProgress) -> Session:
    return replace(session, step_progress={**session.step_progress, progress.step_id: progress})


def format_now() -> str:
    """Format the current time as sessions store it: ISO 8601 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
