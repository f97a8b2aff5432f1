"""`deepwork review`: what must be reviewed, and by which rules."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Sequence
from typing import Any

import click

from deepwork.cli.main import complain
from deepwork.cli.options import json_option, place_options, project_option, refuse_misplaced, settings_from
from deepwork.cli.output import printable, show
from deepwork.cli.progress import Waiting
from deepwork.cli.verbs import Verbs
from deepwork.config import child_environment
from deepwork.database.call import Call
from deepwork.errors import DeepworkError, InvalidInput
from deepwork.git.command import Git
from deepwork.reviews import dispatch, rules
from deepwork.reviews.definitions import RuleShelf
from deepwork.reviews.desk import Docket, located
from deepwork.reviews.discovery import RuleFinder
from deepwork.reviews.models import Rules
from deepwork.reviews.tools import ReviewTools
from deepwork.server.application import Application
from deepwork.server.invocation import invoke

_PATIENCE = 3.0
_DUE, _UNKNOWN = 1, 2


@click.group(cls=Verbs, tools=lambda: [ReviewTools], invoke_without_command=True)
@click.pass_context
@place_options
@click.option("--files", multiple=True, metavar="FILE", help="Review these; `-` reads names from stdin.")
@click.option("--base-ref", metavar="REF", help="Compare with this branch, tag or commit.")
@click.option("--platform", metavar="NAME", help="Whose form: claude, codex, gemini, opencode, generic.")
@click.option("--again", is_flag=True, help="Ask for reviews that passed before, too.")
@click.option("--check", is_flag=True, help="Exit code 1 if a review is due, 2 if that cannot be told.")
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
    """Say what must be reviewed: of the files named, else those on stdin, else what changed in git."""
    if context.invoked_subcommand:
        refuse_misplaced(context)
        return
    app = Application(settings_from(path, database=database, global_store=global_store, platform=platform))
    try:
        named = _named(files)
        with Waiting("Looking at what changed", quiet=as_json):
            docket = _docket(app, named, base_ref, again=again)
    except DeepworkError as error:
        if not check:
            raise
        complain(error)
        sys.exit(_UNKNOWN)
    finally:
        app.close()
    _show(docket, app.settings.platform, as_json=as_json)
    sys.exit(_verdict(docket) if check else 0)


@review.command("rules")
@click.option("--matching", multiple=True, metavar="FILE", help="Only rules that match one of these files.")
@project_option
@json_option
def list_rules(matching: tuple[str, ...], path: str, as_json: bool) -> None:
    """Name every review rule, and what is wrong with others. Exit code 1 if any is broken."""
    git = Git(settings_from(path).project_root, environment=child_environment())
    found = RuleShelf(git.root).rules_in(RuleFinder(git).files())
    if matching:
        found = rules.about(found, [located(git.root, file) for file in matching])
    _show_rules(found, as_json=as_json)
    sys.exit(1 if found.flaws else 0)


@review.command()
@click.argument("review_ids", nargs=-1, required=True, metavar="REVIEW_ID...")
@place_options
@json_option
def mark_passed(review_ids: tuple[str, ...], as_json: bool, path: str, **place: Any) -> None:
    """Record that reviews found nothing to change; they are left out until their rule or files change."""
    app = Application(settings_from(path, **place))
    try:
        spec = app.toolset("reviews")["mark_review_passed"]
        marked = [
            invoke(app.database, spec, {"review_id": each}, Call("local", spec.name)) for each in review_ids
        ]
    finally:
        app.close()
    show({"passed": marked}, as_json=as_json)


def _docket(app: Application, named: list[str] | None, base_ref: str | None, *, again: bool) -> Docket:
    if named is not None and base_ref:
        raise InvalidInput("--base-ref is about changes in git; it means nothing for files that are named.")
    return app.reviews.desk.docket(named, base_ref, again=again)


def _named(files: Sequence[str]) -> list[str] | None:
    """The files that were named here or on standard input; None if none were."""
    if "-" in files:
        return [*(file for file in files if file != "-"), *_names(sys.stdin.buffer.read())]
    if files:
        return list(files)
    return _piped() or None


def _piped() -> list[str]:
    """Names that somebody pipes to us. Nobody is waited for who only forgot to close a pipe."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):  # there is no standard input
        return []
    if stat.S_ISREG(mode):
        return _names(sys.stdin.buffer.read())
    if not stat.S_ISFIFO(mode):
        return []
    if not select.select([sys.stdin], [], [], _PATIENCE)[0]:
        print("Nothing came on standard input; looking at git instead.", file=sys.stderr)
        return []
    return _names(sys.stdin.buffer.read())


def _names(content: bytes) -> list[str]:
    """One name a line, or between NULs as `git diff -z` writes them."""
    pieces = content.split(b"\0") if b"\0" in content else content.splitlines()
    return [os.fsdecode(piece) for piece in pieces if piece.strip()]


def _show(docket: Docket, platform: str, *, as_json: bool) -> None:
    if not as_json:
        for line in docket.as_text(platform).split("\n"):
            print("\t" * line.startswith("\t") + printable(line.removeprefix("\t")))
        return
    tasks = [
        {"review_id": each.id, **task}
        for each, task in zip(docket.reviews, dispatch.tasks(docket.reviews, platform), strict=True)
    ]
    answer = {
        "tasks": tasks,
        "passed_before": docket.passed,
        "base": docket.base,
        "message": docket.reason or None,
        "problems": list(map(str, docket.flaws)),
        "missing": list(docket.missing),
    }
    show(answer, as_json=True)


def _verdict(docket: Docket) -> int:
    if docket.flaws:
        return _UNKNOWN
    return _DUE if docket.reviews else 0


def _show_rules(found: Rules, *, as_json: bool) -> None:
    rows = [
        {"name": rule.name, "defining_file": rule.defining_file, "description": rule.description}
        for rule in found.rules
    ]
    problems = list(map(str, found.flaws))
    if as_json:
        show({"rules": rows, "problems": problems}, as_json=True)
        return
    if rows:
        show({"rules": rows}, as_json=False)
    for line in problems or ([] if rows else ["There is no rule."]):
        print(printable(line))
