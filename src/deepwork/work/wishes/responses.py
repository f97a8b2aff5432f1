"""What is answered about wishes, and what that needs from packages above."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from deepwork.kernel.answers import Answer, IsoTime
from deepwork.kernel.paging import Page
from deepwork.kernel.states import Standing
from deepwork.work.plans.models import PlanStatus
from deepwork.work.wishes.models import Wish, WishSource


class WishStates(Protocol):
    """Judges wishes in one transaction."""

    def judge_wishes(self, wishes: Sequence[Wish], /) -> Mapping[str, Standing]: ...


class WishFindingView(Answer):
    title: str
    text: str
    files: list[str]


class WishView(Answer):
    """What a person wants done, and how far it is."""

    id: str
    name: str
    text: str
    source: WishSource
    source_ref: str | None = None
    plan_id: str
    planning_id: str | None = None
    branch: str
    options: dict[str, Any]
    returned_plan: str | None = None
    review_tasks: list[str]
    findings: list[WishFindingView]
    created_by: str
    created_at: IsoTime
    started_at: IsoTime | None = None
    state: str | None = None
    because: str | None = None
    next: str | None = None


class WishPlan(Answer):
    """A plan as files have it."""

    id: str
    status: PlanStatus
    summary: str
    approach: str | None = None
    tasks: list[dict[str, Any]]
    risks: list[str] | None = None
    assumptions: list[str] | None = None
    checks: list[str] | None = None
    approval: list[str] | None = None


class WishPage(Page):
    wishes: list[WishView]
