"""Offers an application's tools, prompts and resources over MCP, whatever the transport."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache, cached_property, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from deepwork import __version__
from deepwork.edge.server.application import Application
from deepwork.edge.server.prompts import build_instructions
from deepwork.edge.server.registry import OperationSpec, select_tools
from deepwork.gates.access.models import Scope, is_offered_to
from deepwork.kernel.call import ANONYMOUS, LOCAL, Call
from deepwork.kernel.errors import DeepworkError, InvalidInput
from deepwork.kernel.operations import OperationDeclaration
from deepwork.kernel.protocol.handler import HttpCaller, ToolAnswer
from deepwork.kernel.protocol.messages import JsonText, Request, RequestError, to_json
from deepwork.kernel.protocol.revisions import INTERNAL_ERROR, INVALID_PARAMS
from deepwork.kernel.values import copy_with, load_fastest
from deepwork.views.observability import calls

if TYPE_CHECKING:
    from deepwork.edge.server.prompts import PromptSpec
    from deepwork.edge.server.resources import ResourceReader, ResourceSpec

KEY = "deepwork/idempotency-key"
CLIENT = "deepwork/client"


class McpService:
    """The service of one application; see `protocol.service.Service`."""

    name = "deepwork"
    version = __version__

    def __init__(self, app: Application) -> None:
        self.app = app
        tools = select_tools(app.registry, app.settings)
        if app.settings.read_only:
            tools = {name: _to_read_only(spec) for name, spec in tools.items()}
        self.tools = tools
        self.instructions = build_instructions({spec.toolset for spec in tools.values()})
        self._list_tools = cache(self._encode_tools)
        self.offers_tasks = any(spec.declaration.may_become_task for spec in tools.values())
        self._reads = {name for name, spec in tools.items() if spec.read_only and spec.one_transaction}
        self._is_local = "://" not in app.settings.database

    @cached_property
    def prompts(self) -> dict[str, PromptSpec]:
        """The prompts by name, imported on first use."""
        from deepwork.edge.server.prompts import build_prompts  # noqa: PLC0415

        return build_prompts(self.app, self.tools)

    @cached_property
    def resources(self) -> list[ResourceSpec]:
        """The resources, imported on first use."""
        from deepwork.edge.server.resources import build_resources  # noqa: PLC0415

        return build_resources(self._reader, self.tools)

    @cached_property
    def _reader(self) -> ResourceReader:
        from deepwork.edge.server.resources import ResourceReader  # noqa: PLC0415

        return ResourceReader(self.app, self.tools)

    @cached_property
    def _invocation(self) -> ModuleType:
        """What calls tools, imported with the first call."""
        from deepwork.edge.server import invocation  # noqa: PLC0415

        load_fastest()
        return invocation

    def is_quick(self, request: Request) -> bool:
        """Whether a request only reads from a local store, and runs no program.

        Opening the store may take longer: it may have to wait for another process.
        """
        if request.method != "tools/call":
            return request.method == "tools/list"
        name = request.params.get("name")
        is_read = isinstance(name, str) and name in self._reads
        return is_read and self._is_local and self.app.has_open_store and not self.is_long(request)

    def is_long(self, request: Request) -> bool:
        """Whether a call runs programs, or waits for a lock or a change; its arguments may be anything."""
        spec, arguments = self._get_spec(request), request.params.get("arguments")
        given = arguments if isinstance(arguments, dict) else {}
        return spec is not None and spec.may_take_long(given)

    def may_become_task(self, request: Request) -> bool:
        """Whether a call's tool declares that it may be answered with a task."""
        spec = self._get_spec(request)
        return spec is not None and spec.declaration.may_become_task

    def get_owner(self, request: Request) -> Hashable:
        """Return the token of a request over HTTP; on stdio there is only one client."""
        source: HttpCaller | None = request.caller
        return None if source is None else source.scope.get("deepwork.owner")

    def _get_spec(self, request: Request) -> OperationSpec | None:
        """Return the tool of a call; its name may still be anything."""
        name = request.params.get("name")
        return self.tools.get(name) if isinstance(name, str) else None

    def observe(self, request: Request) -> AbstractContextManager[object]:
        """Return the span of a request."""
        if not calls.is_on():
            return calls.NO_SPAN
        name = request.params.get("name")
        known = self.tools if request.method == "tools/call" else self.prompts
        session = request.caller.session_id if isinstance(request.caller, HttpCaller) else None
        return calls.trace_request(
            request.method, name if isinstance(name, str) and name in known else None, session, request.meta
        )

    def list_tools(self, request: Request) -> JsonText:
        """List the tools that the caller's token covers: others would only cost tokens."""
        return self._list_tools(get_scope(request))

    def _encode_tools(self, scope: Scope) -> JsonText:
        offered = [spec for spec in self.tools.values() if is_offered_to(scope, spec.declaration)]
        return JsonText("[" + ",".join(to_json(self.describe_tool(spec)) for spec in offered) + "]")

    def describe_tool(self, spec: OperationSpec) -> dict[str, Any]:
        """Describe a tool as tools/list does."""
        described: dict[str, Any] = {
            "name": spec.name,
            "description": spec.listed_description,
            "inputSchema": spec.listed_schema,
            "annotations": _describe_effects(spec.declaration),
        }
        if self.app.settings.output_schemas and spec.output_schema is not None:
            described["outputSchema"] = spec.output_schema
        return described

    def call_tool(self, request: Request, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Call a tool; errors have one format."""
        try:
            spec = self._find_tool(name)
            call = build_call(name, request)
            return self._invoke(request, spec, arguments, call)
        except Exception as error:  # noqa: BLE001 - callers get every error in the same format
            return ToolAnswer(to_json(self._invocation.error_to_dict(error, name)), is_error=True)

    def _find_tool(self, name: str) -> OperationSpec:
        if (spec := self.tools.get(name)) is not None:
            return spec
        import difflib  # noqa: PLC0415 - only for a mistake

        close = difflib.get_close_matches(name, list(self.tools), n=1)
        raise InvalidInput(
            f"There is no tool {name[:200]!r}." + (f" Did you mean {close[0]}?" if close else ""),
            suggestion="Call one of the tools that tools/list names.",
        )

    def _invoke(
        self, request: Request, spec: OperationSpec, arguments: Mapping[str, Any], call: Call
    ) -> ToolAnswer:
        if spec.may_take_long(arguments):  # it stops early once nobody waits for its answer
            call = replace(call, is_wanted=lambda: not request.is_cancelled)
        if request.can_report:
            call = replace(call, report_progress=request.report_progress)
        if spec.read_only:
            answer: ToolAnswer = self._invocation.read(spec, arguments, call, build_tool_answer)
            return answer
        return build_tool_answer(self._invocation.invoke(self.app.database, spec, arguments, call))

    def list_prompts(self) -> list[dict[str, Any]]:
        return [prompt.to_dict() for prompt in self.prompts.values()]

    def get_prompt(self, request: Request, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Render a prompt as one message of the user."""
        if (prompt := self.prompts.get(name)) is None:
            raise RequestError(INVALID_PARAMS, f"Unknown prompt: {name!r}")
        text = self._run(name, request, lambda call: prompt.render(arguments, call))
        messages = [{"role": "user", "content": {"type": "text", "text": text}}]
        return {"description": prompt.description, "messages": messages}

    def list_resources(self) -> list[dict[str, Any]]:
        return [spec.to_dict() for spec in self.resources if not spec.is_template]

    def list_templates(self) -> list[dict[str, Any]]:
        return [spec.to_dict() for spec in self.resources if spec.is_template]

    def read_resource(self, request: Request, uri: str) -> dict[str, Any]:
        """Read a resource as text."""
        for spec in self.resources:
            if (id := spec.match(uri)) is not None:
                text = self._run(uri, request, partial(spec.read, id))
                return {"contents": [{"uri": uri, "mimeType": spec.mime_type, "text": text}]}
        raise RequestError(INVALID_PARAMS, f"Resource not found: {uri!r}", {"uri": uri})

    def complete(self, reference: Mapping[str, str], argument: Mapping[str, str]) -> dict[str, Any]:
        """Complete the id of a resource template; there is nothing to complete elsewhere."""
        uri = reference.get("uri", "")
        is_offered = any(spec.is_template and spec.uri == uri for spec in self.resources)
        found = (
            self._reader.complete_id(uri, argument["value"])
            if argument["name"] == "id" and is_offered
            else None
        )
        if found is None:
            return {"completion": {"values": []}}
        values, has_more = found
        return {"completion": {"values": values, "hasMore": has_more}}

    def _run(self, name: str, request: Request, work: Callable[[Call], str]) -> str:
        """Run the work of a prompt or resource; errors have the same format as those of tools."""
        try:
            return work(build_call(name, request))
        except Exception as error:  # noqa: BLE001 - callers get every error in the same format
            details = self._invocation.error_to_dict(error, name)
            calls.mark_failed(str(details["code"]))
            code = INVALID_PARAMS if isinstance(error, DeepworkError) else INTERNAL_ERROR
            raise RequestError(code, str(details["message"]), details) from None


def build_tool_answer(value: Any) -> ToolAnswer:
    """Write an answer as MCP's text and structured content; non-objects go under `result`.

    A string is sent as it is: escaped as JSON it would be harder to read and cost more tokens.
    """
    text = to_json(value)
    structured = text if text.startswith("{") else JsonText(f'{{"result":{text}}}')
    return ToolAnswer(value if isinstance(value, str) else text, structured)


_LOCAL_CALL = Call(LOCAL)


def build_call(tool: str, request: Request) -> Call:
    """Build the call; the caller is the token's name, the session or the client's name, on stdio `local`."""
    source: HttpCaller | None = request.caller
    if source is None:
        return copy_with(_LOCAL_CALL, tool=tool, key=_parse_key(request.meta.get(KEY)))
    principal: str | None = source.scope.get("deepwork.principal")
    key = _parse_key(request.meta.get(KEY) or source.headers.get("idempotency-key"))
    caller = principal or _format_caller(source.session_id, request.meta)
    return copy_with(
        _LOCAL_CALL, caller=caller, tool=tool, key=key, account=principal or "local", scope=get_scope(request)
    )


def get_scope(request: Request) -> Scope:
    """Return the scope of the caller's token; admin where no token is needed."""
    source: HttpCaller | None = request.caller
    return Scope.ADMIN if source is None else Scope(source.scope.get("deepwork.scope", Scope.ADMIN))


def _parse_key(given: object) -> str | None:
    if given is None:
        return None
    from deepwork.kernel.database.idempotency import check_key  # noqa: PLC0415 - most calls have no key

    return check_key(given)


def _format_caller(session_id: str | None, meta: Mapping[str, Any]) -> str:
    if session_id:
        return f"session:{session_id}"
    client = meta.get(CLIENT)
    if not isinstance(client, str) or not client.isprintable():
        return ANONYMOUS
    return f"client:{client}"[:200]


def _describe_effects(declaration: OperationDeclaration) -> dict[str, bool]:
    """Return the annotations of MCP, without those that repeat a default or say nothing of a reading tool."""
    if declaration.read_only:
        return {"readOnlyHint": True, "openWorldHint": False}
    destructive = {} if declaration.destructive else {"destructiveHint": False}
    return (
        destructive | ({"idempotentHint": True} if declaration.idempotent else {}) | {"openWorldHint": False}
    )


def _to_read_only(spec: OperationSpec) -> OperationSpec:
    """In read-only mode no tool changes anything: the scope `read` suffices and no audit record is needed."""
    if spec.read_only:
        return spec
    return replace(spec, declaration=spec.declaration._replace(scope="read", when_false=None, read_only=True))
