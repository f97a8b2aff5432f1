"""Approvals: what is asked, what was decided, and whether it counts."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from hashlib import sha256
from typing import Any, Self

from deepwork.kernel.call import ActionOutcome
from deepwork.kernel.errors import Code, GateClosed, NotAllowed
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum, new_id


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
    REVIEW = "review"  # completed work that nothing asks about; a person says that they looked at it
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


MAX_DIFF_LINES = 400
"""Lines of the difference between two texts; the texts themselves are stored whole."""

MAX_NAMED_PATHS = 3

_SUBJECT_WORDS = {
    ApprovalKind.PLAN: "the plan",
    ApprovalKind.TASK_BEFORE: "the start of the task",
    ApprovalKind.TASK: "the work on the task",
    ApprovalKind.STEP: "the step",
    ApprovalKind.GUARDED: "changes to guarded files",
    ApprovalKind.BUDGET: "the budget",
    ApprovalKind.TRACKED_TASK: "the tracked task",
    ApprovalKind.LANDING: "the landing",
    ApprovalKind.REVIEW: "the work on the task",
    ApprovalKind.ACT: "what you want to do",
}


def is_expired(approval: Approval, now: int) -> bool:
    """Return whether an approval was good for a time that is over."""
    return _is_good(approval) and approval.expires_at is not None and now >= approval.expires_at


def may_pass(approval: Approval, digest: str, now: int) -> bool:
    """Return whether an approval lets exactly this content pass now."""
    return _is_good(approval) and approval.digest == digest and not is_expired(approval, now)


def _is_good(approval: Approval) -> bool:
    return approval.status is ApprovalStatus.GIVEN


def find_outdated(approvals: Iterable[Approval], digest: str) -> list[Approval]:
    """List those that wait for, or allow, content other than this."""
    return [
        each
        for each in approvals
        if each.digest != digest and (each.status is ApprovalStatus.PENDING or _is_good(each))
    ]


def find_current(approvals: Sequence[Approval], digest: str, now: int) -> Approval | None:
    """Find the newest approval of this content that still counts: it waits, allows or refuses.

    `approvals` are those of one subject, the newest first. A refusal counts until a person decides otherwise.
    """
    for approval in approvals:
        if approval.digest != digest:
            continue
        if approval.status is ApprovalStatus.PENDING or may_pass(approval, digest, now):
            return approval
        if approval.status is ApprovalStatus.REFUSED:
            return approval
        if approval.status is ApprovalStatus.USED:
            return None  # used up: the same content is asked for again, whatever was decided before
    return None


def find_predecessor(approval: Approval, older: Iterable[Approval]) -> Approval | None:
    """Find what the person approved last before this was asked; `older` begins with the newest."""
    return next((each for each in older if each.was_given and each.id != approval.id), None)


def list_waiting(approvals: Iterable[Approval], *, excluding: str) -> list[str]:
    """List the agents that wait for a decision which has not been made, each once."""
    open_ones = [
        each for each in approvals if each.status in (ApprovalStatus.PENDING, ApprovalStatus.REFUSED)
    ]
    named = [id for each in open_ones for id in (each.asked_by, *each.waiting)]
    return [id for id in dict.fromkeys(named) if id.startswith("ag_") and id != excluding]


def check_decision(approval: Approval, verdict: ApprovalVerdict, now: int) -> None:
    """Raise unless a person may still decide this: it waits, or they change their mind before it is used."""
    if is_expired(approval, now):
        raise _build_too_late_error(approval, "expired")
    allowed = {
        ApprovalVerdict.APPROVE: (ApprovalStatus.PENDING, ApprovalStatus.REFUSED),
        ApprovalVerdict.REFUSE: (ApprovalStatus.PENDING, ApprovalStatus.GIVEN),
    }
    if approval.status not in allowed[verdict]:
        raise _build_too_late_error(approval, approval.status)


def build_closed_error(approval: Approval) -> GateClosed:
    """Build the error of a gate that a person has not opened: what is waited for, or why it was refused."""
    what, id = _SUBJECT_WORDS[approval.subject_kind], approval.id
    if approval.status is ApprovalStatus.REFUSED:
        message = f"{approval.decided_by} refused {what}{_give(approval.comment)} ({id})"
        suggestion = "Change what was refused and try again; the same content is not asked for again."
    else:
        message = f"A person has to approve {what} first ({id})."
        suggestion = "Continue with other work: a notice reports the decision. Do not poll."
    return GateClosed(
        message, code=Code.NEEDS_APPROVAL, suggestion=suggestion, evidence={"approval": summarize(approval)}
    )


def find_name(shown: Mapping[str, Any]) -> str | None:
    """Find the name of what is to be approved; changed files are named by their paths."""
    if isinstance(name := shown.get("name") or shown.get("title"), str):
        return name
    paths = [each["path"] for each in shown.get("paths") or () if isinstance(each, dict) and "path" in each]
    more = f" and {len(paths) - MAX_NAMED_PATHS} more" if len(paths) > MAX_NAMED_PATHS else ""
    return f"{', '.join(map(str, paths[:MAX_NAMED_PATHS]))}{more}" or None


def describe_subject(approval: Approval) -> str:
    """Say in a few words what the approval is about."""
    return _SUBJECT_WORDS[approval.subject_kind]


def describe_next_call(approval: Approval) -> str:
    """Say what the agent does after a decision about work that it reported."""
    calls = {ApprovalKind.STEP: "call finished_step again", ApprovalKind.ACT: "do it again"}
    again = calls.get(approval.subject_kind, "report it again")
    return f"{again.capitalize()}." if approval.was_given else f"Change it, then {again}."


def summarize(approval: Approval) -> dict[str, Any]:
    """Describe an approval to the agent that waits for it."""
    said = {"comment": approval.comment} if approval.comment else {}
    return {
        "id": approval.id,
        "subject": f"{approval.subject_kind.value}:{approval.subject_id}",
        "status": approval.status.value,
        **said,
    }


def list_differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List what differs between what was approved and what is shown now, by path."""
    return list(_compare("", before, after))


def _compare(path: str, before: Any, after: Any) -> Iterator[dict[str, Any]]:
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in dict.fromkeys((*before, *after)):
            yield from _compare(
                f"{path}.{key}" if path else str(key), before.get(key, _ABSENT), after.get(key, _ABSENT)
            )
    elif isinstance(before, list) and isinstance(after, list):
        yield from _compare(path, _index_items(before), _index_items(after))
    elif type(before) is type(after) and before == after:  # not 1 and True
        return
    elif isinstance(before, str) and isinstance(after, str) and "\n" in before + after:
        yield {"path": path, "diff": diff_texts(before, after)}
    else:
        sides = {"before": before, "after": after}
        yield {"path": path, **{side: value for side, value in sides.items() if value is not _ABSENT}}


_ABSENT: Any = object()


def _index_items(items: list[Any]) -> dict[str, Any]:
    """Name the items of a list: by their names, if each has another, so that one added moves none."""
    names = [item.get("name") if isinstance(item, Mapping) else None for item in items]
    if items and all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
        return {"order": ", ".join(map(str, names)), **{f"[{item['name']}]": item for item in items}}
    return {f"[{place}]": item for place, item in enumerate(items)}


def diff_texts(before: str, after: str) -> list[str]:
    """Return the lines that differ, with a few around them, without the names of the files.

    Only a line feed ends a line: for a shell or Python, what else Unicode calls a line end is none.
    """
    lines = list(difflib.unified_diff(before.split("\n"), after.split("\n"), lineterm="", n=2))[2:]
    cut = len(lines) - MAX_DIFF_LINES
    return lines if cut <= 0 else [*lines[:MAX_DIFF_LINES], f"... {cut} more lines"]


def _build_too_late_error(approval: Approval, status: str) -> NotAllowed:
    return NotAllowed(
        f"Approval {approval.id} is {status}: there is nothing to decide.",
        suggestion="See what waits for you with `deepwork approvals list`.",
    )


def _give(comment: str | None) -> str:
    return f": {comment}" if comment else "."
