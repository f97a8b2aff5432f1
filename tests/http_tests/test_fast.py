"""The HTTP server with and without the packages of the extra `fast`."""

from __future__ import annotations

import socket

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from deepwork.server.http import fast
from deepwork.server.http.limits import MAX_HEADERS
from http_tests.http_server import PATIENCE_SECONDS, HttpServer

HEALTH, POST = (b"%s HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n" % each for each in (b"GET /health", b"POST /mcp"))


def send_bytes(server: HttpServer, *parts: bytes) -> bytes:
    """Send the parts until the server answers or closes; return what it answered."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as raw:
        try:
            for part in parts:
                raw.sendall(part.replace(b"PORT", str(server.port).encode()))
            return raw.recv(65536)
        except ConnectionError:
            return b""


def test_without_the_extra_the_server_uses_h11_and_asyncio(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fast, "find_spec", lambda name: None)

    assert fast.choose_http_protocol() is H11Protocol
    assert fast.get_loop_options() == {"use_uvloop": False}


def test_with_the_extra_it_uses_httptools_and_uvloop():
    pytest.importorskip("httptools")
    pytest.importorskip("uvloop")

    assert fast.get_loop_options() == {"use_uvloop": True}
    assert fast.choose_http_protocol().__mro__[1] is HttpToolsProtocol


def test_headers_of_usual_length_are_accepted(served: HttpServer):
    assert send_bytes(served, HEALTH + b"X-Long: " + b"x" * 8000 + b"\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_spaces_around_the_value_of_a_header_do_not_belong_to_it(served: HttpServer):
    asked = b"GET /health HTTP/1.1\r\nHost: \t 127.0.0.1:PORT \t \r\n\r\n"

    assert send_bytes(served, asked).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "parts",
    [
        [HEALTH + b"X-Long: " + b"x" * MAX_HEADERS + b"\r\n\r\n"],
        [HEALTH + b"".join(b"X-%d: x\r\n" % n for n in range(MAX_HEADERS // 6)) + b"\r\n"],
        [HEALTH + b"X-Endless: ", *[b"x" * 1024] * 512],
        [POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-Endless: ", *[b"x" * 1024] * 512],
    ],
    ids=["one long header", "many headers", "a header without end", "a trailer without end"],
)
def test_headers_that_are_too_long_are_refused(served: HttpServer, parts: list[bytes]):
    answer = send_bytes(served, *parts)

    assert answer.startswith(b"HTTP/1.1 400") or not answer  # it may close before we have sent everything
    assert served.request("GET", "/health").status == 200
