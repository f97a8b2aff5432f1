"""Resources: what a client may read and show without calling a tool."""

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

from deepwork.database.call import Call
from deepwork.hooks.situation import place_of
from deepwork.hooks.store import UnderWayStore
from deepwork.hooks.telling import session_data
from deepwork.server.application import Application
from deepwork.server.invocation import invoke
from deepwork.server.prompts import carried_out
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


def expose_resources(mcp: FastMCP, app: Application, tools: Mapping[str, ToolSpec]) -> None:
    """Offer those resources whose tools are offered."""
    desk = ResourceDesk(app, tools)
    if "get_session" in tools:
        mcp.add_resource(
            McpResource.of(SESSIONS, "Job sessions under way, and the step of each.", desk.sessions)
        )
    if "workflow_get_summary" in tools:
        mcp.add_template(
            McpTemplate.of(PLAN_SUMMARY, "How a plan stands, on a page.", desk.plan_summary, "text/markdown")
        )
    if "get_context" in tools:
        mcp.add_template(
            McpTemplate.of(
                TRACKING_CONTEXT,
                "What happened in a tracked workflow, a plan or a job session.",
                desk.context,
            )
        )
    if {"workflow_get_summary", "get_context"} & tools.keys():
        mcp.add_completion_handler(desk.complete)


class McpResource(Resource):
    """One of our resources, as FastMCP knows it."""

    _work: Work = PrivateAttr()

    @classmethod
    def of(cls, uri: str, description: str, work: Work, mime_type: str = "application/json") -> McpResource:
        name = uri.partition("://")[2].replace("/", "_")
        resource = cls(uri=uri, name=name, description=description, mime_type=mime_type)  # type: ignore[arg-type]
        resource._work = work
        return resource

    def to_mcp_resource(self, **overrides: Any) -> McpResourceForm:
        """As resources/list shows it, without FastMCP's own notes."""
        return super().to_mcp_resource(**{"_meta": None, **overrides})

    async def read(self) -> str:
        return await carried_out(str(self.uri), lambda call: self._work("", call))


class McpTemplate(ResourceTemplate):
    """One of our resources with an id in its address, as FastMCP knows it."""

    _work: Work = PrivateAttr()

    @classmethod
    def of(cls, uri: str, description: str, work: Work, mime_type: str = "application/json") -> McpTemplate:
        name = uri.partition("://")[2].replace("/{id}/", "_")
        id_alone = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
        template = cls(
            uri_template=uri, name=name, description=description, mime_type=mime_type, parameters=id_alone
        )
        template._work = work
        return template

    def to_mcp_template(self, **overrides: Any) -> McpTemplateForm:
        """As resources/templates/list shows it, without FastMCP's own notes."""
        return super().to_mcp_template(**{"_meta": None, **overrides})

    async def _read(self, uri: str, params: dict[str, Any]) -> ResourceResult:
        return self.convert_result(await carried_out(uri, lambda call: self._work(str(params["id"]), call)))


class ResourceDesk:
    """What the resources hold."""

    def __init__(self, app: Application, tools: Mapping[str, ToolSpec]) -> None:
        self._app = app
        self._tools = tools

    def sessions(self, _: str, __: Call) -> str:
        """Job sessions under way, the last changed first; a store may have those of other projects too."""
        kept = place_of(self._app.settings).sessions
        with self._app.database.reading() as tx:
            rows = UnderWayStore(tx).jobs(_LOOKED_AT)
        found = [
            {
                "session_id": row["id"],
                "workflow": f"{row['job_name']}/{row['workflow_name']}",
                "step": row["step_id"],
                "goal": str(session_data(row).get("goal", ""))[:500],
            }
            for row in rows
            if (kept / f"session_{row['id']}.json").exists()
        ]
        return _json({"sessions": found[:MOST_SESSIONS]})

    def plan_summary(self, id: str, call: Call) -> str:
        """A plan, as workflow_get_summary tells it."""
        answer = self._ask("workflow_get_summary", {"id": id, "format": "markdown"}, call)
        return str(answer["summary"])

    def context(self, id: str, call: Call) -> str:
        """A workflow, as get_context tells it."""
        return _json(self._ask("get_context", {"workflow_id": id, "include": _PARTS}, call))

    def complete(
        self, reference: CompletionReference, argument: CompletionArgument, _: CompletionContext | None
    ) -> Completion | None:
        """Ids that begin with what was typed, the newest first."""
        if not isinstance(reference, ResourceTemplateReference) or argument.name != "id":
            return None
        table = _TABLES.get(reference.uri)
        if table is None:
            return None
        with self._app.database.reading() as tx:
            found = UnderWayStore(tx).ids(table, argument.value, MOST_OFFERED + 1)
        return Completion(values=found[:MOST_OFFERED], has_more=len(found) > MOST_OFFERED)

    def _ask(self, tool: str, arguments: dict[str, Any], call: Call) -> Any:
        return invoke(self._app.database, self._tools[tool], arguments, call)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
