"""What a project chooses about runs and their trees: `run` and `workspace` in its config.yml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from deepwork.kernel.config import Settings
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.trust.rules import render_untrusted_line

Orphan = Literal["end", "keep"]
_SETUP_KEY = "workspace.setup"


@dataclass(frozen=True)
class RunSettings:
    """The choices and numbers of a run; no repository can name a program here."""

    chain: str = "default"
    agents: int = 1
    minutes: float = 240.0
    """How long one process of an agent may run."""
    stall_minutes: float = 15.0
    orphan: Orphan = "end"
    """What happens to an agent whose task was taken away: it is ended, or may go on in its tree."""
    wait_at_limit: float = 720.0
    """How many minutes an attempt waits for one limit at most."""
    resumes: int = 10
    """How often one attempt is resumed."""
    land: bool = False
    max_unreviewed: int | None = None


@dataclass(frozen=True)
class WorkspaceSettings:
    """How each tree is prepared."""

    setup: tuple[tuple[str, ...], ...] = ()
    copy: tuple[str, ...] = ()
    ports: int = 0


def build_run_settings(settings: Settings) -> RunSettings:
    """Select the settings of runs from those of the project."""
    return RunSettings(
        chain=settings.run_chain,
        agents=settings.run_agents,
        minutes=settings.run_minutes,
        stall_minutes=settings.run_stall_minutes,
        orphan=cast("Orphan", settings.run_orphan),
        wait_at_limit=settings.run_wait_at_limit,
        resumes=settings.run_resumes,
        land=settings.run_land,
        max_unreviewed=settings.run_max_unreviewed or None,
    )


def build_workspace_settings(settings: Settings) -> WorkspaceSettings:
    """Select the settings of trees; commands that nobody trusted are not among them."""
    return WorkspaceSettings(settings.workspace_setup, settings.workspace_copy, settings.workspace_ports)


def list_untrusted_setup(settings: Settings) -> tuple[str, ...]:
    """List the keys of config.yml whose commands would prepare a tree, and that nobody trusted."""
    return tuple(key for key in settings.untrusted_keys if key == _SETUP_KEY)


def require_trusted_setup(settings: Settings) -> None:
    """Raise NotAllowed if the project has set-up commands that nobody trusted: trees would not be ready."""
    if untrusted := list_untrusted_setup(settings):
        raise NotAllowed(
            f"The run was not started. {render_untrusted_line(untrusted)}",
            suggestion="Read the commands, then run `deepwork trust`; or remove them from config.yml.",
        )
