"""The transports with a slow tool: progress, cancellation, and clients that do not read."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from deepwork.kernel.protocol.handler import MessageHandler
from deepwork.kernel.protocol.messages import JsonText, Peer
from deepwork.kernel.protocol.transports import stdio
from deepwork.kernel.protocol.transports.http import StreamableHttp
from deepwork.kernel.protocol.transports.sse import SseTransport
from deepwork.kernel.protocol.transports.stdio import (
    LONG_WORKERS,
    RequestReader,
    ResponseWriter,
    StdioSession,
    Workers,
)
from protocol.fake_service import PATIENCE_SECONDS, FakeService
from protocol.transcript import INITIALIZE, Step, call, notify, request, wrap


@pytest.fixture
def service() -> FakeService:
    return FakeService()


class HttpExchange:
    """One POST to `/mcp` in this process; its client may disconnect."""

    def __init__(self, app: StreamableHttp, step: Step, **headers: str) -> None:
        self._app, self._body = app, json.dumps(step.message).encode()
        self._headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
        } | {name.replace("_", "-"): value for name, value in headers.items()}
        self._is_read = False
        self.gone, self.has_part = asyncio.Event(), asyncio.Event()
        self.sent: list[Any] = []

    async def run(self) -> HttpExchange:
        pairs = [(name.encode(), value.encode()) for name, value in self._headers.items()]
        scope = {"method": "POST", "path": "/mcp", "headers": pairs}
        await self._app(scope, self._receive, self._send)
        return self

    async def _receive(self) -> Any:
        if not self._is_read:
            self._is_read = True
            return {"type": "http.request", "body": self._body}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)
        if message.get("body"):
            self.has_part.set()

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> bytes:
        return b"".join(each.get("body", b"") for each in self.sent)

    @property
    def events(self) -> list[Any]:
        """The messages of a stream."""
        lines = self.body.split(b"\r\n")
        return [json.loads(line.removeprefix(b"data: ")) for line in lines if line.startswith(b"data: ")]


STATELESS = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": "slow"}


async def open_session(app: StreamableHttp) -> str:
    opened = await HttpExchange(app, request("i", "initialize", INITIALIZE)).run()
    return opened.headers["mcp-session-id"]


@pytest.mark.parametrize("is_stateless", [False, True])
def test_over_http_progress_turns_the_answer_into_a_stream(service: FakeService, is_stateless: bool):
    async def look() -> None:
        app = StreamableHttp(MessageHandler(service), lambda _: None)
        step = call("mine", "slow", _meta={"progressToken": 5})
        exchange = (
            HttpExchange(app, wrap(step), **STATELESS)
            if is_stateless
            else HttpExchange(app, step, mcp_session_id=await open_session(app))
        )
        running = asyncio.create_task(exchange.run())
        await exchange.has_part.wait()
        service.may_end.set()
        await running

        progress, answer = exchange.events
        assert exchange.headers["content-type"] == "text/event-stream"
        assert progress["params"]["progressToken"] == 5
        assert (answer["id"], answer["result"]["content"][0]["text"]) == ("mine", "done")
        assert not exchange.sent[-1].get("more_body")

    anyio.run(look)


def test_over_http_a_client_that_wants_json_gets_no_progress(service: FakeService):
    async def look() -> None:
        app = StreamableHttp(MessageHandler(service), lambda _: None)
        service.may_end.set()
        step = wrap(call("mine", "slow", _meta={"progressToken": 5}))
        exchange = await HttpExchange(app, step, **STATELESS, accept="application/json").run()

        assert exchange.headers["content-type"] == "application/json"
        assert json.loads(exchange.body)["id"] == "mine"

    anyio.run(look)


def test_over_http_a_request_of_a_session_is_cancelled_by_a_notification(service: FakeService):
    async def look() -> None:
        app = StreamableHttp(MessageHandler(service), lambda _: None)
        session = await open_session(app)
        running = asyncio.create_task(HttpExchange(app, call("mine", "slow"), mcp_session_id=session).run())
        assert await asyncio.to_thread(service.is_running.wait, PATIENCE_SECONDS)
        cancel = notify("x", "notifications/cancelled", {"requestId": "mine"})
        await HttpExchange(app, cancel, mcp_session_id=session).run()

        answer = json.loads((await running).body)
        assert answer["error"] == {"code": -32800, "message": "Request cancelled"}

    anyio.run(look)


def test_a_stateless_request_is_cancelled_by_a_disconnect(service: FakeService):
    async def look() -> None:
        app = StreamableHttp(MessageHandler(service), lambda _: None)
        exchange = HttpExchange(app, wrap(call("mine", "slow")), **STATELESS)
        running = asyncio.create_task(exchange.run())
        assert await asyncio.to_thread(service.is_running.wait, PATIENCE_SECONDS)
        exchange.gone.set()
        await running

        assert await asyncio.to_thread(service.is_interrupted.wait, PATIENCE_SECONDS)

    anyio.run(look)


def test_a_session_of_another_owner_does_not_exist(service: FakeService):
    async def look() -> None:
        owners = iter(["ada", "eve", "ada"])
        app = StreamableHttp(MessageHandler(service), lambda _: next(owners))
        session = await open_session(app)
        ping = request("p", "ping")

        refused = await HttpExchange(app, ping, mcp_session_id=session).run()
        answered = await HttpExchange(app, ping, mcp_session_id=session).run()

        assert (refused.sent[0]["status"], answered.sent[0]["status"]) == (404, 200)

    anyio.run(look)


def test_a_client_may_send_everything_before_it_reads(service: FakeService):
    reading, writing = os.pipe()
    ping = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}'
    with os.fdopen(reading, "rb") as answers:
        session = StdioSession(MessageHandler(service), ResponseWriter(writing))
        for number in range(5000):  # more than a pipe holds
            session.receive(ping % number)
        received = {json.loads(answers.readline())["id"] for _ in range(5000)}

    os.close(writing)
    assert received == set(range(5000))


def refuse_flag(*_: Any) -> int:
    raise OSError(errno.EOPNOTSUPP, "not for this kind of descriptor")


@pytest.mark.parametrize("is_supported", [True, False])
def test_lines_larger_than_a_pipe_arrive_whole_and_in_their_order(
    monkeypatch: pytest.MonkeyPatch, is_supported: bool
):
    if not is_supported:
        monkeypatch.setattr(os, "pwritev", refuse_flag)
    reading, writing = os.pipe()
    responses = ResponseWriter(writing)
    lines = [str(number).encode() * size + b"\n" for number, size in enumerate([10, 3000, 200_000, 10, 9000])]

    with ThreadPoolExecutor(1) as writer, os.fdopen(reading, "rb") as answers:
        for line in lines:
            if (write_rest := responses.begin(line)) is not None:
                writer.submit(write_rest)
        received = [answers.readline() for _ in lines]

    os.close(writing)
    assert received == lines


def test_no_answer_is_begun_while_others_wait_for_the_client(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
):
    reading, writing = os.pipe()
    responses, waiting = ResponseWriter(writing), deque[Callable[[], None]]()
    session = StdioSession(MessageHandler(service), responses)
    writer = SimpleNamespace(submit=lambda *work: waiting.append(partial(*work)))
    monkeypatch.setattr(session, "_writer", writer)
    monkeypatch.setattr(service, "list_tools", lambda _: JsonText(f'["{"x" * 200_000}"]'))
    session.receive(json.dumps(request("i", "initialize", INITIALIZE).message).encode())

    with ThreadPoolExecutor(1) as thread, os.fdopen(reading, "rb") as answers:
        received = [json.loads(answers.readline())["id"]]
        for name in "ab":
            session.receive(json.dumps(request(name, "tools/list").message).encode())
        thread.submit(waiting.popleft())  # it was begun
        received.append(json.loads(answers.readline())["id"])
        thread.submit(int).result()
        session.receive(json.dumps(request("c", "tools/list").message).encode())
        is_begun = responses._writing.locked()
        if not is_begun:  # otherwise the next one would wait for it, and it for the next one
            while waiting:
                thread.submit(waiting.popleft())
                received.append(json.loads(answers.readline())["id"])

    os.close(writing)
    assert not is_begun
    assert received == ["i", "a", "b", "c"]


def test_a_write_that_fails_keeps_no_other_from_being_written():
    unwritable = os.open(os.devnull, os.O_RDONLY)
    responses = ResponseWriter(unwritable)

    for _ in range(2):
        with pytest.raises(OSError) as problem:  # noqa: PT011 - its number is compared below
            responses.begin(b"{}\n")
        assert problem.value.errno == errno.EBADF

    os.close(unwritable)


def can_write_part() -> bool:
    reading, writing = os.pipe()
    try:
        return os.pwritev(writing, (b"x",), -1, stdio._NO_WAIT or -1) == 1
    except OSError:
        return False
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.skipif(not can_write_part(), reason="this system cannot write to a pipe without waiting")
def test_a_line_that_the_pipe_can_take_is_written_by_the_reader():
    reading, writing = os.pipe()
    responses, line = ResponseWriter(writing), b"x" * 30_000 + b"\n"

    assert responses.begin(line) is None

    assert os.read(reading, 100_000) == line
    os.close(reading)
    assert responses.begin(line) is None  # the client is gone
    os.close(writing)


def test_lines_are_whole_however_they_arrive():
    reading, writing = os.pipe()
    stop, _ = os.pipe()
    with ThreadPoolExecutor(1) as client:

        def send() -> None:
            for piece in (b'{"a":', b"1}\n\n{", b"}\n", b"  \n[]\nrest"):
                os.write(writing, piece)
            os.close(writing)

        client.submit(send)
        assert list(RequestReader(reading, stop).read_lines()) == [b'{"a":1}', b"{}", b"[]"]


def test_a_stateless_stream_is_cancelled_by_a_disconnect(service: FakeService):
    async def look() -> None:
        app = StreamableHttp(MessageHandler(service), lambda _: None)
        step = wrap(call("mine", "slow", _meta={"progressToken": 5}))
        exchange = HttpExchange(app, step, **STATELESS)
        running = asyncio.create_task(exchange.run())
        await exchange.has_part.wait()
        exchange.gone.set()
        await running

        assert await asyncio.to_thread(service.is_interrupted.wait, PATIENCE_SECONDS)

    anyio.run(look)


def test_a_request_that_is_cancelled_before_it_starts_has_no_effect(service: FakeService):
    handler, peer = MessageHandler(service), Peer(is_stateless=False)
    peer.is_initialized = True
    request = handler.accept({**call("one", "slow").message, "id": 1}, peer)
    assert request is not None

    handler.accept(notify("x", "notifications/cancelled", {"requestId": True}).message, peer)
    was_cancelled_by_true = request.is_cancelled
    handler.accept(notify("x", "notifications/cancelled", {"requestId": 1}).message, peer)

    assert not was_cancelled_by_true
    assert handler.answer(request) is None
    assert not service.is_running.is_set()


def test_requests_with_the_same_id_are_all_cancelled(service: FakeService):
    handler, peer = MessageHandler(service), Peer(is_stateless=False)
    twins = [handler.accept(call("same", "slow").message, peer) for _ in range(2)]

    peer.cancel_all()

    assert [request is not None and request.is_cancelled for request in twins] == [True, True]


def test_long_calls_do_not_occupy_the_threads_of_short_ones(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
):
    handler = MessageHandler(service)
    monkeypatch.setattr(service, "is_long", lambda request: request.params["name"] == "slow")
    workers, may_end = Workers(handler), threading.Event()
    long_ones = [
        handler.accept(call(f"long {number}", "slow").message, Peer()) for number in range(LONG_WORKERS + 1)
    ]
    short = handler.accept(call("short", "quick").message, Peer())
    assert short is not None

    waiting = [workers.submit(each, lambda: may_end.wait(PATIENCE_SECONDS)) for each in long_ones if each]
    answered = workers.submit(short, lambda: "done").result(PATIENCE_SECONDS)
    may_end.set()
    workers.finish()

    assert answered == "done"
    assert all(each.result() for each in waiting)


def test_at_the_limit_the_least_used_session_makes_room(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("deepwork.kernel.protocol.transports.http.MAX_SESSIONS", 2)

    async def look() -> None:
        app = StreamableHttp(MessageHandler(service), lambda _: None)
        first, second, third = [await open_session(app) for _ in range(3)]
        ping = request("p", "ping")
        statuses = [
            (await HttpExchange(app, ping, mcp_session_id=each).run()).sent[0]["status"]
            for each in (first, second, third)
        ]

        assert statuses == [404, 200, 200]

    anyio.run(look)


def test_an_owner_with_too_many_sessions_loses_its_own_least_used_one_and_nobody_elses(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("deepwork.kernel.protocol.transports.http.MAX_SESSIONS_OF_OWNER", 2)

    async def look() -> None:
        owner = "other"
        app = StreamableHttp(MessageHandler(service), lambda _: owner)
        other = await open_session(app)
        owner = "greedy"
        sessions = [await open_session(app) for _ in range(9)]

        async def get_status(session: str) -> int:
            exchange = await HttpExchange(app, request("p", "ping"), mcp_session_id=session).run()
            status: int = exchange.sent[0]["status"]
            return status

        assert [await get_status(each) for each in sessions] == [404] * 7 + [200] * 2
        owner = "other"
        assert await get_status(other) == 200
        assert len(app._sessions) == sum(app._counts.values()) == 3

    anyio.run(look)


def test_an_owner_whose_sessions_are_all_in_use_gets_an_error(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("deepwork.kernel.protocol.transports.http.MAX_SESSIONS_OF_OWNER", 1)

    async def look() -> None:
        app = StreamableHttp(MessageHandler(service), lambda _: "busy")
        session = await open_session(app)
        working = asyncio.create_task(HttpExchange(app, call("c", "slow"), mcp_session_id=session).run())
        await anyio.to_thread.run_sync(service.is_running.wait, PATIENCE_SECONDS)

        refused = await HttpExchange(app, request("i", "initialize", INITIALIZE)).run()

        assert refused.sent[0]["status"] == 503
        assert b"DELETE" in refused.sent[1]["body"]
        await HttpExchange(
            app, notify("x", "notifications/cancelled", {"requestId": "c"}), mcp_session_id=session
        ).run()
        await working

    anyio.run(look)


def test_over_sse_an_owner_can_open_only_so_many_streams(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("deepwork.kernel.protocol.transports.sse.MAX_SESSIONS_OF_OWNER", 1)

    async def look() -> None:
        owner, statuses = "greedy", []
        app = SseTransport(MessageHandler(service), lambda _: owner)
        opened = anyio.Event()

        async def send(message: Any) -> None:
            statuses.append(message.get("status"))
            if message.get("body"):
                opened.set()

        async def open_stream() -> None:
            await app({"method": "GET", "path": "/sse", "headers": []}, wait_for_ever, send)

        async with anyio.create_task_group() as group:
            group.start_soon(open_stream)
            await opened.wait()
            await open_stream()
            owner, opened = "other", anyio.Event()
            group.start_soon(open_stream)
            await opened.wait()
            group.cancel_scope.cancel()

        assert [each for each in statuses if each] == [200, 503, 200]

    anyio.run(look)


async def wait_for_ever() -> Any:
    await anyio.sleep_forever()


def test_requests_of_a_client_that_reads_no_answers_are_cancelled(service: FakeService):
    reading, writing = os.pipe()
    session = StdioSession(MessageHandler(service), ResponseWriter(writing))
    session.receive(json.dumps(request("i", "initialize", INITIALIZE).message).encode())
    session.receive(json.dumps(call("mine", "slow").message).encode())
    assert service.is_running.wait(PATIENCE_SECONDS)

    stdio._cancel_when_client_leaves(writing, session)
    os.close(reading)

    assert service.is_interrupted.wait(PATIENCE_SECONDS)
    session.finish()
    os.close(writing)
