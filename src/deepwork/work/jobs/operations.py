"""What people read about job sessions, and do at the quality gate of a step.

They let it pass, send it back, or grant a review.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from deepwork.gates.approvals.acts import require_asked
from deepwork.kernel.answers import Field, Text
from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import Code, InvalidInput, NotAllowed, StateError
from deepwork.kernel.operations import Traits, operation
from deepwork.work.jobs.decisions import notify_of_decision
from deepwork.work.jobs.definitions.catalog import JobCatalog
from deepwork.work.jobs.responses import Decided, SessionLine, Sessions, WholeSession
from deepwork.work.jobs.sessions import state
from deepwork.work.jobs.sessions.state import GateDecision, Session, SessionEvent, StepProgress, format_now
from deepwork.work.jobs.sessions.state_manager import SessionChange, StateManager, session_to_dict
from deepwork.work.jobs.step_approvals import StepApprovals
from deepwork.work.jobs.step_outputs import complete_steps, split_outputs
from deepwork.work.jobs.step_rounds import renew_minutes, stop_clock

Decide = Callable[[Session], tuple[Session, SessionEvent]]
StepId = Annotated[str | None, Field(description="Refused unless this step is current")]


class JobOperations:
    """The sessions of this tree, and decisions of people about their current steps."""

    traits: ClassVar = Traits(toolset="jobs", people_only=True)

    def __init__(
        self,
        root: Path,
        catalog: JobCatalog,
        state: StateManager,
        max_attempts: int,
        database: Database,
        approvals: StepApprovals,
    ) -> None:
        self._root, self._catalog, self._state, self._max_attempts = root, catalog, state, max_attempts
        self._database, self._approvals = database, approvals

    @operation("read")
    def list_sessions(
        self, all: Annotated[bool, Field(description="Completed and aborted ones, too")] = False
    ) -> Sessions:
        """The sessions whose files are in this tree, oldest first."""
        found = [session for session in self._state.list_all() if all or session.is_active]
        return Sessions(
            sessions=[
                SessionLine.of(each, id=each.session_id, step=each.current_step_id, started=each.started_at)
                for each in found
            ]
        )

    @operation("read")
    def get_whole_session(self, session_id: str) -> WholeSession:
        """One session of this tree, with all its steps, reviews and decisions."""
        return WholeSession(session=session_to_dict(self._state.load(session_id)))

    @operation("work", long_running=True, for_people=True)
    def pass_step(self, session_id: str, comment: Text | None = None, step_id: StepId = None) -> Decided:
        """Let the current step pass its quality gate with the outputs that were submitted last."""

        def decide(session: Session) -> tuple[Session, SessionEvent]:
            # Its agent begins the next step when it reads of this, which may be much later.
            moved = stop_clock(state.advance(self._complete(session), format_now()))
            return moved, SessionEvent.UPDATED if moved.is_active else SessionEvent.COMPLETED

        return self._decide(session_id, step_id, GateDecision.PASSED, comment, decide)

    @operation("work", long_running=True, for_people=True)
    def send_back_step(self, session_id: str, text: Text, step_id: StepId = None) -> Decided:
        """Let the agent do the current step again, with this text as feedback."""

        def decide(session: Session) -> tuple[Session, SessionEvent]:
            require_asked(current_call().caller)
            return renew_minutes(state.send_back(session)), SessionEvent.UPDATED

        return self._decide(session_id, step_id, GateDecision.SENT_BACK, text, decide)

    @operation("work", long_running=True, for_people=True)
    def grant_round(self, session_id: str, step_id: StepId = None) -> Decided:
        """Allow the current step one more review."""

        def decide(session: Session) -> tuple[Session, SessionEvent]:
            require_asked(current_call().caller)
            progress = session.get_progress(session.current_step_id)
            granted = state.grant_attempt(session, self._get_limit(progress))
            return renew_minutes(granted), SessionEvent.UPDATED

        return self._decide(session_id, step_id, GateDecision.ROUND_GRANTED, None, decide)

    def _decide(
        self, id: str, step_id: str | None, decision: GateDecision, text: str | None, decide: Decide
    ) -> Decided:
        """Record the decision and its effect in one change of the session, then notify its agent."""
        decided: list[Session] = []

        def apply(session: Session) -> SessionChange[Decided]:
            _require_gate(session, step_id)
            recorded, made = state.add_decision(session, decision, current_call().caller, text, format_now())
            changed, event = decide(recorded)
            decided.append(changed)
            answer = self._build_answer(made, changed)
            return SessionChange(changed, answer, event, stays_on_stack=True)

        answer = self._state.change_for_person(id, apply)
        notify_of_decision(self._database, decided[-1])
        return answer

    def _get_limit(self, progress: StepProgress) -> int:
        return progress.allowed_rounds or self._max_attempts

    def _complete(self, session: Session) -> Session:
        """Complete the current step, and those concurrent with it, with the submitted outputs."""
        progress = session.get_progress(session.current_step_id)
        job = self._catalog.get(session.job_name)
        try:
            step_outputs = split_outputs(self._root, job, session, progress.submitted_outputs or {})
        except InvalidInput as error:
            raise NotAllowed(
                f"What the agent submitted is not complete any more: {error.message}",
                suggestion="Restore the files, or send the step back.",
            ) from error
        outputs = self._approvals.describe_outputs(step_outputs)
        require_asked(current_call().caller, step=session.current_step_id, outputs=outputs)
        self._approvals.require(session, step_outputs)
        return complete_steps(session, step_outputs, progress.submitted_notes, format_now())

    def _build_answer(self, made: state.PersonDecision, changed: Session) -> Decided:
        progress = changed.get_progress(made.step_id)
        allowed = self._get_limit(progress) + progress.granted_attempts
        return Decided.of(
            made,
            session_id=changed.session_id,
            status=_get_status(made, changed),
            next_step=changed.current_step_id if changed.is_active else None,
            attempts_left=None if progress.completed_at else max(0, allowed - progress.quality_attempts),
        )


def _get_status(
    made: state.PersonDecision, changed: Session
) -> Literal["next_step", "needs_work", "workflow_complete"]:
    if made.decision is not GateDecision.PASSED:
        return "needs_work"
    return "next_step" if changed.is_active else "workflow_complete"


def _require_gate(session: Session, step_id: str | None) -> None:
    """Raise unless the current step, and that is this one if it is named, is at its gate."""
    id = session.session_id
    if not session.is_active:
        raise StateError(
            f"Session {id} is {session.status}: no step waits at a gate.",
            code=Code.INVALID_STATE,
            suggestion="See `deepwork sessions list` for active sessions.",
        )
    if step_id and step_id != session.current_step_id:
        raise NotAllowed(
            f"Step {step_id!r} is not current; session {id} is at {session.current_step_id!r}.",
            suggestion=f"Look at `deepwork sessions show {id}` and decide about that step.",
        )
    if not session.is_at_gate:
        raise NotAllowed(
            f"Step {session.current_step_id!r} of session {id} is not at its quality gate: "
            "the agent has not submitted it, or is doing it again.",
            suggestion="Wait until the agent calls {tool:finished_step}, or end the session with "
            f"`deepwork sessions abort {id} --explanation TEXT`.",
        )
