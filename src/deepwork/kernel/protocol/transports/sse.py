"""The older HTTP transport: a stream of events for answers, and a path to post requests to."""

from __future__ import annotations

from collections.abc import Hashable
from urllib.parse import parse_qs
from uuid import uuid4

from deepwork.kernel.protocol.handler import HttpCaller, MessageHandler
from deepwork.kernel.protocol.messages import InvalidFrame, Peer, Request, parse_frame
from deepwork.kernel.protocol.transports.asgi import (
    MAX_SESSIONS,
    MAX_SESSIONS_OF_OWNER,
    EventStream,
    GetOwner,
    Receive,
    Scope,
    Send,
    format_event,
    is_json,
    read_body,
    read_headers,
    respond,
)
from deepwork.kernel.protocol.transports.stdio import Workers
from deepwork.kernel.records import dataclass

_TEXT = {"content-type": "text/plain; charset=utf-8"}


@dataclass(frozen=True)
class SseSession:
    """One client with an open stream."""

    owner: Hashable
    stream: EventStream
    peer: Peer


class SseTransport:
    """The ASGI application of two paths: GET opens a stream at one, POST sends messages to the other."""

    def __init__(
        self,
        handler: MessageHandler,
        get_owner: GetOwner,
        path: str = "/sse",
        message_path: str = "/messages/",
    ) -> None:
        self._handler, self._get_owner = handler, get_owner
        self._path, self._message_path = path, message_path
        self._workers = Workers(handler)
        self._sessions: dict[str, SseSession] = {}
        self.addresses = [("GET", path), ("POST", message_path)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"].rstrip("/"), scope["method"]
        if path == self._path:
            await (self._open(scope, receive, send) if method == "GET" else _refuse_method(send, "GET"))
        elif path == self._message_path.rstrip("/"):
            await (self._post(scope, receive, send) if method == "POST" else _refuse_method(send, "POST"))
        else:
            await respond(send, 404, b"Not Found", _TEXT)

    def end_streams(self) -> None:
        """End all sessions: clients hold their streams open, which would delay the end of the server."""
        for session in list(self._sessions.values()):
            session.stream.put(None)

    def cancel_all(self) -> None:
        """Cancel the requests and tasks that are still running, because the server ends."""
        self._handler.tasks.end()
        for session in list(self._sessions.values()):
            session.peer.cancel_all()

    def finish_within(self, seconds: float) -> bool:
        """Wait for the calls that still run, but not for longer; return whether all have ended."""
        return self._workers.finish_within(seconds)

    async def _open(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._has_room(self._get_owner(scope)):
            await respond(send, 503, b"Too many open sessions: close those that you do not need", _TEXT)
            return
        stream, session_id = EventStream(receive, send), uuid4().hex
        peer = Peer(lambda line: stream.put(format_event(line)))
        self._sessions[session_id] = SseSession(self._get_owner(scope), stream, peer)
        address = f"{self._message_path}?session_id={session_id}"
        try:
            await stream.run(format_event(address.encode(), "endpoint"))
        finally:
            del self._sessions[session_id]
            peer.cancel_all()

    def _has_room(self, owner: Hashable) -> bool:
        """Whether this owner may open another stream; none gives way, because all of them are in use."""
        own = sum(session.owner == owner for session in self._sessions.values())
        return own < MAX_SESSIONS_OF_OWNER and len(self._sessions) < MAX_SESSIONS

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (body := await read_body(receive)) is None:
            return
        try:
            message = parse_frame(body)
        except InvalidFrame as invalid:  # answers travel on the stream, so this response is not one
            await respond(send, 400, invalid.answer)
            return
        headers = dict(read_headers(scope))
        session_id = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("session_id", [""])[0]
        session = self._sessions.get(session_id)
        if not is_json(headers):
            await respond(send, 400, b"Invalid Content-Type header", _TEXT)
        elif not session_id:
            await respond(send, 400, b"session_id is required", _TEXT)
        elif session is None or session.owner != self._get_owner(scope):
            await respond(send, 404, b"Could not find session", _TEXT)
        else:
            # Before the response: if the stream ends meanwhile, the request is cancelled with it.
            request = self._handler.accept(message, session.peer, HttpCaller(scope, headers, session_id))
            await respond(send, 202, b"Accepted", _TEXT)
            if request is not None:
                self._answer(request, session)

    def _answer(self, request: Request, session: SseSession) -> None:
        def answer() -> None:
            if (found := self._handler.answer(request)) is not None:
                session.stream.put(format_event(found.body))

        if self._handler.is_quick(request):
            answer()
        else:
            self._workers.submit(request, answer)


async def _refuse_method(send: Send, allowed: str) -> None:
    await respond(send, 405, headers={"allow": allowed})
