"""Calling a tool: the same for every front door, with or without MCP."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel

from deepwork.access import rules
from deepwork.access.chain import REPEATED, outcome
from deepwork.access.models import Scope
from deepwork.access.notes import Note
from deepwork.agents.store import AgentStore
from deepwork.database.call import Call, calling
from deepwork.database.idempotency import once
from deepwork.database.transaction import Database, Transaction, joining
from deepwork.errors import MAX_ECHOED, Code, DeepworkError, NotAllowed, NotFound, StorageError
from deepwork.observability.calls import Watched
from deepwork.server.registry import ToolSpec

log = logging.getLogger("deepwork")


# Toolsets whose tools do all their work in one transaction: it begins before the tool and ends after it, so
# that the record can tell what was answered. The others open transactions of their own, between other work.
ONE_TRANSACTION = frozenset({"agents", "messages", "plans", "templates", "tokens"})


def invoke(database: Database, spec: ToolSpec, given: Mapping[str, Any], call: Call) -> Any:
    """The tool's answer as plain JSON values; under a key, the first answer again.

    What may change something is recorded, whatever comes of it.
    """
    with Watched(spec.name, call):
        return _read(spec, given, call) if spec.read_only else _recorded(database, spec, given, call)


def _recorded(database: Database, spec: ToolSpec, given: Mapping[str, Any], call: Call) -> Any:
    note = Note(call, spec.parameters.model_fields, given)
    with calling(replace(call, note=note)):
        try:
            answer = _changed(database, spec, given, call, note)
        except Exception as error:
            _note_failure(database, spec, note, error)
            raise
        if not note.is_kept and not spec.read_only_if_asked:
            note.keep(database)
        return answer


async def invoke_async(
    spec: ToolSpec, given: Mapping[str, Any], call: Call, database: Database | None = None
) -> Any:
    """As `invoke`, for a tool that is asynchronous: such a tool sees to its own keys and threads.

    Without a database, a call that stored nothing leaves no record.
    """
    note = Note(call, spec.parameters.model_fields, given)
    with Watched(spec.name, call), calling(call if spec.read_only else replace(call, note=note)):
        try:
            require_scope(spec, given, call)
            answer = plain(await spec.method(**spec.arguments(given)))
        except Exception as error:
            if database is not None and not spec.read_only:
                await _in_thread(_note_failure, database, spec, note, error)
            raise
        if database is not None and not spec.read_only and not note.is_kept:
            await _in_thread(note.keep, database)
        return answer


def require_scope(spec: ToolSpec, given: Mapping[str, Any], call: Call) -> None:
    """Refuse a call that its token does not cover; the error names the scope, and nothing else."""
    needed = rules.needed(spec.name, read_only=spec.read_only, arguments=given)
    if not Scope(call.scope).covers(needed):
        raise NotAllowed(
            f"This call needs the scope {needed}.",
            code=Code.UNAUTHORIZED,
            suggestion="Ask whoever runs this server for a token with that scope.",
        )


def require_own_agents(database: Database, spec: ToolSpec, arguments: Mapping[str, Any], call: Call) -> None:
    """Refuse a call in the name of an agent that another token registered."""
    # A person may free a task from the dashboard, whoever's agent forgot it; the record says that it was one.
    is_person = spec.name == "task_release" and call.caller.startswith("human:")
    if is_person or Scope(call.scope) is Scope.ADMIN:
        return
    for agent_id in rules.actors(spec.name, arguments, read_only=spec.read_only):
        with database.reading() as tx:
            registered_by = _registrar(tx, agent_id)
        if registered_by is not None and not rules.may_act_for(registered_by, call.caller, Scope(call.scope)):
            raise NotAllowed(
                f"Agent {agent_id[:MAX_ECHOED]!r} was registered with another token.",
                code=Code.UNAUTHORIZED,
                suggestion="Act for an agent that you registered with agent_register.",
            )


def _read(spec: ToolSpec, given: Mapping[str, Any], call: Call) -> Any:
    with calling(call):
        require_scope(spec, given, call)
        return plain(spec.method(**spec.arguments(given)))


def _changed(database: Database, spec: ToolSpec, given: Mapping[str, Any], call: Call, note: Note) -> Any:
    require_scope(spec, given, call)
    arguments = spec.arguments(given)
    require_own_agents(database, spec, arguments, call)
    has_worked = False

    def work() -> Any:
        nonlocal has_worked
        has_worked = True
        return plain(spec.method(**arguments))

    def answered() -> Any:
        is_keyed = call.key is not None and not spec.own_keys
        return once(database, call, given, work) if is_keyed else work()

    if spec.toolset not in ONE_TRANSACTION or spec.read_only_if_asked:
        return answered()
    with database.transaction() as tx, joining(tx):
        answer = answered()
        note.outcome = outcome(answer) if has_worked else REPEATED
    return _with_remarks(answer, tx)


def _with_remarks(answer: Any, tx: Transaction) -> Any:
    """The answer, with what was found out after it was stored."""
    if not (tx.remarks or tx.taken_back) or not isinstance(answer, dict):
        return answer
    told = {key: " ".join(filter(None, [answer.get(key), text])) for key, text in tx.remarks.items()}
    return {key: value for key, value in answer.items() if key not in tx.taken_back} | told


async def _in_thread(act: Callable[..., None], *arguments: Any) -> None:
    from anyio import to_thread  # noqa: PLC0415 - most commands need no asynchronous tool

    await to_thread.run_sync(act, *arguments)


def _note_failure(database: Database, spec: ToolSpec, note: Note, error: Exception) -> None:
    if isinstance(error, StorageError):  # what could not store the call cannot store its record
        return
    is_refused = isinstance(error, DeepworkError) and error.code is Code.UNAUTHORIZED
    if is_refused or not spec.read_only_if_asked:
        note.keep_failure(database, error)


def _registrar(tx: Transaction, agent_id: str) -> str | None:
    try:
        return AgentStore(tx).get(agent_id).registered_by
    except NotFound:  # the tool says so in its own words
        return None


def plain(answer: Any) -> Any:
    """An answer as JSON values."""
    if isinstance(answer, BaseModel):
        return answer.model_dump(mode="json")
    if isinstance(answer, list | tuple):
        return [plain(item) for item in answer]
    return answer


def spoken(error: Exception, doing: str) -> dict[str, str | bool]:
    """An error as a caller sees it; of our own faults only a number that finds them in the log."""
    if isinstance(error, DeepworkError):
        return error.as_dict()
    error_id = secrets.token_hex(4)
    log.error("%s failed (error %s)", doing, error_id, exc_info=error)
    return {
        "code": Code.INTERNAL_ERROR.value,
        "message": f"{doing} failed inside deepwork; the server's log has it as error {error_id}.",
        "recoverable": False,
        "suggestion": "Report this with the log lines of that error; other calls go on working.",
        "error_id": error_id,
    }
