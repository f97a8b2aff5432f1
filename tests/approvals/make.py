"""Builders for tests of approvals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deepwork.edge.server.application import Application
from deepwork.gates.access.store import AuditRecord
from deepwork.gates.approvals import service
from deepwork.gates.approvals.models import Approval, ApprovalRequest, ApprovalVerdict
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.call import Call, use_call

PERSON = "human:anna"


def make_request(kind: str = "step", subject: str = "s1/write", **shown: Any) -> ApprovalRequest:
    """Make a request; without further arguments always the same one."""
    return ApprovalRequest(kind, subject, "s1", shown or {"name": "write", "text": "one"})  # type: ignore[arg-type]


def ask(app: Application, request: ApprovalRequest, caller: str = "local") -> Approval:
    """Ask for an approval as this caller."""
    with use_call(Call(caller)):
        return service.ask(app.database, request)


def use(app: Application, request: ApprovalRequest) -> Approval:
    """Pass a gate with this content."""
    with app.database.transaction() as tx:
        return service.use(tx, request)


def decide(
    app: Application, id: str, verdict: str = "approve", comment: str | None = None, by: str = PERSON
) -> Approval:
    """Decide as a person, or as whatever `by` says; the audit log has the call."""
    tool = "give_approval" if ApprovalVerdict(verdict) is ApprovalVerdict.APPROVE else "refuse_approval"
    given = {"approval_id": id}
    call = replace(Call(by, tool), record=AuditRecord(Call(by, tool), given, given))
    with use_call(call), app.database.transaction() as tx:
        decided = service.decide(tx, id, ApprovalVerdict(verdict), comment)
        call.note_outcome(f"{decided.status.value}:{decided.digest}")
        return decided


def read(app: Application, id: str) -> Approval:
    """Read an approval as it is stored."""
    with app.database.reading() as tx:
        return ApprovalStore(tx).get(id)
