"""A batch of landings: what is required of each, which branch they move, and their merge commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path

from deepwork.delivery.landing.models import Landing, Problem, build_message
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.merge_bases import CommitWalk
from deepwork.kernel.git.merge_commits import (
    CommitFacts,
    create_commit,
    find_author,
    find_checkout,
    find_own_branch_tip,
    merge_trees,
)
from deepwork.kernel.git.proven_merges import ProvenMerges, TreeMerge
from deepwork.kernel.git.refs import check_branch_name, get_tree, resolve_commit
from deepwork.kernel.records import dataclass
from deepwork.work.plans.models import (
    ApprovalTime,
    Task,
    Workflow,
    list_required_approvals,
    list_required_checks,
)
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.workspaces.repositories import RepositoryLocator


@dataclass(frozen=True)
class LandingPlace:
    """The branch that is moved, and the commits that decide what lands there."""

    branch: str
    tip: str | None
    """Where the branch is; None if it does not exist yet."""
    start: str
    """What the first landing is merged into: the tip, with the target taken in."""
    target_tip: str
    """Its checks count, not those of work that has landed on an integration branch only."""


@dataclass(frozen=True)
class Blocked:
    """Why nothing can land now, and what a person has to do."""

    problem: Problem
    reason: str


def require_target(git: Git, target: str) -> str:
    """Return the tip of the target; raises InvalidInput if there is no such local branch."""
    check_branch_name(target)
    tip = find_own_branch_tip(git, target)
    if tip is None:
        raise InvalidInput(
            f"There is no local branch {target!r} to land on.",
            suggestion="Name one that `git branch` shows with --onto.",
        )
    return tip


def choose_place(
    git: Git, target: str, branch: str | None, *, other_target: str | None = None, keeps_target: bool = False
) -> LandingPlace | Blocked:
    """Choose the branch to move. A checked-out target stays where it is: its tree would differ from it.

    `branch` is the integration branch of the plan. With `keeps_target`, it is moved in any case.

    Work that has landed on the integration branch goes on there until the target contains it, so that
    the work of a plan ends as one branch; unless that branch has work for another target.
    """
    target_tip = require_target(git, target)
    holder = find_checkout(git, target)
    tip = find_own_branch_tip(git, branch) if branch else None
    is_ahead = tip is not None and other_target is None and not CommitWalk(git).contains(target_tip, tip)
    if holder is None and not is_ahead and not (keeps_target and branch):
        return LandingPlace(target, target_tip, target_tip, target_tip)
    if other_target is not None:
        return Blocked(
            Problem.BRANCH,
            f"{target} is checked out in {holder}, and {branch} has work for {other_target}. Check out"
            f" another branch there, or land on {other_target}.",
        )
    if branch is None:
        return Blocked(
            Problem.BRANCH, f"{target} is checked out in {holder}. Check out another branch there."
        )
    if where := find_checkout(git, branch):
        return Blocked(Problem.BRANCH, f"{branch} is checked out in {where}. Check out another branch there.")
    return _take_target_in(git, branch, tip, target, target_tip)


def contains(git: Git, tip: str, landed: Landing) -> bool:
    """Return whether a commit contains what has landed, perhaps on another machine."""
    commit = resolve_commit(git, landed.merge_commit or landed.branch_commit or "")
    return commit is not None and CommitWalk(git).contains(tip, commit)


def _take_target_in(
    git: Git, branch: str, tip: str | None, target: str, target_tip: str
) -> LandingPlace | Blocked:
    """Begin with the tip of the integration branch and everything that the target got since."""
    walk = CommitWalk(git)
    if tip is None or walk.contains(target_tip, tip):
        return LandingPlace(branch, tip, target_tip, target_tip)
    if walk.contains(tip, target_tip):
        return LandingPlace(branch, tip, tip, target_tip)
    merge = merge_trees(git, tip, target_tip)
    if merge.tree is None:
        named = f" in {', '.join(merge.files[:5])}" if merge.files else ""
        return Blocked(
            Problem.TARGET_CONFLICT,
            f"{branch} conflicts with {target}{named}. Merge {target} into {branch} in a tree of your own,"
            " resolve the conflicts and commit; then land again.",
        )
    made = create_commit(git, merge.tree, [tip, target_tip], f"Merge {target} into {branch}\n")
    return LandingPlace(branch, tip, made.commit, target_tip)


@dataclass(frozen=True)
class LandingItem:
    """A landing of a task, and what the plan and the task require of it."""

    landing: Landing
    task: Task
    workflow: Workflow
    checks: tuple[str, ...]
    needs_approval: bool

    @property
    def project(self) -> Path:
        """The folder of the project, whose checks run."""
        return Path(self.workflow.repository_path or self.landing.repository_path)


def load_items(
    tx: Transaction, repositories: RepositoryLocator, landings: Sequence[Landing]
) -> list[LandingItem]:
    """Load what is required of these landings; those whose task was removed are left out."""
    tasks = TaskStore(tx).find_by_ids([each.task_id for each in landings if each.task_id])
    plans = {id: PlanStore(tx).get(id) for id in {task.workflow_id for task in tasks.values()}}
    workflows = {id: repositories.localize(tx, plan) for id, plan in plans.items()}
    return [
        _build_item(landing, task, workflows[task.workflow_id])
        for landing in landings
        if (task := tasks.get(landing.task_id or ""))
    ]


def _build_item(landing: Landing, task: Task, workflow: Workflow) -> LandingItem:
    approvals = list_required_approvals(workflow.requirements, task.requirements)
    checks = list_required_checks(workflow.requirements, task.requirements)
    return LandingItem(landing, task, workflow, checks, ApprovalTime.LANDING in approvals)


@dataclass(frozen=True)
class MergedItem:
    """A landing with its merge commit, which no branch has yet."""

    item: LandingItem
    facts: CommitFacts

    def with_landing(self, landing: Landing) -> MergedItem:
        """Return the same merge with the landing as it is stored now."""
        return MergedItem(replace(self.item, landing=landing), self.facts)


@dataclass
class BatchMerge:
    """What became of each landing of a batch."""

    merged: list[MergedItem] = field(default_factory=list)
    contained: list[LandingItem] = field(default_factory=list)
    """The branch has their changes already."""
    conflicting: list[tuple[LandingItem, TreeMerge]] = field(default_factory=list)
    """They conflict with what has landed. Those that conflict with another of the batch are in no list:
    they are tried again when it is known whether that one lands."""


def merge_batch(git: Git, start: str, items: Sequence[LandingItem]) -> BatchMerge:
    """Merge these branches onto a commit, in this order; raises GitError if git merged them wrongly."""
    found, merges = BatchMerge(), ProvenMerges(git)
    current, author = start, find_author(git)
    for item in items:
        source = item.landing.source_commit or ""
        if merges.contains(current, source):
            if merges.contains(start, source):
                found.contained.append(item)
            continue
        merge = merges.merge(current, source)
        if merge.tree is None:
            alone = merge if current == start else merges.merge(start, source)
            if alone.tree is None:
                found.conflicting.append((item, alone))
        elif merge.tree == get_tree(git, current):
            if current == start:
                found.contained.append(item)
        else:
            message = build_message(item.landing, item.task.outcome)
            facts = create_commit(git, merge.tree, [current, source], message, author)
            found.merged.append(MergedItem(item, facts))
            current = facts.commit
    merges.prove()
    return found
