"""All parts of one deepwork process, made and joined in one place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from deepwork.agents.presence import Presence
from deepwork.agents.tools import AgentTools
from deepwork.config import Settings, child_environment
from deepwork.database.engine import open_engine
from deepwork.database.transaction import Clock, Database
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
    from deepwork.server.jobs_wing import JobsWing
    from deepwork.templates.tools import TemplateTools


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
    def jobs(self) -> JobsWing:
        """Everything about jobs; whoever asks for nothing of it does not pay for its imports."""
        from deepwork.server.jobs_wing import JobsWing  # noqa: PLC0415

        return JobsWing(self.settings, self.database)

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
        """Every tool there is, whatever the settings choose."""
        return by_name(tools for make in self._makers.values() for tools in make())

    @cached_property
    def plans(self) -> list[Tools]:
        """The tools on plans."""
        from deepwork.plans.task_tools import TaskTools  # noqa: PLC0415

        return [self._plan_tools, TaskTools(self.database, self.presence)]

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

        return PlanTools(self.database, self.presence, self.settings.project_root)

    @property
    def _makers(self) -> dict[str, Callable[[], list[Tools]]]:
        return {
            "agents": lambda: [AgentTools(self.database, self.presence, self._surroundings)],
            "messages": lambda: [self._message_tools()],
            "plans": lambda: self.plans,
            "templates": lambda: [self.templates],
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
