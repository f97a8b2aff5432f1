"""The rows of approvals, compared with what the audit log says of them.

A seal shows that deepwork wrote a row, not that this is its newest state: somebody can put back a row with
its old seal. The log is a chain: `deepwork audit verify` notices if an entry was taken out of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from deepwork.gates.approvals.models import (
    Approval,
    ApprovalKind,
    ApprovalRequest,
    ApprovalStatus,
    serialize_shown,
)
from deepwork.kernel.database.engine import Row, build_where, row_parser
from deepwork.kernel.database.seals import is_sealed, save_seal
from deepwork.kernel.database.store_key import StoreKey
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import NotFound
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import copy_with

USE_TOOL = "use_approval"
"""Names the entry of a use: not a call, but part of the call that passed the gate."""
_ENTRY_COLUMNS = ("at", "account", "caller", "host", "tool", "arguments", "digest", "outcome")
_SELECT_SQL = f"""
    SELECT seq, chain, {", ".join(_ENTRY_COLUMNS)},
           (SELECT earlier.chain FROM audit AS earlier WHERE earlier.seq = audit.seq - 1) AS chain_before
      FROM audit WHERE tool IN ('give_approval', 'refuse_approval', 'use_approval')
       AND substr(arguments, 1, 32) = :beginning AND seq >= :since ORDER BY seq
"""


@dataclass(frozen=True)
class LoggedFact:
    """What an entry says about an approval."""

    verdict: str
    digest: str
    caller: str


def is_confirmed(tx: Transaction, approval: Approval) -> bool:
    """Return whether the log says that this person gave exactly this, last, and that it was not used yet."""
    facts = _read_facts(tx, approval.id)
    return confirms_given(facts, approval.digest, approval.decided_by)


def confirms_given(facts: Sequence[LoggedFact], digest: str, decided_by: str | None) -> bool:
    """Return whether the facts about an approval, in their order, say that it was given and not used."""
    if any(fact.verdict == "used" for fact in facts):
        return False
    return bool(facts) and facts[-1] == LoggedFact("given", digest, decided_by or "")


def _read_facts(tx: Transaction, id: str) -> list[LoggedFact]:
    """Read what the log says about an approval, in its order; nothing if an entry was changed."""
    key = tx.read_store_key()
    rows = tx.fetch_all(_SELECT_SQL, beginning=f'{{"approval_id":"{id}"', since=key.keyed_from)
    if not all(_is_linked(key, row) for row in rows):
        return []
    # A call that failed has a code as its outcome, and no digest.
    return [_parse_fact(row) for row in rows if ":" in row["outcome"]]


def _parse_fact(row: Row) -> LoggedFact:
    verdict, _, digest = str(row["outcome"]).partition(":")
    return LoggedFact(verdict, digest, row["caller"])


def _is_linked(key: StoreKey, row: Row) -> bool:
    """Return whether the entry is as it was written, after the entry before it."""
    content = json.dumps([row[name] for name in _ENTRY_COLUMNS], separators=(",", ":"))
    digest = key.compute_digest(f"{row['chain_before'] or ''}:{row['seq']}:{content}")
    return digest == str(row["chain"])


_KEPT_OPEN = 50
"""How many approvals of a subject are read, the newest first: enough for every one that can still count."""


class ApprovalStore:
    """Reads and writes approvals."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add_pending(
        self, request: ApprovalRequest, asked_by: str, waiting: Sequence[str] = ()
    ) -> Approval | None:
        """Insert a request; None if another one about the subject waits already."""
        columns = ", ".join(_COLUMNS)
        sql = f"""
            INSERT INTO approvals ({columns}) VALUES ({", ".join(f":{name}" for name in _COLUMNS)})
                ON CONFLICT (subject_kind, subject_id) WHERE status = 'pending' DO NOTHING
            RETURNING {columns}
        """
        asked = Approval.of_request(request, ApprovalStatus.PENDING, asked_by, self._tx.now)
        approval = copy_with(asked, waiting=tuple(waiting))
        row = self._tx.fetch_one(sql, **_to_row(approval))
        if row is None:
            return None
        save_seal(self._tx, "approvals", approval.id)  # what a person decides about is what was asked
        return _from_row(row)

    def get(self, id: str) -> Approval:
        """Return the approval."""
        return self._select(id, "")

    def get_for_update(self, id: str) -> Approval:
        """Return the approval and lock its row until the transaction ends."""
        return self._select(id, self._tx.row_lock)

    def list_of_subject(
        self, kind: ApprovalKind, subject_id: str, *, is_locked: bool = False
    ) -> list[Approval]:
        """List the approvals of a subject, the newest first; locked until the transaction ends if asked."""
        lock = self._tx.row_lock if is_locked else ""
        sql = (
            f"SELECT {', '.join(_COLUMNS)} FROM approvals"
            " WHERE subject_kind = :kind AND subject_id = :subject_id"
            f" ORDER BY created_seq DESC LIMIT :limit{lock}"
        )
        rows = self._tx.fetch_all(sql, kind=kind.value, subject_id=subject_id, limit=_KEPT_OPEN)
        return [_from_row(row) for row in rows]

    def list_used(self, kind: ApprovalKind, workflow_id: str | None = None) -> list[Approval]:
        """List the approvals with which work passed a gate: that of a workflow, or all."""
        only = "" if workflow_id is None else " AND workflow_id = :workflow_id"
        sql = (
            f"SELECT {', '.join(_COLUMNS)} FROM approvals WHERE subject_kind = :kind AND status = :used{only}"
        )
        used = ApprovalStatus.USED.value
        rows = self._tx.fetch_all(sql, workflow_id=workflow_id, kind=kind.value, used=used)
        return [_from_row(row) for row in rows if self.is_sealed(row["id"])]

    def list_of_kind(self, kind: ApprovalKind) -> list[Approval]:
        """List all that a person was asked to approve of this kind, in any status."""
        sql = f"SELECT {', '.join(_COLUMNS)} FROM approvals WHERE subject_kind = :kind"
        return [_from_row(row) for row in self._tx.fetch_all(sql, kind=kind.value)]

    def list_before(self, approval: Approval) -> list[Approval]:
        """List the approvals of the same subject that were asked before this one, the newest first."""
        sql = (
            f"SELECT {', '.join(_COLUMNS)} FROM approvals"
            " WHERE subject_kind = :kind AND subject_id = :subject_id"
            " AND created_seq < (SELECT created_seq FROM approvals WHERE id = :id)"
            " ORDER BY created_seq DESC LIMIT :limit"
        )
        rows = self._tx.fetch_all(
            sql,
            kind=approval.subject_kind.value,
            subject_id=approval.subject_id,
            id=approval.id,
            limit=_KEPT_OPEN,
        )
        return [_from_row(row) for row in rows]

    def list_matching(
        self, *, statuses: Sequence[ApprovalStatus] | None, workflow_id: str | None, limit: int
    ) -> tuple[list[Approval], int]:
        """List approvals, the last asked first, and how many match in all."""
        where = build_where({"status IN :statuses": statuses or None, "workflow_id = :workflow": workflow_id})
        values: Row = {"statuses": [each.value for each in statuses or ()], "workflow": workflow_id}
        order = "asked_at DESC, created_seq DESC"
        rows, total = self._tx.list_first(", ".join(_COLUMNS), f"approvals {where}", order, limit, **values)
        return [_from_row(row) for row in rows], total

    def save(self, approval: Approval) -> None:
        """Save the status and the decision; what was shown never changes."""
        row = _to_row(approval)
        self._tx.update("approvals", approval.id, {name: row[name] for name in _CHANGING})
        save_seal(self._tx, "approvals", approval.id)

    def add(self, approval: Approval) -> None:
        """Insert an approval that a person gave unasked."""
        self._tx.insert("approvals", _to_row(approval))
        save_seal(self._tx, "approvals", approval.id)

    def is_sealed(self, id: str) -> bool:
        """Return whether what the store says of the decision is what deepwork wrote."""
        return is_sealed(self._tx, "approvals", id)

    def _select(self, id: str, lock: str) -> Approval:
        sql = f"SELECT {', '.join(_COLUMNS)} FROM approvals WHERE id = :id{lock}"
        row = self._tx.fetch_one(sql, id=id)
        if row is None:
            raise NotFound("approval", id, suggestion="List them with `deepwork approvals list --all`.")
        return _from_row(row)


_COLUMNS = tuple(Approval.__dataclass_fields__)
_CHANGING = ("status", "decided_by", "decided_at", "method", "comment", "used_at", "waiting")


def _to_row(approval: Approval) -> Row:
    return vars(approval) | {
        "subject_kind": approval.subject_kind.value,
        "status": approval.status.value,
        "shown": serialize_shown(approval.shown),
        "waiting": json.dumps(approval.waiting) if approval.waiting else None,
    }


@row_parser
def _from_row(row: Row) -> Approval:
    read = {
        "subject_kind": ApprovalKind(row["subject_kind"]),
        "status": ApprovalStatus(row["status"]),
        "shown": json.loads(row["shown"]),
        "waiting": tuple(json.loads(row["waiting"] or "[]")),
    }
    return Approval(**(row | read))
