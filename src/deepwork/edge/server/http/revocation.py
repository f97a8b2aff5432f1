"""Ends open streams when the right of their client ends, also if nothing is sent on them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import anyio
from starlette.types import Message, Send

from deepwork.kernel.errors import StorageError

CHECK_SECONDS = 1.0
"""How often all open streams are checked together, with one query."""
END_SECONDS = 1.0
"""How long a client may take to read the end of its stream before the connection is closed."""
POLICY_VIOLATION = 1008

FindValid = Callable[[Sequence[str]], Awaitable[set[str]]]
"""Returns those of the ids that belong to valid tokens."""


class RevocationWatch:
    """The open streams of named tokens; one task checks all of them, and only while there are some."""

    def __init__(self, find_valid: FindValid, seconds: float = CHECK_SECONDS) -> None:
        self._find_valid, self._seconds = find_valid, seconds
        self._streams: dict[str, set[anyio.CancelScope]] = {}
        self._watching: asyncio.Task[None] | None = None

    def add(self, token_id: str, stream: anyio.CancelScope) -> None:
        """Cancel this stream as soon as its token is no longer valid."""
        self._streams.setdefault(token_id, set()).add(stream)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())

    def remove(self, token_id: str | None, stream: anyio.CancelScope) -> None:
        """Forget a stream that has ended, if it was added."""
        if token_id is None or (streams := self._streams.get(token_id)) is None:
            return
        streams.discard(stream)
        if not streams:
            del self._streams[token_id]

    async def _watch(self) -> None:
        while self._streams:
            await asyncio.sleep(self._seconds)
            with suppress(StorageError):  # the next check decides
                await self._end_invalid()

    async def _end_invalid(self) -> None:
        watched = list(self._streams)
        valid = await self._find_valid(watched) if watched else set()
        for token_id in watched:
            if token_id not in valid:
                for stream in list(self._streams.get(token_id, ())):
                    stream.cancel()


class RevocableSend:
    """Wraps `send` to end a stream when its token is revoked, because streams outlive the authorisation."""

    def __init__(
        self, send: Send, is_valid: Callable[[], Awaitable[bool]], on_stream: Callable[[], object]
    ) -> None:
        """`on_stream` is called when the response turns out to be a stream."""
        self._send, self._is_valid, self._on_stream = send, is_valid, on_stream
        self._kind: str | None = None
        """The type of the messages of this stream; None if the response is none."""
        self.is_ended = False

    async def __call__(self, message: Message) -> None:
        if _begins_stream(message):  # its first part may come much later
            await self._send(message)
            self._begin(message)
            return
        if _is_part_of_stream(message):
            self._begin(message)
            if not await self._is_valid():
                await self.end()
                raise OSError("the token is no longer valid")  # what servers raise when a client disconnects
        await self._send(message)

    def _begin(self, message: Message) -> None:
        if self._kind is None:
            self._kind = message["type"]
            self._on_stream()

    async def end(self) -> None:
        """End the stream; a client that does not read is disconnected, since no end is sent then."""
        self.is_ended = True
        with anyio.move_on_after(END_SECONDS):
            await self._send(_build_end_message(self._kind))


def _begins_stream(message: Message) -> bool:
    """Whether a response begins whose length is not known."""
    if message["type"] != "http.response.start":
        return False
    return all(name.lower() != b"content-length" for name, _ in message.get("headers", ()))


def _is_part_of_stream(message: Message) -> bool:
    return message["type"] in {"websocket.accept", "websocket.send"} or bool(message.get("more_body"))


def _build_end_message(kind: str | None) -> Message:
    if kind is not None and kind.startswith("websocket."):
        return {"type": "websocket.close", "code": POLICY_VIOLATION, "reason": "the token is no longer valid"}
    return {"type": "http.response.body", "body": b"", "more_body": False}
