"""Finds the commit that the work in a tree started from."""

from __future__ import annotations

from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import find_branch_tip, find_common_ancestor, find_head, is_ancestor


def find_base(git: Git, start: str, branch: str | None) -> str:
    """Return the base of a tree on a branch of its own: its merge base with the branch where work started.

    It is never older than the commit `start` at which the work started: a tree on an older commit would
    otherwise choose the definitions of its checks.
    """
    head, tip = find_head(git), find_branch_tip(git, branch) if branch else None
    if head is None or tip is None or head.branch == branch:
        return start
    common = find_common_ancestor(git, head.commit, tip)
    return common if common and is_ancestor(git, start, common) else start
