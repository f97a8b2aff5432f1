"""What people can read, do and decide about landings: list them, land work, give a landing up, approve it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, ClassVar

from deepwork.delivery.landing.models import Landing, LandingStatus, describe_move
from deepwork.delivery.landing.responses import (
    LandingLine,
    LandingPage,
    LandingStates,
    LandingView,
    LandResult,
    PlanRef,
    offer_landing_actions,
)
from deepwork.delivery.landing.service import LandingService, LandRequest
from deepwork.delivery.landing.store import LandingStore
from deepwork.gates.approvals.models import Approval, ApprovalKind, ApprovalStatus, DecisionEffect
from deepwork.gates.approvals.service import notify_of_decision
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.gates.checks.models import LANDING
from deepwork.gates.checks.responses import CheckLine
from deepwork.gates.checks.store import ProofStore
from deepwork.kernel.answers import Field, Id, Name
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError, InvalidInput
from deepwork.kernel.operations import InTransaction, Traits, operation
from deepwork.kernel.paging import Cursor, PageLimit, cut_page, parse_position
from deepwork.work.plans.models import list_required_checks
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore


class LandingOperations:
    """What people read and decide about landings."""

    traits: ClassVar = Traits(toolset="landing", people_only=True)

    def __init__(
        self,
        database: Database,
        get_service: Callable[[], LandingService],
        view_states: Callable[[Transaction], LandingStates],
    ) -> None:
        """`get_service` is called by the first landing: most calls only read."""
        self._database, self._get_service, self._view_states = database, get_service, view_states

    @operation("work", long_running=True, for_people=True)
    def land_work(
        self,
        task_id: Id | None = None,
        workflow_id: Id | None = None,
        onto: Annotated[
            Name | None, Field(description="The branch; else the one the plan began from")
        ] = None,
        commit: Annotated[bool, Field(description="Commit uncommitted work first")] = False,
    ) -> InTransaction[LandResult]:
        """Merge, check and land a completed task, or all completed tasks of a plan."""
        plan = self._find_plan(task_id, workflow_id)
        result = self._get_service().land(LandRequest(plan, task_id, onto, commits=commit))
        return InTransaction(lambda: result)

    @operation("work", for_people=True)
    def cancel_landing(self, landing_id: Id) -> LandingView:
        """Give up a landing that waits for somebody; its branch stays."""
        return LandingView.of(self._get_service().cancel(landing_id))

    @operation("read")
    def list_landings(
        self,
        status: LandingStatus | None = None,
        open: Annotated[bool, Field(description="Only those that have not ended")] = False,
        ended: Annotated[bool, Field(description="Only those that have ended")] = False,
        workflow_id: Annotated[str | None, Field(description="Of this plan")] = None,
        task_id: Annotated[str | None, Field(description="Of this task")] = None,
        limit: PageLimit = 50,
        cursor: Cursor = None,
    ) -> LandingPage:
        """What landed on which branch, or is on its way, newest first."""
        with self._database.reading() as tx:
            found, total = LandingStore(tx).list_newest(
                statuses=[status] if status else None,
                workflow_id=workflow_id,
                task_id=task_id,
                is_open=open,
                is_ended=ended,
                after=parse_position(cursor),
                limit=limit + 1,
            )
            page, next_cursor = cut_page(found, limit)
            return LandingPage(landings=self._build_lines(tx, page), total=total, cursor=next_cursor)

    @operation("read")
    def get_landing(self, id: Id) -> LandingLine:
        """One landing: where its work is, and what is in its way."""
        with self._database.reading() as tx:
            landing = LandingStore(tx).get(id)
            [line] = self._build_lines(tx, [landing])
            proved = {check.name: check for check in line.checks or ()}
            names = dict.fromkeys((*_list_required_checks(tx, landing), *proved))
            checks = [proved.get(name) or CheckLine(name=name) for name in names] or None
            return line.model_copy({"checks": checks, "approval_id": _find_open_approval(tx, id)})

    def _find_plan(self, task_id: str | None, workflow_id: str | None) -> str:
        if (task_id is None) == (workflow_id is None):
            raise InvalidInput("Name a task or a plan.", suggestion="Pass `task_id` or `workflow_id`.")
        if task_id is None:
            return workflow_id or ""
        with self._database.reading() as tx:
            return TaskStore(tx).get(task_id).workflow_id

    def _build_lines(self, tx: Transaction, landings: Sequence[Landing]) -> list[LandingLine]:
        states = self._view_states(tx).judge_landings(landings)
        plans = PlanStore(tx).find_by_ids([each.workflow_id for each in landings if each.workflow_id])
        proofs = ProofStore(tx).find_used_by(LANDING, [each.id for each in landings])
        places = _find_positions(tx, landings)
        return [
            LandingLine.of(
                each,
                **states[each.id].to_answer(),
                workflow=PlanRef.of(plans[each.workflow_id]) if each.workflow_id in plans else None,
                position=places.get(each.id),
                checks=[CheckLine.of_proof(proof) for proof in proofs.get(each.id, ())] or None,
                actions=offer_landing_actions(each),
            )
            for each in landings
        ]


def _list_required_checks(tx: Transaction, landing: Landing) -> tuple[str, ...]:
    if landing.task_id is None:
        return ()
    task = TaskStore(tx).get(landing.task_id)
    return tuple(list_required_checks(PlanStore(tx).get(task.workflow_id).requirements, task.requirements))


def _find_open_approval(tx: Transaction, id: str) -> str | None:
    asked = ApprovalStore(tx).list_of_subject(ApprovalKind.LANDING, id)
    pending = [each.id for each in asked if each.status is ApprovalStatus.PENDING]
    return pending[-1] if pending else None


def _find_positions(tx: Transaction, landings: Iterable[Landing]) -> dict[str, int]:
    """Map the landings that a process has to work on to their places in the queues of their branches."""
    pending = [each for each in landings if each.status.is_pending]
    queues = {(each.host, each.repository_path, each.target) for each in pending}
    listed = [LandingStore(tx).list_pending(*queue) for queue in queues]
    return {each.id: place for queue in listed for place, each in enumerate(queue, start=1)}


class LandingDecisions:
    """Lands what a person approved, and sends back what they refused."""

    def __init__(self, get_service: Callable[[], LandingService]) -> None:
        self._get_service = get_service

    def lock(self, tx: Transaction, approval: Approval) -> None:
        """Lock nothing: a landing takes its lease first, and no decision waits for that."""

    def apply(self, tx: Transaction, approval: Approval) -> str | None:
        """Notify the agent whose work it is."""
        notify_of_decision(tx, approval, "")
        return None

    def follow(self, approval: Approval) -> DecisionEffect | None:
        """Go on with the landing, if nothing changed since the person looked at it."""
        try:
            landing = self._get_service().resume(approval.subject_id)
        except DeepworkError as error:
            return DecisionEffect(f"It has not landed yet: {error.message}", is_carried_out=False)
        if landing.status is LandingStatus.LANDED:
            return DecisionEffect(describe_move(landing))
        text = f"The landing is {landing.status}. {landing.reason or ''}".strip()
        return DecisionEffect(text, is_carried_out=landing.status.is_pending or not approval.was_given)
