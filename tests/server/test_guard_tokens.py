"""How the guard looks up named tokens, and what the results mean."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest

from deepwork.edge.server.http.guard import Guard, RateLimit
from deepwork.edge.server.http.metrics import TokenRedactionFilter
from deepwork.edge.server.http.policy import (
    COOKIE_SECONDS,
    AccessPolicy,
    Admitted,
    RequestInfo,
    authorize_request,
    find_token_id,
)
from deepwork.gates.access.models import Scope, Token, format_token, hash_secret
from deepwork.gates.access.token_cache import TokenCache
from deepwork.kernel.errors import StorageError

OWNER = "o" * 32
SECRET = "s" * 43
ID = "3k9x0q2m7b1z"
TEXT = format_token(ID, SECRET)
TOKEN = Token(ID, "ci", hash_secret(SECRET), Scope.READ, "local", 0, None, None, None)
NOW = 1_800_000_000
POLICY = AccessPolicy(
    hosts=frozenset({"127.0.0.1:8000"}), token=OWNER, mcp_needs_token=True, clock=lambda: NOW
)
HOST = {"host": "127.0.0.1:8000"}
BEARER = {"authorization": f"Bearer {TEXT}"}


class FakeTokenCache(TokenCache):
    """Knows one token, and records each lookup and its thread."""

    def __init__(self, answer: Token | StorageError | None) -> None:
        # No store: the result is given. No time passes, so cached results stay valid.
        super().__init__(None, clock=lambda: 0)  # type: ignore[arg-type]
        self._answer = answer
        self.lookups: list[str] = []
        self.checks: list[list[str]] = []
        self.is_revoked = self.fails = False
        self.threads: set[int] = set()

    def _load_valid(self, id: str) -> Token | None:
        self.lookups.append(id)
        self.threads.add(threading.get_ident())
        if isinstance(self._answer, StorageError):
            raise self._answer
        return self._answer if id == ID else None

    def find_valid_ids(self, ids: Sequence[str]) -> set[str]:
        self.checks.append(list(ids))
        if self.fails:
            raise StorageError("away")
        return {ID} & set(ids) if not self.is_revoked else set()

    def record_use(self, id: str) -> None:
        self.threads.add(threading.get_ident())


class FakeApp:
    """Records the caller and scope of each request that passes the guard."""

    def __init__(self) -> None:
        self.callers: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.callers.append((scope["deepwork.principal"], scope["deepwork.scope"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})


def send_requests(
    cache: FakeTokenCache, *requests: dict[str, str], path: str = "/api/v1/agents", method: str = "GET"
) -> Any:
    """Send requests; return the status and body of each, and the callers that passed."""
    app = FakeApp()
    guesses = RateLimit(1, 10, clock=lambda: 0)  # none is given back
    guard = Guard(app, POLICY, None, guesses, cache)
    answers: list[Any] = []

    async def all_of_them() -> None:
        for headers in requests:
            sent: list[Any] = []
            scope = {
                "type": "http", "method": method, "path": path, "query_string": b"", "client": ("127.0.0.1", 5),
                "headers": [(k.encode(), v.encode("latin-1")) for k, v in (HOST | headers).items()],
            }  # fmt: skip

            async def receive() -> Any:
                return {"type": "http.request"}

            async def send(message: Any, sent: list[Any] = sent) -> None:
                sent.append(message)

            await guard(scope, receive, send)
            answers.append((sent[0]["status"], sent[1]["body"]))

    anyio.run(all_of_them)
    return answers, app.callers


def test_a_request_with_a_named_token_gets_its_name_and_scope():
    answers, callers = send_requests(FakeTokenCache(TOKEN), BEARER)

    assert answers[0][0] == 200
    assert callers == [("ci", Scope.READ)]


def test_the_store_is_queried_in_another_thread_and_the_result_is_cached():
    cache = FakeTokenCache(TOKEN)

    send_requests(cache, *[BEARER] * 5)

    assert cache.lookups == [ID]
    assert threading.get_ident() not in cache.threads


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": f"Bearer {OWNER}"},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Bearer dw_%_{SECRET}"},
        {"authorization": f"Bearer dw_{ID[1:]}\0_{SECRET}"},
        {"authorization": f"Bearer dw_{ID[1:]}é_{SECRET}"},
        {"authorization": f"Basic {TEXT}"},
        {"cookie": f"deepwork={POLICY.build_cookie()}"},
        {"cookie": "deepwork=%.x; deepwork=..'"},
        BEARER | {"host": "evil.example"},
        BEARER | {"origin": "http://evil.example"},
        BEARER | {"sec-fetch-site": "cross-site"},
    ],
)
def test_the_store_is_not_queried_for_requests_without_a_named_token(headers: dict[str, str]):
    cache = FakeTokenCache(TOKEN)

    send_requests(cache, headers)

    assert cache.lookups == []


def test_an_unavailable_store_refuses_named_tokens_with_503():
    answers, callers = send_requests(
        FakeTokenCache(StorageError("away")), BEARER, {"authorization": f"Bearer {OWNER}"}
    )

    status, body = answers[0]
    assert (status, json.loads(body)["code"], json.loads(body)["recoverable"]) == (503, "STORAGE_ERROR", True)
    assert answers[1][0] == 200, "the owner needs no store"
    assert callers == [("owner", Scope.ADMIN)]


@pytest.mark.parametrize("text", [format_token(ID, "x" * 43), format_token("0" * 12, SECRET)])
def test_a_wrong_secret_or_id_counts_as_a_guess(text: str):
    answers, callers = send_requests(FakeTokenCache(TOKEN), *[{"authorization": f"Bearer {text}"}] * 12)

    assert [status for status, _ in answers] == [401] * 10 + [429] * 2
    assert callers == []


def decide(path: str = "/api/v1/agents", method: str = "GET", **given: Any) -> Any:
    headers = given.pop("headers", {})
    callers = RequestInfo(method, path, HOST | headers, **given)
    return authorize_request(callers, POLICY, TOKEN if find_token_id(callers, POLICY) == ID else None)


def test_the_link_logs_in_with_a_named_token_and_only_at_the_root():
    assert decide("/", query_token=TEXT) == Admitted("ci", logs_in=True, scope=Scope.READ, token_id=ID)
    assert decide("/api/v1/agents", query_token=TEXT).status == 401
    assert decide("/", "POST", query_token=TEXT).status == 401


def test_the_authorization_header_takes_precedence_over_the_query():
    assert decide("/", headers=BEARER, query_token=OWNER) == Admitted("ci", scope=Scope.READ, token_id=ID)


def test_a_cookie_authenticates_without_containing_the_secret_or_its_digest():
    cookie = POLICY.build_cookie(TOKEN)
    elsewhere = replace(POLICY, token="p" * 32)

    assert decide(headers={"cookie": f"deepwork={cookie}"}) == Admitted(
        "ci", scope=Scope.READ, token_id=ID, expires_at=NOW + COOKIE_SECONDS
    )
    assert SECRET not in cookie
    assert TOKEN.digest not in cookie
    assert elsewhere.build_cookie(TOKEN) != cookie, "who knows the digest does not know the cookie"


def test_a_read_token_cannot_write_over_rest_but_may_call_mcp():
    assert decide("/api/v1/agents", "POST", headers=BEARER).status == 403
    assert decide("/api/v1/agents", "DELETE", headers=BEARER).needs is Scope.WORK
    assert isinstance(decide("/mcp", "POST", headers=BEARER), Admitted)
    assert isinstance(decide("/ws", headers=BEARER, is_websocket=True), Admitted)


async def receive_nothing() -> Any:
    await anyio.sleep_forever()


class SilentStreams:
    """Opens a stream for each request, and sends nothing more on it."""

    def __init__(self) -> None:
        self.open = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
        else:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            if scope["path"] != "/mcp":  # where the first part is a ping, many seconds later
                await send({"type": "http.response.body", "body": b": hello", "more_body": True})
        self.open += 1
        try:
            await anyio.sleep_forever()
        finally:
            self.open -= 1


async def wait_until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - there is nobody to set an event
        await anyio.sleep(0.001)


def test_silent_streams_end_when_their_token_is_revoked_and_one_query_checks_all():
    cache, streams = FakeTokenCache(TOKEN), SilentStreams()
    guard = Guard(streams, POLICY, None, None, cache, check_seconds=0.001)
    sent: dict[int, list[Any]] = {}

    async def open_stream(number: int) -> None:
        path, kind = [("/ws", "websocket"), ("/api/v1/events", "http"), ("/mcp", "http")][number % 3]
        pairs = [(k.encode(), v.encode()) for k, v in (HOST | BEARER).items()]
        scope: Any = {"type": kind, "method": "GET", "path": path, "query_string": b"", "headers": pairs}

        async def send(message: Any) -> None:
            sent.setdefault(number, []).append(message)

        await guard(scope, receive_nothing, send)

    async def run() -> None:
        async with anyio.create_task_group() as group:
            for number in range(30):
                group.start_soon(open_stream, number)
            await wait_until(lambda: streams.open == 30 and len(cache.checks) > 2)
            assert set(map(tuple, cache.checks)) == {(ID,)}, "streams of one token cost one lookup"
            cache.is_revoked = True
            with anyio.fail_after(20):
                await wait_until(lambda: streams.open == 0)
        await anyio.sleep(0.05)
        assert [] not in cache.checks, "without streams nothing is checked"

    anyio.run(run)

    ends = [sent[number][-1] for number in range(3)]
    assert (ends[0]["type"], ends[0]["code"]) == ("websocket.close", 1008)
    assert [end["more_body"] for end in ends[1:]] == [False, False]


def test_a_stream_ends_when_the_cookie_of_its_browser_expires():
    streams, sent = SilentStreams(), []
    policy = replace(POLICY, clock=lambda: NOW + COOKIE_SECONDS - 0.001)
    guard = Guard(streams, policy, None)
    headers = HOST | {"cookie": f"deepwork={POLICY.build_cookie()}", "origin": "http://127.0.0.1:8000"}
    pairs = [(k.encode(), v.encode()) for k, v in headers.items()]
    scope: Any = {"type": "websocket", "path": "/ws", "query_string": b"", "headers": pairs}

    async def send(message: Any) -> None:
        sent.append(message["type"])

    anyio.run(guard, scope, receive_nothing, send)

    assert sent == ["websocket.accept", "websocket.close"]


def test_a_code_signs_in_as_the_owner_even_if_the_browser_had_a_token():
    sent: list[Any] = []
    guard = Guard(FakeApp(), POLICY, None, None, FakeTokenCache(TOKEN))
    headers = [(b"host", b"127.0.0.1:8000"), (b"cookie", f"deepwork={POLICY.build_cookie(TOKEN)}".encode())]
    query = f"code={POLICY.codes.create()}".encode()
    scope: Any = {"type": "http", "method": "GET", "path": "/", "query_string": query, "headers": headers}

    async def send(message: Any) -> None:
        sent.append(message)

    for _ in range(2):
        anyio.run(guard, scope, receive_nothing, send)

    assert [message.get("status") for message in sent] == [303, None, 401, None]
    cookie = dict(sent[0]["headers"])[b"set-cookie"].decode()
    assert cookie.startswith(f"deepwork={POLICY.build_cookie()}; ")
    assert f"Max-Age={COOKIE_SECONDS};" in cookie


def test_streams_stay_open_while_the_store_cannot_be_asked():
    cache, streams = FakeTokenCache(TOKEN), SilentStreams()
    guard = Guard(streams, POLICY, None, None, cache, check_seconds=0.001)
    pairs = [(k.encode(), v.encode()) for k, v in (HOST | BEARER).items()]
    scope: Any = {"type": "websocket", "path": "/ws", "query_string": b"", "headers": pairs}

    async def send(message: Any) -> None:
        pass

    async def run() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(guard, scope, receive_nothing, send)
            await wait_until(lambda: len(cache.checks) > 0)
            cache.fails = True
            before = len(cache.checks)
            await wait_until(lambda: len(cache.checks) > before + 2)
            assert streams.open == 1
            cache.fails, cache.is_revoked = False, True

    anyio.run(run)

    assert streams.open == 0


def test_tokens_are_redacted_in_every_log_line():
    hide = TokenRedactionFilter(OWNER)
    line = logging.LogRecord("x", logging.INFO, "f", 1, "%s and %r", (f"?token={TEXT}", {"a": OWNER}), None)
    other = logging.LogRecord("x", logging.INFO, "f", 1, "%s calls", ("ci",), None)

    assert hide.filter(line)
    assert hide.filter(other)
    assert line.getMessage() == "?token=dw_… and {'a': 'dw_…'}"
    assert other.getMessage() == "ci calls"
