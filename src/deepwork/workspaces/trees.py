"""Working trees on this machine: made, removed and looked at by git, never inside a transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from deepwork.config import STATE_FOLDER
from deepwork.errors import GitError
from deepwork.files.state import make_state_folder
from deepwork.git.command import Git
from deepwork.git.forecast import conflicts_between
from deepwork.git.refs import branch_tip, commit_named, contains, current_branch, merge_of, resolve_commit
from deepwork.git.rescue import is_dirty, rescue
from deepwork.git.worktrees import add_worktree, find_tree, remove_worktree
from deepwork.workspaces.models import Workspace

_AT_ONCE = 2


@dataclass(frozen=True)
class Outlook:
    """What a merge of a branch would meet."""

    with_base: list[str]
    with_others: dict[str, list[str]]
    uncommitted: list[str]
    warnings: list[str]


class Trees:
    """The working trees of this machine."""

    def __init__(self, git_at: Callable[[Path], Git]) -> None:
        self._git_at = git_at

    def make(self, workspace: Workspace) -> tuple[str | None, str]:
        """Make the tree and its branch; the branch and the commit that its work begins at.

        A branch that is there already is taken as it is, and so is a tree that has it.
        """
        git, path = self._git_at(Path(workspace.repository_path)), Path(workspace.path)
        state = Path(workspace.repository_path) / STATE_FOLDER
        if path.is_relative_to(state):
            make_state_folder(state)
        found = find_tree(git, path)
        if found is not None and found.branch == workspace.branch and path.is_dir():
            begin = commit_named(git, workspace.base_branch)
        else:
            begin = add_worktree(git, path, workspace.branch, workspace.base_branch, existing=True)
        return workspace.base_branch or current_branch(git), begin

    def clear(self, workspace: Workspace) -> str | None:
        """Remove the tree; the branch that its uncommitted work was saved to, if it had any."""
        git, path = self._git_at(Path(workspace.repository_path)), Path(workspace.path)
        if find_tree(git, path) is None:
            return None  # it was removed before, by us or by hand
        saved = rescue(self._git_at(path), workspace.branch) if path.is_dir() else None
        left = remove_worktree(git, path, rescued=saved)
        return saved or left

    def merged_by(self, workspace: Workspace, given: str | None) -> tuple[str | None, str | None]:
        """The commit that brought the branch in, and what is odd about it."""
        git = self._git_at(Path(workspace.repository_path))
        if given is None:
            found = merge_of(git, workspace.branch, workspace.base_branch or "HEAD")
            base = workspace.base_branch or "the repository's current branch"
            return found, None if found else f"No merge of {workspace.branch!r} was found on {base}."
        commit = resolve_commit(git, given)
        if commit is None:
            return given, f"There is no commit {given!r} in the repository; it is kept as told."
        if branch_tip(git, workspace.branch) is None or contains(git, commit, workspace.branch):
            return commit, None
        return commit, f"Commit {commit[:12]} does not contain {workspace.branch!r}: was it squashed?"

    def outlook(self, workspace: Workspace, others: Sequence[Workspace]) -> Outlook:
        """Try to merge the branch into its base and with the others, in thought only."""
        git = self._git_at(Path(workspace.repository_path))
        tip = branch_tip(git, workspace.branch)
        if tip is None:
            raise GitError(
                f"There is no branch {workspace.branch!r} in the repository.",
                suggestion="Make the branch, or set the workspace to abandoned.",
            )
        base_name = workspace.base_branch or workspace.base_commit or "HEAD"
        base = resolve_commit(git, base_name)
        tips = {other.id: branch_tip(git, other.branch) for other in others}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            clashes = pool.map(lambda tip_: _clashes(git, tip, tip_), [base, *tips.values()])
        with_base, *with_others = clashes
        missing = [other.branch for other in others if tips[other.id] is None]
        return Outlook(
            with_base=with_base,
            with_others={id: paths for id, paths in zip(tips, with_others, strict=True) if paths},
            uncommitted=[each.id for each in (workspace, *others) if self._is_dirty(each)],
            warnings=[
                *([] if base else [f"There is no {base_name!r} to compare with."]),
                *(f"There is no branch {branch!r} any more." for branch in missing),
            ],
        )

    def _is_dirty(self, workspace: Workspace) -> bool:
        path = Path(workspace.path)
        try:
            return path.is_dir() and is_dirty(self._git_at(path))
        except GitError:  # registered, but no tree of git's
            return False


def _clashes(git: Git, ours: str, theirs: str | None) -> list[str]:
    return [] if theirs is None else list(conflicts_between(git, ours, theirs))
