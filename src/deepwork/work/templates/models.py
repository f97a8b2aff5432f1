"""Templates: the tasks of a plan, with variables to fill in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deepwork.kernel.names import CaseInsensitiveEnum
from deepwork.work.plans.models import Complexity, Outline, read_task_requirements, requirements_to_dict


class TemplateSource(CaseInsensitiveEnum):
    """Where a template file comes from, in order of precedence."""

    PROJECT = "project"
    USER = "user"
    SHIPPED = "shipped"


class TemplateEvent(CaseInsensitiveEnum):
    """Events about templates; the payload is the template as `TemplateView` shows it."""

    CREATED = "template:created"


@dataclass(frozen=True)
class Variable:
    """A variable of a template, written in its texts as the placeholder `{{name}}`."""

    name: str
    description: str = ""
    required: bool = True
    default: str | None = None


@dataclass(frozen=True)
class Template:
    """A reusable plan; times are Unix milliseconds."""

    id: str
    name: str
    description: str | None
    tasks: tuple[Outline, ...]
    variables: tuple[Variable, ...]
    """All variables: the declared ones, then those that only occur in the texts."""
    version: int = 1
    created_at: int | None = None
    source: TemplateSource | None = None
    """None if it is stored in the database."""


def parse_task(written: Mapping[str, Any]) -> Outline:
    """Parse a task from its JSON or YAML form."""
    complexity = written.get("estimated_complexity")
    return Outline(
        name=written["name"],
        description=written.get("description") or "",
        sequence=written.get("sequence", 1),
        parallel_group=written.get("parallel_group"),
        depends_on=_to_strings(written["depends_on"]) if written.get("depends_on") is not None else None,
        estimated_complexity=None if complexity is None else Complexity(complexity),
        files_likely_affected=_to_strings(written.get("files_likely_affected")),
        required_capabilities=_to_strings(written.get("required_capabilities")),
        max_attempts=written.get("max_attempts"),
        requirements=read_task_requirements(written),
    )


def parse_variable(written: str | Mapping[str, Any]) -> Variable:
    """Parse a variable from its JSON or YAML form: an object, or only its name."""
    return Variable(written) if isinstance(written, str) else Variable(**written)


def task_to_dict(task: Outline) -> dict[str, Any]:
    """Convert a task to its JSON form without empty fields.

    An empty `depends_on` stays: it means no dependencies, while a missing one means the default order.
    """
    fields = task._asdict()
    del fields["requirements"]
    kept = {
        key: value
        for key, value in fields.items()
        if value not in (None, ()) or _is_empty_dependency_list(key, value)
    }
    return kept | requirements_to_dict(task.requirements)


def _is_empty_dependency_list(key: str, value: object) -> bool:
    return key == "depends_on" and value == ()


def _to_strings(written: Any) -> tuple[str, ...]:
    return tuple(written or ())
