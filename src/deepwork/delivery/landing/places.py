"""Where landings go: the target itself, or an integration branch while the target is checked out."""

from __future__ import annotations

from dataclasses import dataclass

from deepwork.delivery.landing.models import Landing, Problem
from deepwork.delivery.landing.rules import name_integration_branch
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.merge_commits import create_commit, find_checkout, find_own_branch_tip, merge_trees
from deepwork.kernel.git.refs import check_branch_name, is_ancestor, resolve_commit


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
    git: Git, target: str, workflow_id: str | None, *, other_target: str | None = None
) -> LandingPlace | Blocked:
    """Choose the branch to move. A checked-out target stays where it is: its tree would differ from it.

    Work that has landed on the integration branch goes on there until the target contains it, so that
    the work of a plan ends as one branch; unless that branch has work for another target.
    """
    target_tip = require_target(git, target)
    holder = find_checkout(git, target)
    branch = name_integration_branch(workflow_id) if workflow_id else None
    tip = find_own_branch_tip(git, branch) if branch else None
    is_ahead = tip is not None and other_target is None and not is_ancestor(git, tip, target_tip)
    if holder is None and not is_ahead:
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
    return commit is not None and is_ancestor(git, commit, tip)


def _take_target_in(
    git: Git, branch: str, tip: str | None, target: str, target_tip: str
) -> LandingPlace | Blocked:
    """Begin with the tip of the integration branch and everything that the target got since."""
    if tip is None or is_ancestor(git, tip, target_tip):
        return LandingPlace(branch, tip, target_tip, target_tip)
    if is_ancestor(git, target_tip, tip):
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
