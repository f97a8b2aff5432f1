"""The answer to a change of a task's status."""

from __future__ import annotations

from typing import Self

from deepwork.kernel.answers import Answer, Done
from deepwork.kernel.call import ActionOutcome
from deepwork.kernel.notices.responses import NoticeView
from deepwork.work.plans.interfaces import FinishedTree


class UncommittedFiles(Answer):
    """Files of the task's worktree that are not committed; the first of them."""

    files: list[str]
    total: int


class NextTaskName(Answer):
    id: str
    name: str


class TaskUpdated(Done):
    """A changed status; after the end of a task also what comes next, and what was left in its worktree."""

    next_tasks: list[NextTaskName] | None = None
    all_complete: bool | None = None
    uncommitted: UncommittedFiles | None = None
    commit: str | None = None
    """The commit that deepwork made of the uncommitted work, if the plan says so."""
    checks: dict[str, str] | None = None
    """The verdict of each check that the task had to pass."""
    warning: str | None = None
    notices: list[NoticeView] | None = None

    def revise(self, outcome: ActionOutcome) -> Self:
        """Add what git found in the worktree, after the commit."""
        if not isinstance(outcome, FinishedTree):
            return self
        left = UncommittedFiles(files=list(outcome.files), total=outcome.total) if outcome.total else None
        warning = " ".join(filter(None, [self.warning, outcome.remark])) or None
        return self.model_copy(update={"uncommitted": left, "commit": outcome.commit, "warning": warning})
