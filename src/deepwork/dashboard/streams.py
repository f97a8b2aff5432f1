"""Events as they happen: over a WebSocket, and as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from deepwork.dashboard.failures import failure
from deepwork.errors import DeepworkError, InvalidInput
from deepwork.events.feed import ResyncRequired
from deepwork.events.hub import Hub, Told

STALLED_SECONDS = 10
KEEP_ALIVE_SECONDS = 15
MAX_DIGITS = 18
POLICY_VIOLATION, TRY_AGAIN_LATER = 1008, 1013


class Streams:
    """Both streams, fed by one hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def routes(self) -> list[BaseRoute]:
        return [
            WebSocketRoute("/ws", self._websocket),
            Route("/api/v1/events", self._server_sent, methods=["GET"]),
        ]

    async def _websocket(self, socket: WebSocket) -> None:
        await socket.accept()
        try:
            wanted: Wanted | None = Wanted.of(dict(socket.query_params))
            while wanted is not None:
                wanted = await self._serve(socket, wanted)
        except InvalidInput as error:
            await _end(socket, POLICY_VIOLATION, error.message)
        except TimeoutError:  # it takes nothing any more; when it comes back, `since` brings the rest
            await _end(socket, TRY_AGAIN_LATER, "too slow")
        except DeepworkError as error:  # the database is away for now
            await _end(socket, TRY_AGAIN_LATER, error.message)
        except (WebSocketDisconnect, OSError):
            return

    async def _serve(self, socket: WebSocket, wanted: Wanted) -> Wanted | None:
        """Send events until the client wants others; None when there is nothing more to send."""
        sending = asyncio.create_task(self._send(socket, wanted))
        listening = asyncio.create_task(_next_wish(socket))
        try:
            await asyncio.wait({sending, listening}, return_when=asyncio.FIRST_COMPLETED)
            return listening.result() if listening.done() else sending.result()
        finally:
            for task in (sending, listening):
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task

    async def _send(self, socket: WebSocket, wanted: Wanted) -> None:
        async for told in self._hub.stream(wanted.since, wanted.workflow_id):
            await asyncio.wait_for(socket.send_text(_text(told)), STALLED_SECONDS)
        await _end(socket, TRY_AGAIN_LATER, "resync")

    async def _server_sent(self, request: Request) -> Response:
        last = request.headers.get("last-event-id")
        try:
            wanted = Wanted.of(dict(request.query_params) | ({"since": last} if last else {}))
        except InvalidInput as error:
            return failure(error, error.as_dict())
        return StreamingResponse(self._lines(wanted), media_type="text/event-stream")

    async def _lines(self, wanted: Wanted) -> AsyncIterator[str]:
        events = self._hub.stream(wanted.since, wanted.workflow_id)
        following = asyncio.ensure_future(anext(events))
        try:
            yield ": deepwork\n\n"
            while True:
                done, _ = await asyncio.wait({following}, timeout=KEEP_ALIVE_SECONDS)
                if not done:
                    yield ": still here\n\n"
                    continue
                try:
                    told = following.result()
                except DeepworkError:  # the database is away: the browser comes back by itself
                    return
                yield _lines_of(told)
                if isinstance(told, ResyncRequired):
                    return
                following = asyncio.ensure_future(anext(events))
        finally:
            following.cancel()


class Wanted:
    """Which events a listener wants."""

    def __init__(self, since: int | None, workflow_id: str | None) -> None:
        self.since, self.workflow_id = since, workflow_id

    @classmethod
    def of(cls, given: dict[str, Any]) -> Wanted:
        if unknown := sorted(set(given) - {"since", "workflow_id", "type"}):
            raise InvalidInput(f"There is no parameter `{unknown[0][:60]}`; there are since and workflow_id.")
        since, workflow_id = given.get("since"), given.get("workflow_id")
        if since is not None and not (str(since).isdecimal() and len(str(since)) <= MAX_DIGITS):
            raise InvalidInput("`since` must be the number of an event.")
        if workflow_id is not None and not isinstance(workflow_id, str):
            raise InvalidInput("`workflow_id` must be a text.")
        return cls(None if since is None else int(since), workflow_id or None)


async def _next_wish(socket: WebSocket) -> Wanted:
    """What the client asks for next; any other word is a misunderstanding."""
    text = await socket.receive_text()
    try:
        message = json.loads(text)
    except ValueError:
        message = None
    if not isinstance(message, dict) or message.get("type") != "subscribe":
        raise InvalidInput('Send {"type": "subscribe", "workflow_id": …, "since": N}.')
    return Wanted.of(message)


async def _end(socket: WebSocket, code: int, reason: str) -> None:
    if socket.application_state is WebSocketState.CONNECTED:
        with suppress(Exception):
            await asyncio.wait_for(socket.close(code, reason[:100]), 1)


def _text(told: Told | ResyncRequired) -> str:
    if isinstance(told, Told):
        return told.text
    return json.dumps({"type": "resync_required", "since": told.since, "resume_at": told.resume_at})


def _lines_of(told: Told | ResyncRequired) -> str:
    if isinstance(told, Told):
        return f"id: {told.seq}\ndata: {told.text}\n\n"
    # With its id a browser goes on from there, instead of asking for what is gone again and again.
    return f"id: {told.resume_at}\nevent: resync_required\ndata: {_text(told)}\n\n"
