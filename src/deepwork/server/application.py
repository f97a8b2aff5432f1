"""Builds and wires all services of one deepwork process."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from deepwork.agents.presence import Presence
from deepwork.agents.tools import AgentTools
from deepwork.config import STATE_FOLDER, Settings, build_child_environment
from deepwork.database.opening import open_engine
from deepwork.database.transaction import Clock, Database
from deepwork.events.feed import EventFeed
from deepwork.events.log import append_events
from deepwork.files.state import make_state_folder
from deepwork.messages.tools import MessageTools
from deepwork.plans.task_directory import PlanTaskDirectory
from deepwork.server.registry import Tools, ToolSpec, index_by_name

if TYPE_CHECKING:
    from deepwork.jobs.quality_gate import QualityGate
    from deepwork.jobs.sessions.state_manager import StateManager
    from deepwork.plans.plan_tools import PlanTools
    from deepwork.reviews.tools import ReviewTools
    from deepwork.server.jobs_assembly import JobsAssembly
    from deepwork.templates.tools import TemplateTools
    from deepwork.tracking.attribution_service import AttributionService
    from deepwork.tracking.plan_task_tracker import PlanTaskTracker
    from deepwork.tracking.tools import TrackTools
    from deepwork.workspaces.repositories import RepositoryLocator
    from deepwork.workspaces.service import WorkspaceService


@dataclass
class Application:
    """The services behind every interface (MCP, HTTP, command line), each built on first use."""

    settings: Settings
    clock: Clock | None = None

    @cached_property
    def database(self) -> Database:
        """The database; the file is opened on first use."""
        if not self.settings.database and not self.settings.global_store:
            make_state_folder(self.settings.store_folder)
        database = Database(open_engine(self.settings.database_location), append_events, self.clock)
        database.subscribe(
            # Not as `PlanEvent`: most commands need not import plans.
            ("plan_task:claimed", "plan_task:updated", "plan_task:released"),
            lambda events: self._plan_task_tracker.handle_events(events),  # noqa: PLW0108 - built on first use
        )
        return database

    @property
    def has_open_store(self) -> bool:
        """Whether the database was used before, so that using it again does not have to open it."""
        return "database" in self.__dict__ and self.database.is_prepared

    @cached_property
    def feed(self) -> EventFeed:
        return EventFeed(self.database)

    @cached_property
    def presence(self) -> Presence:
        read_only = self.settings.read_only
        return Presence(self.database, self.settings.lease_seconds, is_read_only=read_only)

    @cached_property
    def jobs(self) -> JobsAssembly:
        """The services for jobs, imported lazily because most commands do not need them."""
        from deepwork.server.jobs_assembly import JobsAssembly  # noqa: PLC0415

        return JobsAssembly(self.settings, self.database)

    @cached_property
    def reviews(self) -> ReviewTools:
        """The tools for review rules."""
        from deepwork.git.command import Git  # noqa: PLC0415
        from deepwork.reviews.planner import ReviewPlanner  # noqa: PLC0415
        from deepwork.reviews.tools import ReviewTools  # noqa: PLC0415

        git = Git(self.settings.project_root, environment=build_child_environment())
        return ReviewTools(ReviewPlanner(git, self.database), self.database, self.settings.platform)

    @property
    def sessions(self) -> StateManager:
        return self.jobs.sessions

    @property
    def quality_gate(self) -> QualityGate | None:
        return self.jobs.quality_gate

    def build_toolset(self, name: str) -> dict[str, ToolSpec]:
        """Build the tools of one toolset, by name."""
        return index_by_name(self._toolset_builders[name]())

    @cached_property
    def registry(self) -> dict[str, ToolSpec]:
        """Every tool by name, whatever the settings select.

        Jobs and tracking both have a `start_workflow`: with both toolsets on, a combined tool replaces them.
        """
        toolsets = {name: index_by_name(make()) for name, make in self._toolset_builders.items()}
        offered = self.settings.toolsets
        if {"jobs", "tracking"} <= set(offered) or "all" in offered:
            toolsets["jobs"] |= index_by_name([self._build_start_workflow()])
            del toolsets["tracking"]["start_workflow"]
        elif "tracking" in offered:
            del toolsets["jobs"]["start_workflow"]
        else:
            del toolsets["tracking"]["start_workflow"]
        found = {name: spec for specs in toolsets.values() for name, spec in specs.items()}
        return dict(sorted(found.items()))

    def _build_start_workflow(self) -> Tools:
        from deepwork.server.start_workflow import StartWorkflow  # noqa: PLC0415

        return StartWorkflow(self.jobs.tools, self._track_tools)

    @cached_property
    def plans(self) -> list[Tools]:
        """The tools for plans."""
        from deepwork.plans.task_tools import TaskTools  # noqa: PLC0415

        only = str(self.settings.repository_root) if self._has_many_projects else None
        return [self._plan_tools, TaskTools(self.database, self.presence, self._workspace_service, only)]

    @cached_property
    def templates(self) -> TemplateTools:
        """The tools for templates."""
        from deepwork.templates.catalog import TemplateCatalog  # noqa: PLC0415
        from deepwork.templates.tools import TemplateTools  # noqa: PLC0415

        catalog = TemplateCatalog(self.settings.project_root, Path.home())
        return TemplateTools(self.database, self._plan_tools, catalog)

    @cached_property
    def _plan_tools(self) -> PlanTools:
        from deepwork.plans.models import FileConflicts  # noqa: PLC0415
        from deepwork.plans.plan_tools import PlanTools  # noqa: PLC0415

        return PlanTools(
            self.database,
            self.presence,
            self._repositories,
            has_many_projects=self._has_many_projects,
            file_conflicts=FileConflicts(self.settings.file_conflicts),
        )

    @cached_property
    def workspaces(self) -> list[Tools]:
        """The tools for workspaces and repositories."""
        from deepwork.workspaces.tools import RepositoryTools, WorkspaceTools  # noqa: PLC0415

        return [
            WorkspaceTools(self.database, self._workspace_service),
            RepositoryTools(self.database, self._repositories),
        ]

    @cached_property
    def _workspace_service(self) -> WorkspaceService:
        from deepwork.git.command import Git  # noqa: PLC0415
        from deepwork.workspaces.service import WorkspaceService  # noqa: PLC0415
        from deepwork.workspaces.worktrees import WorktreeManager  # noqa: PLC0415

        trees = WorktreeManager(lambda folder: Git(folder, environment=build_child_environment()))
        return WorkspaceService(self.database, trees, self._host)

    @cached_property
    def _repositories(self) -> RepositoryLocator:
        from deepwork.workspaces.repositories import RepositoryLocator  # noqa: PLC0415

        return RepositoryLocator(self.settings.repository_root, self._host)

    @cached_property
    def tracking(self) -> list[Tools]:
        """The tools that record work as it happens."""
        from deepwork.jobs.sessions.store import JobSessions  # noqa: PLC0415
        from deepwork.tracking.context_tools import ContextTools  # noqa: PLC0415
        from deepwork.tracking.diffs import DiffService  # noqa: PLC0415
        from deepwork.tracking.log_tools import LogTools  # noqa: PLC0415

        return [
            self._track_tools,
            LogTools(self.database, JobSessions()),
            ContextTools(
                self.database, DiffService(self.database, self._attribution.snapshots), JobSessions()
            ),
        ]

    @cached_property
    def _track_tools(self) -> TrackTools:
        from deepwork.tracking.tools import TrackTools  # noqa: PLC0415

        roots = self.settings.repository_root, self.settings.project_root
        return TrackTools(self.database, self._attribution, *roots)

    @cached_property
    def _attribution(self) -> AttributionService:
        from deepwork.git.command import Git  # noqa: PLC0415
        from deepwork.git.snapshot import SnapshotStore  # noqa: PLC0415
        from deepwork.tracking.attribution_service import AttributionService  # noqa: PLC0415
        from deepwork.tracking.snapshots import SnapshotService  # noqa: PLC0415

        state = self.settings.repository_root / STATE_FOLDER

        def open_store(tree: Path) -> SnapshotStore:
            make_state_folder(state)
            folder = state / "snapshots" / sha256(str(tree).encode()).hexdigest()[:16]
            # Snapshots outlive the worktree they were taken of.
            here = tree if tree.is_dir() else self.settings.repository_root
            return SnapshotStore(Git(here, environment=build_child_environment()), folder)

        snapshots = SnapshotService(self.database, self._host, self.settings.repository_root, open_store)
        return AttributionService(self.database, snapshots)

    @cached_property
    def _plan_task_tracker(self) -> PlanTaskTracker:
        from deepwork.tracking.plan_task_tracker import PlanTaskTracker  # noqa: PLC0415

        return PlanTaskTracker(self.database, self._attribution, self._host, self.settings.repository_root)

    @property
    def _has_many_projects(self) -> bool:
        return self.settings.global_store and not self.settings.database

    @property
    def _host(self) -> str:
        """The machine that paths refer to: "local" for a file database, even if the host is renamed."""
        return socket.gethostname() if "://" in self.settings.database else "local"

    @property
    def _toolset_builders(self) -> dict[str, Callable[[], list[Tools]]]:
        return {
            "agents": lambda: [AgentTools(self.database, self.presence, self._task_directory)],
            "messages": lambda: [self._build_message_tools()],
            "plans": lambda: self.plans,
            "templates": lambda: [self.templates],
            "workspaces": lambda: self.workspaces,
            "tracking": lambda: self.tracking,
            "jobs": lambda: [self.jobs.tools],
            "reviews": lambda: [self.reviews],
        }

    def _build_message_tools(self) -> Tools:
        read_only = self.settings.read_only
        return MessageTools(self.database, self.presence, self._task_directory, is_read_only=read_only)

    @cached_property
    def _task_directory(self) -> PlanTaskDirectory:
        return PlanTaskDirectory(self.presence)

    def describe_stack(self, caller: str) -> list[str]:
        """List a caller's active workflows as `workflow:step`, outermost first."""
        return [f"{entry.workflow}:{entry.step}" for entry in self.sessions.get_stack(caller)]

    def close(self) -> None:
        if "database" in self.__dict__:
            self.database.close()
