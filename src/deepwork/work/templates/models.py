"""Templates: the tasks of a plan, with variables to fill in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deepwork.kernel.names import CaseInsensitiveEnum
from deepwork.work.plans.models import Outline


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


def parse_variable(written: str | Mapping[str, Any]) -> Variable:
    """Parse a variable from its JSON or YAML form: an object, or only its name."""
    return Variable(written) if isinstance(written, str) else Variable(**written)
