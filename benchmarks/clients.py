"""Minimal clients, so that their own cost is a small part of what is measured."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

from benchmarks.timing import read_memory_mb

ECHO = Path(__file__).parent / "echo"
RAW, BARE, COMMIT = (str(ECHO / f"{name}.py") for name in ("raw", "bare", "commit"))
PYTHON = (sys.executable, "-P")
SERVE = ("-m", "deepwork", "serve", "--path")
HELLO = ("echo", {"text": "hello"})
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}
HEADERS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


class Caller(Protocol):
    def call(self, tool: str, arguments: dict[str, Any]) -> Any: ...


class StdioClient:
    """A client of its own server process over pipes."""

    def __init__(
        self,
        *command: str,
        program: Sequence[str] = PYTHON,
        folder: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [*program, *command],
            cwd=folder,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._number = 0
        self._request("initialize", INITIALIZE)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return parse_answer(self._request("tools/call", {"name": tool, "arguments": arguments}))

    def send(self, tool: str, arguments: dict[str, Any]) -> None:
        """Send a call without waiting for its answer."""
        self._number += 1
        asked = {"name": tool, "arguments": arguments}
        self._write({"jsonrpc": "2.0", "id": self._number, "method": "tools/call", "params": asked})

    def receive(self) -> Any:
        """Wait for the next answer, which may belong to any call that was sent."""
        assert self.process.stdout is not None
        return parse_answer(json.loads(self.process.stdout.readline()))

    def get_memory_mb(self) -> float:
        return read_memory_mb(self.process.pid)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=20)

    def _request(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()


class HttpServer:
    """A server process on a port of this machine."""

    def __init__(self, *command: str, program: Sequence[str] = PYTHON, folder: Path | None = None) -> None:
        self.port = find_free_port()
        words = [word.replace("{port}", str(self.port)) for word in (*program, *command)]
        self.process = subprocess.Popen(
            words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=20)


@contextmanager
def open_http_servers(folder: Path) -> Iterator[tuple[HttpServer, HttpServer]]:
    """Run the bare echo and deepwork over HTTP."""
    bare = HttpServer(BARE, "{port}")
    ours = HttpServer(*SERVE, str(folder), "--transport", "http", "--port", "{port}", "--rate-limit", "0")
    try:
        yield bare, ours
    finally:
        bare.close()
        ours.close()


class HttpClient:
    """One session over one connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = dict(HEADERS)
        self._number = 0
        self._request("initialize", INITIALIZE)
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return parse_answer(self._request("tools/call", {"name": tool, "arguments": arguments}))

    def close(self) -> None:
        self._connection.close()

    def _request(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        return parse_message(
            self._post({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        )

    def _post(self, message: dict[str, Any]) -> bytes:
        self._connection.request("POST", "/mcp", body=json.dumps(message).encode(), headers=self._headers)
        answer = self._connection.getresponse()
        if session := answer.getheader("mcp-session-id"):
            self._headers["Mcp-Session-Id"] = session
        return answer.read()


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def parse_message(body: bytes) -> Any:
    """Parse the body of an HTTP answer: the message itself, or a stream of events with that message."""
    if body.startswith(b"{"):
        return json.loads(body)
    return json.loads(body.partition(b"data: ")[2].partition(b"\n")[0])


def parse_answer(answer: Any) -> Any:
    result = answer["result"]
    if result.get("isError"):
        raise RuntimeError(result["content"][0]["text"])
    text = result["content"][0]["text"]
    try:
        return json.loads(text)
    except ValueError:
        return text  # a tool that answers with plain text
