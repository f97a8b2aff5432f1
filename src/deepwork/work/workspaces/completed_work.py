"""Whether a commit is the work that a task was completed with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from deepwork.kernel.git.commit_records import CommitRecord
from deepwork.kernel.git.uncommitted import ExpectedFiles
from deepwork.work.plans.models import Task


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
