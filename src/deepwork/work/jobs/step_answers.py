"""Builds the answers of `finished_step`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

from deepwork.kernel.call import current_call
from deepwork.kernel.errors import GateClosed
from deepwork.kernel.git.command import Git
from deepwork.work.jobs.active_step import build_active_step
from deepwork.work.jobs.branch import build_branch_note
from deepwork.work.jobs.decisions import to_infos
from deepwork.work.jobs.definitions.catalog import JobCatalog
from deepwork.work.jobs.quality_gate import SentBack
from deepwork.work.jobs.responses import FinishedStep
from deepwork.work.jobs.sessions import state
from deepwork.work.jobs.sessions.state import PersonDecision, Session, SessionEvent
from deepwork.work.jobs.sessions.state_manager import SessionChange, StateManager
from deepwork.work.jobs.step_checks import ClosedGate, describe_gate
from deepwork.work.jobs.step_outputs import cut_failed_reviews, cut_feedback, cut_findings
from deepwork.work.jobs.step_rounds import JudgedRound

ReviewKind = Literal["reviewer", "self_review", "override", "person"]


class StepAnswers:
    """Builds what `finished_step` answers, with the stack as it will be."""

    def __init__(self, catalog: JobCatalog, state: StateManager, git: Git) -> None:
        self._catalog, self._state, self._git = catalog, state, git

    def build_needs_work(
        self, session: Session, outcome: SentBack, news: list[PersonDecision], taken_over: bool
    ) -> FinishedStep:
        """Answer that the work must be improved."""
        shown = cut_failed_reviews(outcome.failed)
        return FinishedStep(
            status="needs_work",
            feedback=cut_feedback(outcome.feedback),
            failed_reviews=shown or None,
            failed_reviews_count=len(outcome.failed) if len(shown) < len(outcome.failed) else None,
            stack=self._state.get_stack(current_call().caller, session),
            taken_over=taken_over or None,
            decisions=to_infos(news),
        )

    def report_closed(
        self, session: Session, closed: ClosedGate, news: list[PersonDecision], taken_over: bool
    ) -> SessionChange[FinishedStep]:
        """Answer that a check or a person has to agree first."""
        answer = self.build_needs_work(session, SentBack(closed.feedback), news, taken_over)
        waiting = answer.model_copy(update={"waiting_for": closed.waiting_for})
        return SessionChange(session, waiting, SessionEvent.UPDATED)

    def report_unapproved(
        self, session: Session, closed: GateClosed, news: list[PersonDecision], taken_over: bool
    ) -> SessionChange[FinishedStep]:
        """Answer that a person has to approve the step first, or refused it."""
        change = self.report_closed(session, describe_gate(closed), news, taken_over)
        answer = change.answer.model_copy(update={"approval": closed.evidence["approval"]})
        return replace(change, answer=answer)

    def report_progress(
        self,
        moved: Session,
        news: list[PersonDecision],
        taken_over: bool,
        *,
        review: ReviewKind | None,
        rounds: Sequence[JudgedRound] = (),
    ) -> SessionChange[FinishedStep]:
        """Answer with the step that is current now, or with the end of the workflow.

        `rounds` are those that the reported step passed.
        """
        found = cut_findings([each for judged in rounds for each in judged.round.findings]) or None
        stack, taken = self._state.get_stack(current_call().caller, moved), taken_over or None
        if moved.is_active:
            begin = build_active_step(self._catalog.get(moved.job_name), moved)
            answer = FinishedStep(
                status="next_step",
                begin_step=begin,
                stack=stack,
                taken_over=taken,
                review=review,
                decisions=to_infos(news),
                findings=found,
            )
            return SessionChange(moved, answer, SessionEvent.UPDATED)
        answer = FinishedStep(
            status="workflow_complete",
            summary=f"Workflow '{moved.workflow_name}' completed successfully.",
            all_outputs=state.collect_outputs(moved),
            branch_note=build_branch_note(self._git, moved, self._state.list_all),
            stack=stack,
            taken_over=taken,
            review=review,
            decisions=to_infos(news),
            findings=found,
        )
        return SessionChange(moved, answer, SessionEvent.COMPLETED)


def add_verdicts(
    change: SessionChange[FinishedStep], verdicts: Mapping[str, str] | None
) -> SessionChange[FinishedStep]:
    """Add the verdicts of the checks that the reported step passed."""
    if not verdicts:
        return change
    return replace(change, answer=change.answer.model_copy(update={"checks": dict(verdicts)}))
