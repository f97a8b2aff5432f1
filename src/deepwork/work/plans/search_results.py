"""Answers to searches and summaries of plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from deepwork.kernel.answers import Answer
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.text_budget.lines import truncate_to_line
from deepwork.work.plans.stores.checkpoint_store import CheckpointStore
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore


class Summary(Answer):
    summary: str | dict[str, Any]
    token_estimate: int


class SearchHit(Answer):
    kind: Literal["workflow", "task", "checkpoint"]
    id: str
    workflow_id: str
    task_id: str | None = None
    name: str
    snippet: str


class SearchResults(Answer):
    results: list[SearchHit]
    total: int


def load_results(tx: Transaction, ids: Sequence[str], query: str) -> list[SearchHit]:
    """Load what these ids refer to, in the same order; ids that no longer exist are left out."""
    tasks = TaskStore(tx).find_by_ids([id for id in ids if id.startswith("tk_")])
    checkpoints = CheckpointStore(tx).find_by_ids([id for id in ids if id.startswith("cp_")])
    checkpoint_tasks = TaskStore(tx).find_by_ids([checkpoint.task_id for checkpoint in checkpoints.values()])
    workflows = PlanStore(tx).find_by_ids([id for id in ids if id.startswith("wf_")])
    found: list[SearchHit] = []
    for id in ids:
        if id in tasks:
            task = tasks[id]
            text = "\n".join(filter(None, [task.outcome, task.error, task.description]))
            found.append(
                _build_result("task", id, task.workflow_id, task.name, _extract_snippet(text, query))
            )
        elif id in checkpoints and checkpoints[id].task_id in checkpoint_tasks:
            task = checkpoint_tasks[checkpoints[id].task_id]
            snippet = _extract_snippet(checkpoints[id].summary, query)
            found.append(
                _build_result("checkpoint", id, task.workflow_id, task.name, snippet, task_id=task.id)
            )
        elif id in workflows:
            workflow = workflows[id]
            text = "\n".join(filter(None, [workflow.plan_summary, workflow.source_content]))
            found.append(_build_result("workflow", id, id, workflow.name, _extract_snippet(text, query)))
    return found


def _build_result(
    kind: Literal["workflow", "task", "checkpoint"],
    id: str,
    workflow_id: str,
    name: str,
    snippet: str,
    task_id: str | None = None,
) -> SearchHit:
    return SearchHit(kind=kind, id=id, workflow_id=workflow_id, task_id=task_id, name=name, snippet=snippet)


def _extract_snippet(text: str, query: str) -> str:
    """Return the text around the first word of the query that occurs in it."""
    folded = text.casefold()
    places = [place for word in query.casefold().split() if (place := folded.find(word)) >= 0]
    start = max(0, min(places, default=0) - 60)
    return ("…" if start else "") + (truncate_to_line(text[start:]) or "")
