"""Streams events over a WebSocket and as server-sent events."""

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

from deepwork.kernel.errors import DeepworkError, InvalidInput
from deepwork.kernel.events.feed import ResyncRequired
from deepwork.kernel.events.hub import EventHub, SerializedEvent
from deepwork.views.dashboard.http_errors import error_to_response

KEEP_ALIVE_SECONDS = 15
MAX_DIGITS = 18
POLICY_VIOLATION, TRY_AGAIN_LATER = 1008, 1013


class EventStreams:
    """Builds the routes of both streams."""

    def __init__(self, hub: EventHub) -> None:
        self._hub = hub

    def build_routes(self) -> list[BaseRoute]:
        return [
            WebSocketRoute("/ws", self._handle_websocket),
            Route("/api/v1/events", self._handle_server_sent_events, methods=["GET"]),
        ]

    async def _handle_websocket(self, socket: WebSocket) -> None:
        try:
            await self._hub.require_readable()
        except DeepworkError:  # not accepted, so that the page never looks live
            await socket.send_denial_response(Response(status_code=503))
            return
        await socket.accept()
        try:
            subscription: Subscription | None = Subscription.from_parameters(dict(socket.query_params))
            while subscription is not None:
                subscription = await self._serve_subscription(socket, subscription)
        except InvalidInput as error:
            await _close(socket, POLICY_VIOLATION, error.message)
        except DeepworkError as error:  # the database is unavailable
            await _close(socket, TRY_AGAIN_LATER, error.message)
        except (WebSocketDisconnect, OSError):
            return

    async def _serve_subscription(self, socket: WebSocket, subscription: Subscription) -> Subscription | None:
        """Send events until the client changes its subscription; return the new one, or None at the end."""
        sending = asyncio.create_task(self._send_events(socket, subscription))
        listening = asyncio.create_task(_receive_subscription(socket))
        try:
            await asyncio.wait({sending, listening}, return_when=asyncio.FIRST_COMPLETED)
            return listening.result() if listening.done() else sending.result()
        finally:
            for task in (sending, listening):
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task

    async def _send_events(self, socket: WebSocket, subscription: Subscription) -> None:
        async for event in self._hub.stream(subscription.since, subscription.workflow_id):
            await socket.send_text(_format_message(event))  # the server ends a client that reads nothing
        await _close(socket, TRY_AGAIN_LATER, "resync")

    async def _handle_server_sent_events(self, request: Request) -> Response:
        last = request.headers.get("last-event-id")
        try:
            subscription = Subscription.from_parameters(
                dict(request.query_params) | ({"since": last} if last else {})
            )
            await self._hub.require_readable()
        except DeepworkError as error:
            return error_to_response(error, error.to_dict())
        return StreamingResponse(self._generate_lines(subscription), media_type="text/event-stream")

    async def _generate_lines(self, subscription: Subscription) -> AsyncIterator[str]:
        events = self._hub.stream(subscription.since, subscription.workflow_id)
        following = asyncio.ensure_future(anext(events))
        try:
            yield ": deepwork\n\n"
            while True:
                done, _ = await asyncio.wait({following}, timeout=KEEP_ALIVE_SECONDS)
                if not done:
                    yield ": keep-alive\n\n"
                    continue
                try:
                    event = following.result()
                except DeepworkError:  # the database is unavailable; the browser reconnects by itself
                    return
                yield _format_server_sent_event(event)
                if isinstance(event, ResyncRequired):
                    return
                following = asyncio.ensure_future(anext(events))
        finally:
            following.cancel()


class Subscription:
    """The events that a client asked for."""

    def __init__(self, since: int | None, workflow_id: str | None) -> None:
        self.since, self.workflow_id = since, workflow_id

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any]) -> Subscription:
        if unknown := sorted(set(parameters) - {"since", "workflow_id", "type"}):
            raise InvalidInput(f"Unknown parameter `{unknown[0][:60]}`. Allowed: since, workflow_id.")
        since, workflow_id = parameters.get("since"), parameters.get("workflow_id")
        if since is not None and not (str(since).isdecimal() and len(str(since)) <= MAX_DIGITS):
            raise InvalidInput("`since` must be an event number.")
        if workflow_id is not None and not isinstance(workflow_id, str):
            raise InvalidInput("`workflow_id` must be a string.")
        return cls(None if since is None else int(since), workflow_id or None)


async def _receive_subscription(socket: WebSocket) -> Subscription:
    """Wait for the client's next subscription; raise InvalidInput for any other message."""
    text = await socket.receive_text()
    try:
        message = json.loads(text)
    except ValueError:
        message = None
    if not isinstance(message, dict) or message.get("type") != "subscribe":
        raise InvalidInput('Send {"type": "subscribe", "workflow_id": …, "since": N}.')
    return Subscription.from_parameters(message)


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    if socket.application_state is WebSocketState.CONNECTED:
        with suppress(Exception):
            await asyncio.wait_for(socket.close(code, reason[:100]), 1)


def _format_message(event: SerializedEvent | ResyncRequired) -> str:
    if isinstance(event, SerializedEvent):
        return event.text
    return json.dumps({"type": "resync_required", "since": event.since, "resume_at": event.resume_at})


def _format_server_sent_event(event: SerializedEvent | ResyncRequired) -> str:
    if isinstance(event, SerializedEvent):
        return f"id: {event.seq}\ndata: {event.text}\n\n"
    # With this id the browser resumes there, instead of asking for deleted events again and again.
    return f"id: {event.resume_at}\nevent: resync_required\ndata: {_format_message(event)}\n\n"
