"""MCP resources, which a client can read and show without calling a tool."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal
from urllib.parse import unquote

from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.edge.server.registry import OperationSpec
from deepwork.kernel.call import Call
from deepwork.kernel.records import dataclass
from deepwork.views.hooks.current_work import get_project_scope
from deepwork.views.overview.current_work_store import CurrentWorkStore

SESSIONS = "deepwork://sessions"
PLAN_SUMMARY = "deepwork://plans/{id}/summary"
TRACKING_CONTEXT = "deepwork://tracking/{id}/context"

MOST_SESSIONS = 100
_MAX_SESSIONS_READ = 1000
MOST_OFFERED = 100
_TABLE_BY_URI: Final[dict[str, Literal["plans", "tracked_workflows"]]] = {
    PLAN_SUMMARY: "plans",
    TRACKING_CONTEXT: "tracked_workflows",
}
_CONTEXT_SECTIONS = ["phase_summary", "tasks", "decisions", "milestones", "blockers"]

Work = Callable[[str, Call], str]


@dataclass(frozen=True)
class ResourceSpec:
    """The description of a resource, or with `{id}` in its URI of a template."""

    uri: str
    description: str
    mime_type: str
    read: Work

    @property
    def name(self) -> str:
        return self.uri.partition("://")[2].replace("/{id}/", "_")

    @property
    def is_template(self) -> bool:
        return "{id}" in self.uri

    def to_dict(self) -> dict[str, str]:
        """Describe it as resources/list or resources/templates/list does."""
        return {
            "uriTemplate" if self.is_template else "uri": self.uri,
            "name": self.name,
            "description": self.description,
            "mimeType": self.mime_type,
        }

    def match(self, uri: str) -> str | None:
        """Return the id in a URI of this resource, "" if it has none; None for another resource."""
        if not self.is_template:
            return "" if uri == self.uri else None
        before, _, after = self.uri.partition("{id}")
        id = uri.removeprefix(before).removesuffix(after)
        is_match = id and "/" not in id and uri == f"{before}{id}{after}"
        return unquote(id) if is_match else None


def build_resources(reader: ResourceReader, tools: Mapping[str, OperationSpec]) -> list[ResourceSpec]:
    """Build the resources whose tools are enabled."""
    by_tool = {
        "get_session": ResourceSpec(
            SESSIONS, "Active job sessions and their current steps.", "application/json", reader.read_sessions
        ),
        "workflow_get_summary": ResourceSpec(
            PLAN_SUMMARY, "Summary of a plan and its progress.", "text/markdown", reader.read_plan_summary
        ),
        "get_context": ResourceSpec(
            TRACKING_CONTEXT,
            "History of a tracked workflow, plan or job session.",
            "application/json",
            reader.read_context,
        ),
    }
    return [spec for tool, spec in by_tool.items() if tool in tools]


class ResourceReader:
    """Reads the content of each resource."""

    def __init__(self, app: Application, tools: Mapping[str, OperationSpec]) -> None:
        self._app = app
        self._tools = tools

    def read_sessions(self, _: str, __: Call) -> str:
        """Read the active job sessions whose files are in this project, the last changed first."""
        folder = get_project_scope(self._app.settings).sessions
        with self._app.database.reading() as tx:
            rows = CurrentWorkStore(tx).list_active_jobs(_MAX_SESSIONS_READ)
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
        """Read the context of a workflow, as get_context returns it; its notices wait for the agent still."""
        arguments = {"workflow_id": id, "include": _CONTEXT_SECTIONS}
        return _to_json(self._call_tool("get_context", arguments, replace(call, carries_notices=False)))

    def complete_id(self, uri: str, prefix: str) -> tuple[list[str], bool]:
        """Complete the id in a template, the newest first; also whether there are more than these."""
        with self._app.database.reading() as tx:
            found = CurrentWorkStore(tx).list_ids(_TABLE_BY_URI[uri], prefix, MOST_OFFERED + 1)
        return found[:MOST_OFFERED], len(found) > MOST_OFFERED

    def _call_tool(self, tool: str, arguments: dict[str, Any], call: Call) -> Any:
        return invoke(self._app.database, self._tools[tool], arguments, call)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
