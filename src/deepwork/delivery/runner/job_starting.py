"""Says whether a job can be run here, and which run of it goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from deepwork.delivery.runner.job_steps import JobSteps
from deepwork.delivery.runner.models import Run
from deepwork.delivery.runner.store import RunStore
from deepwork.gates.checks.service import CheckService
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.kernel.files.repositories import find_repository
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.committed_files import read_committed_file
from deepwork.kernel.git.refs import find_head
from deepwork.work.jobs.definitions.catalog import JobCatalog
from deepwork.work.jobs.definitions.models import JOB_FILE, Job, JobWorkflow
from deepwork.work.jobs.rules import select_workflow


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
