"""Minimal clients, so that their own cost is a small part of what is measured."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "bench", "version": "1"},
}


class Caller(Protocol):
    def call(self, tool: str, arguments: dict[str, Any]) -> Any: ...
    def close(self) -> None: ...


class StdioClient:
    """A client of its own server process over pipes."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._number = 0
        self._request("initialize", INITIALIZE)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return _parse_content(self._request("tools/call", {"name": tool, "arguments": arguments}))

    def get_memory_mb(self) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        return 0.0

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

    def __init__(self, *command: str) -> None:
        self.port = find_free_port()
        words = [word.replace("{port}", str(self.port)) for word in command]
        self._process = subprocess.Popen(
            [sys.executable, "-P", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
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
        self._process.terminate()
        self._process.wait(timeout=20)


class HttpClient:
    """One session over one connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self._number = 0
        self._request("initialize", INITIALIZE)
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return _parse_content(self._request("tools/call", {"name": tool, "arguments": arguments}))

    def close(self) -> None:
        self._connection.close()

    def _request(self, method: str, params: dict[str, Any]) -> Any:
        self._number += 1
        return json.loads(
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


def _parse_content(answer: Any) -> Any:
    result = answer["result"]
    if result.get("isError"):
        raise RuntimeError(result["content"][0]["text"])
    text = result["content"][0]["text"]
    try:
        return json.loads(text)
    except ValueError:
        return text  # a tool that answers with plain text
