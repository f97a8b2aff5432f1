"""What an agent under a run gets over MCP: the tools for its task, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deepwork.errors import DeepworkError
from deepwork.protocol.messages import Request, RequestError
from deepwork.protocol.revisions import INVALID_PARAMS
from deepwork.server.agent_rules import bind_arguments, build_tool_refusal, list_allowed
from deepwork.server.mcp_service import McpService

if TYPE_CHECKING:
    from deepwork.call import Call
    from deepwork.runner.agent_access import Grant
    from deepwork.server.application import Application
    from deepwork.server.registry import ToolSpec

_INSTRUCTIONS = """\
You work on {task} as the agent {agent}, in a run of deepwork. It is claimed for you; every call acts for it.

{way}
Record decisions with log_decision and problems with log_issue; message_list has messages for you.
An error is JSON with code, message, recoverable and suggestion: follow the suggestion.
"""
_TASK_WAY = """\
Read more with task_load_context and workflow_get, record progress with checkpoint_add, and report the end
with task_update_status, or in your last message."""
_STEP_WAY = "Report the step with finished_step, or in your last message. Lost? get_session."


class AgentService(McpService):
    """The service of one agent. What it may do is asked again before each request: a token can end."""

    def __init__(self, app: Application, grant: Grant, renew: Callable[[], Grant]) -> None:
        """`renew` returns what the agent may do now; it raises NotAllowed if its token has ended."""
        super().__init__(app)
        self._renew = renew
        self._all_tools = self.tools
        allowed = list_allowed(grant)
        self.tools = {name: spec for name, spec in self.tools.items() if name in allowed}
        way = _TASK_WAY if grant.workflow_id is not None else _STEP_WAY
        self.instructions = _INSTRUCTIONS.format(task=grant.task_id, agent=grant.agent_id, way=way)
        self.offers_tasks = any(spec.declaration.may_become_task for spec in self.tools.values())

    def is_quick(self, request: Request) -> bool:
        """Only what needs no store is quick: every call asks it what the token allows."""
        return request.method == "tools/list"

    def _find_tool(self, name: str) -> ToolSpec:
        if name in self._all_tools and name not in self.tools:
            raise build_tool_refusal(self._renew(), name)
        return super()._find_tool(name)

    def _invoke(self, request: Request, spec: ToolSpec, arguments: Mapping[str, Any], call: Call) -> Any:
        grant = self._renew()
        bound = bind_arguments(self.app.database, grant, spec.name, arguments)
        call = replace(call, scope="work", account=grant.attempt_id)
        return super()._invoke(request, spec, bound, call)

    # Prompts and resources reach beyond the plan, so an agent under a run has none.

    def list_prompts(self) -> list[dict[str, Any]]:
        return []

    def get_prompt(self, request: Request, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:  # noqa: ARG002
        raise self._refuse(name)

    def list_resources(self) -> list[dict[str, Any]]:
        return []

    def list_templates(self) -> list[dict[str, Any]]:
        return []

    def read_resource(self, request: Request, uri: str) -> dict[str, Any]:  # noqa: ARG002
        raise self._refuse(uri)

    def complete(self, reference: Mapping[str, str], argument: Mapping[str, str]) -> dict[str, Any]:  # noqa: ARG002
        return {"completion": {"values": []}}

    def _refuse(self, what: str) -> RequestError:
        try:
            refusal: DeepworkError = build_tool_refusal(self._renew(), what[:200])
        except DeepworkError as ended:
            refusal = ended
        return RequestError(INVALID_PARAMS, refusal.message, refusal.to_dict())
