"""A real server process over pipes, without an MCP client library in between."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from queue import Empty, Queue
from typing import Any, Self

import quick

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "a test", "version": "1"},
}


PATIENCE_SECONDS = 100
"""Long, because the machine may be busy; only a failing test waits this long."""


class StdioServer:
    """`deepwork serve` over pipes."""

    def __init__(
        self,
        project: Path,
        *flags: str,
        environment: dict[str, str] | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [*(command or quick.build_command()), "serve", "--path", str(project), *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=project,
            env={**os.environ, **(environment or {})},
        )
        self._lines: Queue[bytes] = Queue()
        self.errors = bytearray()
        self._readers = [
            threading.Thread(target=target, daemon=True) for target in (self._read, self._read_errors)
        ]
        for reader in self._readers:
            reader.start()
        self._number = 0

    def __enter__(self) -> Self:
        self.request("initialize", INITIALIZE)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def send(self, message: dict[str, Any] | bytes) -> None:
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def receive(self, timeout: float = PATIENCE_SECONDS) -> Any:
        """Return the next line, which must be JSON."""
        try:
            return json.loads(self._lines.get(timeout=timeout))
        except Empty:
            raise AssertionError(f"no answer; the server said: {self.errors.decode()}") from None

    def request(self, method: str, params: dict[str, Any] | None = None) -> Any:
        self._number += 1
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params or {}})
        answer = self.receive()
        assert answer["id"] == self._number
        return answer

    def call(self, tool: str, arguments: dict[str, Any] | None = None, **meta: Any) -> Any:
        """Call a tool; return its answer or error, parsed."""
        params: dict[str, Any] = {"name": tool, "arguments": arguments or {}}
        answer = self.request("tools/call", params | ({"_meta": meta} if meta else {}))
        return json.loads(answer["result"]["content"][0]["text"])

    def stop(self, number: int | None = None) -> int:
        """Stop the server by a signal or by closing its input; return its exit code."""
        assert self.process.stdin is not None
        if number is not None:
            self.process.send_signal(number)
        else:
            self.process.stdin.close()
        try:
            code = self.process.wait(timeout=PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self._close()
        return code

    def wait(self) -> int:
        """Wait until the server ends by itself; return its exit code."""
        code = self.process.wait(timeout=PATIENCE_SECONDS)
        self._close()
        return code

    def _close(self) -> None:
        for reader in self._readers:
            reader.join(timeout=PATIENCE_SECONDS)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors += line
