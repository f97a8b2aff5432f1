"""Starts runs of jobs, and their steps one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from deepwork.delivery.runner.claiming import TaskClaimer, find_next_profile, find_step_overrun
from deepwork.delivery.runner.job_steps import JobStep, JobSteps, build_step_id, is_current, locate_place
from deepwork.delivery.runner.models import Attempt, Run, RunStatus
from deepwork.delivery.runner.profiles import AgentProfile
from deepwork.delivery.runner.rules import is_held, is_limit_sure
from deepwork.delivery.runner.service import RunService
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.delivery.runner.work_sources import WorkPlace
from deepwork.gates.checks.service import CheckService
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import DeepworkError, InvalidInput, NotAllowed, StorageError
from deepwork.kernel.files.repositories import find_repository
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.exact_files import read_committed_file
from deepwork.kernel.git.refs import find_head
from deepwork.work.jobs.definitions.catalog import JobCatalog
from deepwork.work.jobs.definitions.models import JOB_FILE, Job, JobWorkflow
from deepwork.work.jobs.rules import select_workflow
from deepwork.work.jobs.sessions.state import Session, SessionStatus
from deepwork.work.plans.models import TaskStatus


class JobStarter:
    """Checks jobs before they are run."""

    def __init__(
        self,
        database: Database,
        project: Path,
        catalog: JobCatalog,
        steps: JobSteps,
        git: Git,
        get_checks: Callable[[Path], CheckService],
        host: str,
    ) -> None:
        self.project, self._catalog, self._steps, self._git = project, catalog, steps, git
        self._database, self._get_checks, self._host = database, get_checks, host

    def find(self, given: str) -> tuple[str, JobWorkflow]:
        """Return the full name `JOB/WORKFLOW` of what can be run, and its workflow; raises if it cannot."""
        name, _, wanted = given.partition("/")
        job = self._catalog.get(name)
        workflow = select_workflow(job, wanted)
        self._require_committed(job, self._find_base())
        return f"{job.name}/{workflow.name}", workflow

    def require_trusted_checks(self, given: str) -> None:
        """Raise GateClosed if a step has checks whose commands nobody trusted."""
        name, _, wanted = given.partition("/")
        job = self._catalog.get(name)
        steps = [job.find_step(id) for id in select_workflow(job, wanted).step_ids]
        names = sorted({check for step in steps if step for check in step.checks})
        if names:
            self._get_checks(self.project).require_trusted(self.project, self._find_base(), names)

    def find_unfinished(self, job: str, goal: str) -> Run | None:
        """Return the last run of this job with this goal, if it is not done and can go on."""
        with self._database.reading() as tx:
            last = RunStore(tx).find_last_of_job(job, goal, self._host)
        return last if last is not None and self._steps.can_continue(last) else None

    def _find_base(self) -> str:
        head = find_head(self._git) if self._git.is_repository() else None
        if head is None:
            raise NotAllowed(
                f"{self.project} is not in a git repository with a commit.",
                suggestion="Agents work on a job in a worktree of its own: run `git init`, and commit.",
            )
        return head.commit

    def _require_committed(self, job: Job, base: str) -> None:
        """Raise if the job is not in the commit from which the worktree of its run begins."""
        top, folder = find_repository(self.project), job.folder.resolve()
        if top is None or not folder.is_relative_to(top.resolve()):
            return
        path = (folder.relative_to(top.resolve()) / JOB_FILE).as_posix()
        if read_committed_file(self._git, base, path) is None:
            raise InvalidInput(
                f"Job {job.name!r} is not committed.",
                suggestion=f"Agents work in a worktree that begins at the last commit: commit {path}, "
                "with its instructions.",
            )


class JobScheduler:
    """Begins the steps of jobs, one after the other: each needs what the one before wrote."""

    def __init__(
        self,
        database: Database,
        claimer: TaskClaimer,
        steps: JobSteps,
        get_profile: Callable[[str], AgentProfile],
        host: str,
    ) -> None:
        self._database, self._claimer, self._steps = database, claimer, steps
        self._get_profile, self._host = get_profile, host
        self._runs = RunService(database)

    def advance(self, run: Run, waiting: Sequence[Attempt], limit: str | None) -> bool:
        """Begin the next step of a run without working agents, or end it; return whether anything happened.

        `waiting` are its attempts that wait for a person; `limit` is why it must not start more.
        """
        try:
            session = self._steps.begin(run)
        except StorageError:
            raise
        except DeepworkError as error:
            reason = f"{error.message} {error.suggestion or ''}".strip()
            self._runs.set_status(run.id, RunStatus.NEEDS_PERSON, reason)
            return True
        if waiting:
            return self._ask_person(run, session, waiting)
        if not session.is_active:
            self._end(run, session)
            return True
        if limit is not None:
            self._runs.set_status(run.id, RunStatus.NEEDS_PERSON, limit)
            return True
        return self._begin_step(run, session)

    def _ask_person(self, run: Run, session: Session, waiting: Sequence[Attempt]) -> bool:
        if any(map(is_held, waiting)):
            return False  # a person says when it continues
        for attempt in waiting:
            if is_current(session, attempt):
                self._runs.set_status(run.id, RunStatus.NEEDS_PERSON, attempt.reason)
                return True
        return False  # its step has passed, and its work is being committed

    def _end(self, run: Run, session: Session) -> None:
        if session.status is SessionStatus.COMPLETED:
            branch = locate_place(run).branch
            self._runs.set_status(run.id, RunStatus.DONE, f"The result is on the branch {branch}.")
        else:
            reason = session.abort_reason or "no reason was given"
            self._runs.set_status(run.id, RunStatus.STOPPED, f"The session was aborted: {reason}")

    def _begin_step(self, run: Run, session: Session) -> bool:
        step = JobStep(build_step_id(session), session.current_step_id, TaskStatus.PENDING, None)
        with self._database.reading() as tx:
            name = find_next_profile(tx, run, step)
            profile = self._get_profile(name) if name else None
            at_limit = (
                AttemptStore(tx).count_at_limit(profile.kind, profile.name, self._host) if profile else (0, 0)
            )
            if is_limit_sure(*at_limit):
                return False
        if profile is None:
            reason = f"Every agent of the chain has tried step {step.name!r}."
            self._runs.set_status(run.id, RunStatus.NEEDS_PERSON, reason)
            return True
        place = locate_place(run)
        if overrun := self._find_overrun(place, session, step.id):
            self._runs.set_status(run.id, RunStatus.NEEDS_PERSON, overrun)
            return True
        return self._claimer.begin_step(run, step.id, profile, place) is not None

    def _find_overrun(self, place: WorkPlace, session: Session, step_id: str) -> str | None:
        """Return why no further agent may begin a step: earlier ones have used up its budget."""
        limit = self._steps.find_step_budget(place.tree, session, step_id)
        if limit is None:
            return None
        with self._database.reading() as tx:
            return find_step_overrun(tx, step_id, limit)
