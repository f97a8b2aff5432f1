"""`deepwork review`: list due reviews and review rules, and record passed reviews."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Sequence
from typing import Any

import click

from deepwork.edge.cli.framework.applications import call_operation, open_application
from deepwork.edge.cli.framework.options import (
    json_option,
    load_command_settings,
    passphrase_option,
    place_options,
    project_option,
    refuse_misplaced,
)
from deepwork.edge.cli.framework.output import print_answer, to_printable
from deepwork.edge.cli.framework.progress import ProgressBar
from deepwork.edge.cli.framework.proofs import build_act_call
from deepwork.edge.cli.framework.tool_commands import ToolGroup
from deepwork.edge.cli.main import print_error
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import perform
from deepwork.gates.reviews import rules
from deepwork.gates.reviews.discovery import RuleCatalog, RuleFinder
from deepwork.gates.reviews.models import RuleSet
from deepwork.gates.reviews.planner import resolve_path
from deepwork.gates.reviews.responses import DueReviews
from deepwork.kernel.call import Call
from deepwork.kernel.config_options import PLATFORMS
from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.errors import DeepworkError, InvalidInput
from deepwork.kernel.git.command import Git

_STDIN_TIMEOUT_SECONDS = 3.0
_EXIT_REVIEW_DUE, _EXIT_UNKNOWN = 1, 2


@click.group(cls=ToolGroup, tools=["deepwork.gates.reviews.tools:ReviewTools"], invoke_without_command=True)
@click.pass_context
@place_options
@click.option(
    "--files", multiple=True, metavar="FILE", help="Review these files; `-` reads names from stdin."
)
@click.option("--base-ref", metavar="REF", help="Compare with this branch, tag or commit.")
@click.option("--platform", metavar="NAME", help=f"Output format: {', '.join(PLATFORMS)}.")
@click.option("--again", is_flag=True, help="Include reviews that already passed.")
@click.option("--check", is_flag=True, help="Exit code 1 if a review is due, 2 if unknown.")
@json_option
def review(
    context: click.Context,
    path: str,
    database: str | None,
    global_store: bool,
    files: tuple[str, ...],
    base_ref: str | None,
    platform: str | None,
    again: bool,
    check: bool,
    as_json: bool,
) -> None:
    """List due reviews of the named files, else of those on stdin, else of the changes in git."""
    if context.invoked_subcommand:
        refuse_misplaced(context)
        return
    place = {"database": database, "global_store": global_store, "platform": platform}
    with open_application(path, place, reads=True, quiet=True) as app:
        try:
            named = _list_named_files(files)
            with ProgressBar("Finding changes", quiet=as_json):
                due = _list_due_reviews(app, named, base_ref, again=again)
        except DeepworkError as error:
            if not check:
                raise
            print_error(error)
            sys.exit(_EXIT_UNKNOWN)
    _print_reviews(due, as_json=as_json)
    sys.exit(_choose_exit_code(due) if check else 0)


@review.command("rules")
@click.option("--matching", multiple=True, metavar="FILE", help="Only rules that match one of these files.")
@project_option
@json_option
def list_rules(matching: tuple[str, ...], path: str, as_json: bool) -> None:
    """List all valid review rules, and the problems of the others. Exit code 1 if any is invalid."""
    git = Git(load_command_settings(path).project_root, environment=build_child_environment())
    found = RuleCatalog(git.root).load_rules(RuleFinder(git).find_files())
    if matching:
        found = rules.filter_rules(found, [resolve_path(git.root, file) for file in matching])
    _print_rules(found, as_json=as_json)
    sys.exit(1 if found.problems else 0)


@review.command()
@click.argument("review_ids", nargs=-1, required=True, metavar="REVIEW_ID...")
@place_options
@json_option
def mark_passed(review_ids: tuple[str, ...], as_json: bool, path: str, **place: Any) -> None:
    """Record that reviews found nothing to change; they are left out until their rule or files change."""
    with open_application(path, place) as app:
        marked = [call_operation(app, "mark_review_passed", {"review_id": each}) for each in review_ids]
    print_answer({"passed": marked}, as_json=as_json)


@review.command("pass")
@click.argument("review_id", metavar="REVIEW_ID")
@passphrase_option
@place_options
@json_option
def pass_review(review_id: str, **options: Any) -> None:
    """Let a review pass whatever its reviewer found."""
    _decide("pass_review", review_id, **options)


@review.command("send-back")
@click.argument("review_id", metavar="REVIEW_ID")
@passphrase_option
@place_options
@json_option
def send_back_review(review_id: str, **options: Any) -> None:
    """Let the rounds of a review begin again."""
    _decide("send_back_review", review_id, **options)


@review.command("grant-round")
@click.argument("review_id", metavar="REVIEW_ID")
@passphrase_option
@place_options
@json_option
def grant_review_round(review_id: str, **options: Any) -> None:
    """Allow a review one more round."""
    _decide("grant_review_round", review_id, **options)


@review.command("rounds")
@place_options
@json_option
def list_rounds(path: str, as_json: bool, **place: Any) -> None:
    """List the rounds of reviews with their findings, and what people decided."""
    with open_application(path, place, reads=True) as app:
        print_answer(call_operation(app, "list_review_rounds", {}), as_json=as_json)


@review.command("queue")
@click.option(
    "--show",
    type=click.Choice(["waiting", "reviewed", "landed", "all"]),
    default="waiting",
    help="Which finished tasks. Default: waiting, those not reviewed and not landed.",
)
@place_options
@json_option
def list_queue(show: str, as_json: bool, path: str, **place: Any) -> None:
    """List finished tasks for you to review, with what weakens their tests."""
    from deepwork.edge.cli import comments

    comments.list_queue(show, as_json, path, **place)


@review.command("approve")
@click.argument("task", metavar="TASK")
@passphrase_option
@place_options
@json_option
def approve_work(task: str, **options: Any) -> None:
    """Say that you reviewed the work of a completed task; a comment or another attempt makes that stale."""
    from deepwork.edge.cli import comments

    comments.approve_work(task, **options)


def _decide(
    action: str, review_id: str, path: str, as_json: bool, passphrase_stdin: bool, **place: Any
) -> None:
    """Decide about a review in the name of the person at this shell."""
    call = build_act_call(action, passphrase_stdin=passphrase_stdin)
    with open_application(path, place) as app:
        answer = call_operation(app, action, {"review_id": review_id}, call)
    print_answer(answer, as_json=as_json)


def _list_due_reviews(
    app: Application, named: list[str] | None, base_ref: str | None, *, again: bool
) -> dict[str, Any]:
    if named is not None and base_ref:
        raise InvalidInput("--base-ref is for changes in git; it does not apply to named files.")
    given = {"platform": app.settings.platform, "files": named, "base_ref": base_ref, "again": again}
    # Not as JSON: names of files need not be text.
    call = Call(tool="list_due_reviews", carries_notices=False)
    due: DueReviews = perform(app.database, app.operations[call.tool], given, call)
    return due.model_dump()


def _list_named_files(files: Sequence[str]) -> list[str] | None:
    """List the files named by --files or on standard input; None if there are none."""
    if "-" in files:
        return [*(file for file in files if file != "-"), *_parse_names(sys.stdin.buffer.read())]
    if files:
        return list(files)
    return _read_piped_names() or None


def _read_piped_names() -> list[str]:
    """Read file names that are piped in.

    An open pipe without a writer would block forever, for example under a CI runner or an editor. After a
    timeout, standard input therefore counts as empty.
    """
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # there is no standard input
        return []
    if stat.S_ISREG(mode):
        return _parse_names(sys.stdin.buffer.read())
    if not stat.S_ISFIFO(mode):
        return []
    if not select.select([sys.stdin], [], [], _STDIN_TIMEOUT_SECONDS)[0]:
        print("Nothing arrived on standard input; using the changes in git instead.", file=sys.stderr)
        return []
    return _parse_names(sys.stdin.buffer.read())


def _parse_names(content: bytes) -> list[str]:
    """Split names at newlines, or at NULs as `git diff -z` writes them."""
    pieces = content.split(b"\0") if b"\0" in content else content.splitlines()
    return [os.fsdecode(piece) for piece in pieces if piece.strip()]


def _print_reviews(due: dict[str, Any], *, as_json: bool) -> None:
    text = due.pop("text")
    if as_json:
        print_answer(due, as_json=True)
        return
    for line in text.split("\n"):
        print("\t" * line.startswith("\t") + to_printable(line.removeprefix("\t")))


def _choose_exit_code(due: dict[str, Any]) -> int:
    if due["problems"]:
        return _EXIT_UNKNOWN
    return _EXIT_REVIEW_DUE if due["tasks"] or due["waiting_for_person"] else 0


def _print_rules(found: RuleSet, *, as_json: bool) -> None:
    rows = [
        {"name": rule.name, "defining_file": rule.defining_file, "description": rule.description}
        for rule in found.rules
    ]
    problems = list(map(str, found.problems))
    if as_json:
        print_answer({"rules": rows, "problems": problems}, as_json=True)
        return
    if rows:
        print_answer({"rules": rows}, as_json=False)
    for line in problems or ([] if rows else ["There are no rules."]):
        print(to_printable(line))
