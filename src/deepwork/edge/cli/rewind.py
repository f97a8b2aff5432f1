"""`deepwork rewind` and `deepwork rewinds`: undo a task, undo that again, and show what was undone."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.applications import call_operation, open_application
from deepwork.edge.cli.framework.id_resolution import resolve_id
from deepwork.edge.cli.framework.options import CommandGroup, json_option, passphrase_option, place_options
from deepwork.edge.cli.framework.output import (
    print_answer,
    print_lines,
    print_listed,
    print_said,
    to_printable,
)
from deepwork.edge.cli.framework.proofs import build_act_call
from deepwork.edge.cli.landings import render_merge
from deepwork.kernel.errors import NotAllowed

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application

_MAX_LINES = 20


@click.command()
@click.argument("task", metavar="[TASK]", required=False)
@click.option(
    "--to",
    default="start",
    show_default=True,
    metavar="start|attempt:N|checkpoint:N",
    help="The moment to go back to.",
)
@click.option(
    "--dependents",
    type=click.Choice(["ask", "reset", "keep"]),
    default="ask",
    show_default=True,
    help="Tasks that build on it and have begun: let them begin again, or mark them as stale.",
)
@click.option("--undo", metavar="REWIND", help="Undo a rewind.")
@click.option("--dry-run", is_flag=True, help="Only show what would happen.")
@click.option("--yes", is_flag=True, help="Do not ask; for scripts.")
@passphrase_option
@json_option
@place_options
def rewind(
    task: str | None,
    to: str,
    dependents: str,
    undo: str | None,
    dry_run: bool,
    yes: bool,
    passphrase_stdin: bool,
    as_json: bool,
    path: str,
    **place: Any,
) -> None:
    """Undo a task: its files, its state, and the tasks that build on it.

    Uncommitted work is saved on a rescue branch first, and `--undo` puts everything back. Landed work is
    reverted by a new commit.
    """
    if (task is None) == (undo is None):
        raise click.UsageError("Name a task, or a rewind with --undo.")
    answer: dict[str, Any] | None
    with open_application(path, place, reads=True, quiet=as_json) as app:
        if undo is not None:
            known = resolve_id(app.database, "rewind", undo)
            _confirm_undo(known, is_asked=not yes)
            answer = _invoke(app, "undo_rewind", {"rewind_id": known}, passphrase_stdin)
        else:
            given = {"task_id": resolve_id(app.database, "task", str(task)), "to": to}
            answer = _rewind(app, given, dependents, dry_run, yes, passphrase_stdin, as_json=as_json)
    if answer is None:
        return
    print_said(answer, *_render_done(answer), as_json=as_json)


def _rewind(
    app: Application,
    given: dict[str, Any],
    dependents: str,
    dry_run: bool,
    yes: bool,
    passphrase_stdin: bool,
    *,
    as_json: bool,
) -> dict[str, Any] | None:
    """Show what would happen, ask, and do it."""
    left = _find_unfinished(app, given["task_id"])
    if left is not None and not dry_run:
        print(to_printable(f"Going on with {left}, which was interrupted."), file=sys.stderr)
        return _invoke(app, "rewind_task", {"task_id": given["task_id"]}, passphrase_stdin)
    shown = _preview(app, {**given, "dependents": dependents})
    if dry_run:
        print_said(shown, *_render_preview(shown), as_json=as_json)
        return None
    is_asked = not yes and not as_json and _is_terminal()
    if is_asked and dependents == "ask" and shown["begun_dependents"]:
        print_lines(_render_dependents(shown))
        dependents = click.prompt(
            "Reset them, or keep them and mark them as stale?", type=click.Choice(["reset", "keep"]), err=True
        )
        shown = _preview(app, {**given, "dependents": dependents})
    if is_asked:
        print_lines(_render_preview(shown))
    if shown["possible"]:
        _confirm(f"Rewind {shown['task']!r} to {shown['to']}?", is_asked=not yes)
    arguments = {**given, "dependents": dependents, "digest": shown["digest"]}
    return _invoke(app, "rewind_task", arguments, passphrase_stdin)


def _confirm_undo(id: str, *, is_asked: bool) -> None:
    _confirm(f"Undo {id}: put files, branches and tasks back as they were?", is_asked=is_asked)


def _confirm(question: str, *, is_asked: bool) -> None:
    if not is_asked:
        return
    if not _is_terminal():
        raise NotAllowed(
            "Nothing was rewound: standard input is not a terminal, so nobody can be asked.",
            suggestion="Look at it with --dry-run, then pass --yes.",
        )
    click.confirm(question, abort=True, err=True)


def _is_terminal() -> bool:
    return bool(sys.stdin and sys.stdin.isatty())


def _find_unfinished(app: Application, task_id: str) -> str | None:
    found = call_operation(app, "list_rewinds", {"task_id": task_id, "open": True})["rewinds"]
    return found[0]["id"] if found else None


def _preview(app: Application, given: dict[str, Any]) -> dict[str, Any]:
    return _invoke(app, "preview_rewind", given, passphrase_stdin=False)


def _invoke(
    app: Application, action: str, arguments: Mapping[str, Any], passphrase_stdin: bool
) -> dict[str, Any]:
    call = build_act_call(action, passphrase_stdin=passphrase_stdin)
    answer: dict[str, Any] = call_operation(app, action, arguments, call)
    return answer


@click.group(cls=CommandGroup)
def rewinds() -> None:
    """Rewinds of tasks: list and show them."""


@rewinds.command("list")
@click.option("--task", metavar="ID", help="Only of this task.")
@click.option("--plan", "workflow_id", metavar="ID", help="Only of this plan.")
@click.option("--open", "is_open", is_flag=True, help="Only those that have not ended.")
@click.option("--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="How many at most.")
@json_option
@place_options
def list_rewinds(
    task: str | None,
    workflow_id: str | None,
    is_open: bool,
    limit: int,
    as_json: bool,
    path: str,
    **place: Any,
) -> None:
    """List rewinds, the newest first."""
    with open_application(path, place, reads=True, quiet=as_json) as app:
        of_task = resolve_id(app.database, "task", task) if task else None
        of_plan = resolve_id(app.database, "plan", workflow_id) if workflow_id else None
        given = {"workflow_id": of_plan, "task_id": of_task, "open": is_open, "limit": limit}
        answer = call_operation(app, "list_rewinds", given)
    keys = ("id", "task_id", "to", "stage", "files", "undoes", "undone_by", "created_by", "created_at")
    rows = [{key: each.get(key) for key in keys} for each in answer["rewinds"]]
    print_listed(answer, "rewinds", rows, "Nothing was rewound.", as_json=as_json)


@rewinds.command("show")
@click.argument("id", metavar="REWIND")
@json_option
@place_options
def show_rewind(id: str, as_json: bool, path: str, **place: Any) -> None:
    """Show a rewind: how far it is, what it changed, and the rescue branches."""
    with open_application(path, place, reads=True, quiet=as_json) as app:
        answer = call_operation(app, "get_rewind", {"id": resolve_id(app.database, "rewind", id)})
    print_answer(answer, as_json=as_json)


def _render_preview(shown: Mapping[str, Any]) -> Iterator[str]:
    yield f"Task {shown['task']!r} ({shown['task_id']}, {shown['status']}) goes back to {shown['to']}."
    if holder := shown.get("held_by"):
        yield f"Agent {holder} works on it; its claim ends."
    yield from _render_list(
        "Files that go back",
        [f"{each['path']} ({each['what']})" for each in shown["files"]],
        "files_total",
        shown,
    )
    yield from _render_list(
        "Files in the way",
        [f"{each['path']}: {each['reason']}" for each in shown["in_the_way"]],
        "in_the_way_total",
        shown,
    )
    for each in shown["branches"]:
        then = f"goes back to {each['then']}" if "then" in each else "is set aside"
        yield f"Branch {each['branch']} (at {each['now']}) {then}."
    for each in shown["reverts"]:
        yield f"Landed commit {each['commit'][:12]} is reverted on {each['branch']}."
        if into := each.get("merge_into"):
            yield f"  {into} is checked out and stays: you merge {each['branch']} into it."
    yield from _render_dependents(shown)
    for remark in shown["cannot_undo"]:
        yield f"Not undone: {remark}"


def _render_dependents(shown: Mapping[str, Any]) -> Iterator[str]:
    if not shown["begun_dependents"]:
        return
    verb = {"reset": "begin again", "keep": "stay, marked as stale"}.get(shown["dependents"], "have begun")
    yield f"Tasks that build on it and {verb}:"
    for each in shown["begun_dependents"][:_MAX_LINES]:
        yield f"  {each['id']} {each['name']!r} ({each['status']})"


def _render_list(title: str, lines: list[str], total: str, shown: Mapping[str, Any]) -> Iterator[str]:
    if not lines:
        return
    yield f"{title} ({shown[total]}):"
    yield from (f"  {line}" for line in lines[:_MAX_LINES])
    if shown[total] > _MAX_LINES:
        yield f"  and {shown[total] - _MAX_LINES} more; --json lists them"


def _render_done(answer: Mapping[str, Any]) -> Iterator[str]:
    if undone := answer.get("undoes"):
        yield f"Undid {undone} ({answer['id']}): {answer['files']} file(s) are as they were."
    else:
        moved = f"{answer['files']} file(s) went back"
        yield f"Rewound {answer['task_id']} to {answer['to']} ({answer['id']}): {moved}."
    for branch in answer["rescue_branches"]:
        yield f"Saved before: {branch}"
    for each in answer.get("kept", ()):
        yield f"Changed meanwhile and kept: {each}"
    for each in answer.get("merges") or ():
        yield from render_merge(each["branch"], each["into"])
    if not undone:
        others = [each for each in answer.get("tasks", ()) if each["role"] != "rewound"]
        yield from (f"{each['task_id']}: {each['role']}" for each in others)
        yield f"Undo it with: deepwork rewind --undo {answer['id']}"
