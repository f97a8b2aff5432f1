"""`deepwork land` and `deepwork landings`: finished work becomes one tested branch."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.applications import call_operation, name_person, open_application
from deepwork.edge.cli.framework.id_resolution import choose, list_candidates, resolve_id
from deepwork.edge.cli.framework.options import CommandGroup, json_option, place_options
from deepwork.edge.cli.framework.output import (
    print_answer,
    print_listed,
    print_said,
    render_lines,
    to_printable,
)
from deepwork.edge.cli.framework.progress import ProgressLines
from deepwork.edge.cli.states import add_states, name_state, show_state
from deepwork.kernel.errors import NotFound
from deepwork.kernel.foreign_text import split_lines

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application

_ROW_KEYS = ("id", "state", "title", "target", "branch", "merge_commit", "updated_at")
_SHORT_HASH = 12
_WAIT_SECONDS = 2.0
"""How long nothing is said while another process lands."""


@click.command()
@click.argument("work", metavar="TASK|PLAN")
@click.option("--onto", metavar="BRANCH", help="The branch to land on; else the one the plan started from.")
@click.option("--commit", "commits", is_flag=True, help="Commit uncommitted work in the trees first.")
@json_option
@place_options
def land(work: str, onto: str | None, commits: bool, as_json: bool, path: str, **place: Any) -> None:
    """Merge a completed task, or all completed tasks of a plan, into a branch, and test the result.

    No working tree changes. If the branch is checked out somewhere, the work lands on an integration branch
    instead. Exit code: 0 landed, 3 a person is needed, 1 failed.
    """
    with open_application(path, place, reads=True, quiet=as_json) as app:
        chosen = _find_work(app, work)
        options = {"onto": onto} if onto else {}
        answer = _call(app, "land_work", {**chosen, **options, "commit": commits})
        answer["landings"] = add_states(app, "landing", answer["landings"])
    print_answer(answer, as_json=as_json, render=_render_result)
    sys.exit(int(answer["exit_code"]))


@click.group(cls=CommandGroup)
def landings() -> None:
    """Landings: what landed where, what waits, and why."""


@landings.command("list")
@click.option("--open", "is_open", is_flag=True, help="Only those that have not ended.")
@click.option("--plan", metavar="PLAN", help="Only of this plan.")
@click.option("--limit", type=click.IntRange(1, 500), default=20, show_default=True, help="How many at most.")
@json_option
@place_options
def list_landings(
    is_open: bool, plan: str | None, limit: int, as_json: bool, path: str, **place: Any
) -> None:
    """List landings, the newest first."""
    with open_application(path, place, reads=True, quiet=as_json) as app:
        known = resolve_id(app.database, "plan", plan) if plan else None
        given = {"workflow_id": known, "open": is_open, "limit": limit}
        answer = call_operation(app, "list_landings", given)
    none = "No landing is open." if is_open else "Nothing was landed yet; start with `deepwork land PLAN`."
    print_listed(answer, "landings", list(map(_build_row, answer["landings"])), none, as_json=as_json)


@landings.command("queue")
@click.argument("plan", metavar="PLAN", required=False)
@json_option
@place_options
def show_queue(plan: str | None, as_json: bool, path: str, **place: Any) -> None:
    """Show what is on its way to a branch: its place, the culprit of red checks, who conflicts with whom."""
    with open_application(path, place, reads=True, quiet=as_json) as app:
        known = resolve_id(app.database, "plan", plan) if plan else None
        answer = call_operation(app, "get_landing_queue", {"workflow_id": known})
    if as_json:
        print_answer(answer, as_json=True)
        return
    for each in answer["landings"]:
        print("\n".join(to_printable(line) for line in _describe_queued(each)))
    if not answer["landings"]:
        print("Nothing is on its way to a branch.")


def _describe_queued(landing: Mapping[str, Any]) -> Iterator[str]:
    place = f"{landing['position']}." if "position" in landing else "-"
    where = f"{landing['title']} onto {landing['target']}"
    yield f"{place} {where}: {name_state(landing['state'])} ({landing['id']})"
    for each in landing.get("red") or ():
        without = f"{landing['target']} is not known to pass it without this work."
        whose = "It is red because of this work." if landing.get("culprit") == "work" else without
        yield f"   Check {each['check']}: {each['verdict']}. {whose}"
        yield from (f"   | {line}" for line in split_lines(each.get("log") or ""))
    if conflict := landing.get("conflict"):
        yield f"   It conflicts in {', '.join(conflict['files']) or 'files that are not known'}."
        for other in conflict.get("others") or ():
            yield f"   with {other['subject']} ({other.get('landing_id') or other['commit'][:_SHORT_HASH]})"
        if "others" not in conflict:
            yield "   With whom cannot be found out here."
    if same := landing.get("same_files"):
        yield f"   It changes some of the same files as {', '.join(same)}."
    if "next" in landing:
        yield f"   {landing['next']}"


@landings.command("show")
@click.argument("id", metavar="LANDING")
@json_option
@place_options
def show_landing(id: str, as_json: bool, path: str, **place: Any) -> None:
    """Show a landing: where its work is, and what is in its way."""
    with open_application(path, place, reads=True, quiet=as_json) as app:
        answer = call_operation(app, "get_landing", {"id": resolve_id(app.database, "landing", id)})
    shown = {key: value for key, value in answer.items() if as_json or key not in ("workflow", "actions")}
    print_answer(shown if as_json else show_state(shown), as_json=as_json)


@landings.command("cancel")
@click.argument("id", metavar="LANDING")
@json_option
@place_options
def cancel_landing(id: str, as_json: bool, path: str, **place: Any) -> None:
    """Give up a landing that waits for somebody; its branch and its task stay as they are."""
    with open_application(path, place, reads=True, quiet=as_json) as app:
        answer = _call(app, "cancel_landing", {"landing_id": resolve_id(app.database, "landing", id)})
    print_said(answer, f"{answer['id']}: {answer['status']}.", as_json=as_json)


def _find_work(app: Application, given: str) -> dict[str, str]:
    """Return the argument that names the task or the plan that a person means."""
    found = list_candidates(app.database, ("task", "plan"), given)
    found = [each for each in found if each.kind in ("task", "plan")]
    if not found:
        kind = "task" if given.startswith("tk_") else "workflow"
        raise NotFound(kind, given, suggestion="List the plans with `deepwork plans list`.")
    chosen = choose(given, found)
    return {"task_id" if chosen.kind == "task" else "workflow_id": chosen.id}


def _call(app: Application, action: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    from deepwork.kernel.call import Call

    call = Call(
        name_person(),
        action,
        patience=None,
        carries_notices=False,
        report_progress=ProgressLines(_WAIT_SECONDS),
    )
    answer: dict[str, Any] = call_operation(app, action, arguments, call)
    return answer


def _render_result(answer: Mapping[str, Any]) -> Iterator[str]:
    rows = [_build_row(row) for row in answer["landings"]]
    if rows:
        yield from render_lines({"landings": rows})
    for row in answer["landings"]:
        if row["status"] != "landed":
            yield ""
            yield to_printable(f"{row['title']}:")
            yield from (to_printable(line) for line in split_lines(str(row.get("reason") or "")))
    for row in answer.get("skipped") or ():
        yield to_printable(f"{row['name']}: {row['reason']}")
    yield from _describe_branches(answer["landings"])
    if not rows and not answer.get("skipped"):
        yield "There is nothing to land."


def _describe_branches(landings: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Say once for each branch what landed there, and how to take in an integration branch."""
    landed = Counter(
        (row["branch"], row["target"]) for row in landings if row["status"] == "landed" and row.get("branch")
    )
    for (branch, target), count in landed.items():
        tasks = "1 task is" if count == 1 else f"{count} tasks are"
        yield to_printable(f"{tasks} on {branch}.")
        if branch != target:
            yield from render_merge(branch, target)


def render_merge(branch: str, target: str) -> Iterator[str]:
    """Say how a person takes an integration branch in."""
    yield to_printable(f"{target} was checked out, so it stayed where it was. To take the work in:")
    yield to_printable(f"git merge {branch}  # in the tree of {target}")


def _build_row(landing: Mapping[str, Any]) -> dict[str, Any]:
    row = {key: landing.get(key) for key in _ROW_KEYS}
    row["state"] = name_state(landing["state"]) if "state" in landing else None
    return row | {"merge_commit": str(landing.get("merge_commit") or "")[:_SHORT_HASH]}
