"""What an agent under a run gets over MCP: the tools for its task, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deepwork.edge.server.agent_rules import bind_arguments, build_tool_refusal, list_allowed, list_filled
from deepwork.edge.server.mcp_service import McpService
from deepwork.kernel.call import AGENT_PREFIX, BoundAgent
from deepwork.kernel.errors import DeepworkError, NotAllowed
from deepwork.kernel.protocol.messages import Request, RequestError
from deepwork.kernel.protocol.revisions import INVALID_PARAMS

if TYPE_CHECKING:
    from deepwork.delivery.runner.agent_access import AgentToken, Grant
    from deepwork.edge.server.application import Application
    from deepwork.edge.server.registry import OperationSpec
    from deepwork.kernel.call import Call

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

    def __init__(self, app: Application, grant: Grant, token: AgentToken) -> None:
        super().__init__(app)
        self._token = token
        self._all_tools = self.tools
        allowed = list_allowed(grant)
        self.tools = {name: spec for name, spec in self.tools.items() if name in allowed}
        way = _TASK_WAY if grant.workflow_id is not None else _STEP_WAY
        self.instructions = _INSTRUCTIONS.format(task=grant.task_id, agent=grant.agent_id, way=way)
        self.offers_tasks = any(spec.declaration.may_become_task for spec in self.tools.values())

    def is_quick(self, request: Request) -> bool:
        """Only what needs no store is quick: every call asks it what the token allows."""
        return request.method == "tools/list"

    def _find_tool(self, name: str) -> OperationSpec:
        return self._all_tools.get(name) or super()._find_tool(name)

    def _invoke(self, request: Request, spec: OperationSpec, arguments: Mapping[str, Any], call: Call) -> Any:
        grant = self._token.find_grant()
        agent = BoundAgent(grant.agent_id, grant.session_id, self._token.require_valid)
        caller = f"{AGENT_PREFIX}{grant.agent_id}"
        call = replace(call, caller=caller, scope="work", account=grant.attempt_id, agent=agent)
        try:
            if spec.name not in self.tools:
                raise build_tool_refusal(grant, spec.name)
            bound = bind_arguments(self.app.database, grant, spec.name, arguments)
        except NotAllowed as refusal:
            self._invocation.record_refusal(self.app.database, spec, arguments, call, refusal)
            raise
        return super()._invoke(request, spec, bound, call)

    def describe_tool(self, spec: OperationSpec) -> dict[str, Any]:
        """Describe a tool; what is filled in is not required, as some clients would refuse to call it."""
        described = super().describe_tool(spec)
        schema = described["inputSchema"]
        required = [name for name in schema.get("required", ()) if name not in list_filled(spec.name)]
        kept = {name: value for name, value in schema.items() if name != "required"}
        return {**described, "inputSchema": kept | ({"required": required} if required else {})}

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
            refusal: DeepworkError = build_tool_refusal(self._token.find_grant(), what[:200])
        except DeepworkError as ended:
            refusal = ended
        return RequestError(INVALID_PARAMS, refusal.message, refusal.to_dict())
