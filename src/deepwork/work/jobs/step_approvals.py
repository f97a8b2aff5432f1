"""Steps that a person has to approve: which outputs, asked after their reviews, used when the step passes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from deepwork.gates.approvals.models import (
    Approval,
    ApprovalKind,
    ApprovalRequest,
    build_closed_error,
    compute_digest,
    may_pass,
)
from deepwork.gates.approvals.service import ask, use
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import GateClosed, InvalidInput
from deepwork.kernel.files.paths import confine
from deepwork.work.jobs.definitions.committed import CommittedJob, list_mappings
from deepwork.work.jobs.definitions.models import Job, StepApproval
from deepwork.work.jobs.sessions.state import Outputs, Session
from deepwork.work.jobs.step_outputs import StepOutputs

MAX_SHOWN_TEXT = 64 * 1024
"""Bytes of a file that are shown; a longer one is covered by its digest alone."""
_CHUNK = 1 << 20


class StepApprovals:
    """Pins the approvals of a session when it starts, and asks for and uses those of a step."""

    def __init__(self, root: Path, database: Database) -> None:
        self._root, self._database = root, database

    def pin(self, session: Session, job: Job, at_head: CommittedJob) -> Session:
        """Return the session with the approvals that job.yml names in the commit that it starts at."""
        steps = [step for entry in session.entries for step in entry.steps]
        current = {step.id: step.approval for step in job.steps if step.approval}
        data = at_head.find("approval") or {}
        # What is committed counts; what only the file says can add to it, but takes nothing away.
        named = {**current, **dict(_list_approvals(data))}
        declared = _list_job_outputs(job) | dict(_list_outputs(data))
        groups = (at_head.find_entries(session.workflow_name) if data else None) or [
            list(entry.steps) for entry in session.entries
        ]
        pinned = {
            step: named[step].to_dict() | _pin_outputs(step, groups, declared)
            for step in steps
            if step in named
        }
        return replace(session, approvals=pinned)

    def digest_outputs(self, session: Session, parts: Sequence[StepOutputs]) -> str | None:
        """Compute a digest of all outputs, also of those that need no approval; None if no step needs one."""
        if not session.approvals.keys() & set(session.current_entry.steps):
            return None
        return compute_digest(self.describe_outputs(parts))

    def describe_outputs(self, parts: Sequence[StepOutputs]) -> dict[str, Any]:
        """Describe all outputs: their files with digests, and short texts as they are."""
        outputs = {name: value for part in parts for name, value in part.outputs.items()}
        return {name: self._describe(value) for name, value in outputs.items()}

    def was_reviewed(self, session: Session, digest: str | None) -> bool:
        """Return whether exactly these outputs passed their reviews, and then had to wait for a person."""
        pinned = [
            session.approvals[step] for step in session.current_entry.steps if step in session.approvals
        ]
        known = [each["reviewed"] for each in pinned if "reviewed" in each]
        return bool(known) and set(known) == {digest}

    def mark_reviewed(self, session: Session, digest: str | None) -> Session:
        """Remember that the outputs with this digest, computed before their reviews, passed them."""
        steps = session.current_entry.steps
        marked = {
            step: {**pinned, "reviewed": digest} if step in steps else pinned
            for step, pinned in session.approvals.items()
        }
        return replace(session, approvals=marked)

    def pass_or_ask(self, session: Session, parts: Sequence[StepOutputs]) -> GateClosed | None:
        """Use the approvals of these outputs; return why that is not possible, after asking for them."""
        requests = list(self._build_requests(session, parts))
        for request in requests:
            approval = ask(self._database, request)
            if not self._may_pass(approval, request):
                return build_closed_error(approval)
        if not requests:  # jobs without approvals run without a database too
            return None
        try:
            with self._database.transaction() as tx:
                for request in self._build_requests(session, parts):  # the files, as they are now
                    use(tx, request)
        except GateClosed as closed:  # a file changed, or a person took the approval back, just now
            return closed
        return None

    def require(self, session: Session, parts: Sequence[StepOutputs]) -> None:
        """Raise GateClosed unless a person approved these outputs; nothing else lets the step pass."""
        if closed := self.pass_or_ask(session, parts):
            raise closed

    def _may_pass(self, approval: Approval, request: ApprovalRequest) -> bool:
        with self._database.reading() as tx:
            return may_pass(approval, request.digest, tx.now)

    def _build_requests(self, session: Session, parts: Sequence[StepOutputs]) -> Iterator[ApprovalRequest]:
        outputs = {name: value for part in parts for name, value in part.outputs.items()}
        for step_id in session.current_entry.steps:
            if pinned := session.approvals.get(step_id):
                own = next((part.outputs for part in parts if part.step.id == step_id), {})
                named = _name_files(pinned, outputs) or _name_outputs(pinned, own)
                shown = {
                    "name": step_id,
                    "job": session.job_name,
                    "workflow": session.workflow_name,
                    "goal": session.goal,
                    "outputs": {name: self._describe(value) for name, value in named.items()},
                }
                subject = f"{session.session_id}/{step_id}"
                yield ApprovalRequest(
                    ApprovalKind.STEP, subject, session.session_id, shown, pinned["expires_ms"]
                )

    def _describe(self, value: Any) -> Any:
        """Describe the files of an output, each with its content."""
        if value is None:
            return {"problem": "This output was not submitted."}
        if isinstance(value, str):
            return describe_file(self._root, value)
        return {path: describe_file(self._root, path) for path in value}


def describe_file(root: Path, path: str) -> dict[str, Any]:
    """Describe a file by its digest and, if it is a short text, by its content."""
    try:
        file = confine(root, path, must_exist=False, kind="file")
        size, digest = 0, hashlib.sha256()
        with file.open("rb") as stream:
            start = stream.read(MAX_SHOWN_TEXT + 1)
            chunk = start
            while chunk:
                size += len(chunk)
                digest.update(chunk)
                chunk = stream.read(_CHUNK)
    except (InvalidInput, OSError) as error:
        return {"path": path, "problem": str(error)}
    described = {"path": path, "size": size, "sha256": digest.hexdigest()}
    text = _decode(start) if size <= MAX_SHOWN_TEXT else None
    return described if text is None else {**described, "text": text}


def _decode(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


Declared = Mapping[str, bool]
"""The outputs of a step by name, and whether each is required."""


def _list_job_outputs(job: Job) -> dict[str, Declared]:
    return {step.id: {each.name: each.required for each in step.outputs} for step in job.steps}


def _list_outputs(data: Mapping[str, Any]) -> Iterator[tuple[str, Declared]]:
    """List the outputs of each step of a committed job.yml; one that is malformed is required."""
    for step in list_mappings(data.get("steps")):
        outputs = step.get("outputs")
        if isinstance(outputs, Mapping):
            optional = [name for name, each in outputs.items() if _is_optional(each)]
            yield str(step.get("id")), {str(name): name not in optional for name in outputs}


def _is_optional(output: Any) -> bool:
    return isinstance(output, Mapping) and output.get("required") is False


def _pin_outputs(
    step: str, groups: Sequence[Sequence[str]], declared: Mapping[str, Declared]
) -> dict[str, list[str]]:
    """Pin which names are those of outputs, of the step or of one beside it, and which it has to have.

    Editing job.yml lets no name stand for another file than the one that it stood for.
    """
    beside = next((group for group in groups if step in group), [step])
    known = {name for each in beside for name in declared.get(each, {})}
    required = [name for name, is_required in declared.get(step, {}).items() if is_required]
    return {"outputs": sorted(known), "required": sorted(required)}


def _name_files(pinned: Mapping[str, Any], outputs: Outputs) -> dict[str, Any]:
    """Return the files that the approval names: an output has those that were submitted, None without any."""
    known = pinned.get("outputs", outputs)  # sessions that an older version started have none
    return {name: outputs.get(name) if name in known else name for name in pinned["of"]}


def _name_outputs(pinned: Mapping[str, Any], own: Outputs) -> dict[str, Any]:
    """Return all outputs of the step, also those that it had to have and has no more."""
    return dict.fromkeys(pinned.get("required", ())) | dict(own)


def _list_approvals(data: Mapping[str, Any]) -> Iterator[tuple[str, StepApproval]]:
    """List the approvals of a committed job.yml; one that is malformed covers all outputs, for ever."""
    for step in list_mappings(data.get("steps")):
        if (approval := step.get("approval")) is None:
            continue
        given = approval if isinstance(approval, Mapping) else {}
        of, expires = given.get("of"), given.get("expires")
        names = tuple(name for name in of if isinstance(name, str)) if isinstance(of, list) else ()
        yield str(step.get("id")), StepApproval.parse(names, expires if isinstance(expires, str) else None)
