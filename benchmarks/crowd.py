"""Many HTTP clients at once, in one process.

One thread serves all connections with `select`, writes prepared bytes and parses only the answers that a client
needs. A request costs it about a third of what the fastest server spends, and it runs on another core. The same
clients measure the echo and deepwork.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Generator, Iterable
from typing import Any

from benchmarks.clients import HEADERS, INITIALIZE, parse_answer, parse_message

Calls = Generator[tuple[str, dict[str, Any]], "Answer", None]
"""A client: yields a tool and its arguments, and is sent the answer; an error is raised in it."""


class CallFailed(Exception):
    """The server answered a call with an error."""


class Answer:
    """The body of an answer, parsed only on demand."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def parse(self) -> Any:
        return parse_answer(parse_message(self._body))


class Connection:
    """One connection that is kept alive, and the session that it may have opened."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._number = 0
        self._received = self._answered = b""
        self.forget_session()

    def open_session(self) -> None:
        self.send_initialize()
        self._wait()
        self.keep_session()
        self.send_initialized()
        self._wait()

    def send_initialize(self) -> None:
        self.send_request("initialize", INITIALIZE)

    def keep_session(self) -> None:
        """Name the session of the last answer in all requests that follow."""
        session = _get_header(self._answered, b"mcp-session-id")
        self.has_session = bool(session)
        self._headers = self._build_headers({"Mcp-Session-Id": session.decode()} if session else {})

    def forget_session(self) -> None:
        self.has_session = False
        self._headers = self._build_headers({})

    def send_initialized(self) -> None:
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send_call(self, tool: str, arguments: dict[str, Any]) -> None:
        self.send_request("tools/call", {"name": tool, "arguments": arguments})

    def send_request(self, method: str, params: dict[str, Any]) -> None:
        self._number += 1
        self._post({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})

    def send_delete(self) -> None:
        self.socket.sendall(b"DELETE /mcp HTTP/1.1\r\n" + self._headers + b"\r\n")

    def receive(self) -> bytes | None:
        """Read what has arrived; return the body once it is complete."""
        got = self.socket.recv(262_144)
        assert got, "The server closed the connection."
        self._received += got
        self._answered, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator:
            return None
        if _get_header(self._answered, b"transfer-encoding") == b"chunked":
            if not body.endswith(b"0\r\n\r\n"):
                return None
            body = join_chunks(body)
        elif len(body) < int(_get_header(self._answered, b"content-length") or 0):
            return None
        self._received = b""
        assert self._answered.startswith((b"HTTP/1.1 200", b"HTTP/1.1 202")), self._answered
        return body

    def _wait(self) -> None:
        while self.receive() is None:
            pass

    def _build_headers(self, session: dict[str, str]) -> bytes:
        host, port = self.socket.getpeername()
        headers = {"Host": f"{host}:{port}"} | HEADERS | session
        return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()

    def _post(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        length = b"Content-Length: %d\r\n\r\n" % len(body)
        self.socket.sendall(b"POST /mcp HTTP/1.1\r\n" + self._headers + length + body)


class Crowd:
    """Connections to one server."""

    def __init__(self, port: int, size: int) -> None:
        self._connections = [Connection(port) for _ in range(size)]
        for connection in self._connections:
            connection.open_session()

    def run(self, clients: Iterable[Calls]) -> float:
        """Run the clients at once, each on its own connection; return the seconds it took."""
        waiting = selectors.DefaultSelector()
        began = time.perf_counter()
        for connection, calls in zip(self._connections, clients, strict=True):
            connection.send_call(*next(calls))
            waiting.register(connection.socket, selectors.EVENT_READ, (connection, calls))
        while waiting.get_map():
            for key, _ in waiting.select():
                connection, calls = key.data
                if (body := connection.receive()) is None:
                    continue
                try:
                    connection.send_call(*_give_answer(calls, body))
                except StopIteration:
                    waiting.unregister(connection.socket)
        waiting.close()
        return time.perf_counter() - began

    def close(self) -> None:
        for connection in self._connections:
            connection.socket.close()


def repeat_call(tool: str, arguments: dict[str, Any], count: int) -> Calls:
    """Make the same call again and again."""
    for _ in range(count):
        yield tool, arguments


def _give_answer(calls: Calls, body: bytes) -> tuple[str, dict[str, Any]]:
    """Give the answer to the client; return its next call."""
    if b'"isError":true' in body:
        return calls.throw(CallFailed(body))
    return calls.send(Answer(body))


def join_chunks(body: bytes) -> bytes:
    """Join the chunks of an answer without a length."""
    chunks = []
    while (size := int(body.partition(b"\r\n")[0], 16)) > 0:
        begin = body.index(b"\r\n") + 2
        chunks.append(body[begin : begin + size])
        body = body[begin + size + 2 :]
    return b"".join(chunks)


def _get_header(head: bytes, wanted: bytes) -> bytes:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == wanted:
            return value.strip()
    return b""
