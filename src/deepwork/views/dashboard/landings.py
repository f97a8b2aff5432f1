"""REST endpoints for landings."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from deepwork.delivery.landing.models import Landing, LandingStatus
from deepwork.delivery.landing.responses import LandingView, describe_landing
from deepwork.delivery.landing.store import LandingStore
from deepwork.gates.approvals.models import ApprovalKind, ApprovalStatus
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.gates.checks.models import LANDING
from deepwork.gates.checks.store import ProofStore
from deepwork.kernel.database.transaction import Transaction
from deepwork.views.dashboard import offered_actions
from deepwork.views.dashboard.endpoints import (
    Endpoint,
    NoParameters,
    PagedAnswer,
    PageQuery,
    ReadContext,
    decode_cursor,
    encode_cursor,
)
from deepwork.views.dashboard.evidence import CheckLine, build_check
from deepwork.views.dashboard.offered_actions import Act
from deepwork.views.dashboard.runs import RunRef, find_run_refs
from deepwork.views.overview.states.view import StateView
from deepwork.work.plans.models import list_required_checks
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore


class LandingLine(LandingView):
    """A landing, with the plan that it belongs to and what a person can do about it."""

    state: str
    because: str | None = None
    next: str | None = None
    workflow: RunRef | None = None
    position: int | None = None
    """Its place among what waits for the same branch, the first is 1; None if it waits for somebody."""
    checks: list[CheckLine] | None = None
    """Checks that passed on the merged result; of one landing also those that are still required."""
    approval_id: str | None = None
    """The approval that it waits for; only of one landing."""
    actions: list[Act]


class LandingPage(PagedAnswer):
    landings: list[LandingLine]


class LandingQuery(PageQuery):
    status: LandingStatus | None = None
    open: bool = Field(default=False, description="Only those that have not ended")
    ended: bool = Field(default=False, description="Only those that have ended")
    workflow_id: str | None = Field(default=None, description="Of this plan")
    task_id: str | None = Field(default=None, description="Of this task")


def read_landings(context: ReadContext, query: LandingQuery) -> LandingPage:
    """Read landings, the newest first."""
    after = tuple(decode_cursor(query.cursor, int, str)) if query.cursor else None
    found, total = LandingStore(context.tx).list_newest(
        statuses=[query.status] if query.status else None,
        workflow_id=query.workflow_id,
        task_id=query.task_id,
        is_open=query.open,
        is_ended=query.ended,
        after=after,
        limit=query.limit + 1,
    )
    page = found[: query.limit]
    has_more = len(found) > query.limit
    cursor = encode_cursor([page[-1].created_at, page[-1].id]) if has_more else None
    return LandingPage(landings=_build_lines(context.states, page), total=total, cursor=cursor)


def read_landing(context: ReadContext, _: NoParameters) -> LandingLine:
    """Read one landing, with all its checks and the approval that it waits for."""
    tx, landing = context.tx, LandingStore(context.tx).get(context.id)
    [line] = _build_lines(context.states, [landing])
    proved = {check.name: check for check in line.checks or ()}
    names = dict.fromkeys((*_list_required_checks(tx, landing), *proved))
    asked = ApprovalStore(tx).list_of_subject(ApprovalKind.LANDING, landing.id)
    pending = [each.id for each in asked if each.status is ApprovalStatus.PENDING]
    return line.model_copy(
        {
            "checks": [proved.get(name) or build_check(name, None) for name in names] or None,
            "approval_id": pending[-1] if pending else None,
        }
    )


def _list_required_checks(tx: Transaction, landing: Landing) -> tuple[str, ...]:
    if landing.task_id is None:
        return ()
    task = TaskStore(tx).get(landing.task_id)
    return tuple(list_required_checks(PlanStore(tx).get(task.workflow_id).requirements, task.requirements))


def _build_lines(view: StateView, landings: list[Landing]) -> list[LandingLine]:
    tx, states = view.tx, view.judge_landings(landings)
    plans = find_run_refs(tx, {each.workflow_id for each in landings if each.workflow_id})
    proofs = ProofStore(tx).find_used_by(LANDING, [each.id for each in landings])
    places = _find_positions(tx, landings)
    return [
        LandingLine(
            **vars(describe_landing(each)) | states[each.id].to_answer(),
            workflow=plans.get(each.workflow_id or ""),
            position=places.get(each.id),
            checks=[build_check(proof.check_name, proof) for proof in proofs.get(each.id, ())] or None,
            actions=offered_actions.list_landing_actions(each),
        )
        for each in landings
    ]


def _find_positions(tx: Transaction, landings: Iterable[Landing]) -> dict[str, int]:
    """Map the landings that a process has to work on to their places in the queues of their branches."""
    pending = [each for each in landings if each.status.is_pending]
    queues = {(each.host, each.repository_path, each.target) for each in pending}
    listed = [LandingStore(tx).list_pending(*queue) for queue in queues]
    return {each.id: place for queue in listed for place, each in enumerate(queue, start=1)}


ENDPOINTS = (
    Endpoint(
        "/api/v1/landings",
        "What landed on which branch, or is on its way, newest first.",
        LandingQuery,
        LandingPage,
        read_landings,
    ),
    Endpoint(
        "/api/v1/landings/{id}",
        "One landing: where its work is, and what is in its way.",
        NoParameters,
        LandingLine,
        read_landing,
    ),
)
