"""Build the context an agent needs to continue a task, within a token budget."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deepwork.kernel.notices.models import Notice
from deepwork.kernel.notices.responses import NoticeView
from deepwork.kernel.records import dataclass
from deepwork.kernel.text_budget.shortening import (
    count_json_tokens,
    shorten_text,
    shorten_to_sentence,
    summarize_text,
)
from deepwork.kernel.text_budget.token_budget import (
    ContentSection,
    FittedSection,
    ListItem,
    ListSection,
    Section,
    fit_sections,
    show_sections,
)
from deepwork.work.plans.models import (
    ApprovalTime,
    Checkpoint,
    RelatedTask,
    Task,
    TaskStatus,
    Workflow,
    list_required_approvals,
    list_required_checks,
    requirements_to_dict,
)

DEFAULT_TOKENS = 8000
MIN_TOKENS = 200
"""Enough for ids, names and statuses, and for a short note on what is missing."""

_MIN_TOKENS_TO_NAME_WORKFLOW = 500
_NOTICE_SHARE = 4
_MAX_SHOWN_FILES = 10
_MAX_BRIEF_TOKENS = 40
_MAX_RELATED_TASKS = 200
_MAX_STALE_INPUTS = 2
_STALE_WARNING = "A person rewound tasks that this one builds on: do not rely on their earlier results."
_FIXED_FIELDS = frozenset({"id", "task_id", "sequence", "type", "status", "created_at"})


@dataclass(frozen=True)
class ContextOptions:
    """What the context should contain."""

    workflow_plan: bool = True
    workflow_summary: bool = True
    prior_task_outcomes: bool = True
    prior_task_full: bool = False
    sibling_status: bool = True
    dependency_outcomes: bool = True
    all_checkpoints: bool = False
    recent_checkpoints: int = 5


@dataclass(frozen=True)
class ContextSource:
    """The data a context is built from; lists may be incomplete, their totals count everything."""

    workflow: Workflow
    task: Task
    checkpoints: Sequence[Checkpoint]
    """Newest last."""
    checkpoints_total: int
    prior_tasks: Sequence[RelatedTask]
    """Most relevant first."""
    prior_total: int
    siblings: Sequence[RelatedTask]
    siblings_total: int
    dependencies: Sequence[RelatedTask]
    dependencies_total: int
    blocked: bool = False
    workspace: Mapping[str, Any] | None = None
    """Where the task is done: path, branch, base and the branches it builds on."""
    claim: Mapping[str, Any] | None = None
    """Who holds the task, in which epoch and until when."""
    last_claim: Mapping[str, Any] | None = None
    """Who held it before, and why that ended."""
    notices: Sequence[Notice] = ()
    """What people did, for the agent that reads; `choose_notices` limits them."""


def choose_notices(waiting: Sequence[Notice], max_tokens: int) -> list[Notice]:
    """Choose the notices that fit into a quarter of the budget; another answer carries the others."""
    room = max_tokens // _NOTICE_SHARE
    chosen = []
    for notice in waiting:
        cost = count_json_tokens(_build_notice(notice))
        if cost <= room:
            chosen.append(notice)
            room -= cost
    return chosen


def build_context(source: ContextSource, options: ContextOptions, max_tokens: int) -> dict[str, Any]:
    """Build the task's context; as compact JSON it costs at most `max_tokens`.

    `truncated` lists what is missing and the tool call that returns it. Usually everything fits, which needs
    only one count. Otherwise fitting the sections is repeated with a smaller budget until the whole answer
    fits, because separators and truncations add to its cost.
    """
    source = _remove_repeated_tasks(source, options)
    sections = list(_build_sections(source, options))
    skeleton = _build_skeleton(source, options)
    if (shown := show_sections(sections, max_tokens)) is not None:
        answer = _assemble_answer(source, skeleton, sections, shown, max_tokens)
        if (total := _count_tokens_with_estimate(answer)) <= max_tokens:
            return answer | {"token_estimate": total}
    reserve = _build_combined_truncation(source, [section.name for section in sections], max_tokens)
    room = max_tokens - count_json_tokens(skeleton | {"truncated": [reserve]})
    while True:
        fitted = fit_sections(sections, room)
        answer = _assemble_answer(source, skeleton, sections, fitted, max_tokens)
        if (over := (total := _count_tokens_with_estimate(answer)) - max_tokens) <= 0 or room <= 0:
            return answer | {"token_estimate": total}
        room -= over


def build_next_context(
    source: ContextSource, own_tasks: Collection[str], last_claim: int, max_tokens: int
) -> dict[str, Any]:
    """Build the context for an agent that worked on the plan before: what it does not know yet.

    Left out are the request and the plan, its own tasks, and what had ended when it claimed the last of them.
    Dependencies stay: they are what this task is built on.
    """
    news = [task for task in source.prior_tasks if _is_new(task, own_tasks, last_claim)]
    siblings = [
        task if task.status.is_done else task._replace(description="")
        for task in source.siblings
        if task.status is not TaskStatus.PENDING and _is_new(task, own_tasks, last_claim)
    ]
    source = replace(
        source, prior_tasks=news, prior_total=len(news), siblings=siblings, siblings_total=len(siblings)
    )
    context = build_context(source, ContextOptions(workflow_plan=False, workflow_summary=False), max_tokens)
    workflow = {key: context["workflow"][key] for key in ("id", "name", "status")}
    known = {"section": "request, plan and earlier tasks, as before", "how": "task_load_context"}
    return context | {"workflow": workflow, "truncated": [*context.get("truncated", []), known]}


def _is_new(task: RelatedTask, own_tasks: Collection[str], last_claim: int) -> bool:
    return task.id not in own_tasks and (task.finished_at is None or task.finished_at >= last_claim)


def _remove_repeated_tasks(source: ContextSource, options: ContextOptions) -> ContextSource:
    """Leave each task in one list: a dependency is not repeated as a prior task."""
    if not options.dependency_outcomes:
        return source
    dependencies = {task.id for task in source.dependencies}
    others = [task for task in source.prior_tasks if task.id not in dependencies]
    left_out = len(source.prior_tasks) - len(others)
    return replace(source, prior_tasks=others, prior_total=source.prior_total - left_out)


def _assemble_answer(
    source: ContextSource,
    skeleton: dict[str, Any],
    sections: Sequence[Section],
    fitted: Sequence[FittedSection],
    max_tokens: int,
) -> dict[str, Any]:
    truncations = _list_truncations(source, fitted, max_tokens)
    return _fill_skeleton(skeleton, sections, fitted) | ({"truncated": truncations} if truncations else {})


def _fill_skeleton(
    skeleton: dict[str, Any], sections: Sequence[Section], fitted: Sequence[FittedSection]
) -> dict[str, Any]:
    answer = {key: dict(group) if isinstance(group, dict) else group for key, group in skeleton.items()}
    for section, each in zip(sections, fitted, strict=True):
        if each.value or not section.is_optional:
            *groups, key = section.path
            place = answer[groups[0]] if groups else answer
            place[key] = each.value
    return answer


def _list_truncations(
    source: ContextSource, fitted: Sequence[FittedSection], max_tokens: int
) -> list[dict[str, Any]]:
    own = [each.truncation for each in fitted if each.truncation and each.includes_truncation]
    others = [
        each.truncation["section"] for each in fitted if each.truncation and not each.includes_truncation
    ]
    return [*own, _build_combined_truncation(source, others, max_tokens)] if others else own


def _build_combined_truncation(
    source: ContextSource, names: Sequence[str], max_tokens: int
) -> dict[str, Any]:
    """Build one truncation for all sections whose own truncation does not fit."""
    how = f"task_get(id={source.task.id!r})"
    if max_tokens >= _MIN_TOKENS_TO_NAME_WORKFLOW:
        how += f", workflow_get(id={source.workflow.id!r}, include_tasks=true)"
    named = shorten_text(", ".join(names), max_tokens // 25)
    return {"section": named, "kept": 0, "total": len(names), "how": how}


def _count_tokens_with_estimate(answer: dict[str, Any]) -> int:
    """Count the tokens of the answer including `token_estimate` itself: three digits are one token."""
    without = count_json_tokens(answer | {"token_estimate": 0}) - 1
    return next(total for digits in range(1, 9) if (total := without + digits) < 1000**digits)


def _build_skeleton(source: ContextSource, options: ContextOptions) -> dict[str, Any]:
    """Build the answer with empty values where the sections go."""
    workflow, task = source.workflow, source.task
    return {
        "workflow": {
            "id": workflow.id,
            "name": "",
            "source_type": workflow.source_type.value,
            **({"source_summary": ""} if options.workflow_summary else {}),
            **({"plan_summary": ""} if options.workflow_plan else {}),
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
            **({"blocked": True} if source.blocked else {}),
            **({"attempts": task.attempts} if task.error else {}),
            **_describe_requirements(workflow, task),
            **_describe_stale_input(task),
        },
        "prior_tasks": [],
        **({"notices": list(map(_build_notice, source.notices))} if source.notices else {}),
        "token_estimate": 0,
    }


def _describe_requirements(workflow: Workflow, task: Task) -> dict[str, Any]:
    """Describe what the task must pass, by its own requirements and by its plan's; nothing if it need not."""
    plan, own = workflow.requirements, task.requirements
    if plan is None and own is None:
        return {}
    checks, approvals = list_required_checks(plan, own), list_required_approvals(plan, own)
    requires = requirements_to_dict(own) | {
        "checks": list(checks),
        "approval": [time.value for time in ApprovalTime if time in approvals],
    }
    shown = {name: value for name, value in requires.items() if value}
    return {"requires": shown} if shown else {}


def _describe_stale_input(task: Task) -> dict[str, Any]:
    """Describe that tasks it builds on were rewound after it began; nothing if none was."""
    if not task.stale_input:
        return {}
    named = [{"name": shorten_text(each["name"], _MAX_BRIEF_TOKENS)} for each in task.stale_input]
    rewound = [{**each, **short} for each, short in zip(task.stale_input, named, strict=True)]
    return {"stale_input": rewound[-_MAX_STALE_INPUTS:], "warning": _STALE_WARNING}


def _build_notice(notice: Notice) -> dict[str, Any]:
    return NoticeView.from_notice(notice).model_dump()


def _build_sections(source: ContextSource, options: ContextOptions) -> Iterator[Section]:
    """Yield the sections, most important first; the shares matter when not everything fits."""
    yield from _build_task_sections(source.task)
    yield from _build_claim_sections(source)
    if options.dependency_outcomes and source.dependencies_total:
        yield _build_dependency_section(source, in_full=options.prior_task_full)
    yield _build_checkpoint_section(source, options)
    yield from _build_workflow_sections(source.workflow, options)
    if options.prior_task_outcomes:
        yield _build_prior_task_section(source, in_full=options.prior_task_full)
    if options.sibling_status and source.siblings_total:
        yield _build_sibling_section(source)


def _build_task_sections(task: Task) -> Iterator[ContentSection]:
    how = f"task_get(id={task.id!r})"
    yield ContentSection("name", ("current_task", "name"), 20, how, task.name)
    yield ContentSection("description", ("current_task", "description"), 20, how, task.description)
    if task.error:
        yield ContentSection("error", ("current_task", "error"), 5, how, task.error, is_optional=True)
    if task.plan is not None:
        yield ContentSection("plan", ("current_task", "plan"), 15, how, dict(task.plan))
    yield ContentSection("context", ("current_task", "context"), 5, how, dict(task.context))


def _build_claim_sections(source: ContextSource) -> Iterator[ContentSection]:
    """Yield what an agent needs to go on at the right place, under its claim."""
    how = f"workspace_list(workflow_id={source.workflow.id!r})"
    history = f"workflow_get(id={source.workflow.id!r}, include_history=true)"
    for name, facts, call in (
        ("workspace", source.workspace, how),
        ("claim", source.claim, "agent_heartbeat(agent_id)"),
        ("last_claim", source.last_claim, history),
    ):
        if facts:
            yield ContentSection(name, ("current_task", name), 5, call, dict(facts), is_optional=True)


def _build_workflow_sections(workflow: Workflow, options: ContextOptions) -> Iterator[ContentSection]:
    how = f"workflow_get(id={workflow.id!r})"
    yield ContentSection("workflow_name", ("workflow", "name"), 5, how, workflow.name)
    if options.workflow_plan:
        yield ContentSection(
            "plan_summary", ("workflow", "plan_summary"), 5, how, workflow.plan_summary or ""
        )
        yield ContentSection(
            "workflow_plan", ("workflow", "plan"), 5, how, _select_plan_fields(workflow), is_optional=True
        )
    if options.workflow_summary:
        yield ContentSection(
            "source", ("workflow", "source_summary"), 10, how, workflow.source_content, summarize_text
        )


def _select_plan_fields(workflow: Workflow) -> dict[str, Any]:
    plan = workflow.initial_plan or {}
    return {key: plan[key] for key in ("approach", "risks", "assumptions") if plan.get(key)}


def _build_dependency_section(source: ContextSource, *, in_full: bool) -> ListSection[RelatedTask]:
    name = "dependency_outcomes"
    how = f"task_check_dependencies(task_id={source.task.id!r})"
    total = source.dependencies_total
    build_item = _build_full_dependency_item if in_full else _build_dependency_item
    return ListSection(name, (name,), 10, how, source.dependencies, build_item, total, is_optional=True)


def _build_checkpoint_section(
    source: ContextSource, options: ContextOptions
) -> ListSection[tuple[int, Checkpoint]]:
    """Show the newest checkpoints in full; older ones, if all are requested, in one line each."""
    newest_first = list(enumerate(reversed(source.checkpoints)))
    wanted = newest_first if options.all_checkpoints else newest_first[: options.recent_checkpoints]

    def build_item(numbered: tuple[int, Checkpoint]) -> ListItem:
        place, checkpoint = numbered
        return (
            _build_checkpoint_item(checkpoint)
            if place < options.recent_checkpoints
            else _build_brief_checkpoint_item(checkpoint)
        )

    how = f"checkpoint_list(task_id={source.task.id!r})"
    place, total = ("current_task", "checkpoints"), source.checkpoints_total
    return ListSection("checkpoints", place, 15, how, wanted, build_item, total, is_reversed=True)


def _build_checkpoint_item(checkpoint: Checkpoint) -> ListItem:
    files = list(checkpoint.files_changed[:_MAX_SHOWN_FILES])
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
    return ListItem(shown, _FIXED_FIELDS, _format_checkpoint_call(checkpoint), is_whole=not more)


def _build_brief_checkpoint_item(checkpoint: Checkpoint) -> ListItem:
    value = {"sequence": checkpoint.sequence, "type": checkpoint.type.value, "summary": checkpoint.summary}
    is_whole = not checkpoint.detail and not checkpoint.files_changed
    return ListItem(value, _FIXED_FIELDS, _format_checkpoint_call(checkpoint), is_whole=is_whole)


def _format_checkpoint_call(checkpoint: Checkpoint) -> str:
    return f"checkpoint_list(task_id={checkpoint.task_id!r}, since_sequence={checkpoint.sequence - 1})"


def _build_prior_task_section(source: ContextSource, *, in_full: bool) -> ListSection[RelatedTask]:
    how = f"workflow_get(id={source.workflow.id!r}, include_tasks=true)"
    build_item = _build_full_prior_task_item if in_full else _build_prior_task_item
    return ListSection(
        "prior_tasks", ("prior_tasks",), 15, how, source.prior_tasks, build_item, source.prior_total
    )


def _build_sibling_section(source: ContextSource) -> ListSection[RelatedTask]:
    name = "sibling_tasks"
    how = f"workflow_get(id={source.workflow.id!r}, include_tasks=true)"
    return ListSection(
        name, (name,), 5, how, source.siblings, _build_sibling_item, source.siblings_total, is_optional=True
    )


def _build_dependency_item(task: RelatedTask) -> ListItem:
    outcome = task.outcome or task.error or f"({task.status})"
    return _build_task_item(task, task_id=task.id, task_name=task.name, outcome=outcome)


def _build_prior_task_item(task: RelatedTask) -> ListItem:
    return _build_task_item(
        task, id=task.id, name=task.name, outcome=task.outcome or "", status=task.status.value
    )


def _build_full_dependency_item(task: RelatedTask) -> ListItem:
    return _build_task_item(task, **_build_dependency_item(task).value, **_select_details(task))


def _build_full_prior_task_item(task: RelatedTask) -> ListItem:
    return _build_task_item(task, **_build_prior_task_item(task).value, **_select_details(task))


def _select_details(task: RelatedTask) -> dict[str, Any]:
    detail = {
        "description": task.description,
        "outcome_detail": dict(task.outcome_detail or {}),
        "error": task.error,
    }
    return {key: value for key, value in detail.items() if value}


def _build_sibling_item(task: RelatedTask) -> ListItem:
    # What a task is about says its name until it has started.
    known = task.outcome or task.error or ("" if task.status is TaskStatus.PENDING else task.description)
    brief = shorten_to_sentence(known, _MAX_BRIEF_TOKENS)
    summary = {"brief_summary": brief} if brief else {}
    return _build_task_item(task, id=task.id, name=task.name, status=task.status.value, **summary)


def _build_task_item(task: RelatedTask, **value: Any) -> ListItem:
    return ListItem(value, _FIXED_FIELDS, f"task_get(id={task.id!r})")
