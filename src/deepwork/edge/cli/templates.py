"""`deepwork templates`: list, show, create and apply templates."""

from __future__ import annotations

from typing import Any

import click

from deepwork.edge.cli.framework.documents import DocumentParam
from deepwork.edge.cli.framework.output import render_lines, to_printable
from deepwork.edge.cli.framework.tool_commands import CommandOverrides, ToolGroup
from deepwork.kernel.foreign_text import split_lines
from deepwork.work.plans.diagrams import render_text
from deepwork.work.plans.models import Node, Outline
from deepwork.work.templates.models import normalize_placeholders


def _build_file_type() -> Any:
    from deepwork.work.templates.inputs import Definition  # only a command that reads a file needs it

    class TemplateFileType(Definition):
        """A template file: a definition that may also have a name, a description and a version."""

        name: str | None = None
        description: str | None = None
        version: int | None = None

    return TemplateFileType


class _AssignmentParam(click.ParamType[tuple[str, str]]):
    """A click parameter of the form `name=value`."""

    name = "name=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not equals or not name.strip():
            self.fail(f"{value!r} is not of the form name=value.", param, ctx)
        return name.strip(), text


def _to_mapping(_: click.Context, __: click.Parameter, given: tuple[tuple[str, str], ...]) -> Any:
    return dict(given) or None


def _merge_file(arguments: dict[str, Any], _: bool) -> dict[str, Any]:
    """Take the description from the file unless it was given; the name always comes from the command line."""
    written = arguments.get("template")
    if written is None:
        return arguments
    about = {"description": written["description"]} if written.get("description") else {}
    definition = {key: written[key] for key in ("tasks", "variables") if written.get(key) is not None}
    return {**about, **arguments, "template": definition}


def _render_list(answer: dict[str, Any]) -> list[str]:
    rows = [
        {
            "name": each["name"],
            "tasks": each.get("tasks_total") or len(each["template"]["tasks"]),
            "variables": ", ".join(map(_format_variable, each["template"]["variables"])),
            "from": each.get("source", each["id"]),
            "description": each.get("description"),
        }
        for each in answer["templates"]
    ]
    broken = [f"{flaw['file']}:{flaw['line']}: {flaw['error']}" for flaw in answer.get("errors", ())]
    table = render_lines({"templates": rows, "total": answer["total"]})
    return [*table, *(["", *map(to_printable, broken)] if broken else [])]


def _render_template(answer: dict[str, Any]) -> list[str]:
    [template] = answer["templates"]
    definition = template.pop("template")
    gaps = [{**each, "required": _is_required(each)} for each in definition["variables"]]
    drawing = render_text(_build_nodes(definition["tasks"])).splitlines()
    tasks = [line for task in definition["tasks"] for line in _render_task(task)]
    tables = {"variables": gaps} if gaps else {}
    # The drawing's last two lines show a plan's progress, which a template does not have.
    return [*render_lines({**tables, **template}), "", *map(to_printable, drawing[:-2]), "", *tasks]


def _render_task(task: dict[str, Any]) -> list[str]:
    text = [f"    {line}" for line in split_lines(task["description"])]
    return [to_printable(line) for line in [task["name"], *text]] + [""]


def _format_variable(variable: dict[str, Any]) -> str:
    name: str = variable["name"]
    return name if _is_required(variable) else f"[{name}]"


def _is_required(variable: dict[str, Any]) -> bool:
    return bool(variable["required"]) and variable.get("default") is None


def _build_nodes(tasks: list[dict[str, Any]]) -> list[Node]:
    """Build nodes with names as ids: tasks of a template have no ids."""
    return [
        Node(it.name, it.name, it.sequence, None if it.depends_on is None else frozenset(it.depends_on))
        for it in normalize_placeholders([Outline.read(task) for task in tasks])
    ]


_TEMPLATE_ARGUMENT: dict[str, click.Parameter] = {
    "template_id": click.Argument(["template_id"], metavar="ID|NAME")
}

templates = ToolGroup(
    "templates",
    ["deepwork.work.templates.tools:TemplateTools"],
    "template_",
    "Reusable plan templates.",
    {
        "list": CommandOverrides(render=_render_list),
        "show": CommandOverrides(_TEMPLATE_ARGUMENT, render=_render_template),
        "create": CommandOverrides(
            {
                "template": click.Argument(
                    ["template"], required=False, type=DocumentParam(_build_file_type), metavar="[FILE|-]"
                )
            },
            "Give either --from-workflow-id, or tasks and variables as YAML or JSON in a file or, with `-`, "
            "on standard input.",
            prepare=_merge_file,
        ),
        "apply": CommandOverrides(
            {
                **_TEMPLATE_ARGUMENT,
                "variables": click.Option(
                    ["--var", "variables"],
                    multiple=True,
                    type=_AssignmentParam(),
                    callback=_to_mapping,
                    metavar="NAME=VALUE",
                    help="The value of a variable; repeat it for each variable.",
                ),
            }
        ),
    },
)
