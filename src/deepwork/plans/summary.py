"""A workflow in a few lines: for CLAUDE.md, or for whoever asks how it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deepwork.plans.compression import shortened
from deepwork.plans.models import Task, TaskStatus, Workflow

_MARKS = {
    TaskStatus.COMPLETED: "[x]",
    TaskStatus.SKIPPED: "[-]",
    TaskStatus.FAILED: "[!]",
    TaskStatus.PENDING: "[ ]",
}
_UNDER_WAY = "[~]"
_LINES = 12
"""How many tasks of a kind are told one by one."""
_LINE_TOKENS = 40
_PLAN_TOKENS = 120


@dataclass(frozen=True)
class Overview:
    """How a workflow stands: of each kind the first few tasks, and how many there are of every status."""

    workflow: Workflow
    by_status: Mapping[TaskStatus, int]
    running: Sequence[Task]
    holders: Mapping[str, str]
    ready: Sequence[Task]
    ready_total: int
    blocked: Sequence[Task]
    failed: Sequence[Task]
    done: Sequence[Task]
    """The last finished first."""


def as_object(overview: Overview) -> dict[str, Any]:
    """The summary as data."""
    workflow = overview.workflow
    return {
        "id": workflow.id,
        "name": workflow.name,
        "status": workflow.status.value,
        "plan_summary": shortened(workflow.plan_summary or "", _PLAN_TOKENS),
        "total_tasks": sum(overview.by_status.values()),
        "tasks_by_status": {status.value: count for status, count in overview.by_status.items()},
        **{
            kind: [_line(task, overview.holders) for task in tasks[:_LINES]]
            for kind, tasks, _ in _kinds(overview)
        },
    }


def as_markdown(overview: Overview) -> str:
    """The summary as a page."""
    workflow = overview.workflow
    total = sum(overview.by_status.values())
    done = sum(count for status, count in overview.by_status.items() if status.is_done)
    lines = [
        f"# {workflow.name}",
        "",
        f"Status: {workflow.status}, {done} of {total} tasks done ({workflow.id})",
    ]
    if workflow.plan_summary:
        lines += ["", shortened(workflow.plan_summary, _PLAN_TOKENS)]
    for kind, tasks, count in _kinds(overview):
        if tasks:
            lines += ["", f"## {kind.capitalize()}", "", *_bullets(tasks, count, overview.holders)]
    return "\n".join(lines)


def _kinds(overview: Overview) -> Iterator[tuple[str, Sequence[Task], int]]:
    """What each kind of task is called, the first of them, and how many there are."""
    counts = overview.by_status
    running = sum(count for status, count in counts.items() if status.is_running)
    yield "running", overview.running, max(running, len(overview.running))
    yield "failed", overview.failed, counts[TaskStatus.FAILED]
    yield "next", overview.ready, overview.ready_total
    yield "blocked", overview.blocked, counts[TaskStatus.BLOCKED]
    yield "done", overview.done, counts[TaskStatus.COMPLETED] + counts[TaskStatus.SKIPPED]


def _bullets(tasks: Sequence[Task], count: int, holders: Mapping[str, str]) -> Iterator[str]:
    for task in tasks[:_LINES]:
        line = _line(task, holders)
        who = f" ({line['assigned_agent_id']})" if "assigned_agent_id" in line else ""
        said = f": {line['outcome']}" if "outcome" in line else ""
        yield f"- {_MARKS.get(task.status, _UNDER_WAY)} {line['name']} `{task.id}`{who}{said}"
    if (more := count - min(len(tasks), _LINES)) > 0:
        yield f"- and {more} more"


def _line(task: Task, holders: Mapping[str, str]) -> dict[str, Any]:
    said = task.outcome or task.error
    line = {"id": task.id, "name": _one_line(task.name), "status": task.status.value}
    if task.id in holders:
        line["assigned_agent_id"] = holders[task.id]
    return line | ({"outcome": _one_line(said)} if said else {})


def _one_line(text: str) -> str:
    return " ".join(shortened(text, _LINE_TOKENS).split())
