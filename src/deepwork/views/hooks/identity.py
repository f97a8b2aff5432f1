"""Which agents and work a client session belongs to, learned from calls of our tools that hooks observe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deepwork.kernel.records import dataclass

MAX_AGENTS = 20
"""A session may act as several agents; only the most recent ones are recorded."""
MAX_JOBS = 10
MAX_ISSUES = 20
MAX_CARRIED = 20

# The parameter that names the acting agent, by tool. A hook runs after every tool call, so it does not import
# the tools; a test compares this table with their declarations.
_ACTS_AS = {
    "agent_heartbeat": "agent_id",
    "agent_update": "id",
    "checkpoint_add": "agent_id",
    "message_broadcast": "sender_id",
    "message_send": "sender_id",
    "task_claim": "agent_id",
    "task_release": "agent_id",
    "task_replan": "agent_id",
    "task_set_plan": "agent_id",
    "task_update_status": "agent_id",
}
_JOB_SESSION_TOOLS = frozenset({"start_workflow", "finished_step", "go_to_step"})
_TRACKING_TOOLS = frozenset({"start_workflow", "start_phase", "start_task"})


@dataclass(frozen=True)
class SessionRecord:
    """What is known about one session of a client.

    The field names are the keys of the JSON files that `SessionMemory` writes.
    """

    client: str
    session_id: str
    subagent: str = ""
    root: str = ""
    """The project it works in."""
    agents: tuple[str, ...] = ()
    """Ids of the agents it acts as, the most recent first."""
    jobs: tuple[str, ...] = ()
    """Ids of its job sessions, the most recent first; sessions can be nested."""
    workflow: str | None = None
    """Id of the tracked workflow it works on."""
    told: tuple[str, ...] = ()
    """Names of what was said already and no row remembers, which is not repeated."""
    issues: tuple[str, ...] = ()
    """Ids of issues that it logged for a person, the newest first, whose answers it has not seen."""
    carried: tuple[str, ...] = ()
    """Ids of the notices in the last answer or hook, which are repeated if the session starts again now."""

    @property
    def has_identity(self) -> bool:
        return bool(self.agents or self.jobs or self.workflow or self.issues)


def learn_from_call(
    record: SessionRecord, tool: str, arguments: Mapping[str, Any], answer: Mapping[str, Any]
) -> SessionRecord:
    """Return the record updated from a call and its answer; a refused call changes nothing."""
    if not tool or _is_refused(answer):
        return record
    learned = _update_work(_update_agents(record, tool, arguments, answer), tool, arguments, answer)
    return _update_notices(learned, tool, arguments, answer)


def _update_agents(
    record: SessionRecord, tool: str, arguments: Mapping[str, Any], answer: Mapping[str, Any]
) -> SessionRecord:
    if tool == "agent_register":
        return _add_agent(record, answer.get("id"))
    if tool == "agent_unregister":
        return replace(record, agents=tuple(each for each in record.agents if each != arguments.get("id")))
    return _add_agent(record, arguments.get(_ACTS_AS[tool])) if tool in _ACTS_AS else record


def _update_work(
    record: SessionRecord, tool: str, arguments: Mapping[str, Any], answer: Mapping[str, Any]
) -> SessionRecord:
    if tool == "complete_workflow":
        is_same = arguments.get("workflow_id") in (None, record.workflow)
        return replace(record, workflow=None) if is_same else record
    is_complete = tool == "finished_step" and answer.get("status") == "workflow_complete"
    if tool == "abort_workflow" or is_complete:
        ended = arguments.get("session_id") or next(iter(record.jobs), None)
        return replace(record, jobs=tuple(each for each in record.jobs if each != ended))
    if tool in _JOB_SESSION_TOOLS and (job := _find_job_session(arguments, answer)):
        others = [each for each in record.jobs if each != job]
        return replace(record, jobs=(job, *others)[:MAX_JOBS])
    workflow = (
        (arguments.get("workflow_id") or answer.get("workflow_id")) if tool in _TRACKING_TOOLS else None
    )
    if isinstance(workflow, str) and workflow.startswith("tw_"):
        return replace(record, workflow=workflow[:64])
    return record


def _update_notices(
    record: SessionRecord, tool: str, arguments: Mapping[str, Any], answer: Mapping[str, Any]
) -> SessionRecord:
    """Add an issue that waits for a person; note the notices that the answer carried."""
    issue = answer.get("issue_id")
    if tool == "log_issue" and arguments.get("requires_human_review") and isinstance(issue, str):
        record = replace(record, issues=(issue[:64], *record.issues)[:MAX_ISSUES])
    carried = answer.get("notices")
    if not isinstance(carried, list):
        return record
    seen = [each for each in carried[:MAX_CARRIED] if isinstance(each, dict)]
    answered = {each.get("about") for each in seen}
    return replace(
        record,
        carried=tuple(str(each.get("id"))[:64] for each in seen),
        issues=tuple(each for each in record.issues if each not in answered),
    )


def _add_agent(record: SessionRecord, agent: Any) -> SessionRecord:
    if not isinstance(agent, str) or not agent.startswith("ag_"):
        return record
    others = [each for each in record.agents if each != agent]
    return replace(record, agents=(agent[:64], *others)[:MAX_AGENTS])


def _find_job_session(arguments: Mapping[str, Any], answer: Mapping[str, Any]) -> str | None:
    """Find the job session of the step to do next, or of the step that was sent back."""
    step = answer.get("begin_step")
    found = step.get("session_id") if isinstance(step, dict) else arguments.get("session_id")
    return found[:64] if isinstance(found, str) else None


def _is_refused(answer: Mapping[str, Any]) -> bool:
    return {"code", "recoverable"} <= answer.keys() or answer.get("success") is False
