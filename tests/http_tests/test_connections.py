"""Connections that stay silent or send slowly: they keep nobody out."""

from __future__ import annotations

import asyncio
import http.client
import resource
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn

from deepwork.edge.server.http.connections import (
    MAX_SILENT,
    ConnectionLimits,
    build_exception_handler,
    build_websocket_protocol,
    limit_connections,
    raise_descriptor_limit,
)
from deepwork.edge.server.http.serving import choose_http_protocol
from http_tests.http_server import HttpServer

HEAD = b"POST / HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n"
HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
)
FOREIGN = "192.0.2.1"


async def answer_after_body(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def run_with_server(
    limits: ConnectionLimits, act: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
) -> None:
    """Run a uvicorn server with these limits, and `act` with a connection to it."""

    async def run() -> None:
        config = uvicorn.Config(
            answer_after_body,
            http=limit_connections(choose_http_protocol(), limits),
            lifespan="off",
            log_config=None,
        )
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        await act(reader, writer)
        writer.close()
        server.should_exit = True
        await running

    asyncio.run(run())


@pytest.mark.parametrize("sent", [b"", HEAD[:20], HEAD + b"part"], ids=["silence", "headers", "body"])
def test_a_connection_that_does_not_complete_its_request_is_closed(sent: bytes):
    async def wait_for_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        with suppress(ConnectionResetError):
            assert await reader.read() == b""

    run_with_server(ConnectionLimits(header_seconds=0.05, body_seconds=0.05), wait_for_end)


def test_bytes_that_trickle_in_give_a_slow_client_no_more_time():
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ended = asyncio.create_task(reader.read())
        while not ended.done():  # endless headers, if the server lets us
            writer.write(b"G")
            await asyncio.wait([ended], timeout=0.01)
        ended.exception()

    run_with_server(ConnectionLimits(header_seconds=0.05), trickle)


def test_a_connection_may_be_idle_between_two_requests():
    limits = ConnectionLimits()

    async def pause(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            writer.write(HEAD + b"0123456789")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 204")
            limits.header_seconds = limits.body_seconds = 0.01  # a timer that starts now would end the pause
            await asyncio.sleep(0.1)

    run_with_server(limits, pause)


async def send_over_websocket(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "websocket.accept"})
    while True:
        await send({"type": "websocket.send", "text": "x" * 1_000_000})


async def send_and_wait(scope: Any, receive: Any, send: Any) -> None:
    """Send more than a client takes that does not read, then nothing, so that no sending is ever delayed."""
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "text": "x" * 20_000_000})
    while (await receive())["type"] != "websocket.disconnect":
        pass


async def send_over_http(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(1000):  # uvicorn does not say that the client is gone
        await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})


@pytest.mark.parametrize(
    ("app", "request_sent"),
    [
        (send_over_websocket, HANDSHAKE),
        (send_and_wait, HANDSHAKE),
        (send_over_http, b"GET / HTTP/1.1\r\nHost: test\r\n\r\n"),
    ],
)
def test_a_connection_whose_client_does_not_read_is_closed(app: Any, request_sent: bytes):
    limits = ConnectionLimits(stall_seconds=0.05)

    async def run() -> None:
        config = uvicorn.Config(
            app,
            http=limit_connections(choose_http_protocol(), limits),
            ws=build_websocket_protocol(limits),
            ws_ping_interval=None,
            lifespan="off",
            log_config=None,
        )
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        _, writer = await asyncio.open_connection(*listener.getsockname(), limit=1)
        writer.write(request_sent)
        await wait_until(lambda: bool(server.server_state.tasks))
        await wait_until(lambda: not server.server_state.connections)
        server.should_exit = True
        await running
        writer.transport.abort()

    asyncio.run(run())


class Sending:
    """A connection with so many bytes that its client has not accepted."""

    def __init__(self) -> None:
        self.waiting, self.is_aborted = 0, False

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def abort(self) -> None:
        self.is_aborted = True


class ManualLoop:
    """An event loop whose time only `run_for` moves."""

    def __init__(self) -> None:
        self.now, self._calls = 0.0, list[tuple[float, Callable[[], object]]]()

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, act: Callable[..., object], *given: Any) -> Any:
        entry = (self.now + seconds, partial(act, *given))
        self._calls.append(entry)
        return SimpleNamespace(cancel=lambda: self._calls.remove(entry))

    def run_for(self, seconds: float) -> None:
        end = self.now + seconds
        while due := sorted((each for each in self._calls if each[0] <= end), key=lambda each: each[0]):
            self._calls.remove(due[0])
            self.now = due[0][0]
            due[0][1]()
        self.now = end


@pytest.fixture
def stalled() -> tuple[ManualLoop, Sending]:
    """A connection that has just begun to wait for its client."""
    loop, transport = ManualLoop(), Sending()
    kind: Any = build_websocket_protocol(ConnectionLimits(stall_seconds=10))
    protocol = kind.__new__(kind)
    protocol.transport, protocol.loop, protocol.writable = transport, loop, asyncio.Event()
    transport.waiting = 1000
    protocol.pause_writing()
    return loop, transport


def test_a_client_that_accepts_nothing_has_the_time_of_the_limit(stalled: tuple[ManualLoop, Sending]):
    loop, transport = stalled

    loop.run_for(9)
    was_aborted = transport.is_aborted
    transport.waiting += 6  # a ping is no progress
    loop.run_for(2)

    assert (was_aborted, transport.is_aborted) == (False, True)


def test_a_client_that_reads_slowly_stays_connected(stalled: tuple[ManualLoop, Sending]):
    loop, transport = stalled

    for _ in range(20):
        loop.run_for(9)
        transport.waiting -= 1

    assert not transport.is_aborted


async def wait_until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 - uvicorn has no event for this
        await asyncio.sleep(0.005)


class Transport:
    """A connection from this address, as the limits see it."""

    def __init__(self, address: str) -> None:
        self.address, self.is_aborted = address, False

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return self.address, 1

    def abort(self) -> None:
        self.is_aborted = True


def test_the_oldest_silent_connection_gives_way():
    limits = ConnectionLimits(max_silent=2)
    opened = [Transport("127.0.0.1") for _ in range(3)]

    for each in opened:
        limits.add_silent(each)  # type: ignore[arg-type]

    assert [each.is_aborted for each in opened] == [True, False, False]


def test_an_address_of_another_machine_gives_way_to_itself():
    limits = ConnectionLimits(max_per_address=1)
    opened = [Transport("127.0.0.1"), Transport("127.0.0.1"), Transport(FOREIGN), Transport(FOREIGN)]

    for each in opened:
        limits.add_silent(each)  # type: ignore[arg-type]

    assert [each.is_aborted for each in opened] == [False, False, True, False]


def test_connections_that_sent_their_headers_do_not_count():
    limits = ConnectionLimits(max_silent=1)
    first, second = Transport(FOREIGN), Transport(FOREIGN)

    limits.add_silent(first)  # type: ignore[arg-type]
    limits.remove_silent(first)  # type: ignore[arg-type]
    limits.add_silent(second)  # type: ignore[arg-type]

    assert not first.is_aborted
    assert not second.is_aborted


def test_a_failed_accept_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture):
    now = [0.0]
    handle = build_exception_handler(lambda: now[0])
    context = {"message": "socket.accept() out of system resource", "exception": OSError("no files left")}
    loop = asyncio.new_event_loop()

    for seconds in (0, 1, 59, 60):
        now[0] = seconds
        handle(loop, context)
    loop.close()

    assert len(caplog.records) == 2


def test_more_silent_connections_than_the_limit_leave_the_server_responsive(served: HttpServer):
    raise_descriptor_limit()
    wanted = 2 * MAX_SILENT + 76
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < wanted + 200:
        pytest.fail("This system allows too few open files for the test.")
    with ExitStack() as stack:
        for _ in range(wanted):
            stack.enter_context(socket.create_connection(("127.0.0.1", served.port)))
        for _ in range(3):
            client = http.client.HTTPConnection("127.0.0.1", served.port)
            client.request("GET", "/health")
            assert client.getresponse().status == 200
            client.close()
