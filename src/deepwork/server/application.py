"""All parts of one deepwork process, made and joined in one place."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from deepwork.agents.presence import Presence
from deepwork.agents.tools import AgentTools
from deepwork.config import STATE_FOLDER, Settings, child_environment
from deepwork.database.engine import open_engine
from deepwork.database.transaction import Clock, Database, Happening
from deepwork.events.feed import Feed
from deepwork.events.log import record
from deepwork.files.state import make_state_folder
from deepwork.messages.tools import MessageTools
from deepwork.plans.surroundings import PlanSurroundings
from deepwork.server.registry import Tools, ToolSpec, by_name

if TYPE_CHECKING:
    from deepwork.jobs.quality_gate import QualityGate
    from deepwork.jobs.sessions import StateManager
    from deepwork.plans.workflow_tools import PlanTools
    from deepwork.reviews.tools import ReviewTools
    from deepwork.server.jobs_assembly import JobsAssembly
    from deepwork.templates.tools import TemplateTools
    from deepwork.tracking.plan_watch import PlanWatch
    from deepwork.tracking.tools import TrackTools
    from deepwork.tracking.watching import Watcher
    from deepwork.workspaces.desk import WorkspaceDesk
    from deepwork.workspaces.repositories import RepositoryDesk


@dataclass
class Application:
    """The parts that a front door needs: tools to call, events to follow, a database to close."""

    settings: Settings
    clock: Clock | None = None

    @cached_property
    def database(self) -> Database:
        """Made when first needed; opened when first used."""
        if not self.settings.database and not self.settings.global_store:
            make_state_folder(self.settings.store_folder)
        database = Database(open_engine(self.settings.database_location), record, self.clock)
        database.followers.append(self._hear)
        return database

    def _hear(self, happenings: Sequence[Happening]) -> None:
        if any(happening.type.startswith("plan_task:") for happening in happenings):
            self._plan_watch.heard(happenings)

    @cached_property
    def feed(self) -> Feed:
        return Feed(self.database)

    @cached_property
    def presence(self) -> Presence:
        read_only = self.settings.read_only
        return Presence(self.database, self.settings.lease_seconds, is_read_only=read_only)

    @cached_property
    def jobs(self) -> JobsAssembly:
        """Everything about jobs; whoever asks for nothing of it does not pay for its imports."""
        from deepwork.server.jobs_assembly import JobsAssembly  # noqa: PLC0415

        return JobsAssembly(self.settings, self.database)

    @cached_property
    def reviews(self) -> ReviewTools:
        """The tools on review rules."""
        from deepwork.git.command import Git  # noqa: PLC0415
        from deepwork.reviews.desk import ReviewDesk  # noqa: PLC0415
        from deepwork.reviews.tools import ReviewTools  # noqa: PLC0415

        git = Git(self.settings.project_root, environment=child_environment())
        return ReviewTools(ReviewDesk(git, self.database), self.database, self.settings.platform)

    @property
    def sessions(self) -> StateManager:
        return self.jobs.sessions

    @property
    def quality_gate(self) -> QualityGate | None:
        return self.jobs.quality_gate

    def toolset(self, name: str) -> dict[str, ToolSpec]:
        """The tools of one set."""
        return by_name(self._makers[name]())

    @cached_property
    def registry(self) -> dict[str, ToolSpec]:
        """Every tool there is, whatever the settings choose; of two with one name, what stands for both."""
        toolsets = {name: by_name(make()) for name, make in self._makers.items()}
        offered = self.settings.toolsets
        if {"jobs", "tracking"} <= set(offered) or "all" in offered:
            toolsets["jobs"] |= by_name([self._start_workflow()])
            del toolsets["tracking"]["start_workflow"]
        elif "tracking" in offered:
            del toolsets["jobs"]["start_workflow"]
        else:
            del toolsets["tracking"]["start_workflow"]
        found = {name: spec for specs in toolsets.values() for name, spec in specs.items()}
        return dict(sorted(found.items()))

    def _start_workflow(self) -> Tools:
        from deepwork.server.start_workflow import StartWorkflow  # noqa: PLC0415

        return StartWorkflow(self.database, self.jobs.tools, self._track_tools)

    @cached_property
    def plans(self) -> list[Tools]:
        """The tools on plans."""
        from deepwork.plans.task_tools import TaskTools  # noqa: PLC0415

        only = str(self.settings.repository_root) if self._has_many_projects else None
        return [self._plan_tools, TaskTools(self.database, self.presence, self._workspace_desk, only)]

    @cached_property
    def templates(self) -> TemplateTools:
        """The tools on templates."""
        from deepwork.templates.files import TemplateShelf  # noqa: PLC0415
        from deepwork.templates.tools import TemplateTools  # noqa: PLC0415

        shelf = TemplateShelf(self.settings.project_root, Path.home())
        return TemplateTools(self.database, self._plan_tools, shelf)

    @cached_property
    def _plan_tools(self) -> PlanTools:
        from deepwork.plans.workflow_tools import PlanTools  # noqa: PLC0415

        return PlanTools(
            self.database,
            self.presence,
            self._repositories,
            has_many_projects=self._has_many_projects,
        )

    @cached_property
    def workspaces(self) -> list[Tools]:
        """The tools on working trees and repositories."""
        from deepwork.workspaces.tools import RepositoryTools, WorkspaceTools  # noqa: PLC0415

        return [
            WorkspaceTools(self.database, self._workspace_desk),
            RepositoryTools(self.database, self._repositories),
        ]

    @cached_property
    def _workspace_desk(self) -> WorkspaceDesk:
        from deepwork.git.command import Git  # noqa: PLC0415
        from deepwork.workspaces.desk import WorkspaceDesk  # noqa: PLC0415
        from deepwork.workspaces.trees import Trees  # noqa: PLC0415

        trees = Trees(lambda folder: Git(folder, environment=child_environment()))
        return WorkspaceDesk(self.database, trees, self._host)

    @cached_property
    def _repositories(self) -> RepositoryDesk:
        from deepwork.workspaces.repositories import RepositoryDesk  # noqa: PLC0415

        return RepositoryDesk(self.settings.repository_root, self._host)

    @cached_property
    def tracking(self) -> list[Tools]:
        """The tools that record work as it happens."""
        from deepwork.jobs.store import JobSessions  # noqa: PLC0415
        from deepwork.tracking.context_tools import ContextTools  # noqa: PLC0415
        from deepwork.tracking.log_tools import LogTools  # noqa: PLC0415

        return [
            self._track_tools,
            LogTools(self.database, JobSessions()),
            ContextTools(self.database, self._watcher, JobSessions()),
        ]

    @cached_property
    def _track_tools(self) -> TrackTools:
        from deepwork.tracking.tools import TrackTools  # noqa: PLC0415

        roots = self.settings.repository_root, self.settings.project_root
        return TrackTools(self.database, self._watcher, *roots)

    @cached_property
    def _watcher(self) -> Watcher:
        from deepwork.git.command import Git  # noqa: PLC0415
        from deepwork.git.snapshot import Snapshots  # noqa: PLC0415
        from deepwork.tracking.watching import Watcher  # noqa: PLC0415

        state = self.settings.repository_root / STATE_FOLDER

        def snapshots_at(tree: Path) -> Snapshots:
            make_state_folder(state)
            folder = state / "snapshots" / sha256(str(tree).encode()).hexdigest()[:16]
            # What was seen of a worktree outlives it.
            here = tree if tree.is_dir() else self.settings.repository_root
            return Snapshots(Git(here, environment=child_environment()), folder)

        return Watcher(self.database, self._host, self.settings.repository_root, snapshots_at)

    @cached_property
    def _plan_watch(self) -> PlanWatch:
        from deepwork.tracking.plan_watch import PlanWatch  # noqa: PLC0415

        return PlanWatch(self.database, self._watcher, self._host, self.settings.repository_root)

    @property
    def _has_many_projects(self) -> bool:
        return self.settings.global_store and not self.settings.database

    @property
    def _host(self) -> str:
        """The machine that paths belong to; a file is always on this one, whatever it is called today."""
        return socket.gethostname() if "://" in self.settings.database else "local"

    @property
    def _makers(self) -> dict[str, Callable[[], list[Tools]]]:
        return {
            "agents": lambda: [AgentTools(self.database, self.presence, self._surroundings)],
            "messages": lambda: [self._message_tools()],
            "plans": lambda: self.plans,
            "templates": lambda: [self.templates],
            "workspaces": lambda: self.workspaces,
            "tracking": lambda: self.tracking,
            "jobs": lambda: [self.jobs.tools],
            "reviews": lambda: [self.reviews],
        }

    def _message_tools(self) -> Tools:
        read_only = self.settings.read_only
        return MessageTools(self.database, self.presence, self._surroundings, is_read_only=read_only)

    @cached_property
    def _surroundings(self) -> PlanSurroundings:
        return PlanSurroundings(self.presence)

    def stack(self, caller: str) -> list[str]:
        """The workflows under way for a caller, outermost first."""
        return [f"{entry.workflow}:{entry.step}" for entry in self.sessions.get_stack(caller)]

    def close(self) -> None:
        if "database" in self.__dict__:
            self.database.close()
