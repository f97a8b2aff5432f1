"""Creating, removing and comparing git worktrees; never inside a database transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from deepwork.config import STATE_FOLDER
from deepwork.errors import GitError
from deepwork.files.state import make_state_folder
from deepwork.git.command import Git
from deepwork.git.merge_conflicts import find_merge_conflicts
from deepwork.git.refs import (
    contains_branch,
    find_branch_tip,
    find_current_branch,
    find_merge_commit,
    get_commit,
    resolve_commit,
)
from deepwork.git.rescue import is_dirty, rescue
from deepwork.git.worktrees import add_worktree, find_worktree, remove_worktree
from deepwork.workspaces.models import Workspace

_MAX_PARALLEL_MERGES = 2


@dataclass(frozen=True)
class MergePreview:
    """The conflicts that merging a branch would cause."""

    with_base: list[str]
    with_others: dict[str, list[str]]
    uncommitted: list[str]
    warnings: list[str]


class WorktreeManager:
    """Manages the worktrees of this machine."""

    def __init__(self, git_at: Callable[[Path], Git]) -> None:
        self._git_at = git_at

    def create(self, workspace: Workspace) -> tuple[str | None, str]:
        """Create the tree and its branch; return the base branch and the base commit.

        An existing branch, or a tree that has it checked out, is reused.
        """
        git, path = self._git_at(Path(workspace.repository_path)), Path(workspace.path)
        state = Path(workspace.repository_path) / STATE_FOLDER
        if path.is_relative_to(state):
            make_state_folder(state)
        found = find_worktree(git, path)
        if found is not None and found.branch == workspace.branch and path.is_dir():
            begin = get_commit(git, workspace.base_branch)
        else:
            begin = add_worktree(git, path, workspace.branch, workspace.base_branch, existing=True)
        return workspace.base_branch or find_current_branch(git), begin

    def remove(self, workspace: Workspace) -> str | None:
        """Remove the tree; return the rescue branch that holds its uncommitted work, if there was any."""
        git, path = self._git_at(Path(workspace.repository_path)), Path(workspace.path)
        if find_worktree(git, path) is None:
            return None  # already removed, by us or by hand
        saved = rescue(self._git_at(path), workspace.branch) if path.is_dir() else None
        left = remove_worktree(git, path, rescued=saved)
        return saved or left

    def resolve_merge_commit(self, workspace: Workspace, given: str | None) -> tuple[str | None, str | None]:
        """Return the commit that merged the branch, and a warning if it looks wrong."""
        git = self._git_at(Path(workspace.repository_path))
        if given is None:
            found = find_merge_commit(git, workspace.branch, workspace.base_branch or "HEAD")
            base = workspace.base_branch or "the repository's current branch"
            return found, None if found else f"No merge of {workspace.branch!r} was found on {base}."
        commit = resolve_commit(git, given)
        if commit is None:
            return given, f"There is no commit {given!r} in the repository; it is stored as given."
        if find_branch_tip(git, workspace.branch) is None or contains_branch(git, commit, workspace.branch):
            return commit, None
        return commit, f"Commit {commit[:12]} does not contain {workspace.branch!r}: was it squashed?"

    def preview_merge(self, workspace: Workspace, others: Sequence[Workspace]) -> MergePreview:
        """Compute the conflicts with the base and with other workspaces; changes no files and no refs."""
        git = self._git_at(Path(workspace.repository_path))
        tip = find_branch_tip(git, workspace.branch)
        if tip is None:
            raise GitError(
                f"There is no branch {workspace.branch!r} in the repository.",
                suggestion="Create the branch, or set the workspace to abandoned.",
            )
        base_name = workspace.base_branch or workspace.base_commit or "HEAD"
        base = resolve_commit(git, base_name)
        tips = {other.id: find_branch_tip(git, other.branch) for other in others}
        with ThreadPoolExecutor(_MAX_PARALLEL_MERGES) as pool:
            clashes = pool.map(lambda tip_: _list_conflicts(git, tip, tip_), [base, *tips.values()])
        with_base, *with_others = clashes
        missing = [other.branch for other in others if tips[other.id] is None]
        return MergePreview(
            with_base=with_base,
            with_others={id: paths for id, paths in zip(tips, with_others, strict=True) if paths},
            uncommitted=[each.id for each in (workspace, *others) if self._is_dirty(each)],
            warnings=[
                *([] if base else [f"There is no {base_name!r} to compare with."]),
                *(f"Branch {branch!r} no longer exists." for branch in missing),
            ],
        )

    def _is_dirty(self, workspace: Workspace) -> bool:
        path = Path(workspace.path)
        try:
            return path.is_dir() and is_dirty(self._git_at(path))
        except GitError:  # registered, but not a git worktree
            return False


def _list_conflicts(git: Git, ours: str, theirs: str | None) -> list[str]:
    return [] if theirs is None else list(find_merge_conflicts(git, ours, theirs))
