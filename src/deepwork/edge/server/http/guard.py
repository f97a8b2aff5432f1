"""Checks every request before any route sees it."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar
from urllib.parse import parse_qs

import anyio
import anyio.to_thread
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deepwork.edge.server.http.policy import (
    COOKIE_SECONDS,
    AccessPolicy,
    Admitted,
    RefusedRequest,
    RequestInfo,
    authorize_request,
    find_token_id,
    is_code_login,
)
from deepwork.edge.server.http.revocation import CHECK_SECONDS, RevocableSend, RevocationWatch
from deepwork.gates.access.models import Token
from deepwork.gates.access.token_cache import TokenCache
from deepwork.kernel.errors import Code, StorageError
from deepwork.kernel.records import dataclass

MAX_BODY = 4 * 1024 * 1024
MAX_HEADERS = 16 * 1024
MAX_CONNECTIONS = 512
MAX_BUCKETS = 10_000
GUESSES_PER_MINUTE = 10


@dataclass
class _Bucket:
    tokens: float
    filled_at: float


class RateLimit:
    """A token bucket per caller: a number of requests per second, with a burst."""

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_second, burst, clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def try_acquire(self, name: str) -> bool:
        """Take one token; return False if none is left."""
        bucket = self._refill_bucket(name)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _refill_bucket(self, name: str) -> _Bucket:
        now = self._clock()
        bucket = self._buckets.pop(name, None) or _Bucket(self._burst, now)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.filled_at) * self._per_second)
        bucket.filled_at = now
        self._buckets[name] = bucket
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return bucket


def create_guess_limit() -> RateLimit:
    """Create the limit for wrong tokens from one address."""
    return RateLimit(GUESSES_PER_MINUTE / 60, GUESSES_PER_MINUTE)


_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
HEADERS = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_HEADER_PAIRS = {name.lower().encode(): value.encode() for name, value in HEADERS.items()}

_CODE_BY_STATUS = {
    401: Code.UNAUTHORIZED,
    403: Code.UNAUTHORIZED,
    413: Code.TOO_LARGE,
    431: Code.TOO_LARGE,
    503: Code.STORAGE_ERROR,
}
LOOKUPS_AT_ONCE = 4

Given = TypeVar("Given")
Answer = TypeVar("Answer")


class Guard:
    """Authorises every request, then passes it on with the caller's name and scope."""

    def __init__(
        self,
        app: ASGIApp,
        policy: AccessPolicy,
        rate: RateLimit | None,
        guesses: RateLimit | None = None,
        tokens: TokenCache | None = None,
        check_seconds: float = CHECK_SECONDS,
    ) -> None:
        """Without `tokens` only the owner's token is valid. Tokens of open streams are checked this often."""
        self._app, self._policy, self._rate = app, policy, rate
        self._guesses = guesses or create_guess_limit()
        self._tokens = tokens
        self._lookups: anyio.CapacityLimiter | None = None
        self._streams = RevocationWatch(self._find_valid_ids, check_seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        send = _add_security_headers(send)
        request = _read_request(scope)
        try:
            token = await self._find_token(find_token_id(request, self._policy))
        except StorageError:
            await send_refusal(scope, receive, send, LOOKUP_FAILED)
            return
        decision = self._decide(scope, request, token)
        if isinstance(decision, RefusedRequest):
            await send_refusal(scope, receive, send, decision)
        elif decision.logs_in:
            # Not the token of an earlier cookie, if the browser signs in with a code.
            await self._log_in(send, self._policy.build_cookie(token if decision.token_id else None))
        else:
            await self._admit(scope, _limit_body(receive, scope), send, decision)

    async def _admit(self, scope: Scope, receive: Receive, send: Send, admitted: Admitted) -> None:
        scope["deepwork.principal"], scope["deepwork.scope"] = admitted.principal, admitted.scope
        scope["deepwork.is_person"] = admitted.is_person
        # An MCP session belongs to the token that opened it.
        scope["deepwork.owner"] = admitted.token_id or admitted.principal
        if admitted.token_id is not None:
            await self._record_use(admitted.token_id)
        elif admitted.expires_at is None:
            await self._app(scope, receive, send)
            return
        await self._run_revocable(scope, receive, send, admitted)

    async def _run_revocable(self, scope: Scope, receive: Receive, send: Send, admitted: Admitted) -> None:
        """Run a request; if it becomes a stream, end it with the token, or when its cookie expires."""
        token_id, expires_at = admitted.token_id, admitted.expires_at
        with anyio.CancelScope() as running:

            def handle_stream() -> None:
                if token_id is not None:
                    self._streams.add(token_id, running)
                if expires_at is not None:
                    running.deadline = anyio.current_time() + expires_at - self._policy.clock()

            stream = RevocableSend(send, lambda: self._is_valid(token_id), handle_stream)
            try:
                await self._app(scope, receive, stream)
            except (ClientDisconnect, OSError):
                if not stream.is_ended:
                    raise
            finally:
                self._streams.remove(token_id, running)
        if running.cancelled_caught:
            await stream.end()

    async def _find_token(self, id: str | None) -> Token | None:
        """Find the valid token with this id; cached, or read from the store in one of few threads."""
        if id is None or self._tokens is None:
            return None
        if self._tokens.is_cached(id):
            return self._tokens.find_valid(id)
        return await self._run_in_thread(self._tokens.find_valid, id)

    async def _is_valid(self, token_id: str | None) -> bool:
        return token_id is None or await self._find_token(token_id) is not None

    async def _find_valid_ids(self, ids: Sequence[str]) -> set[str]:
        return await self._run_in_thread(self._tokens.find_valid_ids, ids) if self._tokens else set()

    async def _record_use(self, id: str) -> None:
        if self._tokens is not None and self._tokens.should_record_use(id):
            await self._run_in_thread(self._tokens.record_use, id)

    async def _run_in_thread(self, act: Callable[[Given], Answer], given: Given) -> Answer:
        # A separate limiter: token guessing must not use up the threads that tools run in.
        self._lookups = self._lookups or anyio.CapacityLimiter(LOOKUPS_AT_ONCE)
        return await anyio.to_thread.run_sync(act, given, limiter=self._lookups)

    def _decide(self, scope: Scope, request: RequestInfo, token: Token | None) -> Admitted | RefusedRequest:
        address = (scope.get("client") or ("unknown",))[0]
        if refused := _check_format(scope, request):
            return refused
        has_valid_code = is_code_login(request) and self._policy.codes.redeem(request.login_code or "")
        decision = authorize_request(request, self._policy, token, has_valid_code=has_valid_code)
        if isinstance(decision, RefusedRequest):
            # Count only wrong tokens, so that valid callers behind the same address are not locked out.
            if decision.is_guess and not self._guesses.try_acquire(address):
                return RefusedRequest(429, "Too many wrong tokens.", "Wait a minute.")
            return decision
        if self._rate is not None and not self._rate.try_acquire(decision.principal or address):
            return RefusedRequest(429, "Too many requests.", "Wait a second, then try again.")
        return decision

    async def _log_in(self, send: Send, proof: str) -> None:
        name = self._policy.cookie_name
        cookie = f"{name}={proof}; Max-Age={COOKIE_SECONDS}; Path=/; HttpOnly; SameSite=Strict"
        headers = [(b"location", b"/"), (b"set-cookie", cookie.encode())]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


async def send_refusal(scope: Scope, receive: Receive, send: Send, refused: RefusedRequest) -> None:
    """Send a refusal as a JSON error; a WebSocket is refused before the handshake completes."""
    body = json.dumps(
        {
            "code": _CODE_BY_STATUS.get(refused.status, Code.INVALID_INPUT).value,
            "message": refused.message,
            "recoverable": refused.status in {429, 503},
            "suggestion": refused.suggestion,
        }
    ).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refused.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="deepwork"'))
    if refused in _CLOSING:
        headers.append((b"connection", b"close"))
    if refused.needs is not None:
        challenge = f'Bearer realm="deepwork", error="insufficient_scope", scope="{refused.needs}"'
        headers.append((b"www-authenticate", challenge.encode()))
    kind = "http"
    if scope["type"] == "websocket":
        await receive()  # the handshake, answered by a plain response
        kind = "websocket.http"
    await send({"type": f"{kind}.response.start", "status": refused.status, "headers": headers})
    await send({"type": f"{kind}.response.body", "body": body})


def _read_request(scope: Scope) -> RequestInfo:
    query = scope.get("query_string")
    given = parse_qs(query.decode("latin-1")) if query else {}
    return RequestInfo(
        method=scope.get("method", "GET"),
        path=scope["path"],
        headers=_read_headers(scope["headers"]),
        query_token=given.get("token", [None])[0],
        is_websocket=scope["type"] == "websocket",
        login_code=given.get("code", [None])[0],
    )


def _read_headers(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Read the headers, whose names ASGI has in lower case; of a repeated header the first counts."""
    headers: dict[str, str] = {}
    for name, value in pairs:
        headers.setdefault(name.decode("latin-1"), value.decode("latin-1"))
    return headers


def _check_format(scope: Scope, request: RequestInfo) -> RefusedRequest | None:
    """Refuse requests that are too large, or whose end is ambiguous to the servers that pass them on."""
    target = len(scope["path"]) + len(scope.get("query_string", b""))
    if target + sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > MAX_HEADERS:
        return HEADERS_TOO_LONG
    if "transfer-encoding" in request.headers and "content-length" in request.headers:
        return AMBIGUOUS_LENGTH
    if request.headers.get("transfer-encoding", "chunked").lower() != "chunked":
        return UNKNOWN_CODING
    if sum(name == b"host" for name, _ in scope["headers"]) > 1:
        return AMBIGUOUS_HOST
    return TOO_LARGE if _get_declared_size(request) > MAX_BODY else None


def _get_declared_size(request: RequestInfo) -> int:
    declared = request.headers.get("content-length", "0")
    return int(declared) if declared.isdecimal() else 0


LOOKUP_FAILED = RefusedRequest(
    503, "Cannot check this token: the store is unavailable.", "Try again in a moment."
)
TOO_LARGE = RefusedRequest(413, f"The request is larger than {MAX_BODY} bytes.", "Send less.")
HEADERS_TOO_LONG = RefusedRequest(
    431, f"The headers are larger than {MAX_HEADERS} bytes.", "Send fewer or shorter headers."
)
AMBIGUOUS_LENGTH = RefusedRequest(
    400, "The request has both Content-Length and Transfer-Encoding.", "Send only one of them."
)

UNKNOWN_CODING = RefusedRequest(400, "Of the transfer codings only `chunked` is supported.", "Send no other.")
AMBIGUOUS_HOST = RefusedRequest(400, "The request has several Host headers.", "Send one.")
_CLOSING = frozenset({HEADERS_TOO_LONG, AMBIGUOUS_LENGTH, UNKNOWN_CODING, AMBIGUOUS_HOST})
"""After these it is not certain where the next request begins, or for whom it is."""


def _limit_body(receive: Receive, scope: Scope) -> Receive:
    """Wrap `receive` to disconnect when a body without a declared size exceeds the limit."""
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


def _add_security_headers(send: Send) -> Send:
    """Wrap `send` to add the security headers to every response."""

    async def guarded(message: Message) -> None:
        if message["type"] in {"http.response.start", "websocket.http.response.start"}:
            headers = message.get("headers", ())
            # A response may have its own value, for example of Cache-Control.
            given = {name.lower() for name, _ in headers}
            more = [pair for pair in _HEADER_PAIRS.items() if pair[0] not in given]
            message = {**message, "headers": [*headers, *more]}
        await send(message)

    return guarded
