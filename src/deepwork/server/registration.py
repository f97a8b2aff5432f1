"""Our tools as MCP tools: each with one log line, one form of error, one form of answer."""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio.to_thread
from fastmcp import FastMCP
from fastmcp.exceptions import DisabledError, NotFoundError
from fastmcp.server.context import Context
from fastmcp.server.dependencies import get_context, get_http_request
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import Tool, ToolResult
from mcp.types import CallToolRequestParams, ListToolsRequest, TextContent, ToolAnnotations
from mcp.types import Tool as McpToolForm
from pydantic import PrivateAttr
from starlette.requests import Request

from deepwork.access.models import Scope
from deepwork.access.rules import offered_to
from deepwork.database.call import Call
from deepwork.database.idempotency import check_key
from deepwork.errors import DeepworkError, InvalidInput
from deepwork.server.application import Application
from deepwork.server.invocation import invoke, invoke_async, spoken
from deepwork.server.registry import ToolSpec

log = logging.getLogger("deepwork.calls")

KEY = "deepwork/idempotency-key"
CLIENT = "deepwork/client"


def expose(mcp: FastMCP, app: Application, tools: Mapping[str, ToolSpec]) -> None:
    """Offer these tools over MCP."""
    for spec in tools.values():
        mcp.add_tool(McpTool.of(spec, app))
    mcp.add_middleware(OfferedTools(tools))


class McpTool(Tool):
    """One of our tools, as FastMCP knows it."""

    _spec: ToolSpec = PrivateAttr()
    _app: Application = PrivateAttr()

    @classmethod
    def of(cls, spec: ToolSpec, app: Application) -> McpTool:
        tool = cls(
            name=spec.name,
            description=spec.description,
            parameters=spec.input_schema,
            output_schema=spec.output_schema if app.settings.output_schemas else None,
            annotations=ToolAnnotations(
                read_only_hint=spec.read_only,
                destructive_hint=spec.destructive,
                idempotent_hint=spec.idempotent,
                open_world_hint=False,
            ),
        )
        tool._spec, tool._app = spec, app
        return tool

    def to_mcp_tool(self, **overrides: Any) -> McpToolForm:
        """As tools/list shows it, without FastMCP's own notes: every agent would pay for them."""
        return super().to_mcp_tool(**{"_meta": None, **overrides})

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call the method in a worker thread; the transaction in it ends whole even if the client is gone."""
        try:
            call = call_of(self.name, get_context())
            log.info("%s by %s, stack %s", self.name, call.caller, self._app.stack(call.caller))
            if self._spec.is_async:
                return answer(await invoke_async(self._spec, arguments, call, self._app.database))
            return answer(await anyio.to_thread.run_sync(self._work(arguments, call)))
        except Exception as error:  # noqa: BLE001 - whatever went wrong, the caller gets one form of error
            return refusal(spoken(error, self.name))

    def _work(self, arguments: dict[str, Any], call: Call) -> Callable[[], Any]:
        return lambda: invoke(self._app.database, self._spec, arguments, call)


class OfferedTools(Middleware):
    """Lists what the caller's token covers, and says of what is not there that it is not.

    One class for both: every layer around a call costs as much as a small query.
    """

    def __init__(self, tools: Mapping[str, ToolSpec]) -> None:
        self._tools = tools

    async def on_list_tools(
        self,
        context: MiddlewareContext[ListToolsRequest],
        call_next: CallNext[ListToolsRequest, Sequence[Tool]],
    ) -> Sequence[Tool]:
        """A tool that cannot be called would only cost tokens."""
        scope = _scope(_request(get_context()))
        return [
            tool
            for tool in await call_next(context)
            if offered_to(scope, tool.name, read_only=self._tools[tool.name].read_only)
        ]

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """A call of a tool that is not there is answered in the form of every other error."""
        try:
            return await call_next(context)
        except (NotFoundError, DisabledError):
            return refusal(_unknown(context.message.name, list(self._tools)).as_dict())


def answer(value: Any) -> ToolResult:
    """An answer in both of MCP's forms: an object as it is, anything else under `result`.

    Text is sent as it is: escaped as JSON it would be harder to read and cost more tokens.
    """
    structured = value if isinstance(value, dict) else {"result": value}
    shown = TextContent(type="text", text=value) if isinstance(value, str) else _text(value)
    return ToolResult(content=[shown], structured_content=structured)


def refusal(error: Mapping[str, Any]) -> ToolResult:
    """An error: one JSON object, marked as such."""
    return ToolResult(content=[_text(error)], is_error=True)


def _text(value: Any) -> TextContent:
    return TextContent(type="text", text=json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _unknown(name: str, names: list[str]) -> DeepworkError:
    close = difflib.get_close_matches(name, names, n=1)
    return InvalidInput(
        f"There is no tool {name[:200]!r}." + (f" Did you mean {close[0]}?" if close else ""),
        suggestion="Call one of the tools that tools/list names.",
    )


def call_of(tool: str, context: Context) -> Call:
    """Whose call this is: the token's owner, the session, or who it says; on stdio whoever started us."""
    meta = (context.request_context and context.request_context.meta) or {}
    request = _request(context)
    if request is None:
        return Call("local", tool, _key(meta.get(KEY)))
    principal: str | None = request.scope.get("deepwork.principal")
    key = _key(meta.get(KEY) or request.headers.get("idempotency-key"))
    caller = principal or _name(request, meta)
    return Call(caller, tool, key, principal or "local", _scope(request))


def _request(context: Context) -> Request | None:
    """The request that a call came by; None on stdio."""
    return None if context.transport in (None, "stdio") else get_http_request()


def _scope(request: Request | None) -> Scope:
    """How much the caller may do: all that its token covers, or everything where none is needed."""
    return Scope.ADMIN if request is None else Scope(request.scope.get("deepwork.scope", Scope.ADMIN))


def _key(given: object) -> str | None:
    return None if given is None else check_key(given)


def _name(request: Request, meta: Mapping[str, Any]) -> str:
    if session := request.headers.get("mcp-session-id") or request.query_params.get("session_id"):
        return f"session:{session}"
    named = meta.get(CLIENT)
    if not isinstance(named, str) or not named.isprintable():
        return "anonymous"
    return f"client:{named}"[:200]
