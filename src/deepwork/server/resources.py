"""MCP resources, which a client can read and show without calling a tool."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from fastmcp import FastMCP
from fastmcp.resources.base import Resource, ResourceResult
from fastmcp.resources.template import ResourceTemplate
from fastmcp.server.completions import CompletionReference
from mcp.types import Completion, CompletionArgument, CompletionContext, ResourceTemplateReference
from mcp.types import Resource as McpResourceForm
from mcp.types import ResourceTemplate as McpTemplateForm
from pydantic import PrivateAttr

from deepwork.call import Call
from deepwork.hooks.current_work import get_project_scope
from deepwork.overview.current_work_store import CurrentWorkStore
from deepwork.server.application import Application
from deepwork.server.invocation import invoke
from deepwork.server.prompts import run_in_worker
from deepwork.server.registry import ToolSpec

SESSIONS = "deepwork://sessions"
PLAN_SUMMARY = "deepwork://plans/{id}/summary"
TRACKING_CONTEXT = "deepwork://tracking/{id}/context"

MOST_SESSIONS = 100
_LOOKED_AT = 1000
MOST_OFFERED = 100
_TABLES: Final[dict[str, Literal["plans", "tracked_workflows"]]] = {
    PLAN_SUMMARY: "plans",
    TRACKING_CONTEXT: "tracked_workflows",
}
_PARTS = ["phase_summary", "tasks", "decisions", "milestones", "blockers"]

Work = Callable[[str, Call], str]


def register_resources(mcp: FastMCP, app: Application, tools: Mapping[str, ToolSpec]) -> None:
    """Register the resources whose tools are enabled."""
    reader = ResourceReader(app, tools)
    if "get_session" in tools:
        mcp.add_resource(
            McpResource.create(SESSIONS, "Active job sessions and their current steps.", reader.read_sessions)
        )
    if "workflow_get_summary" in tools:
        mcp.add_template(
            McpTemplate.create(
                PLAN_SUMMARY, "Summary of a plan and its progress.", reader.read_plan_summary, "text/markdown"
            )
        )
    if "get_context" in tools:
        mcp.add_template(
            McpTemplate.create(
                TRACKING_CONTEXT,
                "History of a tracked workflow, plan or job session.",
                reader.read_context,
            )
        )
    if {"workflow_get_summary", "get_context"} & tools.keys():
        mcp.add_completion_handler(reader.complete_id)


class McpResource(Resource):
    """A deepwork resource as a FastMCP resource."""

    _work: Work = PrivateAttr()

    @classmethod
    def create(
        cls, uri: str, description: str, work: Work, mime_type: str = "application/json"
    ) -> McpResource:
        name = uri.partition("://")[2].replace("/", "_")
        resource = cls(uri=uri, name=name, description=description, mime_type=mime_type)  # type: ignore[arg-type]
        resource._work = work
        return resource

    def to_mcp_resource(self, **overrides: Any) -> McpResourceForm:
        """Convert for resources/list, without FastMCP's metadata."""
        return super().to_mcp_resource(**{"_meta": None, **overrides})

    async def read(self) -> str:
        return await run_in_worker(str(self.uri), lambda call: self._work("", call))


class McpTemplate(ResourceTemplate):
    """A deepwork resource with an id in its URI, as a FastMCP template."""

    _work: Work = PrivateAttr()

    @classmethod
    def create(
        cls, uri: str, description: str, work: Work, mime_type: str = "application/json"
    ) -> McpTemplate:
        name = uri.partition("://")[2].replace("/{id}/", "_")
        id_alone = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
        template = cls(
            uri_template=uri, name=name, description=description, mime_type=mime_type, parameters=id_alone
        )
        template._work = work
        return template

    def to_mcp_template(self, **overrides: Any) -> McpTemplateForm:
        """Convert for resources/templates/list, without FastMCP's metadata."""
        return super().to_mcp_template(**{"_meta": None, **overrides})

    async def _read(self, uri: str, params: dict[str, Any]) -> ResourceResult:
        return self.convert_result(await run_in_worker(uri, lambda call: self._work(str(params["id"]), call)))


class ResourceReader:
    """Reads the content of each resource."""

    def __init__(self, app: Application, tools: Mapping[str, ToolSpec]) -> None:
        self._app = app
        self._tools = tools

    def read_sessions(self, _: str, __: Call) -> str:
        """Read the active job sessions whose files are in this project, the last changed first."""
        folder = get_project_scope(self._app.settings).sessions
        with self._app.database.reading() as tx:
            rows = CurrentWorkStore(tx).list_active_jobs(_LOOKED_AT)
        found = [
            {
                "session_id": row["id"],
                "workflow": f"{row['job_name']}/{row['workflow_name']}",
                "step": row["step_id"],
                "goal": row["goal"][:500],
            }
            for row in rows
            if (folder / f"session_{row['id']}.json").exists()
        ]
        return _to_json({"sessions": found[:MOST_SESSIONS]})

    def read_plan_summary(self, id: str, call: Call) -> str:
        """Read the summary of a plan, as workflow_get_summary returns it."""
        answer = self._call_tool("workflow_get_summary", {"id": id, "format": "markdown"}, call)
        return str(answer["summary"])

    def read_context(self, id: str, call: Call) -> str:
        """Read the context of a workflow, as get_context returns it."""
        return _to_json(self._call_tool("get_context", {"workflow_id": id, "include": _PARTS}, call))

    def complete_id(
        self, reference: CompletionReference, argument: CompletionArgument, _: CompletionContext | None
    ) -> Completion | None:
        """Complete an id from its prefix, the newest first."""
        if not isinstance(reference, ResourceTemplateReference) or argument.name != "id":
            return None
        table = _TABLES.get(reference.uri)
        if table is None:
            return None
        with self._app.database.reading() as tx:
            found = CurrentWorkStore(tx).list_ids(table, argument.value, MOST_OFFERED + 1)
        return Completion(values=found[:MOST_OFFERED], has_more=len(found) > MOST_OFFERED)

    def _call_tool(self, tool: str, arguments: dict[str, Any], call: Call) -> Any:
        return invoke(self._app.database, self._tools[tool], arguments, call)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
