"""The guard around the whole application, HTTP and WebSocket alike: nothing passes it unseen."""

from __future__ import annotations

import json
from urllib.parse import parse_qs

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepwork.errors import Code
from deepwork.server.http.limits import MAX_BODY, RateLimit, guess_limit
from deepwork.server.http.policy import Admitted, Policy, Refused, Seen, judge

_CONTENT = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": _CONTENT,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_CODES = {401: Code.UNAUTHORIZED, 403: Code.UNAUTHORIZED, 413: Code.TOO_LARGE}


class Guard:
    """Judges every request, then lets it in with its caller's name on it."""

    def __init__(
        self, app: ASGIApp, policy: Policy, rate: RateLimit | None, guesses: RateLimit | None = None
    ) -> None:
        self._app, self._policy, self._rate = app, policy, rate
        self._guesses = guesses or guess_limit()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        verdict = self._verdict(scope)
        if isinstance(verdict, Refused):
            await refuse(scope, receive, send, verdict)
        elif verdict.logs_in:
            await self._log_in(send)
        else:
            scope["deepwork.principal"] = verdict.principal
            await self._app(scope, _limited(receive, scope), send)

    def _verdict(self, scope: Scope) -> Admitted | Refused:
        seen = _seen(scope)
        address = (scope.get("client") or ("unknown",))[0]
        if _declared_size(seen) > MAX_BODY:
            return TOO_LARGE
        verdict = judge(seen, self._policy)
        if isinstance(verdict, Refused):
            # Only whoever guesses is counted: a right token, and calls that need none, go on.
            if verdict.is_guess and not self._guesses.allows(address):
                return Refused(429, "Too many wrong tokens.", "Wait a minute.")
            return verdict
        if self._rate is not None and not self._rate.allows(verdict.principal or address):
            return Refused(429, "Too many requests.", "Wait a second, then go on.")
        return verdict

    async def _log_in(self, send: Send) -> None:
        cookie = f"{self._policy.cookie_name}={self._policy.cookie}; Path=/; HttpOnly; SameSite=Strict"
        headers = [(b"location", b"/"), (b"set-cookie", cookie.encode())]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


async def refuse(scope: Scope, receive: Receive, send: Send, refused: Refused) -> None:
    """Say no: to a program with the error object, to a WebSocket before it is one."""
    body = json.dumps(
        {
            "code": _CODES.get(refused.status, Code.INVALID_INPUT).value,
            "message": refused.message,
            "recoverable": refused.status == 429,
            "suggestion": refused.suggestion,
        }
    ).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refused.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="deepwork"'))
    kind = "http"
    if scope["type"] == "websocket":
        await receive()  # the handshake, which is answered by a plain response
        kind = "websocket.http"
    await send({"type": f"{kind}.response.start", "status": refused.status, "headers": headers})
    await send({"type": f"{kind}.response.body", "body": body})


def _seen(scope: Scope) -> Seen:
    tokens = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token")
    return Seen(
        method=scope.get("method", "GET"),
        path=scope["path"],
        headers=HTTPConnection(scope).headers,
        query_token=tokens[0] if tokens else None,
        is_websocket=scope["type"] == "websocket",
    )


def _declared_size(seen: Seen) -> int:
    declared = seen.headers.get("content-length", "0")
    return int(declared) if declared.isdecimal() else 0


TOO_LARGE = Refused(413, f"A request has at most {MAX_BODY} bytes.", "Send less.")


def _limited(receive: Receive, scope: Scope) -> Receive:
    """The same input, ended when it grows over the limit without having said so."""
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received <= MAX_BODY:
            return message
        scope["deepwork.too_large"] = True
        return {"type": "http.disconnect"}

    return counted


def _with_headers(send: Send) -> Send:
    """The same output, with the headers that every answer carries."""

    async def guarded(message: Message) -> None:
        if message["type"] in {"http.response.start", "websocket.http.response.start"}:
            given = {name.lower() for name, _ in message.get("headers", [])}
            more = [
                (n.lower().encode(), v.encode())
                for n, v in HEADERS.items()
                if n.lower().encode() not in given
            ]
            message = {**message, "headers": [*message.get("headers", []), *more]}
        await send(message)

    return guarded
