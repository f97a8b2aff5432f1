"""What can be asked of jobs."""

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

from deepwork.database.call import current_call
from deepwork.errors import Code, InvalidInput, NotAllowed, StateError
from deepwork.files.paths import confine
from deepwork.git.command import Git
from deepwork.jobs import progress
from deepwork.jobs.branch import branch_name, prepare_branch
from deepwork.jobs.briefing import briefing, require_step
from deepwork.jobs.definitions import JobShelf
from deepwork.jobs.gatekeeper import Gatekeeper, Share
from deepwork.jobs.models import Job, Step, Workflow
from deepwork.jobs.output_rules import output_problems
from deepwork.jobs.progress import PinnedEntry, Session, SessionEvent, now
from deepwork.jobs.repeats import again, answered, id_from_key, was_answered
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
from deepwork.jobs.sessions import StateManager, shown
from deepwork.shapes import Name, Text, Traits

Answer = TypeVar("Answer", bound=JobAnswer)
Wanted = Callable[[], bool]
MAX_CALLS = 64
SessionId = Annotated[str | None, Field(description="Default: the session on top of your stack")]
SubmittedOutputs = Annotated[
    dict[str, Any], Field(description="Output name to file path, or to a list of paths for type 'files'")
]


@dataclass(frozen=True)
class JobSettings:
    """What the operator decided."""

    root: Path
    git_branch: str = "switch"


class WorkflowTools:
    """Jobs are run step by step, each step behind its quality gate."""

    traits: ClassVar = Traits(
        toolset="jobs",
        read_only=frozenset({"get_workflows", "get_session", "validate_outputs"}),
        destructive=frozenset({"abort_workflow", "go_to_step"}),
    )

    def __init__(
        self,
        settings: JobSettings,
        shelf: JobShelf,
        state: StateManager,
        gatekeeper: Gatekeeper,
        git: Git,
    ) -> None:
        self._settings, self._shelf, self._state = settings, shelf, state
        self._gatekeeper, self._git = gatekeeper, git
        self._last_listed: tuple[list[Job], list[JobInfo]] | None = None
        # Their own threads, because they may wait long for a reviewer or for each other.
        self._threads = ThreadPoolExecutor(MAX_CALLS, thread_name_prefix="job")

    def get_workflows(self) -> Workflows:
        """List the jobs of this project and their workflows; call this first."""
        jobs, errors = self._shelf.all()
        return Workflows(
            jobs=self._listed(jobs),
            errors=[JobLoadError(**asdict(error)) for error in errors],
            stack=self._state.get_stack(_caller()),
        )

    async def start_workflow(
        self,
        goal: Annotated[Text, Field(description="What the user wants to accomplish")],
        job_name: Name,
        workflow_name: Annotated[
            Name, Field(description="A job's only workflow is chosen whatever you write")
        ],
        instance_id: Annotated[str | None, Field(description="For the branch name, e.g. 'acme'")] = None,
    ) -> Started:
        """Start a workflow and get its first step; while another runs, it is nested in that one."""
        return await self._in_thread(lambda _: self._start(goal, job_name, workflow_name, instance_id))

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
        """Report a step as done: its outputs are checked and reviewed, then you get the next step."""
        return await self._in_thread(
            lambda wanted: self._finish(
                outputs, notes, quality_review_override_reason, session_id, step_id, wanted
            )
        )

    async def abort_workflow(
        self, explanation: Annotated[Text, Field(description="Why")], session_id: SessionId = None
    ) -> Aborted:
        """Give up a workflow; the one it was nested in goes on."""
        return await self._in_thread(lambda wanted: self._abort(explanation, session_id, wanted))

    async def go_to_step(self, step_id: Name, session_id: SessionId = None) -> WentToStep:
        """Go back to an earlier step; progress from there on is cleared, files stay as they are."""
        return await self._in_thread(lambda wanted: self._go_back(step_id, session_id, wanted))

    def get_session(self, session_id: SessionId = None) -> SessionView:
        """What you are in the middle of: the session, its current step, the stack; for a lost context."""
        id, _ = self._state.resolve(session_id, _caller())
        session = self._state.files.load(id)
        begin = briefing(self._shelf.find(session.job_name), session) if session.is_active else None
        return SessionView(session=shown(session), begin_step=begin, stack=self._state.get_stack(_caller()))

    def validate_outputs(self, outputs: SubmittedOutputs, session_id: SessionId = None) -> Validation:
        """Try out whether finished_step would accept these outputs; nothing is changed or reviewed."""
        id, _ = self._state.resolve(session_id, _caller())
        session = self._state.open(self._state.load(id))
        job = self._shelf.find(session.job_name)
        problems = [problem for problem, _ in self._problems(job, session, outputs)]
        return Validation(valid=not problems, problems=problems)

    def _listed(self, jobs: list[Job]) -> list[JobInfo]:
        """The jobs as answers show them; those of the last time if they are the same."""
        if self._last_listed is None or self._last_listed[0] != jobs:
            self._last_listed = (jobs, [_info(job) for job in jobs])
        return self._last_listed[1]

    # What the asynchronous tools do, each in one thread.

    def _start(self, goal: str, job_name: str, workflow_name: str, instance_id: str | None) -> Started:
        arguments = {"goal": goal, "job": job_name, "workflow": workflow_name, "instance": instance_id}
        id = id_from_key("start_workflow") or self._state.new_id()
        with self._state.files.held(id):
            if self._state.files.exists(id):
                return again(self._state.files.load(id), "start_workflow", arguments, Started)
            job = self._shelf.find(job_name)
            workflow = _workflow(job, workflow_name)
            session = self._new_session(id, job_name, workflow, goal, instance_id)
            begin = briefing(job, session)
            # One at a time: of two that begin at once, the second is nested in the first.
            with self._state.files.starting():
                session = replace(
                    session, branch=self._branch(session), created_seq=self._state.files.next_seq()
                )
                with self._state.adopting(session, _caller()):
                    stack = self._state.get_stack(_caller(), session)
                    answer = Started(begin_step=begin, branch=session.branch, stack=stack)
                    kept = answered(session, "start_workflow", arguments, answer)
                    self._state.save(kept, SessionEvent.STARTED)
            return answer

    def _new_session(
        self, id: str, job_name: str, workflow: Workflow, goal: str, instance_id: str | None
    ) -> Session:
        first = workflow.entries[0].steps[0]
        session = Session(
            session_id=id, job_name=job_name, workflow_name=workflow.name, goal=goal, instance_id=instance_id,
            entries=tuple(PinnedEntry(entry.steps, entry.is_concurrent) for entry in workflow.entries),
            current_step_id=first, started_at=now(), caller=_caller(), owner=self._state.owner,
        )  # fmt: skip
        return progress.started(session, first, session.started_at)

    def _branch(self, session: Session) -> str | None:
        """The session's branch: its own, or that of the session it is nested in."""
        if outer := self._state.stack_sessions(_caller()):
            return outer[-1].branch
        suffix = session.instance_id or session.started_at[:10]
        name = branch_name(session.job_name, session.workflow_name, suffix)
        return prepare_branch(self._git, name, self._settings.git_branch)

    def _finish(
        self,
        outputs: Mapping[str, Any],
        notes: str | None,
        override: str | None,
        session_id: str | None,
        step_id: str | None,
        wanted: Wanted,
    ) -> FinishedStep:
        arguments = {"outputs": dict(outputs), "notes": notes, "override": override, "step": step_id}
        with self._found("finished_step", session_id, wanted) as (session, taken_over):
            if was_answered(session, "finished_step"):
                return again(session, "finished_step", arguments, FinishedStep)
            with self._own(session, taken_over) as own:
                _require_current(own, step_id)
                job = self._shelf.find(own.job_name)
                shares = self._shares(job, own, outputs)
                gated, refused = self._gatekeeper.pass_gate(own, shares, notes, override, wanted)
                moved, answer = (gated, refused) if refused else self._advance(job, gated, shares, notes)
                answer = answer.model_copy(update={"taken_over": taken_over or None})
                kept = answered(moved, "finished_step", arguments, answer)
                if kept is not gated:  # else the gatekeeper has kept all there is
                    event = SessionEvent.UPDATED if moved.is_active else SessionEvent.COMPLETED
                    self._state.save(kept, event)
            if not moved.is_active:
                self._state.remove(moved.session_id)
            return answer

    @contextmanager
    def _found(
        self, tool: str, session_id: str | None, wanted: Wanted, *, takes_over: bool = True
    ) -> Iterator[tuple[Session, bool]]:
        """The session that a call is about, held, and whether it is to be taken over."""
        key = current_call().key
        repeated = self._state.files.answered_under(tool, key) if key and not session_id else None
        id, is_orphan = self._state.resolve(session_id or repeated, _caller(), takes_over=takes_over)
        with self._state.files.held(id):
            if not wanted():
                raise StateError("The call was cancelled before its turn came.", code=Code.INVALID_STATE)
            yield self._state.load(id), is_orphan

    @contextmanager
    def _own(self, session: Session, taken_over: bool) -> Iterator[Session]:
        """The session, under way, as the caller's own."""
        opened = self._state.take_over(session) if taken_over else self._state.open(session)
        with self._state.adopting(opened, _caller()) as own:
            yield own

    def _advance(
        self, job: Job, session: Session, shares: list[Share], notes: str | None
    ) -> tuple[Session, FinishedStep]:
        """The session one place further, and the answer that says so; nothing is kept yet."""
        moment = now()
        for share in shares:
            session = progress.completed(session, share.step.id, share.outputs, notes, moment)
        session = progress.advanced(session, moment)
        stack = self._state.get_stack(_caller(), session)
        if session.is_active:
            return session, FinishedStep(status="next_step", begin_step=briefing(job, session), stack=stack)
        return session, FinishedStep(
            status="workflow_complete",
            summary=f"Workflow '{session.workflow_name}' completed successfully.",
            all_outputs=progress.all_outputs(session),
            stack=stack,
        )

    def _go_back(self, step_id: str, session_id: str | None, wanted: Wanted) -> WentToStep:
        arguments = {"step": step_id}
        with self._found("go_to_step", session_id, wanted) as (session, taken_over):
            if was_answered(session, "go_to_step"):
                return again(session, "go_to_step", arguments, WentToStep)
            with self._own(session, taken_over) as own:
                moved, cleared = progress.back_at(own, _place_of(own, step_id), step_id, now())
                answer = WentToStep(
                    status="next_step",
                    begin_step=briefing(self._shelf.find(own.job_name), moved),
                    cleared_steps=cleared,
                    stack=self._state.get_stack(_caller(), moved),
                    taken_over=taken_over or None,
                )
                self._state.save(answered(moved, "go_to_step", arguments, answer), SessionEvent.UPDATED)
            return answer

    def _shares(self, job: Job, session: Session, outputs: Mapping[str, Any]) -> list[Share]:
        """The submission by the step that each part belongs to; whatever is wrong with it is one error."""
        if found := list(self._problems(job, session, outputs)):
            codes = [code for _, code in found]
            raise InvalidInput(
                " ".join(problem for problem, _ in found),
                code=Code.PATH_OUTSIDE_PROJECT if Code.PATH_OUTSIDE_PROJECT in codes else Code.INVALID_INPUT,
                suggestion="Correct the outputs and call finished_step again.",
            )
        return _by_step(self._group(job, session), outputs)

    def _problems(self, job: Job, session: Session, outputs: Mapping[str, Any]) -> list[tuple[str, Code]]:
        group = self._group(job, session)
        codes: list[Code] = []

        def problem_with(path: str) -> str | None:
            try:
                resolved = confine(self._settings.root, path, must_exist=False, kind="file")
            except InvalidInput as error:
                codes.append(error.code)
                return error.message
            return None if resolved.exists() else f"file not found at '{path}'."

        declared = {spec.name: spec for step in reversed(group[1:]) for spec in step.outputs}
        declared = {name: replace(spec, required=False) for name, spec in declared.items()}
        declared |= {spec.name: spec for spec in group[0].outputs}
        found = list(output_problems(outputs, list(declared.values()), problem_with))
        worst = Code.PATH_OUTSIDE_PROJECT if Code.PATH_OUTSIDE_PROJECT in codes else Code.INVALID_INPUT
        return [(problem, worst) for problem in found]

    @staticmethod
    def _group(job: Job, session: Session) -> list[Step]:
        """The current step, then those that may be done at the same time."""
        others = [id for id in session.current_entry.steps if id != session.current_step_id]
        return [require_step(job, id, session) for id in (session.current_step_id, *others)]

    def _abort(self, explanation: str, session_id: str | None, wanted: Wanted) -> Aborted:
        arguments = {"explanation": explanation}
        with self._found("abort_workflow", session_id, wanted, takes_over=False) as (session, _):
            if was_answered(session, "abort_workflow"):
                return again(session, "abort_workflow", arguments, Aborted)
            aborted = progress.aborted(self._state.open(session), explanation, now())
            left = self._state.stack_sessions(_caller(), aborted)
            answer = Aborted(
                aborted_workflow=aborted.workflow,
                aborted_step=aborted.current_step_id,
                explanation=explanation,
                stack=self._state.get_stack(_caller(), aborted),
                resumed_workflow=left[-1].workflow if left else None,
                resumed_step=left[-1].current_step_id if left else None,
            )
            self._state.save(answered(aborted, "abort_workflow", arguments, answer), SessionEvent.ABORTED)
            self._state.remove(session.session_id)
            return answer

    async def _in_thread(self, work: Callable[[Wanted], Answer]) -> Answer:
        """Do the work in one thread, to its end; if the caller goes away, whoever waits in it is told."""
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


def _by_step(group: list[Step], outputs: Mapping[str, Any]) -> list[Share]:
    """The submission, divided among the steps that declare its names; the first step has them first."""
    shares, left = [], dict(outputs)
    for step in group:
        own = {spec.name: left.pop(spec.name) for spec in step.outputs if spec.name in left}
        if own or step is group[0]:
            shares.append(Share(step, own))
    return shares


def _info(job: Job) -> JobInfo:
    return JobInfo(
        name=job.name,
        summary=job.summary,
        description=job.description,
        workflows=[WorkflowInfo(name=each.name, summary=each.summary) for each in job.workflows],
    )


def _workflow(job: Job, name: str) -> Workflow:
    """The workflow of that name, or the only one there is."""
    if not job.workflows:
        raise NotAllowed(f"Job {job.name!r} has no workflows.", suggestion="Add one to its job.yml.")
    workflow = job.workflow(name) or (job.workflows[0] if len(job.workflows) == 1 else None)
    names = ", ".join(each.name for each in job.workflows)
    if workflow is None:
        raise InvalidInput(
            f"Workflow {name!r} not found in job {job.name!r}. Its workflows: {names}.",
            suggestion="Call start_workflow with one of these names.",
        )
    if not workflow.entries:
        raise NotAllowed(f"Workflow {workflow.name!r} of job {job.name!r} has no steps.")
    return workflow


def _place_of(session: Session, step_id: str) -> int:
    places = {step: place for place, entry in enumerate(session.entries) for step in entry.steps}
    if step_id not in places:
        raise InvalidInput(f"There is no step {step_id!r} in this workflow. Its steps: {', '.join(places)}.")
    if places[step_id] > session.current_entry_index:
        raise NotAllowed(
            f"Step {step_id!r} lies ahead; the current step is {session.current_step_id!r}.",
            suggestion="Finish the steps before it with finished_step.",
        )
    return places[step_id]


def _require_current(session: Session, step_id: str | None) -> None:
    if step_id and step_id != session.current_step_id:
        raise NotAllowed(
            f"Step {step_id!r} is not current; the session is at {session.current_step_id!r}.",
            suggestion="See get_session for what the current step needs.",
        )


def _caller() -> str:
    return current_call().caller
