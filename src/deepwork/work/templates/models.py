"""Templates: the tasks of a plan, with variables to fill in, and the rules for both."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from deepwork.kernel.errors import Code, InvalidInput
from deepwork.kernel.files.problems import find_nearest, format_list, format_value
from deepwork.kernel.foreign_text import to_one_line
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum
from deepwork.work.plans.models import Outline
from deepwork.work.plans.rules import graph

MAX_VARIABLES = 1_000
MAX_NAME = 200
MAX_TEXT = 2**20
MAX_PLAN = 8 * 2**20
"""Limits for a name, one text and all texts of a plan after filling in, in characters."""

_PLACEHOLDER_PATTERN = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_VARIABLE_NAME_PATTERN = re.compile(r"\w+")


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


@dataclass(frozen=True)
class FilledPlan:
    """A plan with all placeholders filled, and the values that were used."""

    tasks: tuple[Outline, ...]
    values: Mapping[str, str]


def collect_variables(tasks: Sequence[Outline], declared: Sequence[Variable]) -> tuple[Variable, ...]:
    """Return every variable of these tasks: the declared ones, then those that only occur in texts."""
    names = {each.name for each in declared}
    found = dict.fromkeys(
        name for task in tasks for text in _iter_texts(task) for name in _PLACEHOLDER_PATTERN.findall(text)
    )
    return (*declared, *(Variable(name) for name in found if name not in names))


def validate_template(tasks: Sequence[Outline], variables: Sequence[Variable]) -> None:
    """Raise InvalidInput if these tasks and variables cannot become a plan."""
    if wrong := [message for _, message in find_variable_problems(variables)]:
        raise InvalidInput("\n".join(wrong))
    graph.validate_outlines(normalize_placeholders(tasks))


def find_variable_problems(variables: Sequence[Variable]) -> list[tuple[int, str]]:
    """Return the problems of declared variables, each as the variable's index and a message."""
    found: list[tuple[int, str]] = []
    known: set[str] = set()
    for index, each in enumerate(variables):
        if not _VARIABLE_NAME_PATTERN.fullmatch(each.name):
            name = format_value(each.name)
            message = f"The variable name {name} is invalid; use letters, digits and underscores."
            found.append((index, message))
        elif each.name in known:
            found.append((index, f"The variable {format_value(each.name)} is declared twice."))
        known.add(each.name)
    if len(variables) > MAX_VARIABLES:
        found.append((MAX_VARIABLES, f"{len(variables):,} variables; at most {MAX_VARIABLES:,} are allowed."))
    return found


def find_plan_problems(tasks: Sequence[Outline]) -> list[graph.PlanProblem]:
    """Return the reasons why the tasks are not a valid plan, with placeholders left unfilled."""
    return graph.find_problems(normalize_placeholders(tasks))


def normalize_placeholders(tasks: Sequence[Outline]) -> list[Outline]:
    """Return the tasks with uniform placeholders: `{{ x }}` and `{{x}}` will become the same name."""
    return [_map_texts(task, lambda text: _PLACEHOLDER_PATTERN.sub(r"{{\1}}", text)) for task in tasks]


def fill_template(template: Template, given: Mapping[str, str]) -> FilledPlan:
    """Fill in the template's plan; InvalidInput if a value is missing or its variable is unknown."""
    _require_known_variables(template, given)
    values = {each.name: given.get(each.name, _find_default(each)) for each in template.variables}
    if missing := [name for name, value in values.items() if value is None]:
        raise InvalidInput(
            f"Template {format_value(template.name)} needs a value for {format_list(missing)}.",
            code=Code.MISSING_VARIABLES,
            suggestion="Pass a value for each of them in `variables`.",
        )
    known_values = {name: value for name, value in values.items() if value is not None}
    tasks = tuple(_fill_tasks(template.tasks, known_values))
    graph.validate_outlines(tasks)
    return FilledPlan(tasks, known_values)


def render_source(template: Template, workflow_name: str, values: Mapping[str, str]) -> str:
    """Render the source text of the new workflow: the template and the values filled in.

    Agents that continue the work later read it as the original request.
    """
    about = {each.name: each.description for each in template.variables}
    lines = [f"# {to_one_line(workflow_name)}", "", f"From the template {to_one_line(template.name)}."]
    lines += [template.description] if template.description else []
    lines += ["", *(_format_value(name, about[name], value) for name, value in values.items())]
    text = "\n".join(lines).rstrip() + "\n"
    if len(text.encode()) > MAX_TEXT:
        raise _build_too_long_error("The filled-in text has", len(text.encode()), MAX_TEXT)
    return text


def _require_known_variables(template: Template, given: Mapping[str, str]) -> None:
    names = [each.name for each in template.variables]
    unknown = [name for name in given if name not in set(names)]
    if not unknown:
        return
    near = find_nearest(unknown[0], names)
    known = f"Its variables: {format_list(names)}." if names else "It has no variables."
    raise InvalidInput(
        f"Template {format_value(template.name)} has no variable {format_list(unknown)}."
        + (f" Did you mean {near!r}?" if near else ""),
        suggestion=known,
    )


def _find_default(variable: Variable) -> str | None:
    """Return the value of a variable that was not given; None if it is required and has no default."""
    if variable.default is not None:
        return variable.default
    return None if variable.required else ""


def _fill_tasks(tasks: Sequence[Outline], values: Mapping[str, str]) -> Iterator[Outline]:
    """Fill in the placeholders of each task.

    Sizes are computed before any text is built, so that repeated placeholders cannot exhaust memory.
    """
    total = 0
    for task in tasks:
        sizes = [_measure_filled(text, values) for text in _iter_texts(task)]
        total += sum(sizes)
        if sizes[0] > MAX_NAME:
            raise _build_too_long_error(
                f"The name of the task {format_value(task.name)} would have", sizes[0], MAX_NAME
            )
        if max(sizes) > MAX_TEXT:
            raise _build_too_long_error(
                f"A field of the task {format_value(task.name)} would have", max(sizes), MAX_TEXT
            )
        if total > MAX_PLAN:
            raise _build_too_long_error("The plan would have more than", total, MAX_PLAN)
        yield _map_texts(task, lambda text: _PLACEHOLDER_PATTERN.sub(lambda match: values[match[1]], text))


def _measure_filled(text: str, values: Mapping[str, str]) -> int:
    return len(text) + sum(
        len(values[match[1]]) - len(match[0]) for match in _PLACEHOLDER_PATTERN.finditer(text)
    )


def _iter_texts(task: Outline) -> Iterator[str]:
    """Yield every text of a task, its name first."""
    yield task.name
    yield task.description
    yield task.parallel_group or ""
    yield from task.depends_on or ()
    yield from task.files_likely_affected
    yield from task.required_capabilities


def _map_texts(task: Outline, change: Callable[[str], str]) -> Outline:
    """Apply `change` to every text of a task; drop groups, files and capabilities that become empty."""

    def map_all(texts: Collection[str]) -> tuple[str, ...]:
        return tuple(text for text in map(change, texts) if text.strip())

    return task._replace(
        name=change(task.name),
        description=change(task.description),
        parallel_group=change(task.parallel_group or "").strip() or None,
        depends_on=None if task.depends_on is None else tuple(map(change, task.depends_on)),
        files_likely_affected=map_all(task.files_likely_affected),
        required_capabilities=map_all(task.required_capabilities),
    )


def _format_value(name: str, about: str, value: str) -> str:
    label = f"{name} ({about.rstrip('.')})" if about else name
    return f"- {label}: {value}" if value.strip() else f"- {label}: (nothing)"


def _build_too_long_error(what: str, size: int, most: int) -> InvalidInput:
    return InvalidInput(
        f"{what} {size:,} characters; at most {most:,} are allowed.",
        code=Code.TOO_LARGE,
        suggestion="Use shorter values.",
    )
