"""Creating, removing and comparing git worktrees, and what they lack; never inside a database transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from deepwork.kernel.config import STATE_FOLDER
from deepwork.kernel.errors import GitError, NotAllowed
from deepwork.kernel.files.private import make_state_folder
from deepwork.kernel.files.repositories import is_tree_of
from deepwork.kernel.git.branch_merges import (
    BranchMerge,
    UnmergedBranch,
    count_unmerged_commits,
    find_merge_conflicts,
    merge_branches,
)
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import (
    CommitRecord,
    contains_branch,
    create_branch,
    find_branch_tip,
    find_current_branch,
    find_merge_commit,
    find_pushed_branch,
    get_commit,
    has_branch,
    is_ancestor,
    list_newer_commits,
    read_commits,
    resolve_commit,
    take_pushed_branch,
)
from deepwork.kernel.git.rescue import is_dirty, rescue
from deepwork.kernel.git.worktrees import add_worktree, find_worktree, remove_worktree
from deepwork.kernel.records import dataclass
from deepwork.work.plans.interfaces import FinishedTree
from deepwork.work.workspaces.finished_work import (
    DependencyBranches,
    FinishedWork,
    find_completed_work,
    is_saved,
    save_finished_work,
)
from deepwork.work.workspaces.models import CheckoutWork, FinishedTask, Workspace, WorkspaceStatus

_MAX_PARALLEL_MERGES = 2

_MAX_NAMED_FILES = 10


@dataclass(frozen=True)
class MergePreview:
    """The conflicts that merging a branch would cause."""

    with_base: list[str]
    with_others: dict[str, list[str]]
    uncommitted: list[str]
    warnings: list[str]


@dataclass(frozen=True)
class CreatedTree:
    """How a tree began."""

    base_branch: str | None
    base_commit: str
    builds_on: tuple[str, ...] = ()
    unmerged: tuple[str, ...] = ()
    problem: str | None = None
    """The branches of dependencies that are not included, why, and what to do about it."""
    is_new: bool = True
    """Whether git has just made it."""


class WorktreeManager:
    """Manages the worktrees of this machine."""

    def __init__(self, git_at: Callable[[Path], Git]) -> None:
        self._git_at = git_at

    def create(
        self,
        workspace: Workspace,
        dependencies: DependencyBranches | None = None,
        base_commit: str | None = None,
    ) -> CreatedTree:
        """Create the tree and its branch, which begins with the branches of dependencies.

        An existing branch, or a tree that has it checked out, is reused; so is the branch of a task that was
        pushed from another machine and fetched here. With `base_commit`, a new branch contains that.
        """
        git, path = self._git_at(Path(workspace.repository_path)), Path(workspace.path)
        state = Path(workspace.repository_path) / STATE_FOLDER
        if path.is_relative_to(state):
            make_state_folder(state)
        found = find_worktree(git, path)
        base = workspace.base_branch or find_current_branch(git)
        if found is not None and found.branch == workspace.branch and path.is_dir():
            begin = workspace.base_commit or get_commit(git, workspace.base_branch)
            return CreatedTree(base, begin, workspace.builds_on, workspace.unmerged, is_new=False)
        if dependencies is not None:  # the branch of a task: no other has its name
            take_pushed_branch(git, workspace.branch)
        if dependencies is None or has_branch(git, workspace.branch):
            begin = add_worktree(git, path, workspace.branch, workspace.base_branch, existing=True)
            return CreatedTree(base, workspace.base_commit or begin, workspace.builds_on, workspace.unmerged)
        start = find_start(git, workspace.base_branch, base_commit)
        base_name = (base or start) if dependencies.needs_base else None
        tips = _find_tips(git, dependencies)
        merge = merge_branches(git, dependencies.all, start, base_name=base_name, tips=tips)
        begin = add_worktree(git, path, workspace.branch, merge.commit, existing=True)
        return _describe_tree(workspace, base, begin, merge, dependencies)

    def has_work(self, repository: Path, work: FinishedTask | CheckoutWork, base_commit: str | None) -> bool:
        """Return whether a new tree here would have the work of a task that was done on another machine."""
        git = self._git_at(repository)
        if isinstance(work, CheckoutWork):
            return contains_checkout_work(git, find_start(git, None, base_commit), work)
        if work.workspace.status is WorkspaceStatus.MERGED:
            merged = resolve_commit(git, work.workspace.merge_commit or "")
            return merged is not None and is_ancestor(git, merged, find_start(git, None, base_commit))
        return find_fetched_work(git, work) is not None

    def has_branch(self, repository: Path, branch: str) -> bool:
        """Return whether the repository has a local branch of this name."""
        return has_branch(self._git_at(repository), branch)

    def update_unmerged(self, workspace: Workspace) -> Workspace:
        """Return the workspace with what its branch contains now, if its tree began without a branch."""
        if not workspace.unmerged:
            return workspace
        try:
            return move_merged_branches(self._git_at(Path(workspace.repository_path)), workspace)
        except GitError:
            return workspace

    def explain_left_branches(self, workspace: Workspace) -> str | None:
        """Explain what to do about the branches that the tree still does not contain."""
        try:
            return explain_left_branches(self._git_at(Path(workspace.repository_path)), workspace)
        except GitError:
            return None

    def save_finished_work(self, work: FinishedWork) -> FinishedTree | None:
        """Commit or list what a completed task left uncommitted; None if there is nothing."""
        return save_finished_work(self._git_at, work)

    def save_missed_work(self, work: FinishedWork) -> None:
        """Commit the work of a completed task unless its own call did: what came later is not its work."""
        if not is_saved(self._git_at, work):
            save_finished_work(self._git_at, work)

    def remove(self, workspace: Workspace) -> str | None:
        """Remove the tree; return the rescue branch that holds its uncommitted work, if there was any."""
        git, path = self._git_at(Path(workspace.repository_path)), Path(workspace.path)
        if find_worktree(git, path) is None:
            return None  # already removed, by us or by hand
        saved = rescue(self._git_at(path), workspace.branch) if path.is_dir() else None
        left = remove_worktree(git, path, rescued=saved)
        return saved or left

    def resolve_merge_commit(self, workspace: Workspace, given: str | None) -> tuple[str | None, str | None]:
        """Return the commit that merged the branch, and a warning if it looks wrong.

        Raises NotAllowed if the branch is not merged into its base.
        """
        git = self._git_at(Path(workspace.repository_path))
        base = workspace.base_branch or "HEAD"
        if left := count_unmerged_commits(git, workspace.branch, base, given):
            raise _build_unmerged_error(workspace, left)
        if given is None:
            found = find_merge_commit(git, workspace.branch, base)
            where = workspace.base_branch or "the repository's current branch"
            return found, None if found else f"No merge of {workspace.branch!r} was found on {where}."
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
            is_tree = path.is_dir() and is_tree_of(Path(workspace.repository_path), path)
            return is_tree and is_dirty(self._git_at(path))
        except GitError:
            return False


def find_fetched_work(git: Git, finished: FinishedTask) -> CommitRecord | None:
    """Return the commit with the work of a completed task, whatever way it came here."""
    branch, head = finished.workspace.branch, finished.completed_head or ""
    pushed = find_pushed_branch(git, branch) or ""
    found = read_commits(git, [name for name in (f"refs/heads/{branch}", head, pushed) if name])
    work = find_completed_work(finished, found.values())
    if work is None and head in found:  # it was committed later, and more came after it
        work = find_completed_work(finished, list_newer_commits(git, head, "--all"))
    return work


def contains_checkout_work(git: Git, tip: str, work: CheckoutWork) -> bool:
    """Return whether a commit contains what was done in a checkout: a commit with exactly these files."""
    head = read_commits(git, [work.head]).get(work.head) if work.head else None
    if head is None or not is_ancestor(git, head.commit, tip):
        return False
    return any(each.tree in work.trees for each in (head, *list_newer_commits(git, head.commit, tip)))


def find_start(git: Git, branch: str | None, base_commit: str | None) -> str:
    """Return where a new branch starts: at the branch, by default HEAD, unless that is before the base.

    A clone may have the commit at which a plan started, and another one checked out.
    """
    start = get_commit(git, branch)
    base = resolve_commit(git, base_commit) if base_commit else None
    return start if base is None or is_ancestor(git, base, start) else base


def _find_tips(git: Git, dependencies: DependencyBranches) -> dict[str, str]:
    """Return the commits that a tree starts from: the work that was completed, not what came after it.

    A branch that was fetched but is not here is created, so that it can be named.
    """
    finished = dependencies.finished
    heads = {name: finished[name].completed_head for name in dependencies.all if name in finished}
    records = read_commits(
        git, [*(f"refs/heads/{name}" for name in dependencies.all), *filter(None, heads.values())]
    )
    tips: dict[str, str] = {}
    for name in dependencies.all:
        tip, head = records.get(f"refs/heads/{name}"), records.get(heads.get(name) or "")
        work = find_completed_work(finished[name], (tip, head)) if name in finished else None
        if work is None and heads.get(name):  # it was fetched, or more came after it
            work = find_fetched_work(git, finished[name])
        if tip is None and work is not None:
            create_branch(git, name, work.commit)
        if chosen := work or tip:
            tips[name] = chosen.commit
    return tips


def _build_unmerged_error(workspace: Workspace, left: int) -> NotAllowed:
    base = workspace.base_branch or "the checked-out branch"
    commits = "1 commit is" if left == 1 else f"{left} commits are"
    return NotAllowed(
        f"Branch {workspace.branch!r} is not merged into {base}: {commits} missing there.",
        suggestion=f"With {base} checked out, run `git merge {workspace.branch}` in "
        f"{workspace.repository_path} (or fetch {base} if it was merged elsewhere) and call again; "
        "to give the work up, set the status abandoned.",
        recoverable=True,
    )


def _describe_tree(
    workspace: Workspace, base: str | None, begin: str, merge: BranchMerge, dependencies: DependencyBranches
) -> CreatedTree:
    remarks = [
        *explain_unmerged(workspace, merge.unmerged, merge.missing, is_new=True),
        *dependencies.remarks,
        *map(str, dependencies.elsewhere),
    ]
    named = {*dependencies.nearest, *merge.merged}
    builds_on = tuple(branch for branch in merge.contained if branch in named)
    absent = [each.workspace.branch for each in dependencies.elsewhere if each.workspace]
    unmerged = (*(each.branch for each in merge.unmerged), *absent)
    return CreatedTree(base, begin, builds_on, unmerged, " ".join(remarks) or None)


def _list_conflicts(git: Git, ours: str, theirs: str | None) -> list[str]:
    return [] if theirs is None else list(find_merge_conflicts(git, ours, theirs))


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
