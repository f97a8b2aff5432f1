"""How gaps are found in a template and filled, and what makes a template one."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from deepwork.errors import Code, InvalidInput
from deepwork.plans import graph
from deepwork.plans.models import Outline
from deepwork.templates.models import Template, Variable

MAX_VARIABLES = 1_000
MAX_NAME = 200
MAX_TEXT = 2**20
MAX_PLAN = 8 * 2**20
"""How long a name, a text and all texts of a plan may become by what is filled in, in characters."""

_GAP = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_NAME = re.compile(r"\w+")
_NAMED = 20


@dataclass(frozen=True)
class Filled:
    """A plan without gaps, and what they were filled with."""

    tasks: tuple[Outline, ...]
    values: Mapping[str, str]


def with_gaps(tasks: Sequence[Outline], declared: Sequence[Variable]) -> tuple[Variable, ...]:
    """Every variable of these tasks: the declared ones, then those that only stand in the texts."""
    names = {each.name for each in declared}
    found = dict.fromkeys(gap for task in tasks for text in _texts(task) for gap in _GAP.findall(text))
    return (*declared, *(Variable(name) for name in found if name not in names))


def check(tasks: Sequence[Outline], variables: Sequence[Variable]) -> None:
    """Refuse what could never become a plan."""
    if wrong := [said for _, said in problems_of(variables)]:
        raise InvalidInput("\n".join(wrong))
    graph.check(alike(tasks))


def problems_of(variables: Sequence[Variable]) -> list[tuple[int, str]]:
    """What is wrong with declared variables: which one, and a sentence."""
    found: list[tuple[int, str]] = []
    known: set[str] = set()
    for place, each in enumerate(variables):
        if not _NAME.fullmatch(each.name):
            told = f"The variable {_quoted(each.name)} is not a name; use letters, digits and underscores."
            found.append((place, told))
        elif each.name in known:
            found.append((place, f"The variable {_quoted(each.name)} is declared twice."))
        known.add(each.name)
    if len(variables) > MAX_VARIABLES:
        found.append(
            (MAX_VARIABLES, f"{len(variables):,} variables; at most {MAX_VARIABLES:,} are possible.")
        )
    return found


def plan_problems(tasks: Sequence[Outline]) -> list[graph.PlanProblem]:
    """What keeps the tasks from being a plan, with their gaps left as they are."""
    return graph.problems(alike(tasks))


def alike(tasks: Sequence[Outline]) -> list[Outline]:
    """The tasks with every gap written in the same way: `{{ x }}` and `{{x}}` will be the same name."""
    return [_changed(task, lambda text: _GAP.sub(r"{{\1}}", text)) for task in tasks]


def filled(template: Template, given: Mapping[str, str]) -> Filled:
    """The template's plan with these values; refused if one is missing, or nobody knows it."""
    _require_known(template, given)
    values = {each.name: given.get(each.name, _otherwise(each)) for each in template.variables}
    if missing := [name for name, value in values.items() if value is None]:
        raise InvalidInput(
            f"The template {_quoted(template.name)} needs {_listed(missing)}.",
            code=Code.MISSING_VARIABLES,
            suggestion="Give each of them a value in `variables`.",
        )
    said = {name: value for name, value in values.items() if value is not None}
    tasks = tuple(_put_into(template.tasks, said))
    graph.check(tasks)
    return Filled(tasks, said)


def as_source(template: Template, workflow_name: str, values: Mapping[str, str]) -> str:
    """What was wished for, for whoever takes the work up later: the template and what was filled in."""
    about = {each.name: each.description for each in template.variables}
    lines = [f"# {workflow_name}", "", f"From the template {template.name}."]
    lines += [template.description] if template.description else []
    lines += ["", *(_told(name, about[name], value) for name, value in values.items())]
    text = "\n".join(lines).rstrip() + "\n"
    if len(text.encode()) > MAX_TEXT:
        raise _too_long("What was filled in has", len(text.encode()), MAX_TEXT)
    return text


def _require_known(template: Template, given: Mapping[str, str]) -> None:
    names = [each.name for each in template.variables]
    unknown = [name for name in given if name not in set(names)]
    if not unknown:
        return
    near = get_close_matches(unknown[0][:MAX_NAME], names[:MAX_VARIABLES], n=1)
    known = f"It has {_listed(names)}." if names else "It has no variables."
    raise InvalidInput(
        f"The template {_quoted(template.name)} knows nothing of {_listed(unknown)}."
        + (f" Did you mean {_quoted(near[0])}?" if near else ""),
        suggestion=known,
    )


def _otherwise(variable: Variable) -> str | None:
    """What stands for a value that was not given; None if there is nothing."""
    if variable.default is not None:
        return variable.default
    return None if variable.required else ""


def _put_into(tasks: Sequence[Outline], values: Mapping[str, str]) -> Iterator[Outline]:
    """The tasks with their gaps filled; measured before it is written, so that no template is a bomb."""
    total = 0
    for task in tasks:
        sizes = [_size(text, values) for text in _texts(task)]
        total += sum(sizes)
        if sizes[0] > MAX_NAME:
            raise _too_long(f"The name of the task {_quoted(task.name)} would have", sizes[0], MAX_NAME)
        if max(sizes) > MAX_TEXT:
            raise _too_long(f"A text of the task {_quoted(task.name)} would have", max(sizes), MAX_TEXT)
        if total > MAX_PLAN:
            raise _too_long("The plan would have more than", total, MAX_PLAN)
        yield _changed(task, lambda text: _GAP.sub(lambda gap: values[gap[1]], text))


def _size(text: str, values: Mapping[str, str]) -> int:
    return len(text) + sum(len(values[gap[1]]) - len(gap[0]) for gap in _GAP.finditer(text))


def _texts(task: Outline) -> Iterator[str]:
    """Every text of a task, its name first."""
    yield task.name
    yield task.description
    yield task.parallel_group or ""
    yield from task.depends_on or ()
    yield from task.files_likely_affected
    yield from task.required_capabilities


def _changed(task: Outline, change: Callable[[str], str]) -> Outline:
    """The task with every text changed; a group, a file or a capability that comes out empty is none."""

    def changed(texts: Collection[str]) -> tuple[str, ...]:
        return tuple(text for text in map(change, texts) if text.strip())

    return replace(
        task,
        name=change(task.name),
        description=change(task.description),
        parallel_group=change(task.parallel_group or "").strip() or None,
        depends_on=None if task.depends_on is None else tuple(map(change, task.depends_on)),
        files_likely_affected=changed(task.files_likely_affected),
        required_capabilities=changed(task.required_capabilities),
    )


def _told(name: str, about: str, value: str) -> str:
    label = f"{name} ({about.rstrip('.')})" if about else name
    return f"- {label}: {value}" if value.strip() else f"- {label}: (nothing)"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(_quoted, names[:_NAMED])) + more


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:80]}…")


def _too_long(what: str, size: int, most: int) -> InvalidInput:
    return InvalidInput(
        f"{what} {size:,} characters; at most {most:,} are possible.",
        code=Code.TOO_LARGE,
        suggestion="Give shorter values.",
    )
