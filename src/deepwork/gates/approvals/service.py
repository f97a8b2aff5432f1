"""Asks people to approve content, records what they decide, and lets exactly that content pass.

A gate calls `ask` before its transaction, because raising rolls back, and `use` inside it: the digest of what
passes is computed there, from rows that are locked until the commit.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from deepwork.gates.approvals.models import (
    Approval,
    ApprovalEvent,
    ApprovalKind,
    ApprovalRequest,
    ApprovalStatus,
    ApprovalVerdict,
    DecisionEffect,
    build_closed_error,
    check_decision,
    compute_digest,
    describe_subject,
    find_current,
    find_name,
    find_outdated,
    is_expired,
    list_waiting,
    may_pass,
    summarize,
)
from deepwork.gates.approvals.responses import ApprovalSummary
from deepwork.gates.approvals.store import ApprovalStore, is_confirmed
from deepwork.kernel.call import current_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import Code, GateClosed, NotAllowed
from deepwork.kernel.notices.models import NoticeType, build_approval_text
from deepwork.kernel.notices.store import NoticeService
from deepwork.kernel.values import copy_with

if TYPE_CHECKING:  # imported by the first decision: most processes only ask and use
    from deepwork.gates.approvals.person_proof import CheckedProof


log = logging.getLogger("deepwork")

MAX_WAITING = 100
"""Agents that one decision is reported to; more only learn of it when they ask again."""
_EVENT_OF_STATUS = {
    ApprovalStatus.PENDING: ApprovalEvent.ASKED,
    ApprovalStatus.GIVEN: ApprovalEvent.GIVEN,
    ApprovalStatus.REFUSED: ApprovalEvent.REFUSED,
    ApprovalStatus.STALE: ApprovalEvent.STALE,
    ApprovalStatus.USED: ApprovalEvent.USED,
    ApprovalStatus.EXPIRED: ApprovalEvent.EXPIRED,
}


def ask(database: Database, request: ApprovalRequest) -> Approval:
    """Ask for an approval in a transaction of its own; return it, or what was decided about this content."""
    with database.transaction() as tx:
        return find_or_ask(tx, request)


def find_or_ask(tx: Transaction, request: ApprovalRequest, asked_by: str | None = None) -> Approval:
    """Return the approval of this content that waits, allows or refuses; ask for it if there is none.

    What waits for, or allows, other content of the same subject becomes stale. `asked_by` is the agent that
    a notice of the decision is for; without one, it is the caller.
    """
    store = ApprovalStore(tx)
    known = [_void_if_forged(tx, each) for each in _list_locked(tx, request)]
    for each in known:
        if is_expired(each, tx.now):
            save_status(tx, each, ApprovalStatus.EXPIRED)
    outdated = find_outdated(known, request.digest)
    for each in outdated:
        if not is_expired(each, tx.now):
            save_status(tx, each, ApprovalStatus.STALE)
    if found := find_current(known, request.digest, tx.now):
        return found
    asker = asked_by or tx.caller
    asked = store.add_pending(request, asker, list_waiting(outdated, excluding=asker))
    if asked is None:  # another process asked at the same time, about other content or the same
        return find_or_ask(tx, request, asked_by)
    _emit(tx, asked)
    return asked


def add_waiting(tx: Transaction, approval: Approval, agent_id: str) -> None:
    """Let an agent that was refused get a notice of the decision too; the caller has locked the subject."""
    waiting = list_waiting([approval], excluding="")
    if agent_id not in waiting and len(waiting) < MAX_WAITING:
        ApprovalStore(tx).save(copy_with(approval, waiting=(*approval.waiting, agent_id)))


def use(tx: Transaction, request: ApprovalRequest) -> Approval:
    """Let this content pass, and use its approval up; raise if no person approved exactly this.

    The approval of a plan stays `given`: it is good for its content however many tasks are handed out.
    """
    known = _list_locked(tx, request)
    for approval in known:
        if may_pass(approval, request.digest, tx.now):
            if not _is_genuine(tx, approval):
                raise _build_forged_error(approval)
            return _mark_used(tx, approval)
    found = find_current(known, request.digest, tx.now)
    raise build_closed_error(found) if found else _build_changed_error(request)


def decide(
    tx: Transaction,
    id: str,
    verdict: ApprovalVerdict,
    comment: str | None = None,
    proof: CheckedProof | None = None,
) -> Approval:
    """Record what a person decides about exactly what this approval showed.

    `proof` is what `check_decision_proof` returned before the transaction.
    """
    from deepwork.gates.approvals.person_proof import require_person_proof  # noqa: PLC0415

    approval = ApprovalStore(tx).get_for_update(id)
    method = require_person_proof(tx, _build_challenge(approval, verdict), proof)
    check_decision(approval, verdict, tx.now)
    _require_intact(tx, approval)
    decided = copy_with(
        approval,
        status=verdict.status,
        decided_by=tx.caller,
        decided_at=tx.now,
        method=method,
        comment=comment,
    )
    ApprovalStore(tx).save(decided)
    _emit(tx, decided)
    return decided


def check_decision_proof(database: Database, approval: Approval, verdict: ApprovalVerdict) -> CheckedProof:
    """Check that the current call comes with the proof that deciding this needs; raises NotAllowed.

    Call it before the transaction: a wrong passphrase counts, although nothing else is stored then.
    """
    from deepwork.gates.approvals.person_proof import PersonProofs  # noqa: PLC0415

    return PersonProofs(database).check(current_call(), _build_challenge(approval, verdict))


def _build_challenge(approval: Approval, verdict: ApprovalVerdict) -> str:
    from deepwork.gates.approvals.person_proof import build_decision_challenge  # noqa: PLC0415

    return build_decision_challenge(verdict, approval.id, approval.digest, approval.decided_at)


def record_unasked(tx: Transaction, request: ApprovalRequest, method: str) -> Approval:
    """Record what a person decided by carrying it out, without being asked: it is used at once."""
    asked = Approval.of_request(request, ApprovalStatus.USED, tx.caller, tx.now)
    approval = copy_with(asked, decided_by=tx.caller, decided_at=tx.now, method=method, used_at=tx.now)
    ApprovalStore(tx).add(approval)
    _emit(tx, approval)
    return approval


def withdraw(tx: Transaction, kind: ApprovalKind, subject_id: str) -> None:
    """Stop asking about a subject whose work goes on: what waits becomes stale."""
    for each in ApprovalStore(tx).list_of_subject(kind, subject_id, is_locked=True):
        if each.status is ApprovalStatus.PENDING:
            save_status(tx, each, ApprovalStatus.STALE)


def save_status(tx: Transaction, approval: Approval, status: ApprovalStatus) -> Approval:
    """Save a status that no person decided, and emit its event."""
    changed = copy_with(approval, status=status)
    ApprovalStore(tx).save(changed)
    _emit(tx, changed)
    return changed


def _list_locked(tx: Transaction, request: ApprovalRequest) -> list[Approval]:
    return ApprovalStore(tx).list_of_subject(request.kind, request.subject_id, is_locked=True)


def _void_if_forged(tx: Transaction, approval: Approval) -> Approval:
    """Return the approval; one that nobody gave, or asked for, becomes stale, so that a person is asked."""
    is_open = approval.status in (ApprovalStatus.PENDING, ApprovalStatus.GIVEN)
    if not is_open or _is_genuine(tx, approval):
        return approval
    log.warning("Approval %s was changed in the store: it does not count, and is asked again.", approval.id)
    return save_status(tx, approval, ApprovalStatus.STALE)


def _is_genuine(tx: Transaction, approval: Approval) -> bool:
    """Return whether it was asked for as it is; and if it is given, whether the audit log says so too."""
    is_logged = approval.status is not ApprovalStatus.GIVEN or is_confirmed(tx, approval)
    return is_logged and ApprovalStore(tx).is_sealed(approval.id)


def _require_intact(tx: Transaction, approval: Approval) -> None:
    """Raise if a person would decide about something else than was asked: somebody changed the row."""
    is_as_asked = ApprovalStore(tx).is_sealed(approval.id)
    if not is_as_asked or compute_digest(approval.shown) != approval.digest:
        raise NotAllowed(
            f"Approval {approval.id} shows something else than it was asked for: its row was changed.",
            suggestion="Look at the log with `deepwork audit verify`; nothing was decided.",
        )


def _mark_used(tx: Transaction, approval: Approval) -> Approval:
    if approval.subject_kind.stays_good:
        return approval
    return save_status(tx, copy_with(approval, used_at=tx.now), ApprovalStatus.USED)


def _emit(tx: Transaction, approval: Approval) -> None:
    data = ApprovalSummary.from_approval(approval).model_dump()
    tx.emit(_EVENT_OF_STATUS[approval.status], data, approval.workflow_id)


def _build_forged_error(approval: Approval) -> GateClosed:
    return GateClosed(
        f"Approval {approval.id} was changed in the store, so it does not count.",
        code=Code.NEEDS_APPROVAL,
        suggestion="Call again: a person is asked then. `deepwork audit verify` finds what was changed.",
        evidence={"approval": summarize(copy_with(approval, status=ApprovalStatus.STALE))},
    )


def _build_changed_error(request: ApprovalRequest) -> GateClosed:
    """Build the error for content that changed after it was asked about: nothing can be asked now."""
    subject = f"{request.kind.value}:{request.subject_id}"
    return GateClosed(
        "A person has to approve this first, and what is to be approved changed while you called.",
        code=Code.NEEDS_APPROVAL,
        suggestion="Call again: it is asked about then.",
        evidence={"approval": {"subject": subject, "status": ApprovalStatus.STALE.value}},
    )


class DecisionHandler(Protocol):
    """Carries out what decisions about one kind of subject lead to."""

    def lock(self, tx: Transaction, approval: Approval) -> None:
        """Lock what gates lock before they look at approvals, so that no two calls wait for each other."""

    def apply(self, tx: Transaction, approval: Approval) -> str | None:
        """Carry out the decision in its transaction, notify agents, and say what it led to."""

    def follow(self, approval: Approval) -> DecisionEffect | None:
        """Carry out, after the commit, what takes long, such as completing a task; say what it led to."""


def notify_of_decision(
    tx: Transaction,
    approval: Approval,
    next_step: str,
    agents: Sequence[str] = (),
    task_id: str | None = None,
) -> None:
    """Notify these agents, else those that asked or wait; work without agents is notified by its sessions."""
    is_given = approval.status is ApprovalStatus.GIVEN
    text = build_approval_text(
        describe_subject(approval),
        find_name(approval.shown),
        is_given=is_given,
        comment=approval.comment,
        next=next_step,
    )
    kind = NoticeType.APPROVED if is_given else NoticeType.REFUSED
    asked = [id for id in (approval.asked_by, *approval.waiting) if id.startswith("ag_")]
    notices, workflow = NoticeService(tx), approval.workflow_id
    if concerned := list(agents) or asked:
        notices.notify_agents(concerned, kind, text, workflow_id=workflow, task_id=task_id, about=approval.id)
    elif workflow is not None and not workflow.startswith("wf_"):
        notices.notify_work(workflow, kind, text, task_id=task_id, about=approval.id)
