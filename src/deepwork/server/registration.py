"""Registers our tools with FastMCP, with one log line, one error format and one answer format for all."""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

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
from deepwork.access.rules import is_offered_to
from deepwork.call import Call
from deepwork.database.idempotency import check_key
from deepwork.errors import DeepworkError, InvalidInput
from deepwork.server.application import Application
from deepwork.server.invocation import error_to_dict
from deepwork.server.registry import ToolSpec
from deepwork.server.threads import invoke_in_thread

log = logging.getLogger("deepwork.calls")

KEY = "deepwork/idempotency-key"
CLIENT = "deepwork/client"


def register_tools(mcp: FastMCP, app: Application, tools: Mapping[str, ToolSpec]) -> None:
    """Register these tools with the MCP server."""
    for spec in tools.values():
        mcp.add_tool(McpTool.from_spec(spec, app))
    mcp.add_middleware(OfferedToolsMiddleware(tools))


class McpTool(Tool):
    """A deepwork tool as a FastMCP tool."""

    _spec: ToolSpec = PrivateAttr()
    _app: Application = PrivateAttr()

    @classmethod
    def from_spec(cls, spec: ToolSpec, app: Application) -> McpTool:
        tool = cls(
            name=spec.name,
            description=spec.description,
            parameters=spec.input_schema,
            output_schema=spec.output_schema if app.settings.output_schemas else None,
            annotations=ToolAnnotations(
                read_only_hint=spec.read_only,
                destructive_hint=spec.declaration.destructive,
                idempotent_hint=spec.declaration.idempotent,
                open_world_hint=False,
            ),
        )
        tool._spec, tool._app = spec, app
        return tool

    def to_mcp_tool(self, **overrides: Any) -> McpToolForm:
        """Convert for tools/list, without FastMCP's metadata, which would cost every agent tokens."""
        return super().to_mcp_tool(**{"_meta": None, **overrides})

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Call the tool in a worker thread, so that its transaction completes if the client disconnects."""
        try:
            call = build_call(self.name, get_context())
            log.info("%s by %s, stack %s", self.name, call.caller, self._app.describe_stack(call.caller))
            return to_tool_result(await invoke_in_thread(self._app.database, self._spec, arguments, call))
        except Exception as error:  # noqa: BLE001 - callers get every error in the same format
            return to_error_result(error_to_dict(error, self.name))


class OfferedToolsMiddleware(Middleware):
    """Lists the tools that the caller's token covers, and answers calls of unknown tools.

    One middleware for both, because every layer around a call costs as much as a small query.
    """

    def __init__(self, tools: Mapping[str, ToolSpec]) -> None:
        self._tools = tools

    async def on_list_tools(
        self,
        context: MiddlewareContext[ListToolsRequest],
        call_next: CallNext[ListToolsRequest, Sequence[Tool]],
    ) -> Sequence[Tool]:
        """Hide tools that the caller may not call: they would only cost tokens."""
        scope = _get_scope(_get_request(get_context()))
        return [
            tool
            for tool in await call_next(context)
            if is_offered_to(scope, self._tools[tool.name].declaration)
        ]

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Answer a call of an unknown tool in our error format."""
        try:
            return await call_next(context)
        except (NotFoundError, DisabledError):
            return to_error_result(
                _build_unknown_tool_error(context.message.name, list(self._tools)).to_dict()
            )


def to_tool_result(value: Any) -> ToolResult:
    """Convert an answer to MCP's text and structured content; non-objects go under `result`.

    A string is sent as it is: escaped as JSON it would be harder to read and cost more tokens.
    """
    structured = value if isinstance(value, dict) else {"result": value}
    content = TextContent(type="text", text=value) if isinstance(value, str) else _to_text_content(value)
    return ToolResult(content=[content], structured_content=structured)


def to_error_result(error: Mapping[str, Any]) -> ToolResult:
    """Convert an error to a JSON object marked as an error."""
    return ToolResult(content=[_to_text_content(error)], is_error=True)


def _to_text_content(value: Any) -> TextContent:
    return TextContent(type="text", text=json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _build_unknown_tool_error(name: str, names: list[str]) -> DeepworkError:
    close = difflib.get_close_matches(name, names, n=1)
    return InvalidInput(
        f"There is no tool {name[:200]!r}." + (f" Did you mean {close[0]}?" if close else ""),
        suggestion="Call one of the tools that tools/list names.",
    )


def build_call(tool: str, context: Context) -> Call:
    """Build the call; the caller is the token's name, the session or the client's name, on stdio `local`."""
    meta = (context.request_context and context.request_context.meta) or {}
    request = _get_request(context)
    if request is None:
        return Call("local", tool, _parse_key(meta.get(KEY)))
    principal: str | None = request.scope.get("deepwork.principal")
    key = _parse_key(meta.get(KEY) or request.headers.get("idempotency-key"))
    caller = principal or _format_caller(request, meta)
    return Call(caller, tool, key, principal or "local", _get_scope(request))


def _get_request(context: Context) -> Request | None:
    """Return the HTTP request of the call; None on stdio."""
    return None if context.transport in (None, "stdio") else get_http_request()


def _get_scope(request: Request | None) -> Scope:
    """Return the scope of the caller's token; admin where no token is needed."""
    return Scope.ADMIN if request is None else Scope(request.scope.get("deepwork.scope", Scope.ADMIN))


def _parse_key(given: object) -> str | None:
    return None if given is None else check_key(given)


def _format_caller(request: Request, meta: Mapping[str, Any]) -> str:
    if session := request.headers.get("mcp-session-id") or request.query_params.get("session_id"):
        return f"session:{session}"
    client = meta.get(CLIENT)
    if not isinstance(client, str) or not client.isprintable():
        return "anonymous"
    return f"client:{client}"[:200]
