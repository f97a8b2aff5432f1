"""Answers the messages of one client by a service."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, Protocol

from deepwork.kernel.protocol.envelope import check_envelope
from deepwork.kernel.protocol.messages import (
    JsonText,
    Message,
    Peer,
    Request,
    RequestError,
    Response,
    build_parameter_error,
    check_parameters,
    encode_object,
    encode_response,
    has_envelope,
    to_json,
)
from deepwork.kernel.protocol.progress import SignsOfLife
from deepwork.kernel.protocol.revisions import (
    CACHEABLE_METHODS,
    HANDSHAKE_METHODS,
    HANDSHAKE_REVISIONS,
    HTTP_STATUS,
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    SERVER_KEY,
    STATELESS_METHODS,
    STATELESS_REVISIONS,
    TASKS_EXTENSION,
    UNSUPPORTED_REVISION,
)
from deepwork.kernel.protocol.tasks import ProtocolTask, Tasks, knows_tasks, require_tasks
from deepwork.kernel.records import dataclass


@dataclass(frozen=True)
class HttpCaller:
    """Where a request over HTTP came from: the caller that the service gets; on stdio it gets None."""

    scope: Mapping[str, Any]
    """The ASGI scope, to which middleware may have added the caller's identity."""
    headers: Mapping[str, str]
    session_id: str | None = None


@dataclass(frozen=True)
class ToolAnswer:
    """The answer of a tool: text for the model, and the same as an object for programs."""

    text: str
    structured: JsonText | None = None
    is_error: bool = False
    attachments: Sequence[Mapping[str, Any]] = ()
    """Content that follows the text, such as images and embedded resources."""


class Service(Protocol):
    """Answers requests. Methods run in the caller's thread; several may run at the same time.

    Each raises `RequestError` for a request that it cannot answer. Any other exception is a bug and reaches
    the client as an internal error.
    """

    name: str
    version: str
    instructions: str
    offers_tasks: bool
    """Whether there is a tool whose calls may become tasks."""

    def is_quick(self, request: Request) -> bool:
        """Whether the answer takes a few milliseconds at most, so that a reader may compute it itself."""

    def is_long(self, request: Request) -> bool:
        """Whether the answer may take minutes."""

    def may_become_task(self, request: Request) -> bool:
        """Whether a slow call may be answered with a task."""

    def get_owner(self, request: Request) -> Hashable:
        """Return who may ask for the task that a call becomes."""

    def observe(self, request: Request) -> AbstractContextManager[object]:
        """Return a context that surrounds each request, for traces."""

    def list_tools(self, request: Request) -> JsonText:
        """Return the JSON array of the tools that the caller may call."""

    def call_tool(self, request: Request, name: str, arguments: Mapping[str, Any]) -> ToolAnswer: ...

    def list_prompts(self) -> list[dict[str, Any]]: ...

    def get_prompt(self, request: Request, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Return the `description` and `messages` of a prompt."""

    def list_resources(self) -> list[dict[str, Any]]: ...

    def list_templates(self) -> list[dict[str, Any]]: ...

    def read_resource(self, request: Request, uri: str) -> dict[str, Any]:
        """Return the `contents` of a resource."""

    def complete(self, reference: Mapping[str, str], argument: Mapping[str, str]) -> dict[str, Any]:
        """Return the `completion` of an argument."""


log = logging.getLogger("deepwork")

Result = Mapping[str, Any]

_current_id: ContextVar[int | str | None] = ContextVar("deepwork_request_id", default=None)


def get_request_id() -> str | None:
    """Return the id of the request that is being answered in this thread; None outside a request."""
    request_id = _current_id.get()
    return None if request_id is None else str(request_id)


class MessageHandler:
    """Answers the messages of all connections of a server."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.tasks = Tasks()
        self._signs_of_life = SignsOfLife()
        self._methods: dict[str, Callable[[Request], Result]] = {
            "completion/complete": self._complete,
            "initialize": self._initialize,
            "logging/setLevel": _answer_nothing,
            "ping": _answer_nothing,
            "prompts/get": self._get_prompt,
            "prompts/list": lambda _: {"prompts": service.list_prompts()},
            "resources/list": lambda _: {"resources": service.list_resources()},
            "resources/read": lambda request: service.read_resource(request, request.params["uri"]),
            "resources/templates/list": lambda _: {"resourceTemplates": service.list_templates()},
            "server/discover": self._discover,
            "tasks/cancel": self._cancel_task,
            "tasks/get": lambda request: self._find_task(request).describe_fully(),
            "tasks/update": self._update_task,
            "tools/call": self._call_tool,
            "tools/list": lambda request: {"tools": service.list_tools(request)},
        }
        identity = to_json({SERVER_KEY: self._describe_server()})
        self._stateless_fields = {"resultType": "complete", "_meta": identity}

    def handle(
        self, message: Message, peer: Peer, caller: Any = None, headers: Mapping[str, str] | None = None
    ) -> Response | None:
        """Answer one message; None if it needs no answer or was cancelled."""
        request = self.accept(message, peer, caller)
        return None if request is None else self.answer(request, headers)

    def accept(self, message: Message, peer: Peer, caller: Any = None) -> Request | None:
        """Note what a message means for its connection; return the request to answer, if it is one.

        Called in the order of the messages, so that a request can be cancelled before its answer is begun.
        """
        method = message.get("method")
        if method is None:  # a response, and we ask clients nothing
            return None
        params = message.get("params") or {}
        if "id" not in message:
            if method == "notifications/cancelled":
                peer.cancel(params.get("requestId"))
            return None
        request = Request(message["id"], method, params, caller, peer)
        peer.begin(request)
        return request

    def is_quick(self, request: Request) -> bool:
        """Whether a reader may answer the request itself instead of passing it to a worker."""
        return request.method not in _SERVICE_METHODS or self._service.is_quick(request)

    def is_long(self, request: Request) -> bool:
        """Whether the answer may take minutes."""
        return request.method == "tools/call" and self._service.is_long(request)

    def answer(self, request: Request, headers: Mapping[str, str] | None = None) -> Response | None:
        """Answer an accepted request; None if it was cancelled. One cancelled before has no effect."""
        try:
            return None if request.is_cancelled else self._answer(request, headers)
        finally:
            if request.progress is not None:
                self._signs_of_life.forget(request.progress)
                request.progress.end()
            if request.peer is not None:
                request.peer.end(request)

    def _answer(self, request: Request, headers: Mapping[str, str] | None) -> Response | None:
        token = _current_id.set(request.id)
        try:
            with self._service.observe(request):
                result = self._find_result(request, headers)
            answer = Response(encode_response(request.id, "result", encode_object(result)))
        except RequestError as error:
            answer = _build_error_answer(request, error)
        except Exception:
            log.exception("%s failed", request.method)
            answer = _build_error_answer(request, RequestError(INTERNAL_ERROR, "Internal server error"))
        finally:
            _current_id.reset(token)
        return None if request.is_cancelled else answer

    def _find_result(self, request: Request, headers: Mapping[str, str] | None) -> Result:
        if request.is_stateless:
            return self._find_stateless_result(request, headers)
        if request.method != "initialize" and has_envelope(request.params):
            raise RequestError(
                INVALID_REQUEST,
                "this connection serves the handshake protocol era; "
                "requests carrying the 2026-07-28 envelope are not accepted on it",
            )
        _require_method(request, HANDSHAKE_METHODS)
        check_parameters(request.method, request.params, is_stateless=False)
        is_ready = request.peer is None or request.peer.is_initialized
        if not is_ready and request.method not in {"initialize", "ping"}:
            raise build_parameter_error()
        return self._methods[request.method](request)

    def _find_stateless_result(self, request: Request, headers: Mapping[str, str] | None) -> Result:
        if request.method == "initialize" and headers is None:
            raise _build_handshake_error(request.params.get("protocolVersion"))
        check_envelope(request, headers)
        _require_method(request, STATELESS_METHODS)
        check_parameters(request.method, request.params, is_stateless=True)
        result = {**self._stateless_fields, **self._methods[request.method](request)}
        return result | _NOT_TO_BE_KEPT if request.method in CACHEABLE_METHODS else result

    def _initialize(self, request: Request) -> Result:
        asked = request.params["protocolVersion"]
        if request.peer is not None:
            request.peer.is_initialized = True
        return {
            "protocolVersion": asked if asked in HANDSHAKE_REVISIONS else HANDSHAKE_REVISIONS[-1],
            "capabilities": _CAPABILITIES,
            "serverInfo": self._describe_server(),
            "instructions": self._service.instructions,
        }

    def _discover(self, _: Request) -> Result:
        capabilities = {name: each for name, each in _CAPABILITIES.items() if name != "logging"}
        if self._service.offers_tasks:
            capabilities["extensions"] = {TASKS_EXTENSION: {}}
        return {
            "supportedVersions": STATELESS_REVISIONS,
            "capabilities": capabilities,
            "instructions": self._service.instructions,
        }

    def _describe_server(self) -> dict[str, str]:
        return {"name": self._service.name, "version": self._service.version}

    def _call_tool(self, request: Request) -> Result:
        if request.wants_progress and self._service.is_long(request):
            self._signs_of_life.watch(request.begin_progress())
        if request.is_stateless and knows_tasks(request) and self._service.may_become_task(request):
            owner = self._service.get_owner(request)
            return self.tasks.run(
                request, owner, lambda: {**self._stateless_fields, **self._run_tool(request)}
            )
        return self._run_tool(request)

    def _find_task(self, request: Request) -> ProtocolTask:
        if not self._service.offers_tasks:
            raise RequestError(METHOD_NOT_FOUND, "Method not found", request.method)
        require_tasks(request)
        return self.tasks.find(request.params["taskId"], self._service.get_owner(request))

    def _cancel_task(self, request: Request) -> Result:
        self._find_task(request).cancel()
        return {}

    def _update_task(self, request: Request) -> Result:
        """Acknowledge the responses to questions; no task of ours asks any."""
        self._find_task(request)
        return {}

    def _run_tool(self, request: Request) -> Result:
        answer = self._service.call_tool(
            request, request.params["name"], request.params.get("arguments") or {}
        )
        result: dict[str, Any] = {"content": [{"type": "text", "text": answer.text}, *answer.attachments]}
        if answer.structured is not None:
            result["structuredContent"] = answer.structured
        result["isError"] = answer.is_error
        return result

    def _get_prompt(self, request: Request) -> Result:
        return self._service.get_prompt(
            request, request.params["name"], request.params.get("arguments") or {}
        )

    def _complete(self, request: Request) -> Result:
        return self._service.complete(request.params["ref"], request.params["argument"])


_CAPABILITIES: dict[str, dict[str, Any]] = {
    "completions": {},
    "logging": {},
    "prompts": {},
    "resources": {},
    "tools": {},
}
"""Lists never change while a server runs, so none promises `listChanged`."""

_NOT_TO_BE_KEPT = {"ttlMs": 0, "cacheScope": "private"}

_SERVICE_METHODS = frozenset(
    {"completion/complete", "prompts/get", "resources/read", "tools/call", "tools/list"}
)
"""Methods whose cost depends on the service."""


def _answer_nothing(_: Request) -> Result:
    """Answer `ping`, and `logging/setLevel`: we send no log messages to clients."""
    return {}


def _require_method(request: Request, known: frozenset[str]) -> None:
    if request.method not in known:
        raise RequestError(METHOD_NOT_FOUND, "Method not found", request.method)


def _build_handshake_error(asked: Any) -> RequestError:
    details: dict[str, Any] = {"supported": list(STATELESS_REVISIONS)}
    if isinstance(asked, str):
        details["requested"] = asked
    return RequestError(
        UNSUPPORTED_REVISION,
        "connection is serving the 2026-07-28 protocol; the initialize handshake is not accepted",
        details,
    )


def _build_error_answer(request: Request, error: RequestError) -> Response:
    status = HTTP_STATUS.get(error.code, 200) if request.is_stateless else 200
    return Response(encode_response(request.id, "error", error.to_json()), status)
