"""`deepwork templates`: list, look at, keep and use templates."""

from __future__ import annotations

from typing import Any

import click

from deepwork.cli.documents import Document
from deepwork.cli.output import lines, printable
from deepwork.cli.verbs import Form, Verbs
from deepwork.plans.drawing import as_text
from deepwork.plans.models import Node
from deepwork.templates.inputs import Definition
from deepwork.templates.models import outline
from deepwork.templates.rules import alike
from deepwork.templates.tools import TemplateTools


class _File(Definition):
    """A template as a file has it; what it is called and is for may stand there too."""

    name: str | None = None
    description: str | None = None
    version: int | None = None


class _Assignment(click.ParamType[tuple[str, str]]):
    """`name=value`."""

    name = "name=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, said = str(value).partition("=")
        if not equals or not name.strip():
            self.fail(f"{value!r} is not of the form name=value.", param, ctx)
        return name.strip(), said


def _by_name(_: click.Context, __: click.Parameter, given: tuple[tuple[str, str], ...]) -> Any:
    return dict(given) or None


def _from_file(arguments: dict[str, Any], _: bool) -> dict[str, Any]:
    """A file may say what the template is for; its name is that of the command."""
    written = arguments.get("template")
    if written is None:
        return arguments
    about = {"description": written["description"]} if written.get("description") else {}
    definition = {key: written[key] for key in ("tasks", "variables") if written.get(key) is not None}
    return {**about, **arguments, "template": definition}


def _list(answer: dict[str, Any]) -> list[str]:
    rows = [
        {
            "name": each["name"],
            "tasks": each.get("tasks_total") or len(each["template"]["tasks"]),
            "variables": ", ".join(map(_gap, each["template"]["variables"])),
            "from": each.get("source", each["id"]),
            "description": each.get("description"),
        }
        for each in answer["templates"]
    ]
    broken = [f"{flaw['file']}:{flaw['line']}: {flaw['error']}" for flaw in answer.get("errors", ())]
    table = lines({"templates": rows, "total": answer["total"]})
    return [*table, *(["", *map(printable, broken)] if broken else [])]


def _show(answer: dict[str, Any]) -> list[str]:
    [template] = answer["templates"]
    definition = template.pop("template")
    gaps = [{**each, "required": _gap_need(each)} for each in definition["variables"]]
    drawing = as_text(_nodes(definition["tasks"])).splitlines()
    told = [line for task in definition["tasks"] for line in _told(task)]
    tables = {"variables": gaps} if gaps else {}
    # The last two lines say how far a plan is; this is none yet.
    return [*lines({**tables, **template}), "", *map(printable, drawing[:-2]), "", *told]


def _told(task: dict[str, Any]) -> list[str]:
    text = [f"    {line}" for line in task["description"].splitlines()]
    return [printable(line) for line in [task["name"], *text]] + [""]


def _gap(variable: dict[str, Any]) -> str:
    name: str = variable["name"]
    return name if _gap_need(variable) else f"[{name}]"


def _gap_need(variable: dict[str, Any]) -> bool:
    return bool(variable["required"]) and variable.get("default") is None


def _nodes(tasks: list[dict[str, Any]]) -> list[Node]:
    """The tasks by their names: nobody has given them ids yet."""
    return [
        Node(it.name, it.name, it.sequence, None if it.depends_on is None else frozenset(it.depends_on))
        for it in alike([outline(task) for task in tasks])
    ]


_WHICH: dict[str, click.Parameter] = {
    "template_id": click.Argument(["template_id"], metavar="ID|NAME"),
}

templates = Verbs(
    "templates",
    lambda: [TemplateTools],
    "template_",
    "Templates: plans to be used again.",
    {
        "list": Form(present=_list),
        "show": Form(_WHICH, present=_show),
        "create": Form(
            {
                "template": click.Argument(
                    ["template"], required=False, type=Document(_File), metavar="[FILE|-]"
                )
            },
            "Give either --from-workflow-id, or tasks and variables as YAML or JSON in a file or, with `-`, "
            "on standard input.",
            arrange=_from_file,
        ),
        "apply": Form(
            {
                **_WHICH,
                "variables": click.Option(
                    ["--var", "variables"], multiple=True, type=_Assignment(), callback=_by_name,
                    metavar="NAME=VALUE", help="What to fill in; give it once for each variable.",
                ),
            }
        ),
    },
)  # fmt: skip
