"""What a project chooses about runs and their trees: `run` and `workspace` in its config.yml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from deepwork.delivery.runner.models import RunOptions
from deepwork.kernel.config import Settings
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.trust.rules import render_untrusted_line

_SETUP_KEY = "workspace.setup"


@dataclass(frozen=True)
class WorkspaceSettings:
    """How each tree is prepared."""

    setup: tuple[tuple[str, ...], ...] = ()
    copy: tuple[str, ...] = ()
    ports: int = 0


def build_run_options(settings: Settings, given: Mapping[str, Any]) -> RunOptions:
    """Build the options of a run: what a person gave, else what the project says."""
    options = RunOptions(
        minutes=settings.run_minutes,
        stall_minutes=settings.run_stall_minutes,
        wait_at_limit=settings.run_wait_at_limit,
        resumes=settings.run_resumes,
        land=settings.run_land,
        max_unreviewed=settings.run_max_unreviewed or None,
    )
    return replace(options, **given)


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
