"""How far a run of a job has come: what is kept of it, and how it moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from deepwork.names import Word

Outputs = Mapping[str, str | list[str]]


class SessionStatus(Word):
    ACTIVE = "active"
    COMPLETED = "completed"
    ABORTED = "aborted"


class SessionEvent(Word):
    """What this slice tells of sessions."""

    STARTED = "session:started"
    UPDATED = "session:updated"
    COMPLETED = "session:completed"
    ABORTED = "session:aborted"


@dataclass(frozen=True)
class Override:
    """A review that was skipped, by whom it was asked for and why."""

    step_id: str
    reason: str
    at: str


@dataclass(frozen=True)
class StepProgress:
    """One step of a session."""

    step_id: str
    started_at: str | None = None
    completed_at: str | None = None
    outputs: Outputs = field(default_factory=dict)
    notes: str | None = None
    quality_attempts: int = 0


@dataclass(frozen=True)
class PinnedEntry:
    """A place in the workflow's order, as it was when the session began."""

    steps: tuple[str, ...]
    is_concurrent: bool = False


@dataclass(frozen=True)
class LastAnswer:
    """The last answer of a tool that was given under an idempotency key."""

    key: str
    digest: str
    answer: Mapping[str, Any]
    before: tuple[str, ...] = ()
    """Keys of earlier answers, which are no longer kept."""

    def has(self, key: str) -> bool:
        """Whether a call under this key was carried out."""
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
    """The process that works on it; when that is gone, another may take it over."""
    instance_id: str | None = None
    branch: str | None = None
    current_entry_index: int = 0
    step_progress: Mapping[str, StepProgress] = field(default_factory=dict)
    completed_at: str | None = None
    status: SessionStatus = SessionStatus.ACTIVE
    abort_reason: str | None = None
    overrides: tuple[Override, ...] = ()
    last_answers: Mapping[str, LastAnswer] = field(default_factory=dict)
    """By tool, so that a call that is repeated late still gets its own answer."""
    generation: int = 0
    created_seq: int = 0
    """Its place in the order of creation, among sessions that started in the same millisecond."""

    @property
    def workflow(self) -> str:
        """As the stack shows it."""
        return f"{self.job_name}/{self.workflow_name}"

    @property
    def is_active(self) -> bool:
        return self.status is SessionStatus.ACTIVE

    @property
    def current_entry(self) -> PinnedEntry:
        return self.entries[self.current_entry_index]

    @property
    def next_entry(self) -> PinnedEntry | None:
        """What comes after the current place; None at the end."""
        following = self.entries[self.current_entry_index + 1 :]
        return following[0] if following else None

    def progress(self, step_id: str) -> StepProgress:
        return self.step_progress.get(step_id, StepProgress(step_id))


def all_outputs(session: Session) -> dict[str, str | list[str]]:
    """What all completed steps delivered; of equal names the later step's."""
    order = [step for entry in session.entries for step in entry.steps]
    done = [session.step_progress[step] for step in order if step in session.step_progress]
    return {name: value for each in done if each.completed_at for name, value in each.outputs.items()}


def started(session: Session, step_id: str, now: str) -> Session:
    """The session with a step under way."""
    begun = replace(session.progress(step_id), started_at=now)
    return replace(_with(session, begun), current_step_id=step_id)


def completed(session: Session, step_id: str, outputs: Outputs, notes: str | None, now: str) -> Session:
    """The session with a step done."""
    done = replace(session.progress(step_id), outputs=dict(outputs), notes=notes, completed_at=now)
    return _with(session, replace(done, started_at=done.started_at or now))


def advanced(session: Session, now: str) -> Session:
    """The session at its next place, or completed when there is none."""
    entry = session.next_entry
    if entry is None:
        return replace(session, status=SessionStatus.COMPLETED, completed_at=now)
    moved = replace(session, current_entry_index=session.current_entry_index + 1)
    return started(moved, entry.steps[0], now)


def attempted(session: Session, step_id: str, by: int = 1) -> Session:
    """The session with one more review of a step tried; with `by=-1` one given back."""
    progress = session.progress(step_id)
    return _with(session, replace(progress, quality_attempts=max(0, progress.quality_attempts + by)))


def overridden(session: Session, step_id: str, reason: str, now: str) -> Session:
    """The session with a review skipped, and why."""
    return replace(session, overrides=(*session.overrides, Override(step_id, reason, now)))


def aborted(session: Session, reason: str, now: str) -> Session:
    """The session given up."""
    return replace(session, status=SessionStatus.ABORTED, abort_reason=reason, completed_at=now)


def back_at(session: Session, entry_index: int, step_id: str, now: str) -> tuple[Session, list[str]]:
    """The session at an earlier place again, and the steps whose progress that clears."""
    later = [step for entry in session.entries[entry_index:] for step in entry.steps]
    cleared = [step for step in later if step in session.step_progress]
    kept = {step: progress for step, progress in session.step_progress.items() if step not in cleared}
    moved = replace(session, current_entry_index=entry_index, step_progress=kept)
    return started(moved, step_id, now), cleared


def _with(session: Session, progress: StepProgress) -> Session:
    return replace(session, step_progress={**session.step_progress, progress.step_id: progress})


def now() -> str:
    """This moment, as sessions keep it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
