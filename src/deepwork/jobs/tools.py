"""The job tools."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import anyio
from pydantic import Field

from deepwork.call import current_call
from deepwork.errors import Code, InvalidInput, NotAllowed, StateError
from deepwork.files.paths import confine
from deepwork.git.command import Git
from deepwork.jobs.active_step import build_active_step, require_step
from deepwork.jobs.branch import build_branch_name, prepare_branch
from deepwork.jobs.definitions.catalog import JobCatalog
from deepwork.jobs.definitions.models import Job, JobWorkflow, Step
from deepwork.jobs.definitions.output_rules import find_output_problems
from deepwork.jobs.idempotency import derive_session_id, is_repeated, record_answer, replay_answer
from deepwork.jobs.responses import (
    Aborted,
    FinishedStep,
    JobAnswer,
    JobInfo,
    JobLoadError,
    SessionView,
    Started,
    Validation,
    WentToStep,
    WorkflowInfo,
    Workflows,
)
from deepwork.jobs.sessions import state
from deepwork.jobs.sessions.state import PinnedEntry, Session, SessionEvent, format_now
from deepwork.jobs.sessions.state_manager import StateManager, session_to_dict
from deepwork.jobs.step_review import StepOutputs, StepReviewService
from deepwork.tool_declarations import Traits, tool
from deepwork.tool_types import Name, Text

Answer = TypeVar("Answer", bound=JobAnswer)
IsWanted = Callable[[], bool]
MAX_CALLS = 64
SessionId = Annotated[str | None, Field(description="Default: the session on top of your stack")]
SubmittedOutputs = Annotated[
    dict[str, Any], Field(description="Output name to file path, or to a list of paths for type 'files'")
]


@dataclass(frozen=True)
class JobSettings:
    """The settings that the job tools use."""

    root: Path
    git_branch: str = "switch"


class WorkflowTools:
    """Tools that run jobs step by step, with a quality gate after each step."""

    traits: ClassVar = Traits(toolset="jobs")

    def __init__(
        self,
        settings: JobSettings,
        catalog: JobCatalog,
        state: StateManager,
        step_review: StepReviewService,
        git: Git,
    ) -> None:
        self._settings, self._catalog, self._state = settings, catalog, state
        self._step_review, self._git = step_review, git
        self._last_infos: tuple[list[Job], list[JobInfo]] | None = None
        # A separate pool, because these calls may wait long for a reviewer or for a session lock.
        self._threads = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix="job")

    @tool("read")
    def get_workflows(self) -> Workflows:
        """List the jobs of this project and their workflows; call this first."""
        jobs, errors = self._catalog.load_all()
        return Workflows(
            jobs=self._list_infos(jobs),
            errors=[JobLoadError(**asdict(error)) for error in errors],
            stack=self._state.get_stack(_get_caller()),
        )

    @tool("work")
    async def start_workflow(
        self,
        goal: Annotated[Text, Field(description="What the user wants to accomplish")],
        job_name: Name,
        workflow_name: Annotated[Name, Field(description="Ignored if the job has only one")],
        instance_id: Annotated[str | None, Field(description="For the branch name, e.g. 'acme'")] = None,
    ) -> Started:
        """Start a workflow and get its first step; nested in the workflow you are in, if any."""
        return await self._run_in_thread(lambda _: self._start(goal, job_name, workflow_name, instance_id))

    @tool("work")
    async def finished_step(
        self,
        outputs: SubmittedOutputs,
        notes: Annotated[str | None, Field(description="About the work done")] = None,
        quality_review_override_reason: Annotated[
            str | None, Field(description="Skips the review; say why")
        ] = None,
        session_id: SessionId = None,
        step_id: Annotated[str | None, Field(description="Refused unless this step is current")] = None,
    ) -> FinishedStep:
        """Report a step as done; its outputs are checked and reviewed, then you get the next step."""
        return await self._run_in_thread(
            lambda is_wanted: self._finish(
                outputs, notes, quality_review_override_reason, session_id, step_id, is_wanted
            )
        )

    @tool("work", destructive=True, for_people=True)
    async def abort_workflow(
        self, explanation: Annotated[Text, Field(description="Why")], session_id: SessionId = None
    ) -> Aborted:
        """Abort a workflow; the one it was nested in continues."""
        return await self._run_in_thread(lambda is_wanted: self._abort(explanation, session_id, is_wanted))

    @tool("work", destructive=True)
    async def go_to_step(self, step_id: Name, session_id: SessionId = None) -> WentToStep:
        """Go back to an earlier step; progress from there on is cleared, files are not changed."""
        return await self._run_in_thread(lambda is_wanted: self._go_back(step_id, session_id, is_wanted))

    @tool("read")
    def get_session(self, session_id: SessionId = None) -> SessionView:
        """Get your session, its current step and the stack, for example after losing context."""
        id, _ = self._state.resolve(session_id, _get_caller())
        session = self._state.files.load(id)
        begin = build_active_step(self._catalog.get(session.job_name), session) if session.is_active else None
        return SessionView(
            session=session_to_dict(session), begin_step=begin, stack=self._state.get_stack(_get_caller())
        )

    @tool("read")
    def validate_outputs(self, outputs: SubmittedOutputs, session_id: SessionId = None) -> Validation:
        """Check whether finished_step would accept these outputs; nothing is changed or reviewed."""
        id, _ = self._state.resolve(session_id, _get_caller())
        session = self._state.open(self._state.load(id))
        job = self._catalog.get(session.job_name)
        problems = [problem for problem, _ in self._find_problems(job, session, outputs)]
        return Validation(valid=not problems, problems=problems)

    def _list_infos(self, jobs: list[Job]) -> list[JobInfo]:
        """Convert the jobs for answers; reuse the last result if the jobs are the same."""
        if self._last_infos is None or self._last_infos[0] != jobs:
            self._last_infos = (jobs, [_to_info(job) for job in jobs])
        return self._last_infos[1]

    # The work of the asynchronous tools; each call runs in one thread.

    def _start(self, goal: str, job_name: str, workflow_name: str, instance_id: str | None) -> Started:
        arguments = {"goal": goal, "job": job_name, "workflow": workflow_name, "instance": instance_id}
        id = derive_session_id("start_workflow") or self._state.new_id()
        with self._state.files.lock(id):
            if self._state.files.exists(id):
                return replay_answer(self._state.files.load(id), "start_workflow", arguments, Started)
            job = self._catalog.get(job_name)
            workflow = _select_workflow(job, workflow_name)
            session = self._create_session(id, job_name, workflow, goal, instance_id)
            begin = build_active_step(job, session)
            # One at a time: of two concurrent starts, the second is nested in the first.
            with self._state.files.lock_creation():
                session = replace(
                    session,
                    branch=self._prepare_branch(session),
                    created_seq=self._state.files.allocate_sequence(),
                )
                with self._state.adopting(session, _get_caller()):
                    stack = self._state.get_stack(_get_caller(), session)
                    answer = Started(begin_step=begin, branch=session.branch, stack=stack)
                    recorded = record_answer(session, "start_workflow", arguments, answer)
                    self._state.save(recorded, SessionEvent.STARTED)
            return answer

    def _create_session(
        self, id: str, job_name: str, workflow: JobWorkflow, goal: str, instance_id: str | None
    ) -> Session:
        first = workflow.entries[0].steps[0]
        session = Session(
            session_id=id, job_name=job_name, workflow_name=workflow.name, goal=goal, instance_id=instance_id,
            entries=tuple(PinnedEntry(entry.steps, entry.is_concurrent) for entry in workflow.entries),
            current_step_id=first, started_at=format_now(), caller=_get_caller(), owner=self._state.owner,
        )  # fmt: skip
        return state.start_step(session, first, session.started_at)

    def _prepare_branch(self, session: Session) -> str | None:
        """Create the branch of the session, or return that of the session it is nested in."""
        if outer := self._state.stack_sessions(_get_caller()):
            return outer[-1].branch
        suffix = session.instance_id or session.started_at[:10]
        name = build_branch_name(session.job_name, session.workflow_name, suffix)
        return prepare_branch(self._git, name, self._settings.git_branch)

    def _finish(
        self,
        outputs: Mapping[str, Any],
        notes: str | None,
        override: str | None,
        session_id: str | None,
        step_id: str | None,
        is_wanted: IsWanted,
    ) -> FinishedStep:
        arguments = {"outputs": dict(outputs), "notes": notes, "override": override, "step": step_id}
        with self._lock_session("finished_step", session_id, is_wanted) as (session, taken_over):
            if is_repeated(session, "finished_step"):
                return replay_answer(session, "finished_step", arguments, FinishedStep)
            with self._adopt(session, taken_over) as own:
                _require_current(own, step_id)
                job = self._catalog.get(own.job_name)
                step_outputs = self._split_outputs(job, own, outputs)
                gated, refused = self._step_review.review(own, step_outputs, notes, override, is_wanted)
                moved, answer = (
                    (gated, refused) if refused else self._advance(job, gated, step_outputs, notes)
                )
                answer = answer.model_copy(update={"taken_over": taken_over or None})
                recorded = record_answer(moved, "finished_step", arguments, answer)
                if recorded is not gated:  # else the review service has already saved it
                    event = SessionEvent.UPDATED if moved.is_active else SessionEvent.COMPLETED
                    self._state.save(recorded, event)
            if not moved.is_active:
                self._state.remove(moved.session_id)
            return answer

    @contextmanager
    def _lock_session(
        self, tool: str, session_id: str | None, is_wanted: IsWanted, *, takes_over: bool = True
    ) -> Iterator[tuple[Session, bool]]:
        """Lock and load the session that a call refers to; also yield whether it must be taken over."""
        key = current_call().key
        repeated = self._state.files.find_by_key(tool, key) if key and not session_id else None
        id, is_orphan = self._state.resolve(session_id or repeated, _get_caller(), takes_over=takes_over)
        with self._state.files.lock(id):
            if not is_wanted():
                raise StateError(
                    "The call was cancelled while it waited for the session.", code=Code.INVALID_STATE
                )
            yield self._state.load(id), is_orphan

    @contextmanager
    def _adopt(self, session: Session, taken_over: bool) -> Iterator[Session]:
        """Yield the active session, assigned to this caller."""
        opened = self._state.take_over(session) if taken_over else self._state.open(session)
        with self._state.adopting(opened, _get_caller()) as own:
            yield own

    def _advance(
        self, job: Job, session: Session, step_outputs: list[StepOutputs], notes: str | None
    ) -> tuple[Session, FinishedStep]:
        """Complete the current steps and move on; return the session and the answer without saving."""
        moment = format_now()
        for part in step_outputs:
            session = state.complete_step(session, part.step.id, part.outputs, notes, moment)
        session = state.advance(session, moment)
        stack = self._state.get_stack(_get_caller(), session)
        if session.is_active:
            return session, FinishedStep(
                status="next_step", begin_step=build_active_step(job, session), stack=stack
            )
        return session, FinishedStep(
            status="workflow_complete",
            summary=f"Workflow '{session.workflow_name}' completed successfully.",
            all_outputs=state.collect_outputs(session),
            stack=stack,
        )

    def _go_back(self, step_id: str, session_id: str | None, is_wanted: IsWanted) -> WentToStep:
        arguments = {"step": step_id}
        with self._lock_session("go_to_step", session_id, is_wanted) as (session, taken_over):
            if is_repeated(session, "go_to_step"):
                return replay_answer(session, "go_to_step", arguments, WentToStep)
            with self._adopt(session, taken_over) as own:
                moved, cleared = state.go_back(own, _find_entry_index(own, step_id), step_id, format_now())
                answer = WentToStep(
                    status="next_step",
                    begin_step=build_active_step(self._catalog.get(own.job_name), moved),
                    cleared_steps=cleared,
                    stack=self._state.get_stack(_get_caller(), moved),
                    taken_over=taken_over or None,
                )
                self._state.save(record_answer(moved, "go_to_step", arguments, answer), SessionEvent.UPDATED)
            return answer

    def _split_outputs(self, job: Job, session: Session, outputs: Mapping[str, Any]) -> list[StepOutputs]:
        """Split the outputs by step; raise one error that names every problem."""
        if found := list(self._find_problems(job, session, outputs)):
            codes = [code for _, code in found]
            raise InvalidInput(
                " ".join(problem for problem, _ in found),
                code=Code.PATH_OUTSIDE_PROJECT if Code.PATH_OUTSIDE_PROJECT in codes else Code.INVALID_INPUT,
                suggestion="Correct the outputs and call {tool:finished_step} again.",
            )
        return _split_by_step(self._list_current_steps(job, session), outputs)

    def _find_problems(
        self, job: Job, session: Session, outputs: Mapping[str, Any]
    ) -> list[tuple[str, Code]]:
        group = self._list_current_steps(job, session)
        codes: list[Code] = []

        def find_path_problem(path: str) -> str | None:
            try:
                resolved = confine(self._settings.root, path, must_exist=False, kind="file")
            except InvalidInput as error:
                codes.append(error.code)
                return error.message
            return None if resolved.exists() else f"file not found at '{path}'."

        declared = {spec.name: spec for step in reversed(group[1:]) for spec in step.outputs}
        declared = {name: replace(spec, required=False) for name, spec in declared.items()}
        declared |= {spec.name: spec for spec in group[0].outputs}
        found = list(find_output_problems(outputs, list(declared.values()), find_path_problem))
        worst = Code.PATH_OUTSIDE_PROJECT if Code.PATH_OUTSIDE_PROJECT in codes else Code.INVALID_INPUT
        return [(problem, worst) for problem in found]

    @staticmethod
    def _list_current_steps(job: Job, session: Session) -> list[Step]:
        """Return the current step, followed by the steps concurrent with it."""
        others = [id for id in session.current_entry.steps if id != session.current_step_id]
        return [require_step(job, id, session) for id in (session.current_step_id, *others)]

    def _abort(self, explanation: str, session_id: str | None, is_wanted: IsWanted) -> Aborted:
        arguments = {"explanation": explanation}
        with self._lock_session("abort_workflow", session_id, is_wanted, takes_over=False) as (session, _):
            if is_repeated(session, "abort_workflow"):
                return replay_answer(session, "abort_workflow", arguments, Aborted)
            aborted = state.abort(self._state.open(session), explanation, format_now())
            left = self._state.stack_sessions(_get_caller(), aborted)
            answer = Aborted(
                aborted_workflow=aborted.workflow,
                aborted_step=aborted.current_step_id,
                explanation=explanation,
                stack=self._state.get_stack(_get_caller(), aborted),
                resumed_workflow=left[-1].workflow if left else None,
                resumed_step=left[-1].current_step_id if left else None,
            )
            self._state.save(
                record_answer(aborted, "abort_workflow", arguments, answer), SessionEvent.ABORTED
            )
            self._state.remove(session.session_id)
            return answer

    async def _run_in_thread(self, work: Callable[[IsWanted], Answer]) -> Answer:
        """Run the work to its end in one thread; cancelling the call makes its `is_wanted` return False."""
        gone = threading.Event()
        context, loop = copy_context(), asyncio.get_running_loop()
        working = loop.run_in_executor(self._threads, context.run, work, lambda: not gone.is_set())
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            gone.set()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({working})
            raise


def _split_by_step(group: list[Step], outputs: Mapping[str, Any]) -> list[StepOutputs]:
    """Divide the outputs among the steps that declare them; the first step takes precedence."""
    step_outputs, left = [], dict(outputs)
    for step in group:
        own = {spec.name: left.pop(spec.name) for spec in step.outputs if spec.name in left}
        if own or step is group[0]:
            step_outputs.append(StepOutputs(step, own))
    return step_outputs


def _to_info(job: Job) -> JobInfo:
    return JobInfo(
        name=job.name,
        summary=job.summary,
        description=job.description,
        workflows=[WorkflowInfo(name=each.name, summary=each.summary) for each in job.workflows],
    )


def _select_workflow(job: Job, name: str) -> JobWorkflow:
    """Return the workflow of that name, or the only one of the job."""
    if not job.workflows:
        raise NotAllowed(f"Job {job.name!r} has no workflows.", suggestion="Add one to its job.yml.")
    workflow = job.find_workflow(name) or (job.workflows[0] if len(job.workflows) == 1 else None)
    names = ", ".join(each.name for each in job.workflows)
    if workflow is None:
        raise InvalidInput(
            f"Workflow {name!r} not found in job {job.name!r}. Its workflows: {names}.",
            suggestion="Call {tool:start_workflow} with one of these names.",
        )
    if not workflow.entries:
        raise NotAllowed(f"Workflow {workflow.name!r} of job {job.name!r} has no steps.")
    return workflow


def _find_entry_index(session: Session, step_id: str) -> int:
    places = {step: place for place, entry in enumerate(session.entries) for step in entry.steps}
    if step_id not in places:
        raise InvalidInput(f"There is no step {step_id!r} in this workflow. Its steps: {', '.join(places)}.")
    if places[step_id] > session.current_entry_index:
        raise NotAllowed(
            f"Step {step_id!r} comes after the current step {session.current_step_id!r}.",
            suggestion="Finish the steps before it with {tool:finished_step}.",
        )
    return places[step_id]


def _require_current(session: Session, step_id: str | None) -> None:
    if step_id and step_id != session.current_step_id:
        raise NotAllowed(
            f"Step {step_id!r} is not current; the session is at {session.current_step_id!r}.",
            suggestion="See {tool:get_session} for what the current step needs.",
        )


def _get_caller() -> str:
    return current_call().caller
