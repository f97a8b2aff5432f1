"""Builds the tools of jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from deepwork.edge.server.assembly.trees import open_git
from deepwork.kernel.config import Settings
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.environment import build_reviewer_environment
from deepwork.kernel.files.repositories import find_tree_root
from deepwork.kernel.records import dataclass
from deepwork.work.jobs.branch import find_reason_to_stay
from deepwork.work.jobs.definitions.catalog import JobCatalog
from deepwork.work.jobs.operations import JobOperations
from deepwork.work.jobs.quality_gate import QualityGate
from deepwork.work.jobs.reviewer_program import ClaudeCLI
from deepwork.work.jobs.sessions.files import SessionFiles
from deepwork.work.jobs.sessions.state_manager import StateManager
from deepwork.work.jobs.step_approvals import StepApprovals
from deepwork.work.jobs.step_checks import StepChecks
from deepwork.work.jobs.step_review import StepReviewService
from deepwork.work.jobs.tools import JobSettings, WorkflowTools

if TYPE_CHECKING:
    from deepwork.gates.checks.service import CheckService
    from deepwork.work.jobs.reviewer_program import Reviewer

_MAX_INLINE_FILES = 5
"""Files that an external reviewer gets in its prompt; of more it gets the paths."""


@dataclass
class JobsAssembly:
    """The job catalog, the session files and the quality gate of one project."""

    settings: Settings
    database: Database
    get_checks: Callable[[], CheckService]
    find_actor: Callable[[Transaction], str | None]
    """Returns the id of the agent that a call acts as; None if that is unknown."""
    is_for_runner: bool = False
    """Whether the runner starts the sessions: it limits what its agents spend on a step itself."""

    @cached_property
    def catalog(self) -> JobCatalog:
        """The jobs that this project can use."""
        folders = [Path(folder).expanduser() for folder in self.settings.additional_jobs_folders]
        return JobCatalog(self.settings.project_root, lambda: folders)

    @cached_property
    def sessions(self) -> StateManager:
        """The job sessions."""
        return StateManager(SessionFiles(self._tmp), self.database)

    @cached_property
    def quality_gate(self) -> QualityGate | None:
        """None if disabled; without a CLI, the agent starts the reviewer itself."""
        if not self.settings.quality_gate:
            return None
        timeout, parallel = self.settings.quality_gate_timeout, self.settings.max_parallel_reviews
        reviewer = self._build_reviewer(timeout)
        shown = _MAX_INLINE_FILES if reviewer else 0
        return QualityGate(reviewer, shown, timeout=timeout, max_parallel=parallel)

    def _build_reviewer(self, timeout: int) -> Reviewer | None:
        """Build the external reviewer: `claude`, or an agent of this user."""
        name = self.settings.external_runner
        if not name:
            return None
        if name == ClaudeCLI.name:
            return ClaudeCLI(timeout, environment=build_reviewer_environment())
        # Imported here: most projects let no other agent review.
        from deepwork.delivery.runner.agent_reviewer import AgentReviewer
        from deepwork.delivery.runner.profiles import load_catalog

        return AgentReviewer(name, timeout, lambda name: load_catalog().get_agent(name))

    @cached_property
    def tools(self) -> WorkflowTools:
        root, gate = self.settings.project_root, self.quality_gate
        tree, git = find_tree_root(root) or root, open_git(root)
        return WorkflowTools(
            JobSettings(
                root,
                self.settings.git_branch,
                self.settings.quality_gate_max_attempts,
                self.settings.read_only,
                self.settings.quality_gate_override,
                limits_minutes=not self.is_for_runner,
            ),
            self.catalog,
            self.sessions,
            self._build_step_review(gate) if gate else None,
            git,
            self.database,
            StepChecks(
                git, self.database, self.sessions, self.settings.quality_gate_max_attempts, self.get_checks
            ),
            partial(find_reason_to_stay, self.database, str(tree)),
        )

    def _build_step_review(self, gate: QualityGate) -> StepReviewService:
        limit = self.settings.quality_gate_max_attempts
        root, find_actor = self.settings.project_root, self.find_actor
        return StepReviewService(root, self._tmp, gate, self.database, limit, find_actor)

    @cached_property
    def operations(self) -> JobOperations:
        """What only people can do."""
        limit = self.settings.quality_gate_max_attempts
        root = self.settings.project_root
        approvals = StepApprovals(root, self.database)
        return JobOperations(root, self.catalog, self.sessions, limit, self.database, approvals)

    @property
    def _tmp(self) -> Path:
        return self.settings.state_folder / "tmp"
