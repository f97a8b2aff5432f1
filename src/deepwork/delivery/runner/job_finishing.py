"""Finishes attempts at steps of jobs: reports the step, commits its work; or lets the agent correct it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from deepwork.delivery.provenance.store import NO_LINKS, LinkRecorder, PreparedLinks
from deepwork.delivery.runner.claiming import find_next_profile
from deepwork.delivery.runner.finishing import prepare_links
from deepwork.delivery.runner.job_steps import JobSteps, find_last_approval, is_current, split_step_id
from deepwork.delivery.runner.models import Attempt, AttemptStage, Run, RunStatus
from deepwork.delivery.runner.plan_work import PlanWork
from deepwork.delivery.runner.prompts import (
    build_step_correction,
    collect_report,
    list_outputs,
    locate_report,
)
from deepwork.delivery.runner.service import AttemptService, RunService, move_attempt
from deepwork.delivery.runner.store import RunStore
from deepwork.kernel.database.transaction import Database, join_transaction
from deepwork.kernel.errors import Code, GateClosed, InvalidInput
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.uncommitted import commit_uncommitted
from deepwork.kernel.values import parse_timestamp
from deepwork.work.jobs.sessions.state import GateDecision, Session, SessionStatus

_MAX_OUTCOME = 4000


class JobStepFinisher:
    """Ends attempts at steps. The session decides what is done; the runner only reports."""

    def __init__(
        self,
        database: Database,
        plans: PlanWork,
        steps: JobSteps,
        open_git: Callable[[Path], Git],
        recorder: LinkRecorder,
    ) -> None:
        self._database, self._plans, self._steps, self._open_git = database, plans, steps, open_git
        self._recorder = recorder
        self._attempts, self._runs = AttemptService(database), RunService(database)

    def finish(self, attempt: Attempt) -> Attempt | None:
        """Report the step as done. A repeated report gets the first answer, so a crash costs no review."""
        session = self._steps.load_session(attempt)
        if session.status is SessionStatus.ABORTED:
            return self.stop(attempt, f"The session was aborted: {session.abort_reason}")
        if not is_current(session, attempt):  # the agent reported it, or a person let it pass
            return self._complete(attempt, session)
        if feedback := _find_granted_round(attempt, session):
            return self._correct(attempt, feedback)
        return self._report(attempt, session)

    def fail(
        self, attempt: Attempt, reason: str, stage: AttemptStage = AttemptStage.FAILED
    ) -> Attempt | None:
        """End the attempt as failed; after the last one that an agent of the chain may make, ask a person."""
        with self._database.transaction() as tx, join_transaction(tx):
            ended = move_attempt(tx, attempt, stage, reason=reason)
            run = RunStore(tx).find(attempt.run_id)
            if ended is None or run is None:
                return None
            step = self._steps.load(tx, [attempt]).get(attempt.task_id)
            if step is not None and not step.status.is_done and find_next_profile(tx, run, step) is None:
                ended = move_attempt(tx, ended, stage, exhausted=1)
                self._ask_person(run, f"Every agent of the chain has tried step {step.name!r}. {reason}")
            self._plans.unregister_agent(attempt.agent_id)
            return ended

    def stop(self, attempt: Attempt, reason: str) -> Attempt | None:
        """End the attempt; the step remains as it is."""
        return self._end(attempt, AttemptStage.STOPPED, reason)

    def give_up(self, attempt: Attempt, reason: str) -> Attempt | None:
        """End the attempt because a person wants that; its run ends, and waits for a person."""
        with self._database.transaction() as tx, join_transaction(tx):
            run = RunStore(tx).find(attempt.run_id)
            ended = self._end(attempt, AttemptStage.STOPPED, reason)
            if ended is not None and run is not None:
                self._ask_person(run, reason)
            return ended

    def end_reviewed(self, attempt: Attempt) -> Attempt | None:
        """Let an attempt end whose step a person has let pass; its work is committed first."""
        return self._attempts.move(attempt, AttemptStage.CHECKING)

    # Reporting

    def _report(self, attempt: Attempt, session: Session) -> Attempt | None:
        try:
            answer = self._call_finished_step(attempt, session)
        except InvalidInput as problem:
            return self._correct(attempt, f"{problem.message} {problem.suggestion or ''}".strip())
        except GateClosed as closed:
            return self._handle_closed_gate(attempt, closed)
        if answer["status"] != "needs_work":
            return self._complete(attempt, session)
        return self._handle_needs_work(attempt, answer)

    def _call_finished_step(self, attempt: Attempt, session: Session) -> Mapping[str, Any]:
        session_id, step_id = split_step_id(attempt.task_id)
        tree = Path(attempt.tree or "")
        outputs = list_outputs(self._steps.describe_step(attempt, session))
        report = collect_report(tree, locate_report(tree, attempt.id), outputs)
        given: dict[str, Any] = {
            "outputs": dict(report.outputs),
            "notes": (report.notes or attempt.outcome or "")[:_MAX_OUTCOME] or None,
            "session_id": session_id,
            "step_id": step_id,
        }
        if report.review_results:
            given["review_results"] = list(report.review_results)
        return self._steps.open_jobs(tree).call("finished_step", given, key=self._build_key(attempt, session))

    def _build_key(self, attempt: Attempt, session: Session) -> str:
        """Build a key that is another one after each start, and after each decision of a person."""
        with self._database.reading() as tx:
            approval = find_last_approval(tx, attempt.task_id)
        state = f"{approval.id}:{approval.status}" if approval else ""
        return f"{attempt.id}/{attempt.starts}/{len(session.decisions)}/{state}"

    def _handle_needs_work(self, attempt: Attempt, answer: Mapping[str, Any]) -> Attempt | None:
        feedback = str(answer.get("feedback") or "")
        approval = answer.get("approval") or {}
        if answer.get("waiting_for") == "approval" and approval.get("status") != "refused":
            what = f"`deepwork approvals show {approval['id']}`" if approval else feedback
            reason = f"Step {attempt.task_id} waits for the approval of a person: {what}"
            return self._attempts.move(attempt, AttemptStage.REVIEWING, reason=reason)
        return self._correct(attempt, feedback)

    def _handle_closed_gate(self, attempt: Attempt, closed: GateClosed) -> Attempt | None:
        session = self._steps.load_session(attempt)
        is_for_person = session.get_progress(session.current_step_id).person_reason is not None
        if closed.code is Code.REVIEWER_ERROR and not is_for_person:
            return attempt  # the reviewer gave no verdict: it is asked again, as often as the gate allows
        where = f" (in {attempt.tree})"
        return self._attempts.move(
            attempt, AttemptStage.REVIEWING, reason=f"{closed.message} {closed.suggestion}{where}"
        )

    def _correct(self, attempt: Attempt, feedback: str) -> Attempt | None:
        """Let the same agent correct its work, in the same session."""
        run = self._runs.find(attempt.run_id)
        if run is not None and attempt.resumes >= run.options.resumes:
            return self.fail(attempt, f"It was resumed {attempt.resumes} times, and still: {feedback}")
        _, step_id = split_step_id(attempt.task_id)
        moved = self._attempts.start_again(attempt, build_step_correction(feedback, step_id), feedback)
        if moved is not None:  # what it named belongs to the report that did not count
            with suppress(OSError):  # a folder is in its place: the agent is told so
                locate_report(Path(attempt.tree or ""), attempt.id).unlink()
        return moved

    # The end

    def _complete(self, attempt: Attempt, session: Session) -> Attempt | None:
        if attempt.branch and Path(attempt.tree or "").is_dir():
            message = build_step_message(attempt, session)
            commit_uncommitted(self._open_git(Path(attempt.tree or "")), attempt.branch, message)
        return self._end(attempt, AttemptStage.DONE, None, prepare_links(self._recorder, attempt, None))

    def _end(
        self, attempt: Attempt, stage: AttemptStage, reason: str | None, links: PreparedLinks = NO_LINKS
    ) -> Attempt | None:
        with self._database.transaction() as tx, join_transaction(tx):
            ended = move_attempt(tx, attempt, stage, reason=reason)
            if ended is not None:
                links.store(tx)
                self._plans.unregister_agent(attempt.agent_id)
            return ended

    def _ask_person(self, run: Run, reason: str) -> None:
        if run.status is RunStatus.ACTIVE:
            self._runs.set_status(run.id, RunStatus.NEEDS_PERSON, reason)


def build_step_message(attempt: Attempt, session: Session) -> str:
    """Build the message of the commit that has the work of a step, with the trailers that name it."""
    _, step_id = split_step_id(attempt.task_id)
    trailers = [
        f"Deepwork-Session: {session.session_id}",
        f"Deepwork-Step: {step_id}",
        f"Deepwork-Attempt: {attempt.id}",
        f"Deepwork-Agent: {attempt.agent_id}",
    ]
    outcome = (attempt.outcome or "").strip()[:_MAX_OUTCOME]
    subject = f"{session.workflow}: {step_id}"[:72]
    return "\n\n".join(part for part in (subject, outcome, "\n".join(trailers)) if part)


def _find_granted_round(attempt: Attempt, session: Session) -> str | None:
    """Return what the last review said, if a person granted another one since the agent was started."""
    news = [each for each in session.unseen_decisions if each.step_id == session.current_step_id]
    if not news or news[-1].decision is not GateDecision.ROUND_GRANTED:
        return None
    if parse_timestamp(news[-1].at, "at") < (attempt.started_at or 0):
        return None
    feedback = session.get_progress(session.current_step_id).gate_feedback
    return f"A person lets it be reviewed once more. The last review said: {feedback or 'nothing'}"
