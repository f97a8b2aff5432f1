"""The checks that a step must pass before it counts as done, besides its reviews."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import Code, GateClosed
from deepwork.kernel.git.command import Git
from deepwork.kernel.records import dataclass
from deepwork.work.jobs.definitions.committed import CommittedJob, list_mappings
from deepwork.work.jobs.definitions.models import Job
from deepwork.work.jobs.sessions import state
from deepwork.work.jobs.sessions.state import Session, SessionEvent
from deepwork.work.jobs.sessions.state_manager import StateManager
from deepwork.work.jobs.step_outputs import cut_feedback

if TYPE_CHECKING:  # imported by the first step that names a check
    from deepwork.gates.checks.models import Proof
    from deepwork.gates.checks.service import CheckService

STEP = "step"
"""The kind of subject that a step is; its id is SESSION_ID/STEP_ID."""
_WAITS_FOR_PERSON = (Code.CHECKS_GUARDED, Code.NEEDS_APPROVAL)


@dataclass(frozen=True)
class ClosedGate:
    """Why a step does not count as done yet, as its agent reads it."""

    feedback: str
    waiting_for: Literal["checks", "approval"]


@dataclass(frozen=True)
class ProvenStep:
    """A session whose current step was proved, or why it was not."""

    session: Session
    closed: ClosedGate | None = None
    is_red: bool = False
    """Whether a check failed: then the agent works on, and waits for nothing."""
    verdicts: Mapping[str, str] | None = None
    used_up: GateClosed | None = None
    """The error for the agent, if checks were red as often as they may."""


class StepChecks:
    """Pins the checks of a session when it starts, and proves those of a step when it is reported."""

    def __init__(
        self,
        git: Git,
        database: Database,
        sessions: StateManager,
        max_attempts: int,
        get_checks: Callable[[], CheckService],
    ) -> None:
        self._git, self._database, self._state = git, database, sessions
        self._max_attempts, self._get_checks = max_attempts, get_checks

    def pin(self, session: Session, job: Job, at_head: CommittedJob) -> Session:
        """Return the session with the commit that it starts at, and the checks that job.yml names there."""
        head = at_head.head
        base = head.commit if head else None
        named = _list_checks(session, job, at_head)
        if named:
            names = [name for each in named.values() for name in each]
            self._get_checks().require_defined(self._git.root, base, dict.fromkeys(names))
        if named and base:
            self._remember_start(session.session_id, base)
        return replace(session, base_commit=base, base_branch=head.branch if head else None, checks=named)

    def _remember_start(self, session_id: str, base: str) -> None:
        from deepwork.gates.checks.guarded_changes import add_guarded_start  # noqa: PLC0415

        start = self._get_checks().find_start(self._git.root, base)
        with self._database.transaction() as tx:
            add_guarded_start(tx, session_id, start)

    def prove(self, session: Session) -> ProvenStep:
        """Prove the checks of the current steps; return why that is not possible, if so.

        Costs an attempt only if a check is red; after the last one a person has to decide, as after a review.
        """
        names = session.list_current_checks()
        if not names:
            return ProvenStep(session)
        try:
            proofs = self._prove(session, names)
        except GateClosed as closed:
            if closed.code is Code.CHECKS_FAILED:
                return self._count_attempt(session, closed)
            return ProvenStep(session, describe_gate(closed))
        verdicts = {proof.check_name: proof.shown_verdict.value for proof in proofs}
        return ProvenStep(state.add_proofs(session, [proof.id for proof in proofs]), verdicts=verdicts)

    def _prove(self, session: Session, names: tuple[str, ...]) -> tuple[Proof, ...]:
        from deepwork.gates.checks.models import ProofRequest, ProofSubject  # noqa: PLC0415

        checks, step_id = self._get_checks(), session.current_step_id
        progress = session.get_progress(step_id)
        request = ProofRequest(
            subject=ProofSubject(STEP, f"{session.session_id}/{step_id}"),
            tree=self._git.root,
            base=session.base_commit or "",
            names=names,
            attempt=(progress.quality_attempts + 1, self._max_attempts + progress.granted_attempts),
            workflow_id=session.session_id,
        )
        proofs = checks.prove(request)
        with self._database.transaction() as tx:
            checks.record_uses(tx, request.subject, proofs)
        return proofs

    def _count_attempt(self, session: Session, closed: GateClosed) -> ProvenStep:
        step_id = session.current_step_id
        counted = self._state.save(state.add_attempt(session, step_id), SessionEvent.UPDATED)
        progress = counted.get_progress(step_id)
        limit = self._max_attempts + progress.granted_attempts
        is_last = progress.quality_attempts >= limit
        used_up = _build_used_up_error(counted, closed) if is_last else None
        return ProvenStep(counted, describe_gate(closed), is_red=True, used_up=used_up)


def describe_gate(closed: GateClosed) -> ClosedGate:
    """Describe a closed gate as feedback: what is wrong, what to do, and what the checks said."""
    found = closed.evidence.get("checks", ())
    shown = [f"{each['name']}: {each['output']}" for each in found if each.get("output")]
    feedback = "\n\n".join([f"{closed.message} {closed.suggestion}", *shown])
    return ClosedGate(cut_feedback(feedback), "approval" if closed.code in _WAITS_FOR_PERSON else "checks")


def _build_used_up_error(session: Session, closed: GateClosed) -> GateClosed:
    """Build the answer to a step whose checks were red as often as its reviews may fail."""
    attempts = session.get_progress(session.current_step_id).quality_attempts
    return GateClosed(
        f"Checks failed after {attempts} attempts. Feedback: {describe_gate(closed).feedback}",
        code=closed.code,
        suggestion="Fix this and call {tool:finished_step} again, or ask a person, who decides with "
        f"`deepwork sessions pass {session.session_id}`, `send-back` or `grant-round`.",
        evidence={**closed.evidence, "waiting_for": "person"},
    )


def _list_checks(session: Session, job: Job, at_head: CommittedJob) -> dict[str, tuple[str, ...]]:
    """Return the checks of each step, as job.yml named them at the base; as it does now, if it is new."""
    committed = at_head.find("checks")
    steps = [step for entry in session.entries for step in entry.steps]
    if committed is None:
        found = {step.id: step.checks for step in job.steps}
    else:
        found = dict(_list_committed_checks(committed))
    return {step: found[step] for step in steps if found.get(step)}


def _list_committed_checks(data: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """List the steps of a committed job.yml, with their checks; other parts of it may be malformed."""
    for step in list_mappings(data.get("steps")):
        names = step.get("checks")
        texts = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        yield str(step.get("id")), tuple(dict.fromkeys(texts))
