"""What is answered about landings, and what that needs from packages above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from deepwork.delivery.landing.models import Landing, LandingKind, LandingStatus, Problem, Skipped, WorkOrigin
from deepwork.gates.checks.responses import CheckLine
from deepwork.kernel.answers import Act, Answer, IsoTime, offer
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.paging import Page
from deepwork.kernel.states import Standing
from deepwork.work.workspaces.models import WORK_ELSEWHERE


class LandingStates(Protocol):
    """Judges landings in one transaction."""

    def judge_landings(self, landings: Sequence[Landing], /) -> Mapping[str, Standing]: ...


class WorkOrigins(Protocol):
    """Tells which attempt did the work of a task, and brings work back to it."""

    def find(self, tx: Transaction, task_id: str) -> WorkOrigin | None:
        """Return the last attempt at the task; None if no attempt of deepwork did it."""

    def can_continue(self, tx: Transaction, landing: Landing) -> bool:
        """Return whether the attempt itself goes on with the work; else the task is reopened for others."""


class LandingView(Answer):
    """One task's way to a branch."""

    id: str
    kind: LandingKind
    status: LandingStatus
    problem: Problem | None = None
    reason: str | None = None
    workflow_id: str | None = None
    task_id: str | None = None
    title: str
    target: str
    branch: str | None = None
    source_branch: str | None = None
    source_commit: str | None = None
    base_commit: str | None = None
    merge_commit: str | None = None
    attempt_id: str | None = None
    agent_id: str | None = None
    returns: int
    host: str
    created_by: str
    created_at: IsoTime
    updated_at: IsoTime
    ended_at: IsoTime | None = None


class PlanRef(Answer):
    """The plan that a landing belongs to."""

    id: str
    kind: str = "plan"
    name: str


class LandingLine(LandingView):
    """A landing, with the plan that it belongs to and what a person can do about it."""

    state: str
    because: str | None = None
    next: str | None = None
    workflow: PlanRef | None = None
    position: int | None = None
    """Its place among what waits for the same branch, the first is 1; None if it waits for somebody."""
    checks: list[CheckLine] | None = None
    """Checks that passed on the merged result; of one landing also those that are still required."""
    approval_id: str | None = None
    """The approval that it waits for; only of one landing."""
    actions: list[Act]


class LandingPage(Page):
    landings: list[LandingLine]


class InTheWay(Answer):
    """A commit of the branch that changed a file which a landing conflicts in."""

    commit: str
    subject: str
    landing_id: str | None = None
    """The landing that made it; None if a person did."""
    task_id: str | None = None


class LandingConflict(Answer):
    """The files that a landing conflicts in, and who changed them on the branch meanwhile."""

    files: list[str]
    others: list[InTheWay] | None = None
    """None if that cannot be found out here: the repository is elsewhere, or has changed since."""


class RedCheck(Answer):
    """A check that fails on the merged result, and the end of what it printed."""

    check: str
    verdict: str
    proof_id: str | None = None
    log: str | None = None
    """None if it was removed, or is on another machine."""


class QueuedLanding(LandingLine):
    """A landing on its way: its place, and what is in its way."""

    culprit: str | None = None
    """Of a red one: `work`, if the branch passes without it, or `branch`, if it does not."""
    red: list[RedCheck] | None = None
    conflict: LandingConflict | None = None
    same_files: list[str] | None = None
    """Titles of landings on their way to the same branch that change some of the same files."""


class QueueView(Answer):
    """The landings of a plan, or of all, that have not ended: what moves next first."""

    landings: list[QueuedLanding]
    landed: int | None = None
    """How many tasks of the plan have landed."""


class SkippedTask(Answer):
    """A task that was not landed, and why."""

    task_id: str
    name: str
    reason: str
    refused: bool | None = None
    because: str | None = None
    """`work_elsewhere`: its work is on another machine."""
    branch: str | None = None
    host: str | None = None


class LandResult(Answer):
    """What became of each landing, and which tasks were left out."""

    landings: list[LandingView]
    skipped: list[SkippedTask] | None = None
    exit_code: int
    """0 everything landed, 3 a person is needed, 1 something failed."""


def describe_skipped(skipped: Skipped) -> SkippedTask:
    """Describe a task that was left out."""
    because = WORK_ELSEWHERE if skipped.host else None
    return SkippedTask.of(skipped, refused=skipped.is_refused or None, because=because)


def build_payload(landing: Landing) -> dict[str, Any]:
    """Return the payload of an event."""
    return LandingView.of(landing).model_dump()


def offer_hint(task_id: str) -> Act:
    """Offer to hand the work of a landing out again, with words for its agent."""
    asked = {"outcome": "What should the next agent know?"}
    return offer("Send back with a hint", "task_update_status", asked, id=task_id, status="pending")


def offer_landing_actions(landing: Landing) -> list[Act]:
    """Offer what a person can do about a landing."""
    if landing.status.is_final or landing.status.is_pending:
        return []
    return offer_to_continue(landing.id, landing.task_id if landing.kind is LandingKind.TASK else None)


def offer_to_continue(id: str, task_id: str | None) -> list[Act]:
    """Offer what a person can do about a landing that waits for them; a prepared commit has no task."""
    again = [offer("Land again", "land_work", task_id=task_id)] if task_id else []
    return [*again, offer("Give up", "cancel_landing", landing_id=id)]
