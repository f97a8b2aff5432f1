"""Registers tools, prompts and resources with FastMCP, which passes each request on to the service."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from fastmcp import FastMCP
from fastmcp.exceptions import DisabledError, FastMCPError, NotFoundError
from fastmcp.prompts.base import Prompt, PromptArgument
from fastmcp.resources.base import Resource, ResourceResult
from fastmcp.resources.template import ResourceTemplate
from fastmcp.server.completions import CompletionReference
from fastmcp.server.dependencies import get_context, get_http_request
from fastmcp.server.middleware import CallNext, Middleware, MiddlewareContext
from fastmcp.tools.base import Tool, ToolResult
from mcp import MCPError
from mcp.types import (
    CallToolRequestParams,
    Completion,
    CompletionArgument,
    CompletionContext,
    ListToolsRequest,
    ResourceTemplateReference,
    TextContent,
    ToolAnnotations,
)
from pydantic import PrivateAttr

from deepwork.edge.server.mcp_service import McpService, get_scope
from deepwork.edge.server.prompts import PromptSpec
from deepwork.edge.server.registry import OperationSpec
from deepwork.edge.server.resources import ResourceSpec
from deepwork.gates.access.models import is_offered_to
from deepwork.kernel.protocol.handler import HttpCaller, ToolAnswer
from deepwork.kernel.protocol.messages import Request, RequestError

Result = TypeVar("Result")


def register_service(mcp: FastMCP, service: McpService) -> None:
    """Register everything that the service offers."""
    for spec in service.tools.values():
        mcp.add_tool(McpTool.from_spec(spec, service))
    for prompt in service.prompts.values():
        mcp.add_prompt(McpPrompt.from_spec(prompt, service))
    for resource in service.resources:
        if resource.is_template:
            mcp.add_template(McpTemplate.from_spec(resource, service))
        else:
            mcp.add_resource(McpResource.from_spec(resource, service))
    mcp.add_completion_handler(_build_completion_handler(service))
    mcp.add_middleware(OfferedToolsMiddleware(service))


class McpTool(Tool):
    """A deepwork tool as a FastMCP tool."""

    _service: McpService = PrivateAttr()

    @classmethod
    def from_spec(cls, spec: OperationSpec, service: McpService) -> McpTool:
        described = service.describe_tool(spec)
        tool = cls(
            name=spec.name,
            description=spec.listed_description,
            parameters=spec.listed_schema,
            output_schema=described.get("outputSchema"),
            annotations=ToolAnnotations(**described["annotations"]),
        )
        tool._service = service
        return tool

    def to_mcp_tool(self, **overrides: Any) -> Any:
        """Convert for tools/list, without FastMCP's metadata and title, which cost tokens."""
        return super().to_mcp_tool(**{"_meta": None, "title": None, **overrides})

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        request = build_request("tools/call")
        return to_tool_result(
            await run_in_worker(request, lambda: self._service.call_tool(request, self.name, arguments))
        )


class McpPrompt(Prompt):
    """A deepwork prompt as a FastMCP prompt."""

    _service: McpService = PrivateAttr()

    @classmethod
    def from_spec(cls, spec: PromptSpec, service: McpService) -> McpPrompt:
        arguments = [PromptArgument(name=name, description=text) for name, text in spec.arguments.items()]
        prompt = cls(name=spec.name, description=spec.description, arguments=arguments)
        prompt._service = service
        return prompt

    def to_mcp_prompt(self, **overrides: Any) -> Any:
        """Convert for prompts/list, without FastMCP's metadata."""
        return super().to_mcp_prompt(**{"_meta": None, **overrides})

    async def render(self, arguments: dict[str, Any] | None = None) -> str:
        request = build_request("prompts/get")
        found = await run_in_worker(
            request, lambda: self._service.get_prompt(request, self.name, arguments or {})
        )
        return str(found["messages"][0]["content"]["text"])


class McpResource(Resource):
    """A deepwork resource as a FastMCP resource."""

    _service: McpService = PrivateAttr()

    @classmethod
    def from_spec(cls, spec: ResourceSpec, service: McpService) -> McpResource:
        resource = cls(uri=spec.uri, name=spec.name, description=spec.description, mime_type=spec.mime_type)  # type: ignore[arg-type]
        resource._service = service
        return resource

    def to_mcp_resource(self, **overrides: Any) -> Any:
        """Convert for resources/list, without FastMCP's metadata."""
        return super().to_mcp_resource(**{"_meta": None, **overrides})

    async def read(self) -> str:
        return await _read_resource(self._service, str(self.uri))


class McpTemplate(ResourceTemplate):
    """A deepwork resource with an id in its URI, as a FastMCP template."""

    _service: McpService = PrivateAttr()

    @classmethod
    def from_spec(cls, spec: ResourceSpec, service: McpService) -> McpTemplate:
        id_alone = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
        template = cls(
            uri_template=spec.uri,
            name=spec.name,
            description=spec.description,
            mime_type=spec.mime_type,
            parameters=id_alone,
        )
        template._service = service
        return template

    def to_mcp_template(self, **overrides: Any) -> Any:
        """Convert for resources/templates/list, without FastMCP's metadata."""
        return super().to_mcp_template(**{"_meta": None, **overrides})

    async def _read(self, uri: str, params: dict[str, Any]) -> ResourceResult:  # noqa: ARG002 - FastMCP's signature
        return self.convert_result(await _read_resource(self._service, uri))


class OfferedToolsMiddleware(Middleware):
    """Lists the tools that the caller's token covers, and answers calls of unknown tools."""

    def __init__(self, service: McpService) -> None:
        self._service = service

    async def on_list_tools(
        self,
        context: MiddlewareContext[ListToolsRequest],
        call_next: CallNext[ListToolsRequest, Sequence[Tool]],
    ) -> Sequence[Tool]:
        """Hide tools that the caller may not call."""
        scope, specs = get_scope(build_request("tools/list")), self._service.tools
        listed = await call_next(context)
        return [tool for tool in listed if is_offered_to(scope, specs[tool.name].declaration)]

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: CallNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        """Answer a call of an unknown tool in our error format."""
        try:
            return await call_next(context)
        except (NotFoundError, DisabledError):
            return to_tool_result(
                self._service.call_tool(build_request("tools/call"), context.message.name, {})
            )


class McpRequestError(FastMCPError, MCPError):
    """An MCP error that carries details; logged at debug level, because it is the caller's mistake."""

    def __init__(self, error: RequestError) -> None:
        MCPError.__init__(self, code=error.code, message=error.message, data=error.data)
        self.log_level = logging.DEBUG


async def run_in_worker(request: Request, work: Callable[[], Result]) -> Result:
    """Run the work in a thread, so that its transaction completes if the client disconnects."""
    try:
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        request.cancel()
        raise
    except RequestError as error:
        raise McpRequestError(error) from None


def build_request(method: str) -> Request:
    """Build the request that FastMCP is answering; on stdio it has no HTTP caller."""
    context = get_context()
    meta = (context.request_context and context.request_context.meta) or {}
    if context.transport in (None, "stdio"):
        return Request(0, method, {"_meta": dict(meta)})
    http = get_http_request()
    session = http.headers.get("mcp-session-id") or http.query_params.get("session_id")
    return Request(0, method, {"_meta": dict(meta)}, HttpCaller(http.scope, http.headers, session))


def to_tool_result(answer: ToolAnswer) -> ToolResult:
    """Convert an answer to FastMCP's form."""
    structured = None if answer.structured is None else json.loads(answer.structured)
    content = TextContent(type="text", text=answer.text)
    return ToolResult(content=[content], structured_content=structured, is_error=answer.is_error)


async def _read_resource(service: McpService, uri: str) -> str:
    request = build_request("resources/read")
    found = await run_in_worker(request, lambda: service.read_resource(request, uri))
    return str(found["contents"][0]["text"])


def _build_completion_handler(service: McpService) -> Callable[..., Completion | None]:
    def complete(
        reference: CompletionReference, argument: CompletionArgument, _: CompletionContext | None
    ) -> Completion | None:
        if not isinstance(reference, ResourceTemplateReference):
            return None
        given = {"name": argument.name, "value": argument.value}
        found = service.complete({"uri": reference.uri}, given)["completion"]
        return Completion(values=found["values"], has_more=found.get("hasMore"))

    return complete
