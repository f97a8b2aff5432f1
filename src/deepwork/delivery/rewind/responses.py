"""Rewinds and their previews, as commands and REST show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deepwork.delivery.rewind.models import Dependents, Revert, Rewind, RewindRole, RewindStage, RewindTask
from deepwork.kernel.answers import Answer
from deepwork.kernel.paging import Page

MAX_LISTED = 200


class MovedFile(Answer):
    """A file that goes back: `restored` (it was deleted or changed), or `deleted` (it was added)."""

    path: str
    tree: str
    what: str


class FileInTheWay(Answer):
    """A file that cannot go back without a loss, with the reason."""

    path: str
    reason: str


class DependentTask(Answer):
    """A task that builds on the rewound one and has begun."""

    id: str
    name: str
    status: str
    tree: str | None = None


class MovedBranch(Answer):
    """A branch that goes back, in the tree that belongs to the task."""

    branch: str
    tree: str | None = None
    now: str
    then: str | None = None
    """The commit that it goes back to; None if it is set aside, and the task begins with a new one."""


class RevertedCommit(Answer):
    """A landed commit that a new commit reverts."""

    commit: str
    branch: str
    task: str
    merge_into: str | None = None
    """The branch that is checked out and has the work: a person merges `branch` into it."""


class Merge(Answer):
    """What a person does to take the new commits in: `git merge BRANCH` in the tree of `into`."""

    branch: str
    into: str


class RewindPreview(Answer):
    """What a rewind would do; `digest` stands for all of it."""

    task_id: str
    task: str
    workflow_id: str
    status: str
    to: str
    dependents: Dependents
    digest: str
    possible: bool
    files: list[MovedFile]
    files_total: int
    in_the_way: list[FileInTheWay]
    in_the_way_total: int
    branches: list[MovedBranch]
    begun_dependents: list[DependentTask]
    reverts: list[RevertedCommit]
    cannot_undo: list[str]
    held_by: str | None = None
    """The agent that works on it, whose claim ends."""
    targets: list[str]
    """What `to` can be."""


class ChangedTask(Answer):
    """A task that a rewind changed: `rewound`, `reset`, or marked `stale`."""

    task_id: str
    role: RewindRole
    status_before: str | None = None
    outcome_before: str | None = None


class RewindView(Answer):
    """A rewind, or the undoing of one."""

    id: str
    task_id: str
    workflow_id: str
    to: str
    dependents: Dependents
    stage: RewindStage
    undoes: str | None = None
    undone_by: str | None = None
    files: int
    rescue_branches: list[str]
    reverted: list[str] | None = None
    merges: list[Merge] | None = None
    """The new commits that undo landed work."""
    kept: list[str] | None = None
    """Files that somebody changed meanwhile, and the folder that has their content."""
    created_by: str
    created_at: int
    updated_at: int
    ended_at: int | None = None
    tasks: list[ChangedTask] | None = None


class RewindPage(Page):
    rewinds: list[RewindView]


def describe_rewind(rewind: Rewind, tasks: Iterable[RewindTask] | None = None) -> RewindView:
    """Build the view of a rewind."""
    return RewindView.of(
        rewind,
        to=rewind.target,
        files=sum(len(restore.moves) for restore in rewind.steps.restores),
        rescue_branches=list(rewind.results.rescue_branches),
        reverted=[each.commit for each in rewind.results.reverted] or None,
        merges=_list_merges(rewind.results.reverted) or None,
        kept=list(rewind.results.kept) or None,
        tasks=None if tasks is None else [_describe_task(task) for task in tasks],
    )


def _list_merges(reverted: Iterable[Revert]) -> list[Merge]:
    found = {(each.merge, each.branch) for each in reverted if each.merge is not None}
    return [Merge(branch=branch, into=into) for branch, into in sorted(found)]


def build_payload(rewind: Rewind) -> Mapping[str, Any]:
    """Build the payload of the event of a rewind."""
    return describe_rewind(rewind).model_dump()


def cut(listed: Sequence[Any]) -> list[Any]:
    """Return the first entries of a list; its total is given beside it."""
    return list(listed[:MAX_LISTED])


def _describe_task(task: RewindTask) -> ChangedTask:
    before = task.state_before or {}
    return ChangedTask.of(task, status_before=before.get("status"), outcome_before=before.get("outcome"))
