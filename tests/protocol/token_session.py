"""An MCP session over HTTP with a token, or without one."""

from __future__ import annotations

import http.client
import json
from typing import Any

from http_tests.http_server import PATIENCE_SECONDS, HttpServer, Reply
from protocol.stdio_server import INITIALIZE


class TokenSession:
    """One MCP session over one connection."""

    def __init__(self, served: HttpServer, token: str | None, session: str | None = None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_SECONDS)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        self._headers |= {"Authorization": f"Bearer {token}"} if token else {}
        self.session = session or self._open()

    def _open(self) -> str:
        self.session = ""
        opened = self.post({"id": 0, "method": "initialize", "params": INITIALIZE})
        assert opened.status == 200, opened
        self.session = opened.headers["mcp-session-id"]
        self.post({"method": "notifications/initialized"})
        return self.session

    def list_tools(self) -> list[str]:
        """List the names of the offered tools."""
        return [tool["name"] for tool in self.request("tools/list", {})["tools"]]

    def call(self, tool: str, arguments: dict[str, Any] | None = None) -> Any:
        """Call a tool; return its answer or error, parsed unless it is plain text."""
        result = self.result(tool, arguments)
        try:
            return json.loads(result["content"][0]["text"])
        except ValueError:
            return result["content"][0]["text"]

    def result(self, tool: str, arguments: dict[str, Any] | None = None) -> Any:
        return self.request("tools/call", {"name": tool, "arguments": arguments or {}})

    def request(self, method: str, params: dict[str, Any]) -> Any:
        return self.post({"id": 1, "method": method, "params": params}).json["result"]

    def post(self, message: dict[str, Any]) -> Reply:
        headers = self._headers | ({"Mcp-Session-Id": self.session} if self.session else {})
        self._connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0", **message}), headers)
        answer = self._connection.getresponse()
        return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())

    def __del__(self) -> None:
        self._connection.close()
