"""All parts of one deepwork process, made and joined in one place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from deepwork.agents.presence import Presence
from deepwork.agents.tools import AgentTools
from deepwork.config import Settings
from deepwork.database.engine import open_engine
from deepwork.database.transaction import Clock, Database
from deepwork.events.feed import Feed
from deepwork.events.log import record
from deepwork.messages.tools import MessageTools
from deepwork.server.registry import ToolSpec, by_name

_IGNORED = """\
# Written by deepwork: definitions and settings belong to the project, everything else to this machine.
*
!.gitignore
!config.yml
!jobs/
!jobs/**
"""


@dataclass
class House:
    """The parts that a front door needs: tools to call, events to follow, a database to close."""

    settings: Settings
    clock: Clock | None = None

    @cached_property
    def database(self) -> Database:
        """Made when first needed; opened when first used."""
        if not self.settings.database and not self.settings.global_store:
            keep_out_of_git(self.settings.state_folder)
        return Database(open_engine(self.settings.database_location), record, self.clock)

    @cached_property
    def feed(self) -> Feed:
        return Feed(self.database)

    @cached_property
    def presence(self) -> Presence:
        return Presence(self.database, self.settings.lease_seconds)

    @cached_property
    def registry(self) -> dict[str, ToolSpec]:
        """Every tool there is, whatever the settings choose."""
        return by_name([AgentTools(self.database, self.presence), MessageTools(self.database, self.presence)])

    def stack(self, caller: str) -> list[str]:  # noqa: ARG002 - job sessions will answer by caller
        """The workflows under way for a caller, outermost first."""
        return []

    def close(self) -> None:
        if "database" in self.__dict__:
            self.database.close()


def keep_out_of_git(state_folder: Path) -> None:
    """Make sure that only definitions and settings of the state folder reach git."""
    ignore = state_folder / ".gitignore"
    if not ignore.exists():
        state_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ignore.write_text(_IGNORED, encoding="utf-8")
