"""Reads requests and sends responses of ASGI, as JSON or as a stream of events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Hashable, Mapping, MutableMapping
from typing import Any

from deepwork.kernel.protocol.messages import Request
from deepwork.kernel.protocol.revisions import INVALID_REQUEST

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
GetOwner = Callable[[Scope], Hashable]
"""Returns the owner of a request's token: a session can only be used by the owner that opened it."""

PING_SECONDS = 15
SEND_SECONDS = 10
"""A client that accepts nothing for so long is disconnected."""
MAX_SESSIONS = 10_000
MAX_SESSIONS_OF_OWNER = 256
"""One token cannot take the memory of the server, nor the sessions of others."""
MAX_QUEUED = 64 * 1024 * 1024
"""How many bytes may wait for a client that reads slowly."""

_STREAM_HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache, no-transform",
    "x-accel-buffering": "no",
}


class EventStream:
    """A response of server-sent events, which ends when its source or its client does."""

    def __init__(self, receive: Receive, send: Send, headers: Mapping[str, str] | None = None) -> None:
        self._receive, self._send, self._headers = receive, send, headers or {}
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._queued = 0
        self._is_ending = False
        self._loop = asyncio.get_running_loop()

    def put(self, event: bytes | None) -> None:
        """Send an event; None ends the stream. May be called from any thread."""
        self._loop.call_soon_threadsafe(self._enqueue, event)

    def _enqueue(self, event: bytes | None) -> None:
        """Queue an event; a client that lets too many wait gets no more, and its stream ends."""
        self._queued += len(event or b"")
        if self._queued <= MAX_QUEUED:
            self._waiting.put_nowait(event)
        elif not self._is_ending:
            self._is_ending = True
            self._waiting.put_nowait(None)

    async def wait(self) -> bytes | None:
        """Wait for the next event, before the stream is begun."""
        return await self._waiting.get()

    async def run(self, first: bytes = b"", get_last: Callable[[], bytes] = bytes) -> None:
        """Begin the response and send events until the stream or the connection ends."""
        await send_start(self._send, 200, {**_STREAM_HEADERS, **self._headers})
        gone = asyncio.ensure_future(wait_for_disconnect(self._receive))
        try:
            if first:
                await self._send_part(first)
            while not gone.done() and (event := await self._wait_or_ping(gone)) is not None:
                await self._send_part(event)
            await self._send({"type": "http.response.body", "body": get_last()})
        except TimeoutError:  # the client does not read; returning closes the connection
            return
        finally:
            gone.cancel()

    async def _wait_or_ping(self, gone: asyncio.Future[None]) -> bytes | None:
        """Return the next event, a ping if there is none for a while, None at the end."""
        following = asyncio.ensure_future(self._waiting.get())
        try:
            either: set[asyncio.Future[Any]] = {following, gone}
            await asyncio.wait(either, timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if following.done():
                self._queued -= len(following.result() or b"")
                return following.result()
            return None if gone.done() else b": ping\r\n\r\n"
        finally:
            following.cancel()

    async def _send_part(self, body: bytes) -> None:
        async with asyncio.timeout(SEND_SECONDS):
            await self._send({"type": "http.response.body", "body": body, "more_body": True})


def format_event(line: bytes, event: str = "message") -> bytes:
    """Format a message as a server-sent event."""
    return b"event: %s\r\ndata: %s\r\n\r\n" % (event.encode(), line.rstrip(b"\n"))


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def cancel_on_disconnect(receive: Receive, request: Request) -> None:
    """Cancel the request when its client disconnects."""
    await wait_for_disconnect(receive)
    request.cancel()


def read_headers(scope: Scope) -> list[tuple[str, str]]:
    """Return the headers as text; ASGI has their names in lower case."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]


async def read_body(receive: Receive) -> bytes | None:
    """Read the body; None if the client disconnected before its end."""
    parts = []
    while True:
        event = await receive()
        if event["type"] != "http.request":
            return None
        parts.append(event.get("body", b""))
        if not event.get("more_body"):
            return b"".join(parts)


async def send_start(send: Send, status: int, headers: Mapping[str, str]) -> None:
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})


async def respond(
    send: Send, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None
) -> None:
    """Send a whole response; a body is JSON unless the headers say otherwise."""
    kind = {"content-type": "application/json"} if body else {}
    await send_start(send, status, {**kind, "content-length": str(len(body)), **(headers or {})})
    await send({"type": "http.response.body", "body": body})


async def refuse(
    send: Send,
    status: int,
    message: str,
    headers: Mapping[str, str] | None = None,
    code: int = INVALID_REQUEST,
) -> None:
    """Send an error that belongs to no request."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    await respond(send, status, json.dumps(error).encode(), headers)


def is_json(headers: Mapping[str, str]) -> bool:
    """Whether the body is declared as JSON."""
    return headers.get("content-type", "").lower().startswith("application/json")


def accepts(headers: Mapping[str, str], media_type: str) -> bool:
    """Whether the client accepts responses of a type, named itself or by a wildcard."""
    accepted = [part.partition(";")[0].strip().lower() for part in headers.get("accept", "").split(",")]
    return not {media_type, f"{media_type.partition('/')[0]}/*", "*/*"}.isdisjoint(accepted)
