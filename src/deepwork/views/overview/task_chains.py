"""Builds the chain behind tasks: goal, decisions, checks, approvals, attempts, agents, cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from deepwork.gates.budgets.models import MICROS_PER_USD
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import format_optional_timestamp, format_timestamp
from deepwork.views.overview.provenance_store import ProvenanceStore
from deepwork.views.overview.run_store import parse_session_row
from deepwork.views.overview.why_answers import (
    ApprovalLine,
    ChainAgent,
    ChainAttempt,
    ChainDecision,
    ChainLanding,
    GoalView,
    ProofLine,
    TaskChain,
)

_MAX_TEXT = 2_000
FindTranscript = Callable[[str, int, str], str | None]
"""Returns the file with the output of an attempt, by its id, its last start and its host."""


@dataclass(frozen=True)
class _Facts:
    """What is known about tasks, by task id."""

    decisions: Mapping[str, list[ChainDecision]]
    checks: Mapping[str, list[ProofLine]]
    approvals: Mapping[str, list[ApprovalLine]]
    """Also by the id of a plan."""
    attempts: Mapping[str, list[ChainAttempt]]
    agents: Mapping[str, list[ChainAgent]]
    landings: Mapping[str, list[ChainLanding]]
    spending: Mapping[str, list[Row]]


def build_chains(
    tx: Transaction,
    task_ids: Collection[str],
    makers: Collection[tuple[str, str | None]],
    find_transcript: FindTranscript,
) -> list[TaskChain]:
    """Build the chain of each task; `makers` are the tasks and agents that made the commits in question."""
    store = ProvenanceStore(tx, task_ids)
    heads = _list_heads(store, task_ids)
    goals = sorted({head["goal"].id for head in heads if head["goal"]})
    facts = _load_facts(store, goals, makers, find_transcript)
    return [_build_chain(head, facts) for head in heads]


def _list_heads(store: ProvenanceStore, task_ids: Collection[str]) -> list[dict[str, Any]]:
    """List the tasks themselves, of every kind; one that is not stored any more has only its id."""
    heads = {row["id"]: _build_head("task", "plan", row) for row in store.list_planned_tasks()}
    for row in store.list_tracked_tasks():
        outcome = json.loads(row["outcome"] or "{}").get("summary")
        heads[row["id"]] = _build_head("tracked_task", "tracked_workflow", row | {"outcome": outcome})
    heads |= _list_steps(store, task_ids)
    return [
        heads.get(id) or {"id": id, "kind": "unknown", "name": id, "goal": None} for id in sorted(task_ids)
    ]


def _build_head(kind: str, goal_kind: str, row: Row) -> dict[str, Any]:
    goal = GoalView(kind=goal_kind, id=row["workflow_id"], name=row["goal_name"], text=_cut(row["goal_text"]))
    return {
        "id": row["id"],
        "kind": kind,
        "name": row["name"],
        "status": row["status"].lower(),
        "description": _cut(row["description"]),
        "outcome": _cut(row["outcome"]),
        "goal": goal,
        "agent_name": row.get("agent_name"),
        "own_tokens": row.get("tokens"),
    }


def _list_steps(store: ProvenanceStore, task_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    sessions = {row["id"]: parse_session_row(row) for row in store.list_sessions()}
    heads = {}
    for id in task_ids:
        session_id, _, step = id.partition("/")
        session = sessions.get(session_id)
        if session is None or step not in session.steps:
            continue
        goal = GoalView(kind="job", id=session.id, name=session.name, text=_cut(session.goal))
        status = session.get_step_status(step)
        heads[id] = {"id": id, "kind": "step", "name": step, "status": status, "goal": goal}
    return heads


def _load_facts(
    store: ProvenanceStore,
    goals: list[str],
    makers: Collection[tuple[str, str | None]],
    find_transcript: FindTranscript,
) -> _Facts:
    spending = _group(store.list_spending(), "task_id", dict)
    models = {
        (row["task_id"], row["agent_id"]): row["model"]
        for rows in spending.values()
        for row in rows
        if row["model"]
    }

    def build_attempt(row: Row) -> ChainAttempt:
        agent = (row["task_id"], row["agent_id"])
        return ChainAttempt(
            **row,
            usd=int(row["usd_micros"]) / MICROS_PER_USD,
            model=models.get(agent),
            transcript=find_transcript(row["id"], row["starts"], row["host"]) if row["starts"] else None,
            made_it=agent in makers,
        )

    return _Facts(
        decisions=_group(store.list_decisions(), "task_id", _build_decision),
        checks=_group(store.list_proofs(), "task_id", _build_proof),
        approvals=_group(store.list_approvals(goals), "subject_id", _build_approval),
        attempts=_group(store.list_attempts(), "task_id", build_attempt),
        agents=_group(store.list_holders(), "task_id", lambda row: ChainAgent(**row)),
        landings=_group(store.list_landings(), "task_id", _build_landing),
        spending=spending,
    )


def _build_chain(head: Mapping[str, Any], facts: _Facts) -> TaskChain:
    id, goal = head["id"], head["goal"]
    spent = facts.spending.get(id, [])
    named = head.get("agent_name")
    agents = {agent.id: agent for agent in facts.agents.get(id, [])}
    tokens = sum(int(row["tokens"]) for row in spent) or head.get("own_tokens")
    return TaskChain(
        **head,
        decisions=facts.decisions.get(id, []),
        checks=facts.checks.get(id, []),
        approvals=[*facts.approvals.get(id, []), *(facts.approvals.get(goal.id, []) if goal else [])],
        attempts=facts.attempts.get(id, []),
        landings=facts.landings.get(id, []),
        agents=list(agents.values()) or ([ChainAgent(id=named, name=named)] if named else []),
        models=sorted({row["model"] for row in spent if row["model"]}),
        tokens=tokens or None,
        usd=sum(int(row["usd_micros"]) for row in spent) / MICROS_PER_USD if spent else None,
    )


def _build_decision(row: Row) -> ChainDecision:
    reasoning = _cut(row["reasoning"])
    return ChainDecision(**{**row, "chosen": _cut(row["chosen"]) or "", "reasoning": reasoning})


def _build_proof(row: Row) -> ProofLine:
    created_at = format_timestamp(row["created_at"])
    return ProofLine(**{**row, "check": row["check_name"], "proof_id": row["id"], "created_at": created_at})


def _build_landing(row: Row) -> ChainLanding:
    return ChainLanding(**{**row, "ended_at": format_optional_timestamp(row["ended_at"])})


def _build_approval(row: Row) -> ApprovalLine:
    decided_at = format_optional_timestamp(row["decided_at"])
    return ApprovalLine(**{**row, "kind": row["subject_kind"], "decided_at": decided_at})


Line = TypeVar("Line")


def _group(rows: Iterable[Row], key: str, build: Callable[[Row], Line]) -> dict[str, list[Line]]:
    found: dict[str, list[Line]] = {}
    for row in rows:
        found.setdefault(row[key], []).append(build(row))
    return found


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:_MAX_TEXT]
