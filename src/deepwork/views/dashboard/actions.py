"""Executes the actions of the dashboard: a few allowed tools, called in the person's name."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from starlette.requests import ClientDisconnect, Request

from deepwork.kernel.call import PERSON_PREFIX, Call, GivenProof
from deepwork.kernel.database.idempotency import check_key
from deepwork.kernel.errors import InvalidArguments, NotAllowed
from deepwork.views.dashboard.http_errors import HttpError, require_method
from deepwork.views.overview.agent_operations import build_registration

InvokeTool = Callable[[str, Mapping[str, Any], Call], Awaitable[Any]]
"""Calls a tool by name with these arguments, on behalf of a call. The server provides it."""

ListActions = Callable[[], list[str]]
"""Returns the names of the actions that this server offers to people."""

ACTIONS_BY_PATH: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "/api/v1/sessions/{id}/{verb}": (
        "session",
        {"pass": "pass_step", "send-back": "send_back_step", "grant-round": "grant_round"},
    ),
    "/api/v1/approvals/{id}/{verb}": ("approval", {"approve": "give_approval", "refuse": "refuse_approval"}),
    "/api/v1/runner/runs/{id}/{verb}": (
        "run",
        {"pause": "pause_run", "resume": "resume_run", "stop": "stop_run", "set": "set_run"},
    ),
    "/api/v1/runner/attempts/{id}/{verb}": (
        "attempt",
        {
            "pause": "pause_attempt",
            "take": "take_attempt",
            "continue": "continue_attempt",
            "stop": "stop_attempt",
        },
    ),
    "/api/v1/rewinds/{id}/{verb}": ("rewind", {"undo": "undo_rewind"}),
    "/api/v1/landings/{id}/{verb}": ("landing", {"cancel": "cancel_landing"}),
}
"""What each path acts on, and the operations that its verbs call."""


class ActionExecutor:
    """Calls the tools that declare themselves as actions for people, and refuses all others."""

    def __init__(self, invoke: InvokeTool, list_actions: ListActions, *, is_read_only: bool) -> None:
        self._invoke, self._list_actions, self._is_read_only = invoke, list_actions, is_read_only

    async def execute(self, request: Request) -> Any:
        """Call the requested tool and return its answer."""
        return await self._execute(request, request.path_params["tool"], {})

    async def execute_on(self, request: Request, thing: str, actions: Mapping[str, str]) -> Any:
        """Call the action that the last word of the path names, on the thing that the path names."""
        verb = request.path_params["verb"]
        if verb not in actions:
            known = ", ".join(actions)
            raise HttpError(404, f"Unknown action {verb[:60]!r} on a {thing}.", f"Use one of: {known}.")
        fixed = {f"{thing}_id": request.path_params["id"]}
        try:
            return await self._execute(request, actions[verb], fixed)
        except InvalidArguments as error:  # it names the tool, which is not what the client called
            taken = ", ".join(name for name in error.parameters if name not in fixed)
            raise HttpError(
                400, error.message, f"Correct this and send it again. The body may have: {taken}."
            ) from None

    async def _execute(self, request: Request, tool: str, fixed: Mapping[str, Any]) -> Any:
        """Call a tool with the arguments in the body; those in the path are fixed."""
        require_method(request, "POST")
        self._require_offered(tool)
        given = await _parse_body(request)
        proof = _take_proof(given, request)
        call = replace(build_call(request, tool, needs_person=True), proof=proof)
        arguments = {**given, **fixed}
        if tool == "message_send" and "sender_id" not in arguments:
            arguments = {**arguments, "sender_id": await self._find_or_register_sender(call)}
        elif tool == "log_milestone":
            arguments = _add_author(arguments, call.caller)
        return await self._invoke(tool, arguments, call)

    def _require_offered(self, tool: str) -> None:
        if self._is_read_only:
            raise NotAllowed("This server is read-only.", suggestion="Start it without --read-only.")
        if tool not in (actions := self._list_actions()):
            known = f"Use one of: {', '.join(actions)}." if actions else "It offers none."
            limits = "The server's settings toolsets, tools and exclude_tools limit them."
            raise HttpError(404, f"This server has no action {tool[:60]!r}.", f"{known} {limits}")

    async def _find_or_register_sender(self, call: Call) -> str:
        """Return the agent that represents the person; register it with the first message.

        Messages have an agent as sender, so a person who writes needs one.
        """
        known = await self._invoke("find_own_agent", {}, replace(call, tool="find_own_agent", key=None))
        if "id" in known:
            return str(known["id"])
        registering = replace(call, tool="agent_register", key=None)
        answer = await self._invoke("agent_register", build_registration(call.caller), registering)
        id: str = answer["id"]
        return id


def build_call(request: Request, tool: str, *, needs_person: bool = False) -> Call:
    """Build the context of a call over REST: in a person's name if the token belongs to one."""
    principal = request.scope.get("deepwork.principal") or "local"
    is_person = request.scope.get("deepwork.is_person", False)
    key = request.headers.get("idempotency-key")
    return Call(
        f"{PERSON_PREFIX}{principal}" if is_person else principal,
        tool,
        None if key is None else check_key(key),
        principal,
        str(request.scope.get("deepwork.scope", "read")),
        needs_person=needs_person,
        carries_notices=False,
    )


def _add_author(arguments: dict[str, Any], caller: str) -> dict[str, Any]:
    """Add `by: human:<name>` to the metadata of a milestone, for display; replaces what the client sent."""
    about = arguments.get("metadata") or {}
    return {**arguments, "metadata": {**about, "by": caller}} if isinstance(about, dict) else arguments


def _take_proof(given: dict[str, Any], request: Request) -> GivenProof:
    """Take `proof` out of the body: no argument of a tool, so that nothing stores or logs it."""
    proof = given.pop("proof", None) or {}
    if not isinstance(proof, dict) or not set(proof) <= {"passphrase", "passkey"}:
        raise HttpError(400, "`proof` is not valid.", "Send {passphrase: TEXT} or {passkey: ANSWER}.")
    passphrase, assertion = proof.get("passphrase") or "", proof.get("passkey")
    if not isinstance(passphrase, str) or not isinstance(assertion, dict | None):
        raise HttpError(400, "`proof` is not valid.", "A passphrase is a text, the answer of a passkey JSON.")
    # The guard admits only origins of this server.
    return GivenProof(passphrase, assertion, request.headers.get("origin", ""))


async def _parse_body(request: Request) -> dict[str, Any]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HttpError(415, "The request body must be JSON.", "Send `Content-Type: application/json`.")
    try:
        arguments = json.loads(await request.body())
    except ClientDisconnect:
        raise
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise HttpError(400, "The request body must be a JSON object.", "Send the tool's arguments by name.")
    return arguments
