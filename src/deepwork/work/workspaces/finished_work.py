"""The work of completed tasks: which commit has it, and what was left uncommitted in the tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.files.repositories import find_main_tree
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import CommitRecord, read_branch_tips
from deepwork.kernel.git.uncommitted import ExpectedFiles, commit_uncommitted, list_uncommitted
from deepwork.work.plans.interfaces import FinishedTree
from deepwork.work.plans.models import Task, Workflow
from deepwork.work.workspaces.models import Workspace

_MAX_NAMED_FILES = 20


class Completed(Protocol):
    """A task, or its workspace, with what it was completed with: see `Task.completed_tree`."""

    @property
    def completed_tree(self) -> str | None: ...
    @property
    def completed_head(self) -> str | None: ...


def is_completed_work(task: Completed, found: CommitRecord) -> bool:
    """Return whether a commit has exactly the files and the history that the task was completed with.

    It is the commit that was checked out then, or one commit after it, with what was not committed yet. The
    same files alone do not suffice: with another history, a merge could take back what others did.
    """
    is_next = found.commit == task.completed_head or found.parents == (task.completed_head,)
    return found.tree == task.completed_tree and is_next


def get_expected_files(task: Completed) -> ExpectedFiles:
    """Return what may be committed as the work of a completed task; nothing does if it is not known."""
    return ExpectedFiles(task.completed_tree or "", task.completed_head or "")


def find_completed_work(task: Completed, candidates: Iterable[CommitRecord | None]) -> CommitRecord | None:
    """Return the first of these commits that is the work that the task was completed with."""
    return next((each for each in candidates if each and is_completed_work(task, each)), None)


def explain_changed_work(task: Task, branch: str) -> str:
    """Say why work does not count as completed, and what to do about it."""
    if task.completed_tree is None:
        why = f"It is not known with which files of {branch} it was completed"
    else:
        why = f"{branch} is not as it was when the task was completed"
    return f"{why}. Open it again with `deepwork tasks retry {task.id}`, then complete it as it is now."


@dataclass(frozen=True)
class FinishedWork:
    """The tree of a completed task, and the message to commit its work with; None: it is only listed."""

    workspace: Workspace
    task: Task
    message: str | None


def build_finished_work(workflow: Workflow, task: Task, workspace: Workspace) -> FinishedWork:
    """Build the work of a completed task; trees that deepwork did not create are never changed."""
    commits = workspace.is_made and bool((workflow.initial_plan or {}).get("commit"))
    text = f"{task.name}\n\n{task.outcome or ''}".strip()
    return FinishedWork(workspace, task, f"{text}\n\nDeepwork-Task: {task.id}" if commits else None)


def is_saved(git_at: Callable[[Path], Git], work: FinishedWork) -> bool:
    """Whether the branch has the work that the task was completed with; what is in the tree came later."""
    if not _is_own_tree(work.workspace):
        return True
    try:
        tips = read_branch_tips(git_at(Path(work.workspace.path)), [work.workspace.branch])
    except DeepworkError:
        return False
    return any(is_completed_work(work.task, tip) for tip in tips.values())


def save_finished_work(git_at: Callable[[Path], Git], work: FinishedWork) -> FinishedTree | None:
    """Commit or list the uncommitted work; None if there is none, or no worktree of the repository.

    Only what the task was completed with is committed: it does not answer for what came later.
    """
    path = Path(work.workspace.path)
    if not _is_own_tree(work.workspace):
        return None  # only a label
    git = git_at(path)
    try:
        if work.message is None:
            return _list_files(git, work.workspace, "")
        return _commit(git, work, work.message)
    except DeepworkError as error:
        return FinishedTree(remark=f"deepwork could not look for uncommitted work in {path}: {error.message}")


def _is_own_tree(workspace: Workspace) -> bool:
    path = Path(workspace.path)
    return path.is_dir() and find_main_tree(path) == Path(workspace.repository_path)


def _commit(git: Git, work: FinishedWork, message: str) -> FinishedTree | None:
    try:
        expected = get_expected_files(work.task)
        commit, has_author = commit_uncommitted(git, work.workspace.branch, message, expected)
    except DeepworkError as error:
        return _list_files(git, work.workspace, f"deepwork could not commit: {error.message} ")
    if commit is None:
        return None
    remark = (
        "Its author is deepwork <deepwork@localhost>, because git's config has no user.name and user.email."
    )
    return FinishedTree(commit=commit, remark=None if has_author else remark)


def _list_files(git: Git, workspace: Workspace, reason: str) -> FinishedTree | None:
    files = list_uncommitted(git)
    if not files:
        return FinishedTree(remark=reason.strip()) if reason else None
    remark = (
        f"{reason}Work in {workspace.path} is not committed: commit it to {workspace.branch}. Tasks that"
        " depend on this one build on that branch and do not get uncommitted files."
    )
    return FinishedTree(tuple(files[:_MAX_NAMED_FILES]), len(files), remark=remark)
