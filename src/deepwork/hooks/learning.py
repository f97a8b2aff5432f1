"""Who a client's session is, learnt from the answers of our own tools as they pass by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

MAX_AGENTS = 20
"""One session may speak for several agents; more than so many are nobody's own."""
MAX_JOBS = 10

# In whose name a call is made: the parameter that says so. Whoever only reads may be anybody.
_ACTS_AS = {
    "agent_heartbeat": "agent_id",
    "agent_update": "id",
    "checkpoint_add": "agent_id",
    "message_send": "sender_id",
    "task_claim": "agent_id",
    "task_replan": "agent_id",
    "task_set_plan": "agent_id",
    "task_update_status": "agent_id",
}
_ON_SESSIONS = frozenset({"start_workflow", "finished_step", "go_to_step"})
_ON_TRACKED = frozenset({"start_workflow", "start_phase", "start_task"})


@dataclass(frozen=True)
class Record:
    """What is known of one session of a client."""

    client: str
    session_id: str
    subagent: str = ""
    root: str = ""
    """The project that it works in."""
    agents: tuple[str, ...] = ()
    """Whom it acts as, the last one first."""
    jobs: tuple[str, ...] = ()
    """The job sessions that it works on, the last one first: one may be begun inside another."""
    workflow: str | None = None
    """The tracked workflow that it works on."""
    shown: Mapping[str, int] | None = None
    """By agent, the place in its inbox up to which urgent messages were shown."""
    told: tuple[str, ...] = ()
    """What it has been told once and is not told again."""

    @property
    def knows_something(self) -> bool:
        return bool(self.agents or self.jobs or self.workflow)


def learned(record: Record, tool: str, given: Mapping[str, Any], answer: Mapping[str, Any]) -> Record:
    """The record with what a call and its answer tell; of a refused call, nothing."""
    if not tool or _is_refused(answer):
        return record
    return _on_work(_on_agents(record, tool, given, answer), tool, given, answer)


def _on_agents(record: Record, tool: str, given: Mapping[str, Any], answer: Mapping[str, Any]) -> Record:
    if tool == "agent_register":
        return _acting_as(record, answer.get("id"))
    if tool == "agent_unregister":
        return replace(record, agents=tuple(each for each in record.agents if each != given.get("id")))
    return _acting_as(record, given.get(_ACTS_AS[tool])) if tool in _ACTS_AS else record


def _on_work(record: Record, tool: str, given: Mapping[str, Any], answer: Mapping[str, Any]) -> Record:
    if tool == "complete_workflow":
        is_same = given.get("workflow_id") in (None, record.workflow)
        return replace(record, workflow=None) if is_same else record
    is_complete = tool == "finished_step" and answer.get("status") == "workflow_complete"
    if tool == "abort_workflow" or is_complete:
        ended = given.get("session_id") or next(iter(record.jobs), None)
        return replace(record, jobs=tuple(each for each in record.jobs if each != ended))
    if tool in _ON_SESSIONS and (job := _job(given, answer)):
        others = [each for each in record.jobs if each != job]
        return replace(record, jobs=(job, *others)[:MAX_JOBS])
    workflow = (given.get("workflow_id") or answer.get("workflow_id")) if tool in _ON_TRACKED else None
    if isinstance(workflow, str) and workflow.startswith("tw_"):
        return replace(record, workflow=workflow[:64])
    return record


def _acting_as(record: Record, agent: Any) -> Record:
    if not isinstance(agent, str) or not agent.startswith("ag_"):
        return record
    others = [each for each in record.agents if each != agent]
    return replace(record, agents=(agent[:64], *others)[:MAX_AGENTS])


def _job(given: Mapping[str, Any], answer: Mapping[str, Any]) -> str | None:
    """The session of the step that an answer says to do, or whose step was sent back."""
    step = answer.get("begin_step")
    found = step.get("session_id") if isinstance(step, dict) else given.get("session_id")
    return found[:64] if isinstance(found, str) else None


def _is_refused(answer: Mapping[str, Any]) -> bool:
    return {"code", "recoverable"} <= answer.keys() or answer.get("success") is False
