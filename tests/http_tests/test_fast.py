"""The HTTP server with and without the packages of the extra `fast`: both read requests in the same way."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from application import skip_or_fail
from deepwork.edge.server.http import serving
from deepwork.edge.server.http.guard import MAX_HEADERS, Guard
from deepwork.edge.server.http.policy import AccessPolicy
from http_tests.http_server import HttpServer

HEALTH, POST = (b"%s HTTP/1.1\r\nHost: here\r\n" % each for each in (b"GET /health", b"POST /health"))


@pytest.fixture(params=["h11", "httptools"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[asyncio.Protocol]:
    """How the server parses requests: without the extra, and with it."""
    if request.param == "h11":
        monkeypatch.setattr(serving, "find_spec", lambda name: None)
    elif find_spec("httptools") is None:
        skip_or_fail("httptools is not installed")
    return serving.choose_http_protocol()


def send_bytes(protocol: type[asyncio.Protocol], *parts: bytes) -> bytes:
    """Send the parts to a server until it closes the connection; return what it answered."""
    policy = AccessPolicy(hosts=frozenset({"here"}), token="t" * 32, mcp_needs_token=True)

    async def run() -> bytes:
        config = uvicorn.Config(
            Guard(answer_after_body, policy, None),
            http=protocol,
            lifespan="off",
            log_config=None,
            h11_max_incomplete_event_size=MAX_HEADERS,
            timeout_keep_alive=0,
        )
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        answered = b""
        with suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await writer.drain()
            answered = await reader.read()
        writer.close()
        server.should_exit = True
        await running
        return answered

    return asyncio.run(run())


async def answer_after_body(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def test_without_the_extra_the_server_uses_h11_and_asyncio(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(serving, "find_spec", lambda name: None)

    assert serving.choose_http_protocol().__mro__[1] is H11Protocol
    assert serving.get_loop_options() == {"use_uvloop": False}


def test_with_the_extra_it_uses_httptools_and_uvloop():
    pytest.importorskip("httptools")
    pytest.importorskip("uvloop")

    assert serving.get_loop_options() == {"use_uvloop": True}
    assert serving.choose_http_protocol().__mro__[1] is HttpToolsProtocol


def test_headers_of_usual_length_are_accepted(protocol: type[asyncio.Protocol]):
    answer = send_bytes(protocol, HEALTH + b"X-Long: " + b"x" * 8000 + b"\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 200")


def test_spaces_around_the_value_of_a_header_do_not_belong_to_it(protocol: type[asyncio.Protocol]):
    asked = b"GET /health HTTP/1.1\r\nHost: \t here \t \r\n\r\n"

    assert send_bytes(protocol, asked).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "parts",
    [
        [HEALTH + b"X-Long: " + b"x" * MAX_HEADERS + b"\r\n\r\n"],
        [HEALTH + b"".join(b"X-%d: x\r\n" % n for n in range(MAX_HEADERS // 6)) + b"\r\n"],
        [b"GET /health?" + b"x" * MAX_HEADERS + b" HTTP/1.1\r\nHost: here\r\n\r\n"],
        [HEALTH + b"X-Endless: ", *[b"x" * 1024] * 512],
        [POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Endless: ", *[b"x" * 1024] * 512],
    ],
    ids=[
        "one long header",
        "many headers",
        "a long address",
        "a header without end",
        "a trailer without end",
    ],
)
def test_headers_that_are_too_long_are_refused(protocol: type[asyncio.Protocol], parts: list[bytes]):
    answer = send_bytes(protocol, *parts)

    assert answer.startswith(b"HTTP/1.1 431") or not answer  # it may close before we have sent everything
    assert answer or len(parts) > 1


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
        b"transfer-encoding: chunked\r\ncontent-length: 2\r\ncontent-length: 2\r\n",
    ],
)
def test_a_request_with_two_lengths_is_refused_and_the_connection_closed(
    protocol: type[asyncio.Protocol], lengths: bytes
):
    answer = send_bytes(protocol, POST + lengths + b"\r\n2\r\n{}\r\n0\r\n\r\n" + HEALTH + b"\r\n")

    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1, "nothing after it is read as another request"


@pytest.mark.parametrize(
    "header", [b"Transfer-Encoding: gzip, chunked\r\n", b"Transfer-Encoding: chunked\r\nHost: elsewhere\r\n"]
)
def test_a_request_that_servers_read_differently_is_refused_and_the_connection_closed(
    protocol: type[asyncio.Protocol], header: bytes
):
    answer = send_bytes(protocol, POST + header + b"\r\n2\r\n{}\r\n0\r\n\r\n" + HEALTH + b"\r\n")

    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1, "nothing after it is read as another request"


def test_a_server_refuses_long_headers_and_stays_available(served: HttpServer):
    assert served.get("/health", X_Long="x" * MAX_HEADERS).json["code"] == "TOO_LARGE"
    assert served.get("/health").status == 200
