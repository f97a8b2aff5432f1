"""The guard around the whole application, HTTP and WebSocket alike: nothing passes it unseen."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import parse_qs

import anyio
import anyio.to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepwork.access.desk import TokenDesk
from deepwork.access.models import Token
from deepwork.errors import Code, StorageError
from deepwork.server.http.limits import MAX_BODY, RateLimit, guess_limit
from deepwork.server.http.policy import Admitted, Policy, Refused, Seen, asks_about, judge

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

_CODES = {
    401: Code.UNAUTHORIZED, 403: Code.UNAUTHORIZED, 413: Code.TOO_LARGE, 503: Code.STORAGE_ERROR,
}  # fmt: skip
LOOKUPS_AT_ONCE = 4
POLICY_VIOLATION = 1008

Answer = TypeVar("Answer")


class Guard:
    """Judges every request, then lets it in with its caller's name on it."""

    def __init__(
        self,
        app: ASGIApp,
        policy: Policy,
        rate: RateLimit | None,
        guesses: RateLimit | None = None,
        tokens: TokenDesk | None = None,
    ) -> None:
        """Without `tokens` only the owner's token opens."""
        self._app, self._policy, self._rate = app, policy, rate
        self._guesses = guesses or guess_limit()
        self._tokens = tokens
        self._lookups: anyio.CapacityLimiter | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        send = _with_headers(send)
        seen = _seen(scope)
        try:
            known = await self._known(asks_about(seen, self._policy))
        except StorageError:
            await refuse(scope, receive, send, NOT_NOW)
            return
        verdict = self._verdict(scope, seen, known)
        if isinstance(verdict, Refused):
            await refuse(scope, receive, send, verdict)
        elif verdict.logs_in:
            await self._log_in(send, self._policy.cookie_of(known) if known else self._policy.cookie)
        else:
            await self._let_in(scope, _limited(receive, scope), send, verdict)

    async def _let_in(self, scope: Scope, receive: Receive, send: Send, admitted: Admitted) -> None:
        scope["deepwork.principal"], scope["deepwork.scope"] = admitted.principal, admitted.scope
        if admitted.principal is not None:
            scope["user"] = _session_owner(admitted)
        if admitted.token_id is None:
            await self._app(scope, receive, send)
            return
        await self._note_use(admitted.token_id)
        stream = Revocable(send, lambda: self._known(admitted.token_id))
        try:
            await self._app(scope, receive, stream)
        except ClientDisconnect:
            if not stream.is_ended:
                raise

    async def _known(self, id: str | None) -> Token | None:
        """The valid token with this id; the store is asked in a thread, and by few at a time."""
        if id is None or self._tokens is None:
            return None
        if self._tokens.remembers(id):
            return self._tokens.valid(id)
        return await self._in_thread(self._tokens.valid, id)

    async def _note_use(self, id: str) -> None:
        if self._tokens is not None and self._tokens.wants_use_noted(id):
            await self._in_thread(self._tokens.used, id)

    async def _in_thread(self, act: Callable[[str], Answer], id: str) -> Answer:
        # Threads of our own: whoever tries out tokens does not take those that tools run in.
        self._lookups = self._lookups or anyio.CapacityLimiter(LOOKUPS_AT_ONCE)
        return await anyio.to_thread.run_sync(act, id, limiter=self._lookups)

    def _verdict(self, scope: Scope, seen: Seen, known: Token | None) -> Admitted | Refused:
        address = (scope.get("client") or ("unknown",))[0]
        if _declared_size(seen) > MAX_BODY:
            return TOO_LARGE
        verdict = judge(seen, self._policy, known)
        if isinstance(verdict, Refused):
            # Only whoever guesses is counted: a right token, and calls that need none, go on.
            if verdict.is_guess and not self._guesses.allows(address):
                return Refused(429, "Too many wrong tokens.", "Wait a minute.")
            return verdict
        if self._rate is not None and not self._rate.allows(verdict.principal or address):
            return Refused(429, "Too many requests.", "Wait a second, then go on.")
        return verdict

    async def _log_in(self, send: Send, proof: str) -> None:
        cookie = f"{self._policy.cookie_name}={proof}; Path=/; HttpOnly; SameSite=Strict"
        headers = [(b"location", b"/"), (b"set-cookie", cookie.encode())]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


class Revocable:
    """An output that ends when its token does: a stream lives longer than the request that opened it."""

    def __init__(self, send: Send, known: Callable[[], Awaitable[Token | None]]) -> None:
        self._send, self._known = send, known
        self.is_ended = False

    async def __call__(self, message: Message) -> None:
        if _is_part_of_stream(message) and await self._known() is None:
            self.is_ended = True
            await self._send(_end_of(message))
            raise OSError("the token is no longer valid")  # what servers raise when a client is gone
        await self._send(message)


def _is_part_of_stream(message: Message) -> bool:
    return message["type"] == "websocket.send" or bool(message.get("more_body"))


def _end_of(message: Message) -> Message:
    if message["type"] == "websocket.send":
        return {"type": "websocket.close", "code": POLICY_VIOLATION, "reason": "the token is no longer valid"}
    return {"type": "http.response.body", "body": b"", "more_body": False}


def _session_owner(admitted: Admitted) -> AuthenticatedUser:
    """Who opened an MCP session, in the form by which the SDK keeps all others out of it."""
    id = admitted.token_id or admitted.principal or ""
    return AuthenticatedUser(AccessToken(token="", client_id=id, scopes=[admitted.scope]))


async def refuse(scope: Scope, receive: Receive, send: Send, refused: Refused) -> None:
    """Say no: to a program with the error object, to a WebSocket before it is one."""
    body = json.dumps(
        {
            "code": _CODES.get(refused.status, Code.INVALID_INPUT).value,
            "message": refused.message,
            "recoverable": refused.status in {429, 503},
            "suggestion": refused.suggestion,
        }
    ).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refused.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="deepwork"'))
    if refused.needs is not None:
        asked = f'Bearer realm="deepwork", error="insufficient_scope", scope="{refused.needs}"'
        headers.append((b"www-authenticate", asked.encode()))
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


NOT_NOW = Refused(503, "Whether this token is valid cannot be looked up.", "Try again in a moment.")
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
