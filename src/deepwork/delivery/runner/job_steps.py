"""The steps of jobs, as work for attempts.

A run of a job has a worktree of its own, and its session is in that tree: the tree is the project for
everything that jobs do, as if an agent worked there with a server of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from deepwork.delivery.runner.models import Attempt, AttemptStage, Run
from deepwork.delivery.runner.profiles import COMMAND_KIND
from deepwork.delivery.runner.prompts import OUTPUTS_VARIABLE, StepPrompt, build_step_prompt, locate_report
from deepwork.delivery.runner.service import RunService
from deepwork.delivery.runner.store import AttemptStore, RunStore
from deepwork.delivery.runner.work_sources import StepBudget, WorkPlace
from deepwork.delivery.runner.workspace_setup import WorkspaceSettings
from deepwork.gates.approvals.models import Approval, ApprovalKind, ApprovalStatus
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.config import STATE_FOLDER
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError, NotAllowed, NotFound
from deepwork.kernel.files.lock import hold_file_lock
from deepwork.kernel.files.private import make_state_folder
from deepwork.kernel.files.repositories import find_git_folder, find_repository
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.worktrees import add_worktree, find_worktree
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import parse_timestamp
from deepwork.work.jobs.active_step import build_active_step
from deepwork.work.jobs.definitions.catalog import JobCatalog
from deepwork.work.jobs.responses import ActiveStep
from deepwork.work.jobs.sessions.state import Session, SessionStatus
from deepwork.work.jobs.sessions.state_manager import StateManager
from deepwork.work.plans.models import DEFAULT_MAX_ATTEMPTS, TaskStatus
from deepwork.work.workspaces.models import build_slug
from deepwork.work.workspaces.repositories import WORKTREES

BRANCH_PREFIX = "deepwork/"
_LOCK_NAME = "deepwork-jobs.lock"
_LOOK_AGAIN_MS = 10_000
"""How long a step that waits for a person waits at least before it is reported again."""


class JobToolCaller(Protocol):
    """Calls a job tool as every interface does: under its key, a repeated call gets the first answer."""

    def __call__(self, tool: str, arguments: Mapping[str, Any], *, key: str) -> Mapping[str, Any]: ...


@dataclass(frozen=True)
class JobServices:
    """The jobs of one working tree."""

    catalog: JobCatalog
    sessions: StateManager
    call: JobToolCaller
    """Calls the job tools of that tree."""


@dataclass(frozen=True)
class JobStep:
    """The step that an attempt works on, as it is now."""

    id: str
    """`SESSION/STEP`."""
    name: str
    status: TaskStatus
    claimed_by: str | None
    waits_for: str | None = None
    """What a step that was reported waits for: `person` or `approval`."""
    finished_at: int | None = None
    max_attempts: int = DEFAULT_MAX_ATTEMPTS


class JobSteps:
    """Steps of jobs; all steps of a run are worked on in one worktree, one after the other."""

    def __init__(
        self,
        database: Database,
        open_jobs: Callable[[Path], JobServices],
        open_git: Callable[[Path], Git],
        load_workspace_settings: Callable[[], WorkspaceSettings],
    ) -> None:
        self._database, self.open_jobs, self._open_git = database, open_jobs, open_git
        self._load_workspace_settings = load_workspace_settings
        self._runs = RunService(database)

    # The session

    def begin(self, run: Run) -> Session:
        """Return the session of a run, after making its worktree and starting it. It can be repeated."""
        place = locate_place(run)
        if run.session_id is not None:
            return self._open_tree(place.tree).sessions.load(run.session_id)
        self._make_tree(place)
        job, _, workflow = (run.job or "").partition("/")
        started = self._open_tree(place.tree).call(
            "start_workflow", {"goal": run.goal, "job_name": job, "workflow_name": workflow}, key=run.id
        )
        session_id = str(started["begin_step"]["session_id"])
        self._runs.set_session(run.id, session_id)
        return self.open_jobs(place.tree).sessions.load(session_id)

    def _make_tree(self, place: WorkPlace) -> None:
        repository = find_repository(place.main) or place.main
        path = repository / WORKTREES / place.branch.removeprefix(BRANCH_PREFIX)
        make_state_folder(repository / STATE_FOLDER)
        git = self._open_git(repository)
        with hold_file_lock(find_git_folder(repository) / _LOCK_NAME):
            if find_worktree(git, path) is None or not path.is_dir():
                add_worktree(git, path, place.branch, existing=True)
        # If the project has no .gitignore for it, the branch must not bring one: it would hinder a merge.
        make_state_folder(place.tree / STATE_FOLDER)

    def can_continue(self, run: Run) -> bool:
        """Return whether the job of a run is not done, and can go on where it was left."""
        if run.session_id is None:
            return not run.status.is_final
        try:
            return self._open_tree(locate_place(run).tree).sessions.load(run.session_id).is_active
        except DeepworkError:
            return False

    def load_session(self, attempt: Attempt) -> Session:
        """Return the session that an attempt works on."""
        session_id, _ = split_step_id(attempt.task_id)
        return self._open_tree(Path(attempt.tree or "")).sessions.load(session_id)

    def describe_step(self, attempt: Attempt, session: Session) -> ActiveStep:
        """Describe the current step of an attempt's session."""
        return build_active_step(
            self.open_jobs(Path(attempt.tree or "")).catalog.get(session.job_name), session
        )

    def _open_tree(self, tree: Path) -> JobServices:
        if not tree.is_dir():
            raise NotAllowed(
                f"The worktree {str(tree)!r} is gone, and with it the session of the job.",
                suggestion="Start the job again: `deepwork run JOB/WORKFLOW --goal TEXT`.",
            )
        return self.open_jobs(tree)

    # Work for attempts

    def load(self, tx: Transaction, attempts: Sequence[Attempt]) -> Mapping[str, JobStep]:
        """Return the steps of attempts; that of a session which cannot be read is left out."""
        found = {}
        for attempt in attempts:
            try:
                found[attempt.task_id] = self._load_step(tx, attempt)
            except DeepworkError:
                continue
        return found

    def _load_step(self, tx: Transaction, attempt: Attempt) -> JobStep:
        session = self.load_session(attempt)
        _, step_id = split_step_id(attempt.task_id)
        if session.status is SessionStatus.ABORTED:  # as if the task was taken away
            return JobStep(attempt.task_id, step_id, TaskStatus.PENDING, None)
        if not is_current(session, attempt):
            ended = session.get_progress(step_id).completed_at
            at = parse_timestamp(ended, "completed_at") if ended else None
            return JobStep(attempt.task_id, step_id, TaskStatus.COMPLETED, None, finished_at=at)
        waits_for = _find_wait(tx, attempt, session) if attempt.stage is AttemptStage.REVIEWING else None
        return JobStep(attempt.task_id, step_id, TaskStatus.IN_PROGRESS, attempt.agent_id, waits_for)

    def find_budget(self, attempt: Attempt) -> StepBudget | None:
        """Return what may be spent on the step of an attempt; None: there is no limit."""
        return self.find_step_budget(Path(attempt.tree or ""), self.load_session(attempt), attempt.task_id)

    def find_step_budget(self, tree: Path, session: Session, task_id: str) -> StepBudget | None:
        """Return what may be spent on a step, by the job.yml of this tree; None: there is no limit."""
        job = self.open_jobs(tree).catalog.get(session.job_name)
        step = job.find_step(split_step_id(task_id)[1])
        if step is None or step.budget is None:
            return None
        file = job.folder / "job.yml"
        return StepBudget(step.budget, f"A person raises `budget` of step {step.id!r} in {file}.")

    def preview(self, run: Run, task_id: str) -> tuple[str, WorkPlace]:
        """Return a step, and where it would be worked on."""
        return split_step_id(task_id)[1], locate_place(run)

    def provide_place(self, attempt: Attempt) -> WorkPlace:
        """Return the tree of the run, which was made when its session was started."""
        run = self._runs.find(attempt.run_id)
        if run is None:
            raise NotFound("run", attempt.run_id)
        place = locate_place(run)
        self._open_tree(place.tree)
        return place

    def build_prompt(self, attempt: Attempt) -> str:
        """Build the prompt of a start that continues no session of the agent."""
        session = self.load_session(attempt)
        with self._database.reading() as tx:
            before = [
                each for each in AttemptStore(tx).list_of_task(attempt.task_id) if each.id != attempt.id
            ]
        earlier = before[-1].reason if before else None
        count = self._load_workspace_settings().ports
        content = StepPrompt(
            goal=session.goal,
            workflow=session.workflow,
            step=self.describe_step(attempt, session),
            tree=attempt.tree or "",
            branch=attempt.branch or "",
            has_mcp=attempt.vendor != COMMAND_KIND,
            agent_id=attempt.agent_id,
            ports=None if attempt.port is None else range(attempt.port, attempt.port + count),
            earlier=attempt.reason if attempt.starts > 1 else earlier,
        )
        return build_step_prompt(content)

    def list_variables(self, attempt: Attempt) -> Mapping[str, str]:
        """Return the file in which the agent may name its outputs."""
        return {OUTPUTS_VARIABLE: str(locate_report(Path(attempt.tree or ""), attempt.id))}


def locate_place(run: Run) -> WorkPlace:
    """Return where a run of a job works: in the project's folder of a worktree with a branch of its own."""
    main = Path(run.repository_path)
    top = find_repository(main) or main
    name = build_slug(f"job {run.job}", run.id)
    folder = top / WORKTREES / name / main.relative_to(top)
    return WorkPlace(main, folder, folder, f"{BRANCH_PREFIX}{name}")


def find_tree_of_session(database: Database, session_id: str) -> Path | None:
    """Find the worktree in which a run of this machine works on a job session."""
    with database.reading() as tx:
        run = RunStore(tx).find_of_session(session_id)
    tree = locate_place(run).tree if run else None
    return tree if tree is not None and tree.is_dir() else None


def build_step_id(session: Session) -> str:
    """Build the id of the current step, as the task of an attempt."""
    return f"{session.session_id}/{session.current_step_id}"


def split_step_id(task_id: str) -> tuple[str, str]:
    """Return the session and the step that an attempt's task id names."""
    session_id, _, step_id = task_id.partition("/")
    return session_id, step_id


def is_current(session: Session, attempt: Attempt) -> bool:
    """Return whether the step of an attempt is the one that the session is at."""
    return session.is_active and build_step_id(session) == attempt.task_id


def find_last_approval(tx: Transaction, task_id: str) -> Approval | None:
    """Return the newest approval of a step that was asked for."""
    found = ApprovalStore(tx).list_of_subject(ApprovalKind.STEP, task_id)
    return found[0] if found else None


def _find_wait(tx: Transaction, attempt: Attempt, session: Session) -> str | None:
    """Return what a step that was reported waits for; None if it may be reported again."""
    approval = find_last_approval(tx, attempt.task_id)
    if approval is not None and approval.status is ApprovalStatus.PENDING:
        return "approval"
    is_decided = approval is not None and (approval.decided_at or 0) >= attempt.updated_at
    if is_decided or session.unseen_decisions:
        return None
    is_new = tx.now - attempt.updated_at < _LOOK_AGAIN_MS
    return "person" if is_new or session.get_progress(session.current_step_id).person_reason else None
