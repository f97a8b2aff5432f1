"""What a person may do from the page: a few tools, called in the person's own name."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio.to_thread
from starlette.requests import ClientDisconnect, Request

from deepwork.dashboard.failures import WrongForm, require_method
from deepwork.dashboard.people_store import PeopleStore
from deepwork.database.call import Call
from deepwork.database.idempotency import check_key
from deepwork.database.transaction import Database
from deepwork.errors import NotAllowed

ALLOWED = frozenset(
    {
        "resolve_issue", "abandon_task", "task_release", "task_update_status", "workflow_update_status",
        "message_send", "abort_workflow", "workspace_update", "log_milestone",
    }
)  # fmt: skip

Invoke = Callable[[str, Mapping[str, Any], Call], Awaitable[Any]]
"""Calls a tool by its name, with what it is given, on behalf of a call; the server's own way to do so."""


class Actions:
    """Carries out what the page asks for, and nothing else."""

    def __init__(self, database: Database, invoke: Invoke, *, is_read_only: bool) -> None:
        self._database, self._invoke, self._is_read_only = database, invoke, is_read_only

    async def carry_out(self, request: Request) -> Any:
        """The tool's answer."""
        tool = request.path_params["tool"]
        if tool not in ALLOWED:
            raise WrongForm(
                404, f"There is no action {tool[:60]!r}.", f"There are {', '.join(sorted(ALLOWED))}."
            )
        require_method(request, "POST")
        if self._is_read_only:
            raise NotAllowed("This server is read-only.", suggestion="Start it without --read-only.")
        call = call_of(request, tool)
        given = await _body(request)
        if tool == "message_send" and "sender_id" not in given:
            given = {**given, "sender_id": await self._sender(call)}
        elif tool == "log_milestone":
            given = _signed(given, call.caller)
        return await self._invoke(tool, given, call)

    async def _sender(self, call: Call) -> str:
        """The agent that stands for the person, registered when it writes for the first time."""
        if found := await anyio.to_thread.run_sync(self._known_as, call.caller):
            return found
        name = call.caller.partition(":")[2]
        arguments = {"name": name, "runtime": "custom", "role": "coordinator", "metadata": {"human": True}}
        answer = await self._invoke(
            "agent_register", arguments, Call(call.caller, "agent_register", None, call.account, call.scope)
        )
        id: str = answer["id"]
        return id

    def _known_as(self, caller: str) -> str | None:
        with self._database.reading() as tx:
            return PeopleStore(tx).registered_by(caller)


def call_of(request: Request, tool: str) -> Call:
    """The call of a person: marked as such, with the scope that the token covers."""
    principal = request.scope.get("deepwork.principal") or "local"
    key = request.headers.get("idempotency-key")
    return Call(
        f"human:{principal}", tool, None if key is None else check_key(key), principal,
        str(request.scope.get("deepwork.scope", "read")),
    )  # fmt: skip


def _signed(given: dict[str, Any], caller: str) -> dict[str, Any]:
    """What a person says of a task, with the word that a person said it: so a review is known to be done."""
    about = given.get("metadata") or {}
    return {**given, "metadata": {**about, "by": caller}} if isinstance(about, dict) else given


async def _body(request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise WrongForm(415, "The body of an action is JSON.", "Send `Content-Type: application/json`.")
    try:
        given = json.loads(await request.body())
    except ClientDisconnect:
        raise
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise WrongForm(400, "The body of an action is a JSON object.", "Send the tool's arguments by name.")
    return given
