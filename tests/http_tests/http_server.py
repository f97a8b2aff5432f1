"""A real HTTP server on a free port, and minimal clients."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import quick

TOKEN = "a-token-of-the-tests-and-nothing-else"


PATIENCE_SECONDS = 100
"""Long, because the machine may be busy; only a failing test waits this long."""

_HELD: list[socket.socket] = []


def reserve_port() -> int:
    """Reserve a port for a server that is about to start, for the lifetime of this process.

    We bind the port without listening. Linux lets the server listen on it because both sockets set
    SO_REUSEADDR, but assigns it to no other process that asks for a free port and to no outgoing connection.
    """
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    port: int = holder.getsockname()[1]
    if sys.platform == "linux":
        _HELD.append(holder)
    else:
        holder.close()
    return port


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class HttpServer:
    """`deepwork serve` on the network."""

    def __init__(
        self,
        project: Path,
        *flags: str,
        transport: str = "http",
        token: str = "",
        command: Sequence[str] | None = None,
    ) -> None:
        self.project, self.port = project, reserve_port()
        environment = {**os.environ, "DEEPWORK_TOKEN": token}
        self._log = (project / f"server-{self.port}.log").open("wb")
        self.process = subprocess.Popen(
            [
                *(command or quick.build_command()), "serve", "--path", str(project),
                "--transport", transport, "--port", str(self.port), "--rate-limit", "0", *flags,
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._log, env=environment,
        )  # fmt: skip
        self._token = token

    def __enter__(self) -> Self:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                if self.get("/health").status == 200:
                    return self
            except OSError:  # not listening yet
                pass
            time.sleep(0.05)
        self.stop()
        raise AssertionError(f"the server did not start: {self.read_log()}")

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    @property
    def token(self) -> str:
        return self._token or (self.project / ".deepwork" / "token").read_text().strip()

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def get(self, path: str, **headers: str) -> Reply:
        return self.request("GET", path, headers)

    def get_json(self, path: str) -> Any:
        """GET a path with the token and parse the JSON."""
        return self.request("GET", path, self.bearer).json

    def request(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def stop(self) -> int:
        self.process.terminate()
        code = self.process.wait(timeout=PATIENCE_SECONDS)
        self._log.close()
        return code

    def read_log(self) -> str:
        return (self.project / f"server-{self.port}.log").read_text()

    def measure_memory(self) -> int:
        """Return the server's resident memory in bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")


class McpSession:
    """A hand-written MCP session over one HTTP connection, with request ids chosen by the test."""

    def __init__(self, served: HttpServer) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_SECONDS)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        params = {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"},
        }  # fmt: skip
        answer = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        assert answer.status == 200, answer
        self._headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, id: int, tool: str, arguments: dict[str, Any], **headers: str) -> Any:
        params = {"name": tool, "arguments": arguments}
        answer = self.post(
            {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}, **headers
        ).json
        assert answer["id"] == id
        return json.loads(answer["result"]["content"][0]["text"])

    def post(self, message: dict[str, Any] | bytes, **headers: str) -> Reply:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self._connection.request("POST", "/mcp", body=body, headers=self._headers | headers)
        answer = self._connection.getresponse()
        return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())

    def __del__(self) -> None:
        self._connection.close()

    def close(self) -> int:
        self._connection.request("DELETE", "/mcp", headers=self._headers)
        answer = self._connection.getresponse()
        answer.read()
        self._connection.close()
        return answer.status
