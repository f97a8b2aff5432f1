"""Carries out calls: access, transactions, audit, errors, and the stack of jobs of who calls."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from deepwork.edge.server.registry import OperationSpec
from deepwork.gates.access import models
from deepwork.gates.access.models import REPEATED, Scope, classify_outcome
from deepwork.gates.access.store import AuditRecord
from deepwork.kernel.answers import Answer, read_answer, to_json_value
from deepwork.kernel.call import (
    ActionOutcome,
    AlreadyAnswered,
    Call,
    NotProven,
    is_own_agent,
    is_person,
    use_call,
)
from deepwork.kernel.database.idempotency import KeyStore, compute_digest, find_answer, run_once
from deepwork.kernel.database.transaction import Database, Transaction, join_transaction
from deepwork.kernel.errors import MAX_ECHOED, Code, DeepworkError, NotAllowed, NotFound, StorageError
from deepwork.kernel.operations import InTransaction, NotPrepared
from deepwork.kernel.values import copy_with
from deepwork.views.observability.calls import CallRecorder
from deepwork.work.agents.store import AgentStore

_SETTLED_NS = 100_000_000
"""Age after which a change of the folder has a time stamp that no later change shares."""


class JobStackReader:
    """Reads stacks again only after a session file has changed; without sessions it imports nothing."""

    def __init__(self, folder: Path, read: Callable[[str], list[str]]) -> None:
        self._folder, self._read = folder, read
        self._place = str(folder)
        self._stamp = 0
        self._has_sessions = False
        self._stacks: dict[str, list[str]] = {}

    def get_stack(self, caller: str) -> list[str]:
        """Return the caller's active workflows as `job/workflow:step`, outermost first."""
        try:
            stamp = os.stat(self._place).st_mtime_ns  # noqa: PTH116 - half the time, and for every call
        except OSError:  # no job has been started here
            return []
        if stamp != self._stamp:
            self._stacks = {}
            self._has_sessions = any(each.name.startswith("session_") for each in self._folder.iterdir())
            self._stamp = stamp if time.time_ns() - stamp > _SETTLED_NS else 0
        if not self._has_sessions:
            return []
        if caller not in self._stacks:
            self._stacks[caller] = self._read(caller)
        return self._stacks[caller]


log = logging.getLogger("deepwork")

Written = TypeVar("Written")


def invoke(database: Database, spec: OperationSpec, given: Mapping[str, Any], call: Call) -> Any:
    """Call a tool and return its answer as JSON values; a repeated idempotency key returns the first answer.

    Every call that may change something is recorded in the audit log, even if it fails.
    """
    return _invoke(database, spec, given, call, _JSON)


def perform(database: Database, spec: OperationSpec, arguments: Mapping[str, Any], call: Call) -> Any:
    """Call a tool from our own code: recorded as every call, but nothing is converted.

    The arguments are what the method takes, and the answer is what it returns. Idempotency keys need JSON.
    """
    return _invoke(database, spec, arguments, call, _AS_IT_IS)


def read(
    spec: OperationSpec, given: Mapping[str, Any], call: Call, write: Callable[[Any], Written]
) -> Written:
    """Call a tool that only reads; `write` makes what is sent of the answer, which nothing else converts."""
    with CallRecorder(spec.name, call):
        return _invoke_read_only(spec, given, call, _Form(_validate, write))  # type: ignore[no-any-return]


class _Form(NamedTuple):
    """How arguments come, and how answers go."""

    read: Callable[[OperationSpec, Mapping[str, Any]], Mapping[str, Any]]
    write: Callable[[Any], Any]


def _to_json(answer: Any) -> Any:
    """Convert an answer to JSON values; a tool that returns a dictionary has built it from such values."""
    return answer if type(answer) is dict else to_json_value(answer)


def _validate(spec: OperationSpec, given: Mapping[str, Any]) -> Mapping[str, Any]:
    return spec.validate_arguments(given)


_JSON = _Form(_validate, _to_json)
_AS_IT_IS = _Form(lambda _, given: given, lambda answer: answer)


def _invoke(
    database: Database, spec: OperationSpec, given: Mapping[str, Any], call: Call, form: _Form
) -> Any:
    with CallRecorder(spec.name, call):
        return (
            _invoke_read_only(spec, given, call, form)
            if spec.read_only
            else _invoke_recorded(database, spec, given, call, form)
        )


def _invoke_recorded(
    database: Database, spec: OperationSpec, given: Mapping[str, Any], call: Call, form: _Form
) -> Any:
    record = AuditRecord(call, spec.parameter_names, given)
    digest = "" if call.key is None else compute_digest(given)
    outcomes: list[ActionOutcome] = []
    call = copy_with(call, record=record, digest=digest, outcomes=outcomes)
    with use_call(call):
        try:
            answer = _invoke_changing(database, spec, given, call, record, form)
            if outcomes:
                answer = _revise_answer(database, spec, call, answer, outcomes, form)
        except Exception as error:
            _record_failure(database, spec, record, error)
            raise
        if not record.is_saved and not spec.declaration.offered_on_read_only_server:
            record.save(database)
        return answer


def record_refusal(
    database: Database, spec: OperationSpec, given: Mapping[str, Any], call: Call, refusal: DeepworkError
) -> None:
    """Record a call that was refused before it was made, as one is that exceeds its scope."""
    if not spec.read_only:
        _record_failure(database, spec, AuditRecord(call, spec.parameter_names, given), refusal)


def require_scope(spec: OperationSpec, given: Mapping[str, Any], call: Call) -> None:
    """Raise if the caller's token does not cover the tool; the error names only the missing scope."""
    if call.scope == Scope.ADMIN:  # the usual case, which covers everything
        return
    needed = models.get_required_scope(spec.declaration, given)
    if not Scope(call.scope).covers(needed):
        raise NotAllowed(
            f"This call needs the scope {needed}.",
            code=Code.UNAUTHORIZED,
            suggestion="Ask the owner of this server for a token with that scope.",
        )


def require_person(call: Call) -> None:
    """Raise if the call counts as a person's, and its token does not belong to a person."""
    if call.needs_person and not is_person(call.caller):
        raise NotAllowed(
            "Only a person can do this, and this token is not a person's.",
            code=Code.UNAUTHORIZED,
            suggestion="Sign in with the server's own token, or with one that `deepwork tokens create NAME "
            "--person` made. Agents call tools over MCP.",
        )


def require_own_agent(
    database: Database, spec: OperationSpec, arguments: Mapping[str, Any], call: Call
) -> None:
    """Raise if the call acts for an agent that another token registered."""
    # A person may release any agent's task from the dashboard; the audit record says that it was a person.
    is_release_by_person = spec.name == "task_release" and is_person(call.caller)
    if is_release_by_person or Scope(call.scope) is Scope.ADMIN:
        return
    agent_id = models.find_acting_agent(spec.declaration, arguments)
    if agent_id is None:
        return
    with database.reading() as tx:
        registered_by = _find_registrar(tx, agent_id)
    if registered_by is not None and not is_own_agent(call, agent_id, registered_by):
        raise NotAllowed(
            f"Agent {agent_id[:MAX_ECHOED]!r} was registered with another token.",
            code=Code.UNAUTHORIZED,
            suggestion="Act for an agent that you registered with {tool:agent_register}.",
        )


def _invoke_read_only(spec: OperationSpec, given: Mapping[str, Any], call: Call, form: _Form) -> Any:
    with use_call(call):
        require_scope(spec, given, call)
        return form.write(spec.method(**form.read(spec, given)))


def _invoke_changing(
    database: Database,
    spec: OperationSpec,
    given: Mapping[str, Any],
    call: Call,
    record: AuditRecord,
    form: _Form,
) -> Any:
    require_person(call)
    require_scope(spec, given, call)
    arguments = form.read(spec, given)
    require_own_agent(database, spec, arguments, call)
    try:
        return _change(database, spec, arguments, call, record, form)
    except NotProven as missing:
        proven = _prove(database, given, call, missing)
    with use_call(proven):
        return _change(database, spec, arguments, proven, record, form)


def _prove(database: Database, given: Mapping[str, Any], call: Call, missing: NotProven) -> Call:
    """Check the proof, as their settings demand it, of a person whose call lets work pass a gate."""
    from deepwork.gates.approvals.enrollment import prove_act  # noqa: PLC0415 - only people need it

    return copy_with(call, proven=prove_act(database, call, given, missing.about))


def _change(
    database: Database,
    spec: OperationSpec,
    arguments: Mapping[str, Any],
    call: Call,
    record: AuditRecord,
    form: _Form,
) -> Any:
    if spec.declaration.long_running:
        return _invoke_long_running(database, spec, arguments, call, form)
    has_worked = False

    def work() -> Any:
        nonlocal has_worked
        has_worked = True
        return form.write(spec.method(**arguments))

    def change() -> Any:
        if not spec.one_transaction or spec.declaration.offered_on_read_only_server:
            return work() if call.key is None else run_once(database, call, work)
        shares_commit = not spec.declaration.changes_many
        with database.transaction(shares_commit=shares_commit) as tx, join_transaction(tx):
            answer = work() if call.key is None else run_once(database, call, work)
            record.outcome = classify_outcome(answer) if has_worked else REPEATED
        return answer

    try:
        return change()
    except NotPrepared:
        prepared = _prepare(spec, arguments, call)
        with use_call(copy_with(call, prepared=prepared)):
            return _change_prepared(change)


def _change_prepared(change: Callable[[], Any]) -> Any:
    try:
        return change()
    except NotPrepared as again:
        raise again.to_error() from again


def _prepare(spec: OperationSpec, arguments: Mapping[str, Any], call: Call) -> Any:
    """Do what the tool needs before its transaction, by the method that it declares.

    What that stores is no effect of the call, whose audit entry says how it ended.
    """
    tools = getattr(spec.method, "__self__", None)
    prepare = getattr(tools, spec.declaration.prepared_by or "")
    with use_call(copy_with(call, record=None)):
        return prepare(**arguments)


def _invoke_long_running(
    database: Database, spec: OperationSpec, arguments: Mapping[str, Any], call: Call, form: _Form
) -> Any:
    """Call a tool without an open transaction, then do the part of its work that needs one."""
    if call.key is not None and spec.ends_in_transaction:
        # A repeated call gets the first answer even if the tool would refuse it now.
        stored = find_answer(database, call)
        if stored is not None:
            return stored
    try:
        answer = spec.method(**arguments)
    except AlreadyAnswered as earlier:
        return earlier.answer
    if isinstance(answer, InTransaction):
        return run_once(database, call, lambda: form.write(answer.work()))
    return form.write(answer)


def _revise_answer(
    database: Database,
    spec: OperationSpec,
    call: Call,
    answer: Any,
    outcomes: Sequence[ActionOutcome],
    form: _Form,
) -> Any:
    """Change the answer by the outcomes of the actions after the commit.

    The answer stored under the idempotency key was committed before they ran, so it is replaced: a repeated
    call returns the answer that this one does.
    """
    kind = spec.answer_type
    if not isinstance(kind, type) or not issubclass(kind, Answer):
        return answer
    model = answer if isinstance(answer, kind) else read_answer(kind, answer)
    for outcome in outcomes:
        model = model.revise(outcome)
    revised = form.write(model)
    if call.key is not None and revised != answer:
        with database.transaction() as tx:
            KeyStore(tx).replace_answer(call, answer, revised)
    return revised


def _record_failure(database: Database, spec: OperationSpec, record: AuditRecord, error: Exception) -> None:
    if isinstance(database.translate_error(error), StorageError):  # the audit record cannot be stored either
        return
    is_refused = isinstance(error, DeepworkError) and error.code is Code.UNAUTHORIZED
    if is_refused or not spec.declaration.offered_on_read_only_server:
        record.save_failure(database, error)


def _find_registrar(tx: Transaction, agent_id: str) -> str | None:
    try:
        return AgentStore(tx).get(agent_id).registered_by
    except NotFound:  # the tool raises its own error
        return None


def error_to_dict(error: Exception, doing: str) -> dict[str, Any]:
    """Convert an error to the dictionary callers see; internal errors show only an id to find in the log."""
    if isinstance(error, DeepworkError):
        return error.to_dict()
    error_id = os.urandom(4).hex()
    log.error("%s failed (error %s)", doing, error_id, exc_info=error)
    return {
        "code": Code.INTERNAL_ERROR.value,
        "message": f"{doing} failed inside deepwork; the server's log has it as error {error_id}.",
        "recoverable": False,
        "suggestion": "Report this with the log lines of that error; other calls keep working.",
        "error_id": error_id,
    }
