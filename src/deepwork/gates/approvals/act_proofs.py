"""Checks the proof of an act of a person that lets work pass a gate, the same for all of them (`acts.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepwork.gates.approvals.acts import ProvenAct
from deepwork.gates.approvals.models import ApprovalKind, ApprovalRequest, ApprovalStatus, compute_digest
from deepwork.gates.approvals.person_proof import CheckedProof, PersonProofs, require_caller
from deepwork.gates.approvals.rules import build_closed_error, summarize
from deepwork.gates.approvals.service import ask, use
from deepwork.kernel.call import Call, GivenProof, use_call
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import Code, GateClosed
from deepwork.kernel.records import copy_with
from deepwork.kernel.user_settings import CredentialKind

LASTS_MS = 10 * 60 * 1000
"""How long after a person approved an act on the page it can be done."""


def prove_act(
    database: Database, call: Call, arguments: Mapping[str, Any], about: Mapping[str, Any]
) -> ProvenAct:
    """Check that the call comes with the required proof; call it while no transaction is open.

    Commands cannot use a passkey, and a page does not know what it would have to sign. So a person with a
    passkey approves the act on the page Approvals, which binds the passkey to what is shown, then does it.
    """
    require_caller(call.caller)
    proofs = PersonProofs(database)
    state = proofs.read_state()
    subject = f"{call.tool}:{compute_digest(dict(arguments))[:16]}"
    shown = {"title": _describe(call.tool, arguments), "action": call.tool, "arguments": dict(arguments)}
    request = ApprovalRequest(ApprovalKind.ACT, subject, None, {**shown, **about}, LASTS_MS)
    if state.select(CredentialKind.PASSKEY):
        return ProvenAct(_use_approval(database, call, request), about)
    if state.required is CredentialKind.PASSPHRASE and state.credentials and call.read_passphrase:
        call = copy_with(call, proof=GivenProof(call.read_passphrase()))
    return ProvenAct(proofs.check(call, request.digest), about)


def _use_approval(database: Database, call: Call, request: ApprovalRequest) -> CheckedProof:
    with use_call(copy_with(call, record=None)):
        approval = ask(database, request)
        if approval.status is ApprovalStatus.PENDING:
            raise GateClosed(
                f"This needs your passkey: approve {approval.id} in the dashboard first.",
                code=Code.NEEDS_APPROVAL,
                suggestion="Open the page Approvals (deepwork dashboard --host localhost --open), approve "
                "it there, then do this again within ten minutes.",
                evidence={"approval": summarize(approval)},
            )
        if approval.status is ApprovalStatus.REFUSED:
            raise build_closed_error(approval)
        with database.transaction() as tx:
            return CheckedProof(
                CredentialKind(use(tx, request).method or CredentialKind.TOKEN), request.digest
            )


def _describe(tool: str, arguments: Mapping[str, Any]) -> str:
    named = (value for name, value in arguments.items() if name == "id" or name.endswith("_id"))
    return " ".join([tool.replace("_", " "), *map(str, list(named)[:1])])
