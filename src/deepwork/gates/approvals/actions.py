"""What only people can do about approvals: give and refuse them.

Described like tools, so that calls are checked and recorded in the same way, but no server offers them to
agents: the command line and the dashboard call them in a person's name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from deepwork.gates.approvals.decisions import DecisionHandler, notify_of_decision
from deepwork.gates.approvals.models import ApprovalKind, ApprovalVerdict
from deepwork.gates.approvals.person_proof import CheckedProof
from deepwork.gates.approvals.responses import ApprovalDecision
from deepwork.gates.approvals.rules import describe_next_call
from deepwork.gates.approvals.service import check_decision_proof, decide
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.operations import InTransaction, Traits, operation
from deepwork.kernel.tool_types import Id, Text

FindHandler = Callable[[ApprovalKind], DecisionHandler | None]


class ApprovalActions:
    """Decisions of people about what they were shown."""

    traits: ClassVar = Traits(toolset="approvals", people_only=True)

    def __init__(self, database: Database, find_handler: FindHandler) -> None:
        """`find_handler` returns what carries out decisions about a kind of subject."""
        self._database, self._find_handler = database, find_handler

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
