"""What a template is: the tasks of a plan, with gaps to be filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from deepwork.names import Word
from deepwork.plans.models import Complexity, Outline


class Source(Word):
    """Where a template that is not stored comes from; of two with one name, the first of these wins."""

    PROJECT = "project"
    USER = "user"
    SHIPPED = "shipped"


class TemplateEvent(Word):
    """What this slice tells."""

    CREATED = "template:created"


@dataclass(frozen=True)
class Variable:
    """A gap in the texts of a template, written there as `{{name}}`."""

    name: str
    description: str = ""
    required: bool = True
    default: str | None = None


@dataclass(frozen=True)
class Template:
    """A plan to be used again; times are Unix milliseconds."""

    id: str
    name: str
    description: str | None
    tasks: tuple[Outline, ...]
    variables: tuple[Variable, ...]
    """Every gap: those that were declared, then those that only stand in the texts."""
    version: int = 1
    created_at: int | None = None
    source: Source | None = None
    """None if it is stored."""


def outline(written: Mapping[str, Any]) -> Outline:
    """A task as JSON or YAML has it."""
    complexity = written.get("estimated_complexity")
    return Outline(
        name=written["name"],
        description=written.get("description") or "",
        sequence=written.get("sequence", 1),
        parallel_group=written.get("parallel_group"),
        depends_on=_texts(written["depends_on"]) if written.get("depends_on") is not None else None,
        estimated_complexity=None if complexity is None else Complexity(complexity),
        files_likely_affected=_texts(written.get("files_likely_affected")),
        required_capabilities=_texts(written.get("required_capabilities")),
    )


def variable(written: str | Mapping[str, Any]) -> Variable:
    """A variable as JSON or YAML has it: all that is known of it, or only its name."""
    return Variable(written) if isinstance(written, str) else Variable(**written)


def written_task(task: Outline) -> dict[str, Any]:
    """The task as JSON, without what says nothing; no dependencies is not the same as none said."""
    said = asdict(task)
    return {key: value for key, value in said.items() if value not in (None, ()) or _is_no_wait(key, value)}


def _is_no_wait(key: str, value: object) -> bool:
    return key == "depends_on" and value == ()


def _texts(written: Any) -> tuple[str, ...]:
    return tuple(written or ())
