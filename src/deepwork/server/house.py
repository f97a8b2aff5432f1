"""All parts of one deepwork process, made and joined in one place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from deepwork.agents.presence import Presence
from deepwork.agents.tools import AgentTools
from deepwork.config import Settings, child_environment, reviewer_environment
from deepwork.database.engine import open_engine
from deepwork.database.transaction import Clock, Database
from deepwork.events.feed import Feed
from deepwork.events.log import record
from deepwork.files.state import make_state_folder
from deepwork.git.command import Git
from deepwork.jobs.claude_cli import ClaudeCLI
from deepwork.jobs.definitions import JobShelf
from deepwork.jobs.gatekeeper import Gatekeeper
from deepwork.jobs.quality_gate import QualityGate
from deepwork.jobs.session_files import SessionFiles
from deepwork.jobs.sessions import StateManager
from deepwork.jobs.tools import JobSettings, WorkflowTools
from deepwork.messages.tools import MessageTools
from deepwork.server.registry import ToolSpec, by_name


@dataclass
class House:
    """The parts that a front door needs: tools to call, events to follow, a database to close."""

    settings: Settings
    clock: Clock | None = None

    @cached_property
    def database(self) -> Database:
        """Made when first needed; opened when first used."""
        if not self.settings.database and not self.settings.global_store:
            make_state_folder(self.settings.state_folder)
        return Database(open_engine(self.settings.database_location), record, self.clock)

    @cached_property
    def feed(self) -> Feed:
        return Feed(self.database)

    @cached_property
    def presence(self) -> Presence:
        read_only = self.settings.read_only
        return Presence(self.database, self.settings.lease_seconds, is_read_only=read_only)

    @cached_property
    def registry(self) -> dict[str, ToolSpec]:
        """Every tool there is, whatever the settings choose."""
        return by_name(
            [
                AgentTools(self.database, self.presence),
                MessageTools(self.database, self.presence, is_read_only=self.settings.read_only),
                self._job_tools(),
            ]
        )

    def _job_tools(self) -> WorkflowTools:
        root, tmp = self.settings.project_root, self.settings.state_folder / "tmp"
        attempts = self.settings.quality_gate_max_attempts
        return WorkflowTools(
            JobSettings(root, self.settings.git_branch),
            self.shelf,
            self.sessions,
            Gatekeeper(root, tmp, self.quality_gate, self.sessions, self.database, attempts),
            Git(root, environment=child_environment()),
        )

    @cached_property
    def shelf(self) -> JobShelf:
        """The jobs that this project can use."""
        folders = [Path(folder).expanduser() for folder in self.settings.additional_jobs_folders]
        return JobShelf(self.settings.project_root, lambda: folders)

    @cached_property
    def sessions(self) -> StateManager:
        """The runs of jobs."""
        return StateManager(SessionFiles(self.settings.state_folder / "tmp"), self.database)

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

    def stack(self, caller: str) -> list[str]:
        """The workflows under way for a caller, outermost first."""
        return [f"{entry.workflow}:{entry.step}" for entry in self.sessions.get_stack(caller)]

    def close(self) -> None:
        if "database" in self.__dict__:
            self.database.close()
