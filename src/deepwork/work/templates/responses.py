"""Response models of the template tools."""

from __future__ import annotations

from typing import Any, Self

from deepwork.kernel.answers import Answer
from deepwork.work.plans.models import Complexity, Outline
from deepwork.work.templates.models import Template, TemplateSource

MAX_LISTED_TASKS = 50
MAX_LISTED_TEXT = 500


class TaskForm(Answer):
    """A task with its placeholders."""

    name: str
    description: str
    sequence: int
    parallel_group: str | None = None
    depends_on: list[str] | None = None
    estimated_complexity: Complexity | None = None
    files_likely_affected: list[str] | None = None
    required_capabilities: list[str] | None = None
    max_attempts: int | None = None
    checks: list[str] | None = None
    approval: list[str] | None = None
    budget: dict[str, float] | None = None
    changes: str | None = None

    @classmethod
    def from_task(cls, task: Outline) -> Self:
        return cls(**task.to_dict())


class VariableForm(Answer):
    name: str
    description: str
    required: bool
    default: str | None = None


class DefinitionView(Answer):
    tasks: list[TaskForm]
    variables: list[VariableForm]


class TemplateView(Answer):
    """A template; in a list, long texts and plans are truncated."""

    id: str
    name: str
    description: str | None = None
    template: DefinitionView
    version: int
    created_at: int | None = None
    source: TemplateSource | None = None
    shipped: bool | None = None
    tasks_total: int | None = None
    truncated: bool | None = None

    @classmethod
    def from_template(cls, template: Template, **more: Any) -> Self:
        definition = DefinitionView(
            tasks=[TaskForm.from_task(task) for task in template.tasks],
            variables=[VariableForm.of(variable) for variable in template.variables],
        )
        shipped = True if template.source is TemplateSource.SHIPPED else None
        return cls.of(template, template=definition, shipped=shipped, **more)

    @classmethod
    def excerpt_from_template(cls, template: Template) -> Self:
        """Build the view for a list, with long texts and plans truncated; a request by id returns all."""
        whole = cls.from_template(template)
        tasks = [_shorten(task) for task in whole.template.tasks[:MAX_LISTED_TASKS]]
        if tasks == whole.template.tasks:
            return whole
        cut = whole.template.model_copy(update={"tasks": tasks})
        return whole.model_copy(
            update={"template": cut, "tasks_total": len(template.tasks), "truncated": True}
        )


class FileError(Answer):
    """A template file that cannot be used."""

    file: str
    line: int
    error: str


class Templates(Answer):
    templates: list[TemplateView]
    total: int
    errors: list[FileError] | None = None


class TemplateCreated(Answer):
    id: str


class TemplateApplied(Answer):
    workflow_id: str


def _shorten(task: TaskForm) -> TaskForm:
    if len(task.description) <= MAX_LISTED_TEXT:
        return task
    return task.model_copy(update={"description": task.description[: MAX_LISTED_TEXT - 1] + "…"})
