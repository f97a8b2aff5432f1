"""The job tools."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from deepwork.gates.approvals.acts import require_asked
from deepwork.gates.reviews.rounds import PersonReason
from deepwork.kernel.answers import Field, Name, Text
from deepwork.kernel.call import current_call, is_own_session, is_person
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import StorageError
from deepwork.kernel.git.command import Git
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.records import dataclass
from deepwork.work.jobs.active_step import build_active_step
from deepwork.work.jobs.branch import Branch, FindReason, build_branch_name, build_branch_note, prepare_branch
from deepwork.work.jobs.decisions import (
    drop_read_send_backs,
    find_send_back,
    format_send_back,
    has_passed_meanwhile,
    notify_of_abort,
    settle_decisions,
    to_infos,
)
from deepwork.work.jobs.definitions.catalog import JobCatalog
from deepwork.work.jobs.definitions.committed import CommittedJob, require_commit, require_same_gates
from deepwork.work.jobs.definitions.models import Job, JobWorkflow
from deepwork.work.jobs.quality_gate import Outcome, Passed, SentBack
from deepwork.work.jobs.responses import (
    Aborted,
    FinishedStep,
    JobInfo,
    JobLoadError,
    SessionView,
    Started,
    Validation,
    WentToStep,
    WorkflowInfo,
    Workflows,
)
from deepwork.work.jobs.rules import (
    build_budget_error,
    find_entry_index,
    require_current_step,
    require_no_person_awaited,
    require_open_budget,
    require_override_allowed,
    select_workflow,
    was_ended_by_unseen_decision,
)
from deepwork.work.jobs.sessions import state
from deepwork.work.jobs.sessions.state import PersonDecision, PinnedEntry, Session, SessionEvent, format_now
from deepwork.work.jobs.sessions.state_manager import SessionChange, StateManager, session_to_dict
from deepwork.work.jobs.sessions.store import SessionStore
from deepwork.work.jobs.step_answers import StepAnswers, add_verdicts
from deepwork.work.jobs.step_approvals import StepApprovals
from deepwork.work.jobs.step_checks import StepChecks
from deepwork.work.jobs.step_gate import StepGate, Submitted
from deepwork.work.jobs.step_outputs import complete_steps, cut_feedback, find_problems, split_outputs
from deepwork.work.jobs.step_review import StepReviewService
from deepwork.work.jobs.step_rounds import (
    count_time,
    find_overrun,
    pin_budgets,
    require_minutes_left,
    start_clock,
    stop_clock,
)

if TYPE_CHECKING:
    from deepwork.work.jobs.inputs import ReviewVerdict

SessionId = Annotated[str | None, Field(description="Default: top of your stack")]
SubmittedOutputs = Annotated[
    dict[str, Any], Field(description="Output name to file path, or to a list of paths for type 'files'")
]


@dataclass(frozen=True)
class JobSettings:
    """The settings that the job tools use."""

    root: Path
    git_branch: str = "switch"
    max_quality_attempts: int = 3
    is_read_only: bool = False
    override: str = "agent"
    """Who may let a step pass without its review: an `agent`, or only a `person`."""
    limits_minutes: bool = True
    """Whether the minutes that a step may take are counted here."""


class WorkflowTools:
    """Tools that run jobs step by step, with a quality gate after each step."""

    traits: ClassVar = Traits(toolset="jobs")

    def __init__(
        self,
        settings: JobSettings,
        catalog: JobCatalog,
        state: StateManager,
        step_review: StepReviewService | None,
        git: Git,
        database: Database,
        checks: StepChecks,
        find_reason_to_stay: FindReason = lambda: None,
    ) -> None:
        """Without `step_review`, steps are completed without a review."""
        self._database = database
        self._find_reason_to_stay = find_reason_to_stay
        self._settings, self._catalog, self._state = settings, catalog, state
        self._git, self._checks = git, checks
        self._approvals = StepApprovals(settings.root, database)
        self._gate = StepGate(step_review, state, settings.max_quality_attempts)
        self._answers = StepAnswers(catalog, state, git)
        self._last_infos: tuple[list[Job], list[JobInfo]] | None = None
        self._shown: dict[str, int] = {}
        """How many decisions `get_session` has shown to the agent of a session, which it cannot store."""

    @operation("read")
    def get_workflows(self) -> Workflows:
        """List the jobs of this project and their workflows; call this first."""
        jobs, errors = self._catalog.load_all()
        return Workflows(
            jobs=self._list_infos(jobs),
            errors=[JobLoadError(**asdict(error)) for error in errors],
            stack=self._state.get_stack(_get_caller()),
        )

    @operation("work", long_running=True)
    def start_workflow(
        self,
        goal: Annotated[Text, Field(description="What the user wants to accomplish")],
        job_name: Name,
        workflow_name: Annotated[Name, Field(description="Ignored if the job has only one")],
        instance_id: Annotated[str | None, Field(description="For the branch name, e.g. 'acme'")] = None,
    ) -> Started:
        """Start a workflow and get its first step; nested in the workflow you are in, if any."""

        def create(id: str) -> SessionChange[Started]:
            job = self._catalog.get(job_name)
            workflow = select_workflow(job, workflow_name)
            session = self._create_session(id, job_name, workflow, goal, instance_id)
            session = self._pin_gates(session, job)
            begin = build_active_step(job, session)
            branch = self._prepare_branch(session)
            if branch:
                session = replace(session, branch=branch.name, way_back=branch.way_back)
            answer = Started(
                begin_step=begin,
                branch=session.branch,
                branch_switched=branch.is_switched if branch else None,
                branch_note=branch.note if branch else None,
                stack=self._state.get_stack(session.caller, session),
            )
            return SessionChange(session, answer, SessionEvent.STARTED)

        return self._state.start(create)

    # The instructions for an agent's own reviewer describe findings; mark_review_passed lists their keys.
    @operation("work", long_running=True, may_become_task=True, unlisted=("findings",))
    def finished_step(
        self,
        outputs: SubmittedOutputs,
        notes: str | None = None,
        quality_review_override_reason: Annotated[
            str | None, Field(description="Skips the review; say why")
        ] = None,
        session_id: SessionId = None,
        step_id: Annotated[str | None, Field(description="Refused unless this step is current")] = None,
        review_results: Annotated[
            list[ReviewVerdict] | None, Field(description="Verdicts of your own reviewer")
        ] = None,
    ) -> FinishedStep:
        """Report a step as done; its outputs are checked and reviewed, then you get the next step."""
        shown: list[Session] = []

        def finish(session: Session, taken_over: bool) -> SessionChange[FinishedStep]:
            shown.append(session)
            news = self._list_news(session)
            if not taken_over:  # another agent read the hooks of the process that has exited
                news = drop_read_send_backs(self._database, session, news)
            if answer := self._answer_with_decision(session, step_id, news, taken_over):
                return answer
            require_current_step(session, step_id)
            require_open_budget(session)
            if quality_review_override_reason:
                self._require_override_allowed()
            job = self._catalog.get(session.job_name)
            step_outputs = split_outputs(self._settings.root, job, session, outputs)
            session = count_time(state.mark_decisions_seen(session), format_now())
            session = state.submit_outputs(session, outputs, notes)
            submitted = Submitted(step_outputs, notes, quality_review_override_reason, review_results or [])
            return self._pass_gates(session, submitted, news, taken_over)

        answer = self._state.change(session_id, finish, accepts_ended=was_ended_by_unseen_decision)
        settle_decisions(self._database, shown[-1])
        return answer

    @operation("work", long_running=True, destructive=True, for_people=True)
    def abort_workflow(self, explanation: Text, session_id: str | None = None) -> Aborted:
        """Abort a workflow; the one it was nested in continues."""
        ended: list[Session] = []

        def abort(session: Session, _: bool) -> SessionChange[Aborted]:
            if not is_person(_get_caller()):
                require_open_budget(session)  # else an agent could begin again with all its minutes
            aborted = state.abort(session, explanation, format_now())
            ended.append(aborted)
            left = self._state.stack_sessions(_get_caller(), aborted)
            answer = Aborted(
                aborted_workflow=aborted.workflow,
                aborted_step=aborted.current_step_id,
                explanation=explanation,
                stack=self._state.get_stack(_get_caller(), aborted),
                resumed_workflow=left[-1].workflow if left else None,
                resumed_step=left[-1].current_step_id if left else None,
                branch_note=build_branch_note(self._git, aborted, self._state.list_all),
            )
            return SessionChange(aborted, answer, SessionEvent.ABORTED)

        answer = self._state.change(session_id, abort, adopts=False)
        notify_of_abort(self._database, ended[-1], explanation)
        return answer

    @operation("work", long_running=True, destructive=True)
    def go_to_step(self, step_id: Name, session_id: str | None = None) -> WentToStep:
        """Go back to an earlier step; progress from there on is cleared, files are not changed."""

        shown: list[Session] = []

        def go_back(session: Session, taken_over: bool) -> SessionChange[WentToStep]:
            shown.append(session)
            index = find_entry_index(session, step_id)
            require_no_person_awaited(session, _get_caller())
            news, now = self._list_news(session), format_now()
            counted = count_time(session, now)
            moved, cleared = state.go_back(counted, index, step_id, now)
            require_minutes_left(counted, cleared, _get_caller(), now)
            moved = state.mark_decisions_seen(moved)
            answer = WentToStep(
                status="next_step",
                begin_step=build_active_step(self._catalog.get(session.job_name), moved),
                cleared_steps=cleared,
                stack=self._state.get_stack(_get_caller(), moved),
                taken_over=taken_over or None,
                decisions=to_infos(news),
            )
            return SessionChange(moved, answer, SessionEvent.UPDATED)

        answer = self._state.change(session_id, go_back)
        settle_decisions(self._database, shown[-1])
        return answer

    @operation("read")
    def get_session(self, session_id: SessionId = None) -> SessionView:
        """Get your session, its current step and the stack, for example after losing context."""
        session = self._state.find(session_id)
        begin = build_active_step(self._catalog.get(session.job_name), session) if session.is_active else None
        view = SessionView(
            session=session_to_dict(session),
            begin_step=begin,
            stack=self._state.get_stack(_get_caller()),
            decisions=to_infos(self._list_news(session)),
        )
        self._record_shown(session)
        return view

    @operation("read")
    def validate_outputs(self, outputs: dict[str, Any], session_id: str | None = None) -> Validation:
        """Check outputs as finished_step does, without a review."""
        session = self._state.open(self._state.find(session_id))
        job = self._catalog.get(session.job_name)
        problems, _ = find_problems(self._settings.root, job, session, outputs)
        return Validation(valid=not problems, problems=problems)

    def _list_infos(self, jobs: list[Job]) -> list[JobInfo]:
        """Convert the jobs for answers; reuse the last result if the jobs are the same."""
        if self._last_infos is None or self._last_infos[0] != jobs:
            self._last_infos = (jobs, [_to_info(job) for job in jobs])
        return self._last_infos[1]

    def _create_session(
        self, id: str, job_name: str, workflow: JobWorkflow, goal: str, instance_id: str | None
    ) -> Session:
        first = workflow.entries[0].steps[0]
        session = Session(
            session_id=id,
            job_name=job_name,
            workflow_name=workflow.name,
            goal=goal,
            instance_id=instance_id,
            entries=tuple(PinnedEntry(entry.steps, entry.is_concurrent) for entry in workflow.entries),
            current_step_id=first,
            started_at=format_now(),
            caller=_get_caller(),
            owner=self._state.owner,
        )
        return state.start_step(session, first, session.started_at)

    def _pin_gates(self, session: Session, job: Job) -> Session:
        """Pin what the steps must pass: their checks, approvals and minutes."""
        at_head = CommittedJob(self._git, job)
        require_commit(at_head, lambda: self._had_committed_gates(job.name))
        require_same_gates(at_head, session.workflow_name, [entry.steps for entry in session.entries])
        pinned = self._approvals.pin(self._checks.pin(session, job, at_head), job, at_head)
        return pin_budgets(pinned, job, at_head) if self._settings.limits_minutes else pinned

    def _had_committed_gates(self, job_name: str) -> bool:
        """Whether an earlier session of the job had gates; sessions also work where the store does not."""
        try:
            with self._database.reading() as tx:
                return SessionStore(tx).had_committed_gates(job_name)
        except StorageError:
            return False

    def _prepare_branch(self, session: Session) -> Branch | None:
        """Create the branch of the session, or return that of the session it is nested in."""
        if outer := self._state.stack_sessions(_get_caller()):
            name = outer[-1].branch
            return (
                Branch(name, note=f"It shares the branch of session {outer[-1].session_id}.")
                if name
                else None
            )
        suffix = session.instance_id or session.started_at[:10]
        name = build_branch_name(session.job_name, session.workflow_name, suffix)
        mode, reason = self._settings.git_branch, self._find_reason_to_stay
        return prepare_branch(self._git, name, mode, reason, self._state.list_all)

    def _record_shown(self, session: Session) -> None:
        """Remember the decisions that `get_session` showed, and settle their notices, if its agent called."""
        call = current_call()
        if not is_own_session(call, session.session_id, session.caller):
            return
        may_settle = call.carries_notices and call.scope != "read" and not self._settings.is_read_only
        if may_settle and self._list_news(session) and self._state.has_no_other_owner(session):
            settle_decisions(self._database, session)
        self._shown[session.session_id] = len(session.decisions)

    def _list_news(self, session: Session) -> list[PersonDecision]:
        """List what people decided and no answer in this process, nor a stored one, has shown."""
        known = self._shown.get(session.session_id, 0)
        return [each for each in session.decisions[known:] if not each.is_seen]

    def _answer_with_decision(
        self, session: Session, step_id: str | None, news: list[PersonDecision], taken_over: bool
    ) -> SessionChange[FinishedStep] | None:
        """Answer a report that a person's decision has overtaken; None if the report is to be handled."""
        # An ended session has nothing to report on, even if `get_session` already showed why it ended.
        if not session.is_active or has_passed_meanwhile(session, step_id, news):
            seen = start_clock(state.mark_decisions_seen(session), format_now())
            overtaken = self._answers.report_progress(seen, news, taken_over, review="person")
            return replace(overtaken, event=SessionEvent.UPDATED)
        if (sent_back := find_send_back(news)) is None:
            return None
        seen = start_clock(state.mark_decisions_seen(session), format_now())
        answer = self._answers.build_needs_work(seen, SentBack(format_send_back(sent_back)), news, taken_over)
        return SessionChange(seen, answer, SessionEvent.UPDATED)

    def _require_override_allowed(self) -> None:
        """Raise unless the caller may let a step pass without its review; a person proves to be one."""
        allowed, caller = self._settings.override, _get_caller()
        require_override_allowed(allowed, caller)
        if allowed == "person":
            require_asked(caller)

    def _pass_gates(
        self, session: Session, submitted: Submitted, news: list[PersonDecision], taken_over: bool
    ) -> SessionChange[FinishedStep]:
        """Let the step pass its checks, then its reviews, then its approvals; answer where it stops."""
        proven = self._checks.prove(session)
        if proven.closed:
            returned = proven.session
            if proven.is_red:
                returned = self._return_to_agent(returned, proven.closed.feedback)
            if proven.used_up:
                raise proven.used_up
            return self._answers.report_closed(returned, proven.closed, news, taken_over)
        digest = self._approvals.digest_outputs(proven.session, submitted.outputs)
        session, outcome = self._review(proven.session, submitted, digest)
        if isinstance(outcome, SentBack):
            return self._send_back(session, outcome, news, taken_over)
        if closed := self._approvals.pass_or_ask(session, submitted.outputs):
            waiting = self._approvals.mark_reviewed(session, digest)
            is_refused = closed.evidence["approval"].get("status") == "refused"
            waiting = self._return_to_agent(waiting, closed.message) if is_refused else stop_clock(waiting)
            return self._answers.report_unapproved(waiting, closed, news, taken_over)
        session = complete_steps(session, submitted.outputs, submitted.notes, format_now())
        moved = state.advance(session, format_now())
        passed = self._answers.report_progress(
            moved, news, taken_over, review=outcome.how, rounds=outcome.rounds
        )
        return add_verdicts(passed, proven.verdicts)

    def _review(self, session: Session, submitted: Submitted, digest: str | None) -> tuple[Session, Outcome]:
        """Review the outputs, unless they passed and have waited for a person since."""
        if self._approvals.was_reviewed(session, digest):
            return session, Passed(how="person")
        return self._gate.review(session, submitted)

    def _send_back(
        self, session: Session, outcome: SentBack, news: list[PersonDecision], taken_over: bool
    ) -> SessionChange[FinishedStep]:
        """Answer that the work must be improved."""
        if outcome.asks_for_review:  # the work is done; what is left is to look at it
            returned = start_clock(session, format_now())
        else:
            returned = self._return_to_agent(session, outcome.feedback)
        answer = self._answers.build_needs_work(returned, outcome, news, taken_over)
        return SessionChange(returned, answer, SessionEvent.UPDATED if session.minutes else None)

    def _return_to_agent(self, session: Session, feedback: str) -> Session:
        """Let the agent work on its steps again; raise if their minutes are used up."""
        now = format_now()
        # Stopped: the time since the report is that of the checks and reviews, not the agent's.
        overrun = find_overrun(stop_clock(session), session.current_entry.steps, now)
        if overrun is None:
            return start_clock(session, now)
        text = cut_feedback(f"{overrun} It was sent back: {feedback}")
        waiting = stop_clock(state.wait_for_person(session, PersonReason.BUDGET, text))
        raise build_budget_error(self._state.save(waiting, SessionEvent.UPDATED), text)


def _to_info(job: Job) -> JobInfo:
    return JobInfo.of(job, workflows=[WorkflowInfo.of(each) for each in job.workflows])


def _get_caller() -> str:
    return current_call().caller
