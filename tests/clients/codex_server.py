"""A client of Codex's app server, which starts MCP servers; `codex mcp list` does not."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from clients.machine import Machine


class CodexServer:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._calls = 0
        self._notifications: list[dict[str, Any]] = []

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._calls += 1
        self._send({"id": self._calls, "method": method, "params": parameters})
        while (answer := self._read_message()).get("id") != self._calls:
            self._notifications.append(answer)
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def wait_until_started(self, server: str) -> dict[str, Any]:
        """Wait until Codex says how the start of an MCP server went."""
        while True:
            message = self._notifications.pop(0) if self._notifications else self._read_message()
            params = message.get("params", {})
            if params.get("name") == server and params.get("status") in ("ready", "failed", "cancelled"):
                return dict(params)

    def _read_message(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "Codex ended before it answered"
        message: dict[str, Any] = json.loads(line)
        return message

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()


@contextmanager
def start_codex_server(machine: Machine) -> Iterator[CodexServer]:
    process = subprocess.Popen(
        ["codex", "app-server"], cwd=machine.project, env=machine.environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        server = CodexServer(process)
        server.call("initialize", clientInfo={"name": "deepwork-tests", "version": "1"})
        yield server
    finally:
        process.terminate()
        process.communicate(timeout=60)
