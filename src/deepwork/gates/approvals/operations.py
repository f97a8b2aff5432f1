"""What people read and decide about approvals: they list them, look at one, give it or refuse it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, ClassVar

from deepwork.gates.approvals.models import (
    Approval,
    ApprovalKind,
    ApprovalStatus,
    ApprovalVerdict,
    describe_next_call,
    find_predecessor,
    is_expired,
    list_differences,
)
from deepwork.gates.approvals.person_proof import CheckedProof
from deepwork.gates.approvals.responses import ApprovalDecision, Approvals, ApprovalSummary, ApprovalView
from deepwork.gates.approvals.service import DecisionHandler, check_decision_proof, decide, notify_of_decision
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.answers import Field, Id, Text
from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.operations import InTransaction, Traits, operation
from deepwork.kernel.paging import PageLimit
from deepwork.kernel.values import copy_with

FindHandler = Callable[[ApprovalKind], DecisionHandler | None]
NameAgents = Callable[[Transaction, Sequence[str]], Mapping[str, str]]


class ApprovalOperations:
    """What people are asked to approve, and their decisions about it."""

    traits: ClassVar = Traits(toolset="approvals", people_only=True)

    def __init__(self, database: Database, find_handler: FindHandler, name_agents: NameAgents) -> None:
        """`find_handler` returns what carries out decisions about a kind of subject."""
        self._database, self._find_handler, self._name_agents = database, find_handler, name_agents

    @operation("work", long_running=True, for_people=True)
    def give_approval(self, approval_id: Id, comment: Text | None = None) -> InTransaction[ApprovalDecision]:
        """Approve exactly what the approval shows."""
        return self._prepare(approval_id, ApprovalVerdict.APPROVE, comment)

    @operation("work", long_running=True, for_people=True)
    def refuse_approval(
        self, approval_id: Id, comment: Text | None = None
    ) -> InTransaction[ApprovalDecision]:
        """Refuse what the approval shows; the agent reads the comment."""
        return self._prepare(approval_id, ApprovalVerdict.REFUSE, comment)

    @operation("read")
    def list_approvals(
        self,
        status: ApprovalStatus = ApprovalStatus.PENDING,
        all: Annotated[bool, Field(description="Of every status")] = False,
        workflow_id: Annotated[
            str | None, Field(description="Of this plan, tracked workflow or session")
        ] = None,
        limit: PageLimit = 50,
    ) -> Approvals:
        """What waits for your approval, or was decided; the last asked first."""
        with self._database.reading() as tx:
            found, total = ApprovalStore(tx).list_matching(
                statuses=None if all else [status], workflow_id=workflow_id, limit=limit
            )
            names = self._name_agents(tx, [each.asked_by for each in found])
            shown = [
                ApprovalSummary.from_approval(_mark_expired(tx, each), asked_by_name=names.get(each.asked_by))
                for each in found
            ]
        return Approvals(approvals=shown, total=total)

    @operation("read")
    def get_approval(
        self,
        id: Id,
        whole: Annotated[
            bool, Field(description="All of it, even if only a part differs from before")
        ] = False,
    ) -> ApprovalView:
        """An approval: what is to be approved, or what differs from what was approved before."""
        with self._database.reading() as tx:
            shown = show_approval(tx, id, whole=whole)
            name = self._name_agents(tx, [shown.asked_by]).get(shown.asked_by)
            return shown.model_copy({"asked_by_name": name})

    def _prepare(
        self, id: str, verdict: ApprovalVerdict, comment: str | None
    ) -> InTransaction[ApprovalDecision]:
        """Check, before the transaction, that a person decides."""
        with self._database.reading() as tx:
            approval = ApprovalStore(tx).get(id)
        proof = check_decision_proof(self._database, approval, verdict)
        return InTransaction(partial(self._decide, id, verdict, comment, proof))

    def _decide(
        self, id: str, verdict: ApprovalVerdict, comment: str | None, proof: CheckedProof
    ) -> ApprovalDecision:
        with self._database.transaction() as tx:
            approval = ApprovalStore(tx).get(id)
            handler = self._find_handler(approval.subject_kind)
            if handler:
                handler.lock(tx, approval)
            decided = decide(tx, id, verdict, comment, proof)
            effect = handler.apply(tx, decided) if handler else None
            if handler is None:
                notify_of_decision(tx, decided, describe_next_call(decided))
            else:
                tx.after_commit(partial(handler.follow, decided))
            current_call().note_outcome(f"{decided.status.value}:{decided.digest}")
            return ApprovalDecision.from_approval(decided, effect=effect)


def show_approval(tx: Transaction, id: str, *, whole: bool = False) -> ApprovalView:
    """Show what is to be approved: only what differs from what was approved before, unless `whole`."""
    store = ApprovalStore(tx)
    approval = _mark_expired(tx, store.get(id))
    before = find_predecessor(approval, store.list_before(approval))
    if before is None:
        return ApprovalView.from_approval(approval, shown=dict(approval.shown))
    return ApprovalView.from_approval(
        approval,
        shown=dict(approval.shown) if whole else None,
        approved_before=before.id,
        differences=list_differences(before.shown, approval.shown),
    )


def _mark_expired(tx: Transaction, approval: Approval) -> Approval:
    """Return the approval as the next gate will find it: reading stores nothing."""
    return copy_with(approval, status=ApprovalStatus.EXPIRED) if is_expired(approval, tx.now) else approval
