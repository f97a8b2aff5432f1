"""`deepwork plans` and `deepwork tasks`: the plan tools as commands, with documents and drawings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.applications import call_operation, open_application
from deepwork.edge.cli.framework.documents import DocumentParam, ProblemPath, TextParam
from deepwork.edge.cli.framework.id_resolution import resolve_id
from deepwork.edge.cli.framework.options import json_option, key_option, passphrase_option, place_options
from deepwork.edge.cli.framework.output import (
    print_answer,
    print_said,
    render_json,
    render_lines,
    to_printable,
)
from deepwork.edge.cli.framework.tool_commands import CommandOverrides, ToolGroup
from deepwork.edge.cli.states import add_list_states, add_plan_state, add_state_to, show_state, show_states
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.foreign_text import split_lines, to_one_line

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application
    from deepwork.edge.server.registry import OperationSpec
    from deepwork.work.plans.inputs import Plan

SOURCE_TYPES = ("prompt", "github_issue", "linear", "jira", "custom", "template")
"""The values of `plans.models.SourceType`, whose import would slow down every command."""
_INPUT_HELP = "as YAML or JSON from FILE; without FILE or with `-`, from standard input"


def _build_document_argument(field: str, form: Callable[[], Any], **how: Any) -> dict[str, click.Parameter]:
    """Build an argument that takes a document from a file or standard input."""
    return {field: click.Argument([field], default="-", type=DocumentParam(form, **how), metavar="[FILE|-]")}


def _load_plan_type() -> Any:
    from deepwork.work.plans.inputs import Plan

    return Plan


def _load_task_list_type() -> Any:
    return list[_load_task_type()]  # type: ignore[misc]


def _load_task_type() -> Any:
    from deepwork.work.plans.inputs import PlannedTask

    return PlannedTask


def _load_steps_type() -> Any:
    from deepwork.work.plans.inputs import TaskPlan

    return TaskPlan


def _find_plan_problems(plan: Plan) -> Iterator[tuple[ProblemPath, str]]:
    from deepwork.work.plans.rules import graph

    for problem in graph.find_problems([task.to_outline() for task in plan.tasks]):
        where = () if problem.place is None else (problem.place,)
        yield ("tasks", *where), problem.message


def _render_summary(answer: dict[str, Any]) -> list[str]:
    summary = answer["summary"]
    return list(map(to_printable, split_lines(summary))) if isinstance(summary, str) else render_json(summary)


def _choose_format(arguments: dict[str, Any], as_json: bool) -> dict[str, Any]:
    return {"format": "json" if as_json else "markdown", **arguments}


_SOURCE_OPTIONS: dict[str, click.Parameter] = {
    "source_type": click.Option(
        ["--source-type"],
        type=click.Choice(SOURCE_TYPES, case_sensitive=False),
        help="The kind of source. Default: prompt.",
    ),
    "source_content": click.Option(
        ["--prompt", "source_content"],
        type=TextParam(),
        metavar="TEXT|-",
        help="The request; `-` reads it from standard input. Required without --file.",
    ),
    "name": click.Argument(["name"], required=False, metavar="[NAME]"),
}


def _load_plan_file_type() -> Any:
    from deepwork.edge.cli.plan_file import PlanFile

    return PlanFile


_FILE_KEY = "file"
_PLAN_FILE_OPTION = click.Option(
    ["-f", "--file", _FILE_KEY],
    type=DocumentParam(_load_plan_file_type, check=_find_plan_problems),
    metavar="FILE|-",
    help="Create the workflow and its tasks from a YAML or JSON file; `-` reads standard input.",
)


def _merge_plan_file(arguments: dict[str, Any], _: bool) -> dict[str, Any]:
    """Add what the file says about the workflow; the command line wins. The plan itself stays apart."""
    merged = dict(arguments)
    if written := merged.pop(_FILE_KEY, None):
        from deepwork.edge.cli.plan_file import split_file

        workflow, plan = split_file(written)
        merged = {"source_content": plan["summary"], **workflow, **merged, _FILE_KEY: plan}
    merged.setdefault("source_type", "prompt")
    if not merged.get("name"):
        raise click.UsageError("Missing argument 'NAME', or `name` in the file.")
    if merged.get("source_content") is None:
        raise click.UsageError("Missing option '--prompt', or a plan with '--file'.")
    return merged


def _extend_with_plan(app: Application, spec: OperationSpec, arguments: dict[str, Any]) -> OperationSpec:
    plan = arguments.pop(_FILE_KEY, None)
    if plan is None:
        return spec
    from deepwork.edge.cli.plan_file import add_plan

    return add_plan(app, spec, plan)


_FORMAT_OPTION = click.Option(
    ["--format"], type=click.Choice(["json", "markdown"]), help="Default: markdown; with --json, json."
)


def _word_list(answer: dict[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    """Word a list of plans: what people call them, and when something last happened to them."""
    rows = [{key: plan[key] for key in _LISTED if key in plan} for plan in show_states(answer["workflows"])]
    return {"plans": rows, **{key: value for key, value in answer.items() if key != "workflows"}}


_LISTED = ("name", "state", "source_ref", "created_at", "updated_at", "id")


def _name_next_command(answer: dict[str, Any], claim: Mapping[str, Any]) -> dict[str, Any]:
    """Say what comes after a claim as a command, because people at a shell call no tools."""
    if not answer.get("next_step"):
        return answer
    command = f"deepwork tasks start {claim['task_id']} --agent-id {claim['agent_id']}"
    return answer | {"next_step": command}


def _add_holder(app: Application, spec: OperationSpec, arguments: dict[str, Any]) -> OperationSpec:
    """Release the claim of the agent that has it, if the command names none."""
    if "agent_id" not in arguments:
        task = call_operation(app, "task_get", {"id": arguments["task_id"]})
        if not task.get("assigned_agent_id"):
            raise NotAllowed(
                f"No agent holds task {task['name']!r}.",
                suggestion="Nothing needs to be done: it can be claimed.",
            )
        arguments["agent_id"] = task["assigned_agent_id"]
    return spec


plans = ToolGroup(
    "plans",
    ["deepwork.work.plans.plan_tools:PlanTools"],
    "workflow_",
    "Plans: workflows, their tasks and their progress.",
    {
        "create": CommandOverrides(
            _SOURCE_OPTIONS,
            "With --file, the workflow and all its tasks are created together, or nothing is. The file is a"
            " mapping as for set-plan, which may also have name, prompt, source_type, source_ref,"
            " repository_path, max_parallel_tasks and auto_create_workspaces.",
            prepare=_merge_plan_file,
            added=[_PLAN_FILE_OPTION],
            extend=_extend_with_plan,
        ),
        "set-plan": CommandOverrides(
            _build_document_argument("plan", _load_plan_type, check=_find_plan_problems),
            f"The plan is read {_INPUT_HELP}: a mapping with summary, approach and tasks; a task has name, "
            "description, sequence, depends_on, parallel_group, estimated_complexity, files_likely_affected.",
        ),
        "add-task": CommandOverrides(
            _build_document_argument("task", _load_task_type),
            f"The task is read {_INPUT_HELP}: a mapping with name, description, depends_on and so on.",
        ),
        "replan": CommandOverrides(
            _build_document_argument("tasks", _load_task_list_type, inner="tasks"),
            f"The tasks are read {_INPUT_HELP}: a list, or a mapping with `tasks`.",
        ),
        "list": CommandOverrides(complete=add_list_states("plan", "workflows"), reword=_word_list),
        "get-summary": CommandOverrides(render=_render_summary),
        "summary": CommandOverrides(
            {"format": _FORMAT_OPTION}, prepare=_choose_format, render=_render_summary
        ),
    },
)

tasks = ToolGroup(
    "tasks",
    ["deepwork.work.plans.task_tools:TaskTools"],
    "task_",
    "Tasks of plans: claim, update and complete them.",
    {
        "set-plan": CommandOverrides(
            _build_document_argument("plan", _load_steps_type),
            f"The plan is read {_INPUT_HELP}: a mapping with approach and steps.",
        ),
        "replan": CommandOverrides(
            _build_document_argument("new_plan", _load_steps_type),
            f"The plan is read {_INPUT_HELP}: a mapping with approach and steps.",
        ),
        "retry": CommandOverrides(
            {
                "outcome": click.Option(
                    ["--hint", "outcome"], metavar="TEXT", help="Advice for the next agent, in its context."
                )
            }
        ),
        "show": CommandOverrides(complete=partial(add_state_to, "task")),
        "claim": CommandOverrides(reword=_name_next_command),
        "release": CommandOverrides(
            {"agent_id": click.Argument(["agent_id"], required=False, metavar="[AGENT_ID]")},
            "AGENT_ID is the agent that holds the task, which is also the default.",
            extend=_add_holder,
        ),
        "load-context": CommandOverrides(render=render_json),
        "context": CommandOverrides(render=render_json),
    },
)


@plans.command("show")
@click.argument("id")
@click.option("--graph", "drawn", is_flag=True, help="Draw the dependencies between tasks.")
@click.option("--mermaid", is_flag=True, help="Draw them as a Mermaid diagram.")
@click.option("--watch", is_flag=True, help="With --graph: draw again at each change, until Ctrl-C.")
@click.option("--all", "whole", is_flag=True, help="With --graph: do not fold a long drawing.")
@click.option("--history", is_flag=True, help="Include the history, newest first.")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=100,
    metavar="N",
    help="Maximum number of tasks. Default: 100.",
)
@json_option
@place_options
def show_plan(
    id: str,
    drawn: bool,
    mermaid: bool,
    watch: bool,
    whole: bool,
    history: bool,
    limit: int,
    as_json: bool,
    path: str,
    **place: Any,
) -> None:
    """Show a workflow and its tasks, or draw it."""
    if (watch or whole) and (not drawn or as_json):
        raise click.UsageError("--watch and --all belong to --graph, without --json.")
    with open_application(path, place, reads=True, quiet=as_json) as app:
        id = resolve_id(app.database, "plan", id)
        if drawn and not as_json:
            _print_graph(app, id, whole=whole, watch=watch)
        elif drawn or mermaid:
            _print_drawing(app, id, as_text=drawn, as_json=as_json)
        else:
            _print_plan(app, id, {"include_history": history, "task_limit": limit}, as_json=as_json)


def _print_drawing(app: Application, id: str, *, as_text: bool, as_json: bool) -> None:
    drawn = call_operation(app, "draw_plan", {"id": id, "as_text": as_text})
    print_said(drawn, *drawn["drawing"].splitlines(), as_json=as_json)


def _print_graph(app: Application, id: str, *, whole: bool, watch: bool) -> None:
    from deepwork.edge.cli.plan_graph import render_graph, watch_graph

    if watch:
        watch_graph(app, id, whole=whole)
    else:
        print("\n".join(render_graph(app, id, whole=whole)))


def _print_plan(app: Application, id: str, wanted: dict[str, Any], *, as_json: bool) -> None:
    answer = call_operation(app, "workflow_get", {"id": id, "include_tasks": True, **wanted})
    answer = add_plan_state(app, answer)
    print_answer(answer, as_json=as_json, render=render_plan)


def render_plan(answer: dict[str, Any]) -> list[str]:
    """Render a plan for people: its tasks, its history, then its facts."""
    tables = {key: answer.pop(key) for key in ("tasks", "history") if answer.get(key)}
    if "tasks" in tables:
        shown = ({key: value for key, value in task.items() if key != "blocked"} for task in tables["tasks"])
        tables["tasks"] = show_states(list(shown))
    return render_lines({**tables, **show_state(answer)})


@tasks.command("reword")
@click.argument("id", metavar="TASK")
@click.option("--name", metavar="NAME", help="What it is called from now on.")
@click.option(
    "--description",
    type=TextParam(),
    metavar="TEXT|-",
    help="What it says from now on; `-` reads it from standard input.",
)
@key_option
@json_option
@place_options
def reword_task(
    id: str,
    name: str | None,
    description: str | None,
    idempotency_key: str | None,
    as_json: bool,
    path: str,
    **place: Any,
) -> None:
    """Change what a task that is not done is called and says, as yourself; an agent at work is told."""
    if name is None and description is None:
        raise click.UsageError("Give --name, --description, or both.")
    with open_application(path, place, reads=True, quiet=as_json) as app:
        given = {"task_id": resolve_id(app.database, "task", id), "name": name, "description": description}
        answer = _act(app, "reword_task", given, idempotency_key)
    said = (
        f"{answer['name']} ({answer['task_id']}) was changed."
        if answer["changed"]
        else "It reads so already."
    )
    print_said(answer, f"{said}{_describe_told(answer)}", as_json=as_json)


@tasks.command("drop")
@click.argument("id", metavar="TASK")
@click.option("--reason", metavar="TEXT", help="Why it is not to be done.")
@click.option("--end-agent", is_flag=True, help="Also if an agent works on it, which is ended.")
@key_option
@passphrase_option
@json_option
@place_options
def drop_task(
    id: str,
    reason: str | None,
    end_agent: bool,
    idempotency_key: str | None,
    passphrase_stdin: bool,
    as_json: bool,
    path: str,
    **place: Any,
) -> None:
    """Take a task out of its plan, as yourself: one not begun is removed, another one is skipped.

    What waited for a removed task waits for what that waited for; what waited for a skipped one can start.
    """
    with open_application(path, place, reads=True, quiet=as_json) as app:
        given = {"task_id": resolve_id(app.database, "task", id), "reason": reason, "end_agent": end_agent}
        answer = _act(app, "drop_task", given, idempotency_key, passphrase_stdin=passphrase_stdin)
    print_said(answer, _describe_drop(answer), as_json=as_json)


def _act(
    app: Application,
    operation: str,
    given: Mapping[str, Any],
    key: str | None,
    *,
    passphrase_stdin: bool = False,
) -> Any:
    """Call an operation as the person at this shell."""
    from deepwork.edge.cli.framework.proofs import build_act_call
    from deepwork.kernel.database.idempotency import check_key

    checked = None if key is None else check_key(key)
    call = build_act_call(operation, checked, passphrase_stdin=passphrase_stdin)
    return call_operation(app, operation, {k: v for k, v in given.items() if v is not None}, call)


def _describe_told(answer: Mapping[str, Any]) -> str:
    from deepwork.edge.cli.people import REACHES

    told = answer.get("told")
    return f" {REACHES[told['reaches']].capitalize()}." if told else ""


def _describe_drop(answer: Mapping[str, Any]) -> str:
    said = "was removed" if answer["removed"] else "was skipped"
    ended = f", and its agent is ended ({answer['ended']})" if answer.get("ended") else ""
    names = answer["waiting"]
    how = "wait for what it waited for" if answer["removed"] else "can start without its work"
    waiting = (
        f" What waited for it: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}: these {how}."
        if names
        else ""
    )
    return f"{answer['name']} ({answer['task_id']}) {said}{ended}.{waiting}"


@plans.command("now")
@click.argument("id", metavar="PLAN")
@click.option(
    "--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="How many of a kind."
)
@json_option
@place_options
def show_now(id: str, limit: int, as_json: bool, path: str, **place: Any) -> None:
    """Show what failed, what needs you, what runs and what is ready; of the rest how many."""
    with open_application(path, place, reads=True, quiet=as_json) as app:
        known = resolve_id(app.database, "plan", id)
        answer = call_operation(app, "get_work_now", {"id": known, "limit": limit})
    if as_json:
        print_answer(answer, as_json=True)
        return
    for lane in answer["lanes"]:
        if not lane["total"]:
            continue
        print(f"{lane['name'].replace('_', ' ').capitalize()}: {lane['total']}")
        for task in lane.get("tasks") or ():
            words = [task["name"], task.get("agent"), task.get("note"), task.get("next")]
            print(to_printable(f"  {' · '.join(to_one_line(word) for word in words if word)}"))
