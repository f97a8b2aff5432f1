"""What an agent needs to go on with a task, within a budget of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from deepwork.plans.budget import Content, Item, Listing, Part, Section, allotted
from deepwork.plans.compression import essence, one_line, shortened
from deepwork.plans.models import Checkpoint, Task, Workflow
from deepwork.plans.reduction import cost

MIN_TOKENS = 200
"""Room for ids, names and statuses, and for a word on what is missing."""

_ROOMY = 500
_SHOWN_FILES = 10
_BRIEF = 40
_NEVER_SHORTENED = frozenset({"id", "task_id", "sequence", "type", "status", "created_at"})


@dataclass(frozen=True)
class Include:
    """What to load."""

    workflow_plan: bool = True
    workflow_summary: bool = True
    prior_task_outcomes: bool = True
    prior_task_full: bool = False
    sibling_status: bool = True
    dependency_outcomes: bool = True
    all_checkpoints: bool = False
    recent_checkpoints: int = 5


@dataclass(frozen=True)
class Material:
    """What is known about a task; a list may hold less than there is, its total says how many there are."""

    workflow: Workflow
    task: Task
    checkpoints: Sequence[Checkpoint]
    """Newest last."""
    checkpoints_total: int
    prior_tasks: Sequence[Task]
    """Most relevant first."""
    prior_total: int
    siblings: Sequence[Task]
    siblings_total: int
    dependencies: Sequence[Task]
    dependencies_total: int
    blocked: bool = False


def load(material: Material, include: Include, max_tokens: int) -> dict[str, Any]:
    """The task's context; as compact JSON it costs no more than that. `truncated` names what is missing."""
    sections = list(_sections(material, include))
    skeleton = _skeleton(material, include)
    reserve = _note_on_others(material, [section.name for section in sections], max_tokens)
    room = max_tokens - cost(skeleton | {"truncated": [reserve]})
    while True:
        parts = allotted(sections, room)
        notes = _notes(material, parts, max_tokens)
        answer = _filled(skeleton, sections, parts) | ({"truncated": notes} if notes else {})
        if (over := (total := _cost_with_estimate(answer)) - max_tokens) <= 0 or room <= 0:
            return answer | {"token_estimate": total}
        room -= over


def _filled(skeleton: dict[str, Any], sections: Sequence[Section], parts: Sequence[Part]) -> dict[str, Any]:
    answer = {key: dict(group) if isinstance(group, dict) else group for key, group in skeleton.items()}
    for section, part in zip(sections, parts, strict=True):
        if part.value or not section.is_optional:
            *groups, key = section.place
            place = answer[groups[0]] if groups else answer
            place[key] = part.value
    return answer


def _notes(material: Material, parts: Sequence[Part], max_tokens: int) -> list[dict[str, Any]]:
    told = [part.note for part in parts if part.note and part.is_told]
    untold = [part.note["section"] for part in parts if part.note and not part.is_told]
    return [*told, _note_on_others(material, untold, max_tokens)] if untold else told


def _note_on_others(material: Material, names: Sequence[str], max_tokens: int) -> dict[str, Any]:
    """In place of the notes there is no room for."""
    how = f"task_get(id={material.task.id!r})"
    if max_tokens >= _ROOMY:
        how += f", workflow_get(id={material.workflow.id!r}, include_tasks=true)"
    named = shortened(", ".join(names), max_tokens // 25)
    return {"section": named, "kept": 0, "total": len(names), "how": how}


def _cost_with_estimate(answer: dict[str, Any]) -> int:
    """What the answer costs with this very number in it: three digits are a token."""
    without = cost(answer | {"token_estimate": 0}) - 1
    return next(total for digits in range(1, 9) if (total := without + digits) < 1000**digits)


def _skeleton(material: Material, include: Include) -> dict[str, Any]:
    """What every answer has, with nothing where the sections go."""
    workflow, task = material.workflow, material.task
    return {
        "workflow": {
            "id": workflow.id,
            "name": "",
            "source_type": workflow.source_type.value,
            **({"source_summary": ""} if include.workflow_summary else {}),
            **({"plan_summary": ""} if include.workflow_plan else {}),
            "status": workflow.status.value,
            "max_parallel_tasks": workflow.max_parallel_tasks,
        },
        "current_task": {
            "id": task.id,
            "name": "",
            "description": "",
            "plan": None if task.plan is None else {},
            "context": {},
            "checkpoints": [],
            "status": task.status.value,
            "sequence": task.sequence,
            **({"blocked": True} if material.blocked else {}),
            **({"attempts": task.attempts} if task.error else {}),
        },
        "prior_tasks": [],
        "token_estimate": 0,
    }


def _sections(material: Material, include: Include) -> Iterator[Section]:
    """The most important first; the shares are for when all want more than there is."""
    yield from _about_the_task(material.task)
    if include.dependency_outcomes and material.dependencies_total:
        yield _dependencies(material)
    yield _checkpoints(material, include)
    yield from _about_the_workflow(material.workflow, include)
    if include.prior_task_outcomes:
        yield _prior_tasks(material, in_full=include.prior_task_full)
    if include.sibling_status and material.siblings_total:
        yield _siblings(material)


def _about_the_task(task: Task) -> Iterator[Content]:
    how = f"task_get(id={task.id!r})"
    yield Content("name", ("current_task", "name"), 20, how, task.name)
    yield Content("description", ("current_task", "description"), 20, how, task.description)
    if task.error:
        yield Content("error", ("current_task", "error"), 5, how, task.error, is_optional=True)
    if task.plan is not None:
        yield Content("plan", ("current_task", "plan"), 15, how, dict(task.plan))
    yield Content("context", ("current_task", "context"), 5, how, dict(task.context))


def _about_the_workflow(workflow: Workflow, include: Include) -> Iterator[Content]:
    how = f"workflow_get(id={workflow.id!r})"
    yield Content("workflow_name", ("workflow", "name"), 5, how, workflow.name)
    if include.workflow_plan:
        yield Content("plan_summary", ("workflow", "plan_summary"), 5, how, workflow.plan_summary or "")
        yield Content("workflow_plan", ("workflow", "plan"), 5, how, _plan(workflow), is_optional=True)
    if include.workflow_summary:
        yield Content("source", ("workflow", "source_summary"), 10, how, workflow.source_content, essence)


def _plan(workflow: Workflow) -> dict[str, Any]:
    plan = workflow.initial_plan or {}
    return {key: plan[key] for key in ("approach", "risks", "assumptions") if plan.get(key)}


def _dependencies(material: Material) -> Listing[Task]:
    name = "dependency_outcomes"
    how = f"task_check_dependencies(task_id={material.task.id!r})"
    total = material.dependencies_total
    return Listing(name, (name,), 10, how, material.dependencies, _dependency, total, is_optional=True)


def _checkpoints(material: Material, include: Include) -> Listing[tuple[int, Checkpoint]]:
    """The newest in full, older ones in a line each if all are wanted."""
    newest_first = list(enumerate(reversed(material.checkpoints)))
    wanted = newest_first if include.all_checkpoints else newest_first[: include.recent_checkpoints]

    def as_item(numbered: tuple[int, Checkpoint]) -> Item:
        place, checkpoint = numbered
        return _checkpoint(checkpoint) if place < include.recent_checkpoints else _old_checkpoint(checkpoint)

    how = f"checkpoint_list(task_id={material.task.id!r})"
    place, total = ("current_task", "checkpoints"), material.checkpoints_total
    return Listing("checkpoints", place, 15, how, wanted, as_item, total, is_shown_backwards=True)


def _checkpoint(checkpoint: Checkpoint) -> Item:
    files = list(checkpoint.files_changed[:_SHOWN_FILES])
    if more := len(checkpoint.files_changed) - len(files):
        files.append(f"and {more} more")
    value = {
        "id": checkpoint.id,
        "sequence": checkpoint.sequence,
        "type": checkpoint.type.value,
        "summary": checkpoint.summary,
        "detail": dict(checkpoint.detail or {}),
        "files_changed": files,
        "created_at": checkpoint.created_at,
    }
    shown = {key: inner for key, inner in value.items() if inner not in ({}, [])}
    return Item(shown, _NEVER_SHORTENED, _call_for(checkpoint), is_whole=not more)


def _old_checkpoint(checkpoint: Checkpoint) -> Item:
    value = {"sequence": checkpoint.sequence, "type": checkpoint.type.value, "summary": checkpoint.summary}
    is_whole = not checkpoint.detail and not checkpoint.files_changed
    return Item(value, _NEVER_SHORTENED, _call_for(checkpoint), is_whole=is_whole)


def _call_for(checkpoint: Checkpoint) -> str:
    return f"checkpoint_list(task_id={checkpoint.task_id!r}, since_sequence={checkpoint.sequence - 1})"


def _prior_tasks(material: Material, *, in_full: bool) -> Listing[Task]:
    how = f"workflow_get(id={material.workflow.id!r}, include_tasks=true)"
    as_item = _prior_task_in_full if in_full else _prior_task
    return Listing(
        "prior_tasks", ("prior_tasks",), 15, how, material.prior_tasks, as_item, material.prior_total
    )


def _siblings(material: Material) -> Listing[Task]:
    name = "sibling_tasks"
    how = f"workflow_get(id={material.workflow.id!r}, include_tasks=true)"
    return Listing(
        name, (name,), 5, how, material.siblings, _sibling, material.siblings_total, is_optional=True
    )


def _dependency(task: Task) -> Item:
    outcome = task.outcome or task.error or f"({task.status})"
    return _item(task, task_id=task.id, task_name=task.name, outcome=outcome)


def _prior_task(task: Task) -> Item:
    return _item(task, id=task.id, name=task.name, outcome=task.outcome or "", status=task.status.value)


def _prior_task_in_full(task: Task) -> Item:
    detail = {
        "description": task.description,
        "outcome_detail": dict(task.outcome_detail or {}),
        "error": task.error,
    }
    return _item(task, **_prior_task(task).value, **{key: value for key, value in detail.items() if value})


def _sibling(task: Task) -> Item:
    brief = one_line(task.outcome or task.error or task.description, _BRIEF)
    said = {"brief_summary": brief} if brief else {}
    return _item(task, id=task.id, name=task.name, status=task.status.value, **said)


def _item(task: Task, **value: Any) -> Item:
    return Item(value, _NEVER_SHORTENED, f"task_get(id={task.id!r})")
