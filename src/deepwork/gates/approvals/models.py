"""Domain models of approvals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Self

from deepwork.kernel.call import ActionOutcome
from deepwork.kernel.names import CaseInsensitiveEnum, new_id


class ApprovalKind(CaseInsensitiveEnum):
    """What an approval is about."""

    PLAN = "plan"
    TASK_BEFORE = "task_before"  # a task, before it is handed out
    TASK = "task"  # a task whose work is done
    STEP = "step"
    GUARDED = "guarded"  # changes to files that decide whether checks pass
    BUDGET = "budget"
    TRACKED_TASK = "tracked_task"
    LANDING = "landing"  # the merged result of a task, before a branch is moved to it
    ACT = "act"  # of a person who lets work pass a gate, such as skipping a task that has to pass checks

    @property
    def stays_good(self) -> bool:
        """Whether it is good for its content however often tasks are handed out; others are used once."""
        return self is ApprovalKind.PLAN


class ApprovalStatus(CaseInsensitiveEnum):
    PENDING = "pending"
    GIVEN = "given"
    REFUSED = "refused"
    STALE = "stale"  # something else is to be approved now
    USED = "used"
    EXPIRED = "expired"


class ApprovalVerdict(CaseInsensitiveEnum):
    """What a person decides."""

    APPROVE = "approve"
    REFUSE = "refuse"

    @property
    def status(self) -> ApprovalStatus:
        """The status that the decision gives to an approval."""
        return ApprovalStatus.GIVEN if self is ApprovalVerdict.APPROVE else ApprovalStatus.REFUSED


class ApprovalEvent(CaseInsensitiveEnum):
    """Event types of approvals; the payload is the approval without what was shown."""

    ASKED = "approval:asked"
    GIVEN = "approval:given"
    REFUSED = "approval:refused"
    STALE = "approval:stale"
    USED = "approval:used"
    EXPIRED = "approval:expired"


@dataclass(frozen=True)
class ApprovalRequest:
    """What a person has to approve, exactly as it is shown to them."""

    kind: ApprovalKind
    subject_id: str
    workflow_id: str | None
    """The plan, tracked workflow or job session that it belongs to."""
    shown: Mapping[str, Any]
    """JSON values. The approval is good for exactly these."""
    lasts_ms: int | None = None
    """How long the approval is good for, from the decision; None: for ever."""
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", ApprovalKind(self.kind))
        object.__setattr__(self, "digest", compute_digest(self.shown))


@dataclass(frozen=True)
class Approval:
    """A request to a person, and what they decided; times are Unix milliseconds."""

    id: str
    subject_kind: ApprovalKind
    subject_id: str
    workflow_id: str | None
    digest: str
    shown: Mapping[str, Any]
    status: ApprovalStatus
    asked_by: str
    asked_at: int
    decided_by: str | None = None
    decided_at: int | None = None
    method: str | None = None
    """How the person proved that it was a person: token, passphrase or passkey."""
    comment: str | None = None
    lasts_ms: int | None = None
    used_at: int | None = None
    waiting: tuple[str, ...] = ()
    """Agents beside the one that asked that wait for the decision: they get a notice of it too."""

    @classmethod
    def of_request(cls, request: ApprovalRequest, status: ApprovalStatus, by: str, at: int) -> Self:
        """Create the approval that somebody asks for now."""
        return cls(
            id=new_id("ap"),
            subject_kind=request.kind,
            subject_id=request.subject_id,
            workflow_id=request.workflow_id,
            digest=request.digest,
            shown=request.shown,
            status=status,
            asked_by=by,
            asked_at=at,
            lasts_ms=request.lasts_ms,
        )

    @property
    def expires_at(self) -> int | None:
        """Until when it is good, if that is limited."""
        if self.decided_at is None or self.lasts_ms is None or self.status is ApprovalStatus.REFUSED:
            return None
        return self.decided_at + self.lasts_ms

    @property
    def was_given(self) -> bool:
        """Whether a person approved it, whatever became of it since."""
        return self.decided_at is not None and self.status is not ApprovalStatus.REFUSED


@dataclass(frozen=True)
class DecisionEffect(ActionOutcome):
    """What a decision led to after its commit, in one sentence."""

    text: str
    is_carried_out: bool = True
    """False if what was approved could not be done, such as when the work is not what the person saw."""


def serialize_shown(shown: Mapping[str, Any]) -> str:
    """Serialise JSON values in their one canonical form; raises for what JSON cannot express."""
    return json.dumps(shown, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def compute_digest(shown: Mapping[str, Any]) -> str:
    """Compute the digest of what is shown."""
    return sha256(serialize_shown(shown).encode()).hexdigest()
