"""Creates the git branch for the work of a session."""

from __future__ import annotations

import re

from deepwork.errors import GitError
from deepwork.git.command import Git

PREFIX = "deepwork/"
MAX_NAME = 120


def build_branch_name(job: str, workflow: str, suffix: str) -> str:
    """Build a valid branch name for a session; the suffix may be any text."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{job}-{workflow}-{suffix}")
    cleaned = re.sub(r"\.{2,}|\.lock(?=$)|-{2,}", "-", cleaned).strip("-.")
    return PREFIX + cleaned[:MAX_NAME].strip("-.")


def prepare_branch(git: Git, name: str, mode: str) -> str | None:
    """Create the branch, and switch to it in mode `switch`; return None if there is no commit to branch from.

    The new branch starts at HEAD, so switching changes no file and keeps uncommitted work.
    """
    if mode == "off" or not git.is_repository() or not _has_commit(git):
        return None
    current = git.run("branch", "--show-current").decode().strip()
    if current.startswith(PREFIX):
        return current
    free = _find_free_name(git, name)
    git.run(*(("switch", "--quiet", "-c", free) if mode == "switch" else ("branch", free)))
    return free


def _find_free_name(git: Git, name: str) -> str:
    listed = git.run("for-each-ref", "--format=%(refname:lstrip=2)", f"refs/heads/{PREFIX}").decode().split()
    taken = set(listed)
    return next(
        each for each in (name, *(f"{name}-{number}" for number in range(2, 10_000))) if each not in taken
    )


def _has_commit(git: Git) -> bool:
    try:
        git.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    except GitError:
        return False
    return True
