"""How the services of a server run git: in a folder, with the environment that child processes get."""

from __future__ import annotations

from pathlib import Path

from deepwork.kernel.git.command import Git
from deepwork.kernel.trust.policy import build_git_environment


def open_git(folder: Path) -> Git:
    """Return git for this folder."""
    return Git(folder, environment=build_git_environment(folder))
