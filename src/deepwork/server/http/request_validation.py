"""Answers invalid JSON-RPC requests over HTTP with our error format."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepwork.server.http.guard import TOO_LARGE, send_refusal
from deepwork.server.jsonrpc_validation import reject_if_invalid


class RequestValidationMiddleware:
    """Validates every MCP request before it reaches the SDK."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await _read_body(receive)
        if body is None:
            if scope.get("deepwork.too_large"):
                await send_refusal(scope, receive, send, TOO_LARGE)
            return  # otherwise the client disconnected
        answer = reject_if_invalid(body)
        # Over SSE responses travel on the stream, so an invalid POST gets status 400.
        if answer is not None:
            status = 200 if scope["path"].startswith("/mcp") else 400
            await _respond(send, status, answer)
        else:
            await self._app(scope, _replay_body(body, receive), send)


async def _read_body(receive: Receive) -> bytes | None:
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    is_replayed = False

    async def replay() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _respond(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
