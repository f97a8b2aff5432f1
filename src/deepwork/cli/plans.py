"""`deepwork plans` and `deepwork tasks`: the tools on plans, with documents and drawings for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from deepwork.cli.documents import Document, LongText, Where
from deepwork.cli.options import json_option, place_options, settings_from
from deepwork.cli.output import lines, pretty, printable, show
from deepwork.cli.verbs import Form, Verbs
from deepwork.database.call import Call
from deepwork.plans import graph
from deepwork.plans.drawing import as_mermaid, as_text
from deepwork.plans.inputs import Plan, PlannedTask, TaskPlan
from deepwork.plans.models import SourceType
from deepwork.plans.store import PlanStore
from deepwork.plans.task_store import TaskStore
from deepwork.plans.task_tools import TaskTools
from deepwork.plans.workflow_tools import PlanTools
from deepwork.server.application import Application
from deepwork.server.invocation import invoke

_EITHER = "as YAML or JSON, from a file or, without one or with `-`, from standard input"


def _file(field: str, form: Any, **how: Any) -> dict[str, click.Parameter]:
    """An argument that is a document: a file, or else standard input."""
    return {field: click.Argument([field], default="-", type=Document(form, **how), metavar="[FILE|-]")}


def _plan_problems(plan: Plan) -> Iterator[tuple[Where, str]]:
    for problem in graph.problems([task.outline() for task in plan.tasks]):
        where = () if problem.place is None else (problem.place,)
        yield ("tasks", *where), problem.message


def _summary(answer: dict[str, Any]) -> list[str]:
    said = answer["summary"]
    return list(map(printable, said.splitlines())) if isinstance(said, str) else pretty(said)


def _for_people(arguments: dict[str, Any], as_json: bool) -> dict[str, Any]:
    return {"format": "json" if as_json else "markdown", **arguments}


_WISH: dict[str, click.Parameter] = {
    "source_type": click.Option(
        ["--source-type"],
        type=click.Choice(list(SourceType), case_sensitive=False),
        help="Where the wish comes from. Default: prompt.",
        default="prompt",
    ),
    "source_content": click.Option(
        ["--prompt", "source_content"],
        required=True,
        type=LongText(),
        metavar="TEXT|-",
        help="What is to be done; `-` reads it from standard input.",
    ),
}

_FORMAT = click.Option(
    ["--format"], type=click.Choice(["json", "markdown"]), help="Default: markdown; with --json, json."
)

plans = Verbs(
    "plans",
    lambda: [PlanTools],
    "workflow_",
    "Plans: workflows, their tasks, and how far they are.",
    {
        "create": Form(_WISH),
        "set-plan": Form(
            _file("plan", Plan, check=_plan_problems),
            f"The plan comes {_EITHER}: a mapping with summary, approach and tasks; a task has name, "
            "description, sequence, depends_on, parallel_group, estimated_complexity, files_likely_affected.",
        ),
        "add-task": Form(
            _file("task", PlannedTask),
            f"The task comes {_EITHER}: a mapping with name, description, depends_on and so on.",
        ),
        "replan": Form(
            _file("tasks", list[PlannedTask], inner="tasks"),
            f"The tasks come {_EITHER}: a list, or a mapping with `tasks`.",
        ),
        "get-summary": Form(present=_summary),
        "summary": Form({"format": _FORMAT}, arrange=_for_people, present=_summary),
    },
)

tasks = Verbs(
    "tasks",
    lambda: [TaskTools],
    "task_",
    "Tasks of plans: claim, note, report.",
    {
        "set-plan": Form(
            _file("plan", TaskPlan), f"The plan comes {_EITHER}: a mapping with approach and steps."
        ),
        "replan": Form(
            _file("new_plan", TaskPlan), f"The plan comes {_EITHER}: a mapping with approach and steps."
        ),
        "load-context": Form(present=pretty),
        "context": Form(present=pretty),
    },
)


@plans.command("show")
@click.argument("id")
@click.option("--graph", "drawn", is_flag=True, help="Draw who waits for whom.")
@click.option("--mermaid", is_flag=True, help="Draw it for a page instead of a terminal.")
@click.option("--history", is_flag=True, help="Also what became of it, newest first.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=100, metavar="N", help="How many tasks. Default: 100."
)
@json_option
@place_options
def show_plan(
    id: str, drawn: bool, mermaid: bool, history: bool, limit: int, as_json: bool, path: str, **place: Any
) -> None:
    """Show a workflow and its tasks, or draw it."""
    app = Application(settings_from(path, **place))
    try:
        if drawn or mermaid:
            _draw(app, id, as_text if drawn else as_mermaid, as_json=as_json)
        else:
            _tell(app, id, {"include_history": history, "task_limit": limit}, as_json=as_json)
    finally:
        app.close()


def _draw(app: Application, id: str, draw: Any, *, as_json: bool) -> None:
    with app.database.reading() as tx:
        workflow, nodes = PlanStore(tx).get(id), TaskStore(tx).nodes(id)
    drawing = draw(nodes)
    if as_json:
        show({"id": id, "name": workflow.name, "status": workflow.status, "drawing": drawing}, as_json=True)
        return
    if draw is as_text:
        print(printable(f"{workflow.name}: {workflow.status.replace('_', ' ')}"))
    for line in drawing.splitlines():
        print(printable(line))


def _tell(app: Application, id: str, wanted: dict[str, Any], *, as_json: bool) -> None:
    spec = app.toolset("plans")["workflow_get"]
    answer = invoke(app.database, spec, {"id": id, "include_tasks": True, **wanted}, Call("local", spec.name))
    if as_json:
        show(answer, as_json=True)
        return
    order = ("tasks", "history")
    tables = {key: answer.pop(key) for key in order if answer.get(key)}
    for task in tables.get("tasks", ()):
        task["status"] = "waits" if task.pop("blocked", False) else task["status"]
    print("\n".join(lines({**tables, **answer})))
