"""The parts that jobs are run with, made and joined."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from deepwork.config import Settings, child_environment, reviewer_environment
from deepwork.database.transaction import Database
from deepwork.git.command import Git
from deepwork.jobs.claude_cli import ClaudeCLI
from deepwork.jobs.definitions import JobShelf
from deepwork.jobs.gatekeeper import Gatekeeper
from deepwork.jobs.quality_gate import QualityGate
from deepwork.jobs.session_files import SessionFiles
from deepwork.jobs.sessions import StateManager
from deepwork.jobs.tools import JobSettings, WorkflowTools


@dataclass
class JobsAssembly:
    """Definitions on the shelf, sessions in files, and the gate between steps."""

    settings: Settings
    database: Database

    @cached_property
    def shelf(self) -> JobShelf:
        """The jobs that this project can use."""
        folders = [Path(folder).expanduser() for folder in self.settings.additional_jobs_folders]
        return JobShelf(self.settings.project_root, lambda: folders)

    @cached_property
    def sessions(self) -> StateManager:
        """The runs of jobs."""
        return StateManager(SessionFiles(self._tmp), self.database)

    @cached_property
    def quality_gate(self) -> QualityGate | None:
        """Who reviews: nobody, an external reviewer, or the agent's own."""
        if not self.settings.quality_gate:
            return None
        timeout, parallel = self.settings.quality_gate_timeout, self.settings.max_parallel_reviews
        if self.settings.external_runner == "claude":
            cli = ClaudeCLI(timeout, environment=reviewer_environment())
            return QualityGate(cli, max_inline_files=5, timeout=timeout, max_parallel=parallel)
        return QualityGate(None, max_inline_files=0, timeout=timeout, max_parallel=parallel)

    @cached_property
    def tools(self) -> WorkflowTools:
        root, attempts = self.settings.project_root, self.settings.quality_gate_max_attempts
        return WorkflowTools(
            JobSettings(root, self.settings.git_branch),
            self.shelf,
            self.sessions,
            Gatekeeper(root, self._tmp, self.quality_gate, self.sessions, self.database, attempts),
            Git(root, environment=child_environment()),
        )

    @property
    def _tmp(self) -> Path:
        return self.settings.state_folder / "tmp"
