"""Summaries of plans, and what a search in them finds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from deepwork.kernel.answers import Answer
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.foreign_text import to_one_line, to_paragraph, truncate_to_line
from deepwork.kernel.records import dataclass
from deepwork.kernel.text_budget.shortening import shorten_text
from deepwork.kernel.values import format_age
from deepwork.work.plans.models import Task, TaskStatus, Workflow
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.search_store import CheckpointStore
from deepwork.work.plans.stores.task_store import TaskStore

_STATUS_MARKS = {
    TaskStatus.COMPLETED: "[x]",
    TaskStatus.SKIPPED: "[-]",
    TaskStatus.FAILED: "[!]",
    TaskStatus.PENDING: "[ ]",
}
_RUNNING_MARK = "[~]"
MAX_TASKS_PER_SECTION = 12
"""How many tasks of each kind are listed individually."""
_MAX_LINE_TOKENS = 40
_MAX_PLAN_TOKENS = 120


@dataclass(frozen=True)
class WorkflowOverview:
    """The state of a workflow: the first few tasks of each kind, and the number of tasks per status."""

    workflow: Workflow
    by_status: Mapping[TaskStatus, int]
    running: Sequence[Task]
    holders: Mapping[str, str]
    ready: Sequence[Task]
    ready_total: int
    blocked: Sequence[Task]
    failed: Sequence[Task]
    done: Sequence[Task]
    """Most recently finished first."""
    now: int = 0


def build_summary(overview: WorkflowOverview) -> dict[str, Any]:
    """Build the summary as a dict."""
    workflow = overview.workflow
    return {
        "id": workflow.id,
        "name": workflow.name,
        "status": workflow.status.value,
        "plan_summary": shorten_text(workflow.plan_summary or "", _MAX_PLAN_TOKENS),
        "total_tasks": sum(overview.by_status.values()),
        "tasks_by_status": {status.value: count for status, count in overview.by_status.items()},
        **{
            kind: [_summarize_task(task, overview.holders) for task in tasks[:MAX_TASKS_PER_SECTION]]
            for kind, tasks, _ in _group_tasks(overview)
        },
    }


def render_markdown(overview: WorkflowOverview) -> str:
    """Render the summary as Markdown."""
    workflow = overview.workflow
    total = sum(overview.by_status.values())
    done = sum(count for status, count in overview.by_status.items() if status.is_done)
    status = f"Status: {workflow.status}, {done} of {total} tasks done ({workflow.id})"
    lines = [f"# {to_one_line(workflow.name)}", ""]
    lines.append(f"{status}, changed {format_age(workflow.updated_at, overview.now)}")
    if workflow.plan_summary:
        lines += ["", to_paragraph(shorten_text(workflow.plan_summary, _MAX_PLAN_TOKENS))]
    for kind, tasks, count in _group_tasks(overview):
        if tasks:
            lines += ["", f"## {kind.capitalize()}", "", *_render_bullets(tasks, count, overview)]
    return "\n".join(lines)


def _group_tasks(overview: WorkflowOverview) -> Iterator[tuple[str, Sequence[Task], int]]:
    """Yield the name of each kind of task, the first tasks of it, and how many there are."""
    counts = overview.by_status
    running = sum(count for status, count in counts.items() if status.is_running)
    yield "running", overview.running, max(running, len(overview.running))
    yield "failed", overview.failed, counts[TaskStatus.FAILED]
    yield "next", overview.ready, overview.ready_total
    yield "blocked", overview.blocked, counts[TaskStatus.BLOCKED]
    yield "done", overview.done, counts[TaskStatus.COMPLETED] + counts[TaskStatus.SKIPPED]


def _render_bullets(tasks: Sequence[Task], count: int, overview: WorkflowOverview) -> Iterator[str]:
    for task in tasks[:MAX_TASKS_PER_SECTION]:
        line = _summarize_task(task, overview.holders)
        is_running = task.status.is_running and task.started_at is not None
        since = f"started {format_age(task.started_at or 0, overview.now)}" if is_running else None
        about = ", ".join(filter(None, [line.get("assigned_agent_id"), since]))
        who = f" ({about})" if about else ""
        outcome = f": {line['outcome']}" if "outcome" in line else ""
        yield f"- {_STATUS_MARKS.get(task.status, _RUNNING_MARK)} {line['name']} `{task.id}`{who}{outcome}"
    if (more := count - min(len(tasks), MAX_TASKS_PER_SECTION)) > 0:
        yield f"- and {more} more"


def _summarize_task(task: Task, holders: Mapping[str, str]) -> dict[str, Any]:
    outcome = task.outcome or task.error
    line = {"id": task.id, "name": _shorten_line(task.name), "status": task.status.value}
    if task.id in holders:
        line["assigned_agent_id"] = holders[task.id]
    return line | ({"outcome": _shorten_line(outcome)} if outcome else {})


def _shorten_line(text: str) -> str:
    return to_one_line(shorten_text(text, _MAX_LINE_TOKENS))


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
