"""A synchronous MCP client for tests."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack
from typing import Any, Self

from anyio.from_thread import start_blocking_portal
from fastmcp import Client
from fastmcp.client.transports import ClientTransport


class ToolCallError(Exception):
    """The tool answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: str = error["code"]
        self.message: str = error["message"]


class ToolClient:
    """Calls tools and returns their answers."""

    def __init__(self, transport: ClientTransport, **more: Any) -> None:
        self._stack = ExitStack()
        self._portal = self._stack.enter_context(start_blocking_portal())
        self.client: Client[Any] = self._stack.enter_context(
            self._portal.wrap_async_context_manager(Client(transport, **more))
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def call(self, tool: str, key: str | None = None, **arguments: Any) -> Any:
        async def ask() -> Any:
            meta = {"deepwork/idempotency-key": key} if key else None
            return await self.client.call_tool(tool, arguments, meta=meta, raise_on_error=False)

        result = self._portal.call(ask)
        answer = json.loads(result.content[0].text)
        if result.is_error:
            raise ToolCallError(answer)
        assert answer == result.structured_content
        return answer

    def call_together(self, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
        """Make several calls in parallel; return their answers or errors in order."""

        async def ask() -> list[Any]:
            waiting = [self.client.call_tool(tool, given, raise_on_error=False) for tool, given in calls]
            return list(await asyncio.gather(*waiting))

        return [json.loads(result.content[0].text) for result in self._portal.call(ask)]

    def list_tools(self) -> dict[str, Any]:
        async def ask() -> Any:
            return await self.client.list_tools()

        return {tool.name: tool for tool in self._portal.call(ask)}

    def abort_all(self) -> None:
        """Abort every session on the stack."""
        while self.call("get_workflows")["stack"]:
            self.call("abort_workflow", explanation="the test is over")
