"""Finds out whether a branch was merged, also if it was squashed or rebased."""

from __future__ import annotations

import os

from deepwork.kernel.errors import GitError
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.commit_records import get_tree
from deepwork.kernel.git.merge_conflicts import MERGE_TREE_COMMAND
from deepwork.kernel.git.refs import find_branch_tip, find_current_branch, is_ancestor, resolve_commit


def count_unmerged_commits(git: Git, branch: str, base: str, merge_commit: str | None = None) -> int:
    """Count the commits of the branch whose changes are not in the base; 0 if it is merged or is missing.

    The base counts as it is here and as it was last fetched. Merged means that the base contains the tip,
    that it has a commit with the same changes for each commit of the branch (a rebase), or that merging would
    change nothing (a squash). For a squash after which the same lines changed again, pass the `merge_commit`.
    """
    tip = find_branch_tip(git, branch)
    bases = [found for name in (base, _find_upstream(git, base)) if (found := find_branch_tip(git, name))]
    if tip is None or not bases:
        return 0
    given = resolve_commit(git, merge_commit) if merge_commit else None
    within = [given] if given and any(is_ancestor(git, given, each) for each in bases) else []
    if any(_has_changes_of(git, each, tip) for each in (*bases, *within)):
        return 0
    return min(_count_missing(git, each, tip) for each in bases)


def _find_upstream(git: Git, base: str) -> str:
    """Return the remote branch that the base follows; empty if it follows none."""
    branch = find_current_branch(git) if base == "HEAD" else base
    ref = git.run("for-each-ref", "--format=%(upstream)", "--", f"refs/heads/{branch}")
    return os.fsdecode(ref).strip()


def _has_changes_of(git: Git, base: str, tip: str) -> bool:
    return is_ancestor(git, tip, base) or _would_change_nothing(git, base, tip)


def _would_change_nothing(git: Git, base: str, tip: str) -> bool:
    """Return whether merging the tip into the base would leave its files as they are."""
    try:
        answer = git.run(*MERGE_TREE_COMMAND, base, tip, ok_codes=(0, 1))
    except GitError:  # git is older than 2.38, or the histories are unrelated
        return get_tree(git, base) == get_tree(git, tip)
    tree, *conflicts = os.fsdecode(answer).split("\0")[:-1]
    return not conflicts and tree == get_tree(git, base)


def _count_missing(git: Git, base: str, tip: str) -> int:
    """Count the commits of the tip without an equivalent in the base."""
    listed = git.run("cherry", base, tip).decode().splitlines()
    return sum(line.startswith("+") for line in listed)
