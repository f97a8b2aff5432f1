"""The branches of dependencies that a tree does not contain, and what to do about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from deepwork.kernel.errors import GitError
from deepwork.kernel.git.branch_merges import UnmergedBranch, find_merge_conflicts
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import find_branch_tip, is_ancestor
from deepwork.work.workspaces.models import Workspace

_MAX_NAMED_FILES = 10


def move_merged_branches(git: Git, workspace: Workspace) -> Workspace:
    """Move the branches that the workspace's branch contains by now from `unmerged` to `builds_on`."""
    tip = find_branch_tip(git, workspace.branch)
    tips = {branch: find_branch_tip(git, branch) for branch in workspace.unmerged}
    merged = tuple(branch for branch, each in tips.items() if tip and each and is_ancestor(git, each, tip))
    left = tuple(branch for branch in workspace.unmerged if branch not in merged)
    return replace(workspace, builds_on=(*workspace.builds_on, *merged), unmerged=left)


def explain_left_branches(git: Git, workspace: Workspace) -> str | None:
    """Explain what to do about the branches that a tree began without and still does not contain."""
    missing = tuple(branch for branch in workspace.unmerged if find_branch_tip(git, branch) is None)
    left = [
        UnmergedBranch(branch, (workspace.branch,), _find_conflicts(git, workspace.branch, branch))
        for branch in workspace.unmerged
        if branch not in missing
    ]
    return " ".join(explain_unmerged(workspace, left, missing, is_new=False)) or None


def explain_unmerged(
    workspace: Workspace, unmerged: Sequence[UnmergedBranch], missing: Sequence[str], *, is_new: bool
) -> Iterator[str]:
    """Explain which branches a tree does not contain, why, and how to merge them; a new tree is clean."""
    for each in unmerged:
        others = ", ".join(each.conflicts_with)
        if each.files:
            yield f"{each.branch} conflicts with {others} in {_format_files(each.files)}."
        elif is_new:
            yield f"git cannot merge {each.branch} with {others}."
    if unmerged:
        names = [each.branch for each in unmerged]
        yield (
            f"The tree {'is clean and ' if is_new else ''}does not contain {', '.join(names)}. Before you"
            f" start, run `git merge {names[0]}` in {workspace.path}, resolve the conflicts and commit"
            f"{'; then the same for the others' if len(names) > 1 else ''}."
        )
    for branch in missing:
        yield f"The branch {branch} of a dependency is not here: check that its work is in the tree."


def _find_conflicts(git: Git, ours: str, theirs: str) -> tuple[str, ...]:
    try:
        return find_merge_conflicts(git, ours, theirs)
    except GitError:  # an old git, or histories without a common commit
        return ()


def _format_files(files: Sequence[str]) -> str:
    more = len(files) - _MAX_NAMED_FILES
    return ", ".join(files[:_MAX_NAMED_FILES]) + (f" and {more} more files" if more > 0 else "")
