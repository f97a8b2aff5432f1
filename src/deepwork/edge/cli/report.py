"""`deepwork report`: what a run came to, as Markdown or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.applications import call_operation, open_application
from deepwork.edge.cli.framework.id_resolution import resolve_id
from deepwork.edge.cli.framework.options import json_option, place_options
from deepwork.edge.cli.framework.output import print_answer, to_printable
from deepwork.edge.cli.run.rendering import format_duration, format_tokens, name_agent
from deepwork.edge.cli.states import name_state
from deepwork.gates.budgets.rules import format_dollars
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.foreign_text import dump_json, to_one_line, to_paragraph

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application

Row = Mapping[str, Any]
_SHORT_HASH = 12
_MAX_OUTCOME = 600
_MAX_FILES = 10
_DONE, _OF_PERSON = ("done", "landed"), ("needs_you", "failed", "unattended")


@click.command()
@click.argument("run", required=False, metavar="[RUN|PLAN|WISH]")
@json_option
@place_options
def report(run: str | None, as_json: bool, path: str, **place: Any) -> None:
    """Show what a run came to: the wish, what was done and not done, the evidence, and the cost.

    Without an argument it is about the newest run. It ends with how to take it in and how to undo it. It is
    Markdown, for a pull request, too.
    """
    with open_application(path, place, reads=True, quiet=as_json) as app:
        answer = call_operation(app, "report_run", {"id": _find(app, run)})
    print_answer(answer, as_json=as_json, render=lambda found: list(render_markdown(found)))


def _find(app: Application, given: str | None) -> str:
    if given is None:
        runs = call_operation(app, "list_runs", {"limit": 1})["runs"]
        if not runs:
            raise InvalidInput("Nothing was run yet.", suggestion="Start something: `deepwork run PLAN`.")
        return str(runs[0]["id"])
    if given.startswith("wi_"):
        return given
    known = resolve_id(app.database, "run", given)
    return known if known.startswith("rn_") else resolve_id(app.database, "plan", given)


def print_report(answer: Row, *, as_json: bool) -> None:
    """Print what a person needs after `deepwork do`; `deepwork report` has the rest."""
    if as_json:
        print(dump_json({"type": "report", **answer}), flush=True)
        return
    print("\n".join(map(to_printable, _render_ending(answer))), flush=True)


def _render_ending(report: Row) -> Iterator[str]:
    yield f"{_name_ending(report)} in {format_duration(report['seconds'] * 1000)}, {_sum_up(report)}"
    for each in report["not_done"]:
        yield f"Not done: {to_one_line(each)}"
    commands = {task["next"]: task["name"] for task in report["tasks"] if _is_of_person(task)}
    commands.pop(report.get("next"), None)
    yield from (f"{command}  # {to_one_line(name)}" for command, name in commands.items())
    for each in report["findings"]:
        yield f"Found by the review: {to_one_line(each['title'])}"
    if report.get("next"):
        yield f"{report['next']}  # goes on"
    if id := report.get("run_id"):
        yield f"deepwork report {id}  # all of it, with the evidence"
    for command in report["take_in"]:
        yield f"{command}  # takes it in"


def _is_of_person(task: Row) -> bool:
    """Return whether a person moves the task on, and how is known."""
    return task["state"] in _OF_PERSON and bool(task.get("next"))


def _name_ending(report: Row) -> str:
    return name_state(report["state"]).capitalize()


def _sum_up(report: Row) -> str:
    tasks = [task for task in report["tasks"] if not task["is_review"]]
    landed = sum("landed" in each for each in tasks)
    facts = [format_dollars(report["usd"]), f"{landed} of {len(tasks)} tasks landed"]
    if (tests := report.get("tests")) and any(tests.values()):
        named = [f"{len(tests[key])} {key}" for key in ("added", "changed", "removed") if tests[key]]
        facts.append(f"test files: {', '.join(named)}")
    if weakened := report.get("weakened"):
        facts.append(f"{len(weakened)} weakened")
    return f"{', '.join(facts)}."


def render_markdown(report: Row) -> Iterator[str]:
    """Render a report as Markdown; what agents and others wrote adds no heading and no list to it."""
    yield f"# {to_one_line(report['name'])}"
    yield ""
    yield from (f"> {to_one_line(line)}" for line in report["wish"].strip().splitlines())
    yield ""
    because = f" ({to_one_line(report['because'])})" if report.get("because") else ""
    yield (
        f"**{_name_ending(report)}**{because}: {_sum_up(report)} It took"
        f" {format_duration(report['seconds'] * 1000)} and {format_tokens(report['tokens'])} tokens."
    )
    if report.get("next"):
        yield f"\nNext: `{report['next']}`"
    yield from _render_changes(report)
    yield "\n## What was done\n"
    for task in report["tasks"]:
        yield from _render_task(task)
    if report["decisions"]:
        yield "## What agents decided\n"
        for each in report["decisions"]:
            why = f": {to_one_line(each['reason'])}" if each.get("reason") else ""
            yield f"- {to_one_line(each['title'])}{why}"
        yield ""
    yield "## What is left\n"
    left = [to_one_line(each) for each in report["not_done"]]
    left += [
        f"The review found: {to_one_line(each['title'])}. {to_one_line(each['text'])}"
        for each in report["findings"]
    ]
    yield from (f"- {each}" for each in left or [_describe_nothing_left(report)])
    yield "\n## Take it in, or undo it\n"
    if report["is_taken_in"]:
        yield f"{to_one_line(report['target'])} has this work already.\n"
    for title, commands in (("Take it in", report["take_in"]), ("Undo it", report["undo"])):
        if commands:
            yield f"{title}:\n\n```console\n" + "\n".join(f"$ {each}" for each in commands) + "\n```\n"


def _describe_nothing_left(report: Row) -> str:
    """Say that nothing is left, and about a review only if there was one."""
    if not report["tasks"]:
        return f"No task is known; the state is: {name_state(report['state'])}."
    is_reviewed = any(task["is_review"] and task["state"] in _DONE for task in report["tasks"])
    more = ", and the review found nothing more" if is_reviewed else ""
    return f"Nothing: every task is done{more}."


def _render_changes(report: Row) -> Iterator[str]:
    if "files_changed" not in report:
        return
    yield (
        f"\n{report['files_changed']} files changed on `{report['branch']}`:"
        f" {report['lines_added']} lines added, {report['lines_removed']} removed."
    )
    tests = report.get("tests") or {}
    for key in ("added", "changed", "removed"):
        if named := tests.get(key):
            shown = ", ".join(f"`{each}`" for each in named[:_MAX_FILES])
            more = f" and {len(named) - _MAX_FILES} more" if len(named) > _MAX_FILES else ""
            yield f"Tests {key}: {shown}{more}."
    for each in report.get("weakened") or ():
        yield f"Tests weakened: {each['kind'].replace('_', ' ')} in `{each['path']}` ({each['count']})."
    for each in report["guarded"]:
        who = f" by {to_one_line(each['decided_by'])}" if each.get("decided_by") else ""
        where = f"`deepwork approvals show {each['id']}`"
        yield f"Changes of what decides about “done”: {each['status']}{who} ({where})."


def _render_task(task: Row) -> Iterator[str]:
    landed = f" as `{task['landed'][:_SHORT_HASH]}`" if "landed" in task else ""
    yield f"### {to_one_line(task['name'])}\n"
    who = ", ".join(name_agent(each) for each in task["agents"]) or "nobody"
    many = f", {task['attempts']} attempts" if task["attempts"] > 1 else ""
    yield f"{name_state(task['state']).capitalize()}{landed}; by {who}{many}, {format_dollars(task['usd'])}."
    if checks := task["checks"]:
        yield (
            "Checks: "
            + ", ".join(f"{each['name']} {each.get('verdict', '')}".strip() for each in checks)
            + "."
        )
    for reason in task.get("failed") or ():
        yield f"Sent back: {to_one_line(reason)}"
    if _is_of_person(task):
        yield f"Next: `{task['next']}`"
    if outcome := task.get("outcome"):
        yield f"\n{to_paragraph(outcome[:_MAX_OUTCOME])}"
    yield ""
