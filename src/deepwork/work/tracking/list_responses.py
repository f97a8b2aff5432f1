"""Response models of the lists that people read: issues, decisions and changed files of runs."""

from __future__ import annotations

from typing import Literal

from deepwork.kernel.answers import Act, Answer
from deepwork.kernel.paging import Page
from deepwork.work.tracking.responses import DecisionView, IssueView

RunKind = Literal["track", "plan", "job"]


class RunRef(Answer):
    """A track, a plan or a job session, as other answers refer to it."""

    id: str
    kind: RunKind
    name: str


class DecisionLine(DecisionView):
    """A decision in a list of several runs."""

    run: RunRef


class IssueLine(IssueView):
    """An issue in a list of several runs, with the actions on it."""

    run: RunRef
    actions: list[Act]


class Issues(Page):
    issues: list[IssueLine]


class Blockers(Page):
    blockers: list[IssueLine]


class Decisions(Page):
    decisions: list[DecisionLine]


class FileTask(Answer):
    id: str
    name: str
    attribution: str


class FileLine(Answer):
    path: str
    status: str
    added: int | None = None
    removed: int | None = None
    tasks: list[FileTask]
    tasks_total: int


class ChangedFilePage(Page):
    files: list[FileLine]
