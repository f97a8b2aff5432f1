"""Streamable HTTP: sessions for clients that begin with `initialize`, single requests for stateless ones."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import field
from itertools import takewhile
from uuid import uuid4

from deepwork.kernel.protocol.envelope import REVISION_HEADER, check_for_duplicates, check_revision
from deepwork.kernel.protocol.handler import HttpCaller, MessageHandler
from deepwork.kernel.protocol.messages import (
    InvalidFrame,
    Message,
    Peer,
    Request,
    RequestError,
    Response,
    encode_response,
    parse_frame,
)
from deepwork.kernel.protocol.revisions import (
    HANDSHAKE_REVISIONS,
    HTTP_STATUS,
    INTERNAL_ERROR,
    REQUEST_CANCELLED,
)
from deepwork.kernel.protocol.transports.asgi import (
    MAX_SESSIONS,
    MAX_SESSIONS_OF_OWNER,
    EventStream,
    GetOwner,
    Receive,
    Scope,
    Send,
    accepts,
    cancel_on_disconnect,
    format_event,
    is_json,
    read_body,
    read_headers,
    refuse,
    respond,
)
from deepwork.kernel.protocol.transports.stdio import Workers
from deepwork.kernel.records import dataclass

SESSION_HEADER = "mcp-session-id"
IDLE_SECONDS = 30 * 60
TOO_MANY_SESSIONS = (
    f"Too many open sessions: one token may have {MAX_SESSIONS_OF_OWNER}, and all of them are in use. "
    "End those that you do not need with DELETE."
)
_EVENTS, _JSON = "text/event-stream", "application/json"


@dataclass(eq=False)
class HttpSession:
    """One client that began with `initialize`."""

    owner: Hashable
    used_at: float
    id: str = field(default_factory=lambda: uuid4().hex)
    peer: Peer = field(default_factory=lambda: Peer(is_stateless=False))
    stream: EventStream | None = None
    """The stream that the client opened with GET. We send nothing there, but clients expect to have it."""
    in_flight: int = 0

    def end_stream(self) -> None:
        if self.stream is not None:
            self.stream.put(None)


@dataclass(frozen=True)
class HttpRequest:
    """An HTTP request, with what is needed to answer it."""

    scope: Scope
    headers: Mapping[str, str]
    receive: Receive
    send: Send


class StreamableHttp:
    """The ASGI application at one path."""

    def __init__(self, handler: MessageHandler, get_owner: GetOwner, path: str = "/mcp") -> None:
        self._handler, self._get_owner, self._path = handler, get_owner, path
        self._workers = Workers(handler)
        self._running: set[Request] = set()
        self._sessions: OrderedDict[str, HttpSession] = OrderedDict()
        self._counts: Counter[Hashable] = Counter()
        """How many sessions each owner has."""
        self.addresses = [("GET", path), ("POST", path), ("DELETE", path)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].rstrip("/") != self._path:
            await respond(send, 404, b"Not Found", {"content-type": "text/plain; charset=utf-8"})
            return
        pairs = read_headers(scope)
        http = HttpRequest(scope, dict(pairs), receive, send)
        message: Message = {}
        if scope["method"] == "POST":
            if (body := await read_body(receive)) is None:
                return
            try:
                message = parse_frame(body)
            except InvalidFrame as invalid:
                await respond(send, 200, invalid.answer)
                return
        revision = http.headers.get(REVISION_HEADER)
        if revision is not None and revision not in HANDSHAKE_REVISIONS:
            await self._handle_stateless(http, pairs, message)
        else:
            await self._handle_handshake(http, message)

    def end_streams(self) -> None:
        """End the streams that clients hold open, which would delay the end of the server."""
        for session in list(self._sessions.values()):
            session.end_stream()

    def cancel_all(self) -> None:
        """Cancel the requests and tasks that are still running, because the server ends."""
        self._handler.tasks.end()
        for request in list(self._running):
            request.cancel()

    def finish_within(self, seconds: float) -> bool:
        """Wait for the calls that still run, but not for longer; return whether all have ended."""
        return self._workers.finish_within(seconds)

    async def _handle_stateless(
        self, http: HttpRequest, pairs: list[tuple[str, str]], message: Message
    ) -> None:
        if http.scope["method"] != "POST":
            await respond(http.send, 405, headers={"allow": "POST"})
        elif not is_json(http.headers):
            await _refuse_content_type(http.send)
        elif not accepts(http.headers, _JSON):
            await respond(http.send, 406)
        elif "method" not in message:
            await refuse(http.send, 400, "Body must be a single JSON-RPC request or notification object")
        else:
            await self._answer_stateless(http, pairs, message)

    async def _answer_stateless(
        self, http: HttpRequest, pairs: list[tuple[str, str]], message: Message
    ) -> None:
        try:
            if "id" not in message:
                check_revision(http.headers[REVISION_HEADER])
                await respond(http.send, 202)
                return
            check_for_duplicates(pairs)
        except RequestError as error:
            body = encode_response(message.get("id"), "error", error.to_json())
            await respond(http.send, HTTP_STATUS[error.code], body)
            return
        caller = HttpCaller(http.scope, http.headers)
        request = self._handler.accept(message, Peer(is_stateless=True), caller)
        assert request is not None
        await self._answer(http, request, {})

    async def _handle_handshake(self, http: HttpRequest, message: Message) -> None:
        session_id = http.headers.get(SESSION_HEADER)
        session = None if session_id is None else self._find_session(session_id, http.scope)
        if session_id is not None and session is None:
            await refuse(http.send, 404, "Session not found")
            return
        method = http.scope["method"]
        if method == "POST":
            await self._handle_post(http, message, session)
        elif method == "GET":
            await self._handle_get(http, session)
        elif method != "DELETE":
            await refuse(http.send, 405, "Method Not Allowed", {"allow": "GET, POST, DELETE"})
        elif session is None:
            await refuse(http.send, 400, "Bad Request: Missing session ID")
        else:
            self._drop(session)
            await respond(http.send, 200, headers={SESSION_HEADER: session.id})

    async def _handle_post(self, http: HttpRequest, message: Message, session: HttpSession | None) -> None:
        is_opening = message.get("method") == "initialize" and "id" in message
        if not is_json(http.headers):
            await _refuse_content_type(http.send)
        elif not accepts(http.headers, _JSON):
            await refuse(http.send, 406, "Not Acceptable: Client must accept application/json")
        elif session is not None:
            await self._answer_in_session(http, message, session)
        elif not is_opening:
            await refuse(http.send, 400, "Bad Request: Missing session ID")
        elif (opened := self._open_session(http.scope)) is None:
            await refuse(http.send, 503, TOO_MANY_SESSIONS, code=INTERNAL_ERROR)
        else:
            await self._answer_in_session(http, message, opened)
            if not opened.peer.is_initialized:
                self._drop(opened)

    async def _answer_in_session(self, http: HttpRequest, message: Message, session: HttpSession) -> None:
        headers = {SESSION_HEADER: session.id}
        caller = HttpCaller(http.scope, http.headers, http.headers.get(SESSION_HEADER))
        request = self._handler.accept(message, session.peer, caller)
        if request is None:
            await respond(http.send, 202, headers=headers)
            return
        session.in_flight += 1
        try:
            await self._answer(http, request, headers)
        finally:
            self._end_use(session)

    async def _answer(self, http: HttpRequest, request: Request, headers: Mapping[str, str]) -> None:
        """Answer a request; only the stateless revisions check its headers."""
        checked = http.headers if request.is_stateless else None
        if self._handler.is_quick(request):
            await _respond(http, headers, request, self._handler.answer(request, checked))
            return
        stream = EventStream(http.receive, http.send, headers)
        if "progressToken" in request.meta and accepts(http.headers, _EVENTS):
            request.notify = lambda line: stream.put(format_event(line))
        answered = asyncio.wrap_future(
            self._workers.submit(request, lambda: self._handler.answer(request, checked))
        )
        answered.add_done_callback(lambda _: stream.put(None))
        self._running.add(request)
        try:
            first = await self._wait(http, request, stream)
            if first is None:
                await _respond(http, headers, request, answered.result())
                return
            await stream.run(first, lambda: _format_last(request, answered))
        except (asyncio.CancelledError, OSError):  # the server ends, or the token was revoked
            request.cancel()
            raise
        finally:
            self._running.discard(request)
        if request.is_stateless and not answered.done():
            request.cancel()

    async def _wait(self, http: HttpRequest, request: Request, stream: EventStream) -> bytes | None:
        """Wait for the first notification of a request, or for its end, which is None."""
        if not request.is_stateless:
            return await stream.wait()
        # In these revisions a client cancels a request by closing the connection.
        watcher = asyncio.create_task(cancel_on_disconnect(http.receive, request))
        try:
            return await stream.wait()
        finally:
            watcher.cancel()

    async def _handle_get(self, http: HttpRequest, session: HttpSession | None) -> None:
        headers = {SESSION_HEADER: session.id} if session else {}
        if not accepts(http.headers, _EVENTS):
            await refuse(http.send, 406, "Not Acceptable: Client must accept text/event-stream", headers)
        elif session is None:
            await refuse(http.send, 400, "Bad Request: Missing session ID")
        elif session.stream is not None:
            message = "Conflict: Only one SSE stream is allowed per session"
            await refuse(http.send, 409, message, headers)
        else:
            await self._hold_stream(http, session, headers)

    async def _hold_stream(self, http: HttpRequest, session: HttpSession, headers: Mapping[str, str]) -> None:
        session.stream = EventStream(http.receive, http.send, headers)
        session.in_flight += 1
        try:
            await session.stream.run()
        finally:
            session.stream = None
            self._end_use(session)

    def _find_session(self, session_id: str, scope: Scope) -> HttpSession | None:
        """Find a session of this owner, and note that it is in use."""
        session = self._sessions.get(session_id)
        if session is None or session.owner != self._get_owner(scope):
            return None
        self._note_use(session)
        return session

    def _note_use(self, session: HttpSession) -> None:
        session.used_at = asyncio.get_running_loop().time()
        self._sessions.move_to_end(session.id)

    def _end_use(self, session: HttpSession) -> None:
        session.in_flight -= 1
        if session.id in self._sessions:
            self._note_use(session)

    def _open_session(self, scope: Scope) -> HttpSession | None:
        """Open a session; None if there are too many, and all are in use."""
        now, owner = asyncio.get_running_loop().time(), self._get_owner(scope)
        self._drop_idle(now - IDLE_SECONDS)
        if not self._make_room(owner):
            return None
        session = HttpSession(owner, now)
        self._sessions[session.id] = session
        self._counts[owner] += 1
        return session

    def _drop_idle(self, since: float) -> None:
        """Drop the sessions that nobody has used since then; the least recently used are first."""
        idle = takewhile(lambda session: session.used_at <= since, self._sessions.values())
        for session in [session for session in idle if not session.in_flight]:
            self._drop(session)

    def _make_room(self, owner: Hashable) -> bool:
        """Make room for one more session of this owner; False if all are in use.

        The session that was unused for longest gives way, one of this owner first; its client begins again.
        """
        has_too_many = self._counts[owner] >= MAX_SESSIONS_OF_OWNER
        if not has_too_many and len(self._sessions) < MAX_SESSIONS:
            return True
        unused = [session for session in self._sessions.values() if not session.in_flight]
        own = [session for session in unused if session.owner == owner]
        candidates = own if has_too_many else own or unused
        for session in candidates[:1]:
            self._drop(session)
        return bool(candidates)

    def _drop(self, session: HttpSession) -> None:
        if self._sessions.pop(session.id, None) is not None:
            self._counts[session.owner] -= 1
            if not self._counts[session.owner]:
                del self._counts[session.owner]
        session.peer.cancel_all()
        session.end_stream()


def _build_cancelled_answer(request: Request) -> Response:
    """Build the answer to a cancelled request: over HTTP each request needs one."""
    error = RequestError(REQUEST_CANCELLED, "Request cancelled")
    return Response(encode_response(request.id, "error", error.to_json()))


def _format_last(request: Request, answered: asyncio.Future[Response | None]) -> bytes:
    """Format the answer as the last event; nothing if the client is gone before there is one."""
    if not answered.done():
        return b""
    return format_event((answered.result() or _build_cancelled_answer(request)).body)


async def _respond(
    http: HttpRequest, headers: Mapping[str, str], request: Request, answer: Response | None
) -> None:
    answer = answer or _build_cancelled_answer(request)
    await respond(http.send, answer.status, answer.body, headers)


async def _refuse_content_type(send: Send) -> None:
    await respond(send, 400, b"Invalid Content-Type header", {"content-type": "text/plain; charset=utf-8"})
