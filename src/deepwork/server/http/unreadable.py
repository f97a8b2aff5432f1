"""Requests that the SDK would not read, answered in our form over HTTP too."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepwork.server.frames import answer_unreadable
from deepwork.server.http.guard import TOO_LARGE, refuse


class AnswerUnreadable:
    """Looks at every request to MCP before the SDK does."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await _body(receive)
        if body is None:
            if scope.get("deepwork.too_large"):
                await refuse(scope, receive, send, TOO_LARGE)
            return  # otherwise the client is gone
        answer = answer_unreadable(body)
        # Over SSE the answer to a request travels on the stream, so here it can only be refused.
        if answer is not None:
            status = 200 if scope["path"].startswith("/mcp") else 400
            await _respond(send, status, answer)
        else:
            await self._app(scope, _replayed(body, receive), send)


async def _body(receive: Receive) -> bytes | None:
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    is_told = False

    async def replay() -> Message:
        nonlocal is_told
        if is_told:
            return await receive()
        is_told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _respond(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
