"""What an agent of a run may call, with the token of its attempt.

A tool that is not listed here is refused. A parameter that names the agent, its task, its claim, its plan
or its step is filled in, because the token says it; any other value is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from deepwork.delivery.runner.agent_access import Grant
from deepwork.delivery.runner.store import AttemptStore
from deepwork.edge.server.mcp_service import McpService
from deepwork.kernel.call import AGENT_PREFIX, BoundAgent
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import MAX_ECHOED, Code, DeepworkError, NotAllowed
from deepwork.kernel.protocol.handler import ToolAnswer
from deepwork.kernel.protocol.messages import Request, RequestError
from deepwork.kernel.protocol.revisions import INVALID_PARAMS
from deepwork.work.messages.store import MessageStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.wishes.models import WishRole
from deepwork.work.wishes.planning import WeakPlan, require_sound_plan

if TYPE_CHECKING:
    from deepwork.delivery.runner.agent_access import AgentToken
    from deepwork.edge.server.application import Application
    from deepwork.edge.server.registry import OperationSpec
    from deepwork.kernel.call import Call


class About(Enum):
    """What a parameter must name."""

    AGENT = auto()
    TASK = auto()
    CLAIM = auto()
    PLAN = auto()
    PLANNED = auto()
    """The plan that a planner makes."""
    SESSION = auto()
    STEP = auto()
    WORK = auto()
    """The plan, or the session of the job."""
    OWN_TASK_IF_ANY = auto()
    OWN_PLAN_IF_ANY = auto()
    TASK_OF_PLAN = auto()
    TASK_OF_PLAN_IF_ANY = auto()
    MESSAGES = auto()
    """Messages that the agent received."""
    PEER = auto()
    """An agent that works on the same plan, or whose message is answered."""


Parameters = Mapping[str, About]

_REPORTS: Parameters = {"id": About.TASK, "agent_id": About.AGENT, "claim_epoch": About.CLAIM}
_FOR_ALL: dict[str, Parameters] = {
    "agent_get": {"id": About.AGENT},
    "agent_heartbeat": {"agent_id": About.AGENT, "current_task_id": About.OWN_TASK_IF_ANY},
    "agent_update": {"id": About.AGENT, "current_task_id": About.OWN_TASK_IF_ANY},
    "get_context": {"workflow_id": About.WORK},
    "log_decision": {"task_id": About.TASK},
    "log_issue": {"task_id": About.TASK},
    "log_milestone": {"task_id": About.TASK},
    "message_archive": {"message_ids": About.MESSAGES},
    "message_count_unread": {"agent_id": About.AGENT},
    "message_get": {"id": About.MESSAGES},
    "message_list": {"agent_id": About.AGENT},
    "message_mark_read": {"message_ids": About.MESSAGES},
    "message_send": {
        "sender_id": About.AGENT,
        "recipient_id": About.PEER,
        "workflow_id": About.OWN_PLAN_IF_ANY,
        "task_id": About.TASK_OF_PLAN_IF_ANY,
        "reply_to_id": About.MESSAGES,
    },
}
_FOR_TASKS: dict[str, Parameters] = {
    "checkpoint_add": {"task_id": About.TASK, "agent_id": About.AGENT, "claim_epoch": About.CLAIM},
    "checkpoint_list": {"task_id": About.TASK_OF_PLAN},
    "get_task_diff": {"task_id": About.TASK_OF_PLAN},
    "task_check_dependencies": {"task_id": About.TASK_OF_PLAN},
    "task_claim": {"task_id": About.TASK, "agent_id": About.AGENT},
    "task_get": {"id": About.TASK_OF_PLAN},
    "task_load_context": {"task_id": About.TASK_OF_PLAN},
    "task_release": {"task_id": About.TASK, "agent_id": About.AGENT},
    "task_replan": _REPORTS,
    "task_set_plan": _REPORTS,
    "task_update_status": _REPORTS,
    "workflow_get": {"id": About.PLAN},
    "workflow_get_summary": {"id": About.PLAN},
    "workflow_progress": {"workflow_id": About.PLAN},
    "workflow_search": {"workflow_id": About.PLAN},
}
_FOR_STEPS: dict[str, Parameters] = {
    "finished_step": {"session_id": About.SESSION, "step_id": About.STEP},
    "get_session": {"session_id": About.SESSION},
    "get_workflows": {},
    "validate_outputs": {"session_id": About.SESSION},
}

_HOLDING = ("task_claim", "task_release")
"""Planners and reviewers end with their last message, which is judged: they report nothing as done."""
_FOR_PLANNERS: dict[str, Parameters] = {"workflow_set_plan": {"id": About.PLANNED}}

_OWN: dict[About, Callable[[Grant], Any]] = {
    About.AGENT: lambda grant: grant.agent_id,
    About.TASK: lambda grant: grant.task_id,
    About.PLAN: lambda grant: grant.workflow_id,
    About.PLANNED: lambda grant: grant.planned_id,
    About.SESSION: lambda grant: grant.session_id,
    About.STEP: lambda grant: grant.step_id,
    About.WORK: lambda grant: grant.workflow_id or grant.session_id,
}
"""What is filled in where the agent leaves it out."""


def list_allowed(grant: Grant) -> dict[str, Parameters]:
    """Return the tools that the agent may call, with what their parameters must name."""
    found = _FOR_ALL | (_FOR_TASKS if grant.workflow_id is not None else _FOR_STEPS)
    if grant.role is None:
        return found
    reading = {name: rules for name, rules in found.items() if rules is not _REPORTS and name not in _HOLDING}
    return reading | (_FOR_PLANNERS if grant.planned_id is not None else {})


def list_filled(tool: str) -> set[str]:
    """Return the parameters of a tool that are filled in where the agent leaves them out."""
    parameters = (_FOR_ALL | _FOR_TASKS | _FOR_STEPS | _FOR_PLANNERS)[tool]
    filled = {*_OWN, About.CLAIM, About.TASK_OF_PLAN}
    return {name for name, about in parameters.items() if about in filled}


def bind_arguments(
    database: Database, grant: Grant, tool: str, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments with what the token says; raises NotAllowed if they name anything else."""
    bound = dict(arguments)
    for name, about in list_allowed(grant)[tool].items():
        given = arguments.get(name)
        if about is About.CLAIM:  # after an interruption the runner may hold a newer one than the prompt says
            bound[name] = grant.claim_epoch
        elif about in _OWN:
            _require(grant, tool, name, given, is_allowed=given in (None, _OWN[about](grant)))
            bound[name] = _OWN[about](grant)
        elif given is None:
            bound |= {name: grant.task_id} if about is About.TASK_OF_PLAN else {}
        else:
            with database.reading() as tx:
                is_allowed = _CHECKS[about](tx, grant, given, arguments)
            _require(grant, tool, name, given, is_allowed=is_allowed)
    return bound


def build_tool_refusal(grant: Grant, tool: str) -> NotAllowed:
    """Build the error for a tool that the agent may not call."""
    return NotAllowed(
        f"An agent under a run may not call {tool}.",
        code=Code.UNAUTHORIZED,
        suggestion=f"Work on {grant.task_id} as {grant.agent_id}. You may call: "
        f"{', '.join(sorted(list_allowed(grant)))}.",
    )


def _require(grant: Grant, tool: str, name: str, given: object, *, is_allowed: bool) -> None:
    if is_allowed:
        return
    plan = f", and reads of plan {grant.workflow_id}" if grant.workflow_id is not None else ""
    raise NotAllowed(
        f"{tool}: `{name}` may not be {str(given)[:MAX_ECHOED]!r}.",
        code=Code.UNAUTHORIZED,
        suggestion=f"An agent under a run acts as {grant.agent_id} on {grant.task_id}{plan}.",
    )


def _is_own_task(_tx: Transaction, grant: Grant, given: Any, _arguments: Mapping[str, Any]) -> bool:
    return bool(given == grant.task_id)


def _is_own_plan(_tx: Transaction, grant: Grant, given: Any, _arguments: Mapping[str, Any]) -> bool:
    return bool(given == grant.workflow_id)


def _is_task_of_plan(tx: Transaction, grant: Grant, given: Any, _arguments: Mapping[str, Any]) -> bool:
    if given == grant.task_id:
        return True
    found = TaskStore(tx).find_by_ids([given]) if _is_id(given) else {}
    return any(task.workflow_id == grant.workflow_id for task in found.values())


def _are_received(tx: Transaction, grant: Grant, given: Any, _arguments: Mapping[str, Any]) -> bool:
    ids = given if isinstance(given, list) else [given]
    return all(map(_is_id, ids)) and MessageStore(tx).have_recipient(ids, grant.agent_id)


def _is_peer(tx: Transaction, grant: Grant, given: Any, arguments: Mapping[str, Any]) -> bool:
    if not _is_id(given):
        return False
    plan, answered = grant.workflow_id, arguments.get("reply_to_id")
    if plan is not None and AttemptStore(tx).has_worked_on_plan(given, plan):
        return True
    if not isinstance(answered, str) or not _are_received(tx, grant, answered, arguments):
        return False
    return MessageStore(tx).get(answered).sender_id == str(given)


def _is_id(given: object) -> bool:
    """Whether the store can be asked for it: what is not even an id has not been validated yet."""
    return isinstance(given, str) and len(given) <= MAX_ECHOED and given.isascii() and given.isprintable()


_CHECKS: dict[About, Callable[[Transaction, Grant, Any, Mapping[str, Any]], bool]] = {
    About.OWN_TASK_IF_ANY: _is_own_task,
    About.OWN_PLAN_IF_ANY: _is_own_plan,
    About.TASK_OF_PLAN: _is_task_of_plan,
    About.TASK_OF_PLAN_IF_ANY: _is_task_of_plan,
    About.MESSAGES: _are_received,
    About.PEER: _is_peer,
}


_INSTRUCTIONS = """\
You work on {task} as the agent {agent}, in a run of deepwork. It is claimed for you; every call acts for it.

{way}
Record decisions with log_decision and problems with log_issue; message_list has messages for you.
An error is JSON with code, message, recoverable and suggestion: follow the suggestion.
"""
_TASK_WAY = """\
Read more with task_load_context and workflow_get, record progress with checkpoint_add, and report the end
with task_update_status, or in your last message."""
_ROLE_WAYS = {
    WishRole.PLANNER: "Change no file. Hand over the plan with workflow_set_plan, then end.",
    WishRole.REVIEWER: "Change no file. Your last message is the verdict.",
}
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
        way = _ROLE_WAYS.get(grant.role, way) if grant.role else way
        self.instructions = _INSTRUCTIONS.format(task=grant.task_id, agent=grant.agent_id, way=way)
        self.offers_tasks = any(spec.declaration.may_become_task for spec in self.tools.values())

    def is_quick(self, request: Request) -> bool:
        """Only what needs no store is quick: every call asks it what the token allows."""
        return request.method == "tools/list"

    def _find_tool(self, name: str) -> OperationSpec:
        return self._all_tools.get(name) or super()._find_tool(name)

    def _invoke(
        self, request: Request, spec: OperationSpec, arguments: Mapping[str, Any], call: Call
    ) -> ToolAnswer:
        grant = self._token.find_grant()
        agent = BoundAgent(grant.agent_id, grant.session_id, self._token.require_valid)
        caller = f"{AGENT_PREFIX}{grant.agent_id}"
        call = replace(call, caller=caller, scope="work", account=grant.attempt_id, agent=agent)
        try:
            if spec.name not in self.tools:
                raise build_tool_refusal(grant, spec.name)
            bound = bind_arguments(self.app.database, grant, spec.name, arguments)
            if spec.name in _FOR_PLANNERS:
                require_sound_plan(self.app.database, bound["id"], bound.get("plan"))
        except (NotAllowed, WeakPlan) as refusal:
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
