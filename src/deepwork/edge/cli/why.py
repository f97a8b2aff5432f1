"""`deepwork why`: which task, goal, decisions, checks, approvals and agent a line or a commit comes from."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from deepwork.edge.cli.framework.applications import call_operation, open_application
from deepwork.edge.cli.framework.options import json_option, place_options
from deepwork.edge.cli.framework.output import print_said
from deepwork.gates.budgets.rules import format_dollars
from deepwork.kernel.call import PERSON_PREFIX
from deepwork.kernel.errors import InvalidInput

_LINE_PATTERN = re.compile(r"(.+):(\d{1,9})(?:-(\d{1,9}))?")
_MAX_TEXT = 300


@click.command()
@click.argument("what", metavar="FILE[:LINE]|COMMIT|RANGE")
@click.option("--at", "commit", metavar="COMMIT", help="The file as it is in this commit.")
@place_options
@json_option
def why(what: str, commit: str | None, as_json: bool, path: str, **place: Any) -> None:
    """Show why code exists: commit, task, goal, decisions, checks, approvals, agent, cost and transcript.

    Exit code 1 if no task is known to have made it.
    """
    with open_application(path, place, reads=True, quiet=as_json) as app:
        given = _parse_question(app.settings.repository_root, Path(path), what, commit)
        answer = call_operation(app, "explain_code", given)
    print_said(answer, *_render(answer), as_json=as_json)
    sys.exit(0 if answer["tasks"] else 1)


def _parse_question(root: Path, folder: Path, what: str, commit: str | None) -> dict[str, Any]:
    """Ask about a file if there is one of this name, else about a commit or a range."""
    named = _LINE_PATTERN.fullmatch(what)
    if named and (commit or _is_file(root, folder, named[1])):
        lines = {"line": int(named[2]), "last_line": int(named[3] or named[2])}
        return {"path": _find_name(root, folder, named[1]), **lines, "commit": commit}
    if commit or _is_file(root, folder, what):
        return {"path": _find_name(root, folder, what), "commit": commit}
    if named:  # no commit has such a name
        raise InvalidInput(
            f"There is no file {named[1]!r}, neither in this folder nor in the repository.",
            suggestion="Correct the path; --at COMMIT asks about a file that a commit had.",
        )
    return {"commit": what}


def _is_file(root: Path, folder: Path, name: str) -> bool:
    # Unlike Path.is_file, this is False also for names that no file can have.
    return any(os.path.isfile(start / name) for start in (folder, root))  # noqa: PTH113


def _find_name(root: Path, folder: Path, name: str) -> str:
    """Return the name relative to the repository, of a file that is named relative to the current folder."""
    here = (folder / name).resolve()
    if here.is_relative_to(root.resolve()) and (here.is_file() or not (root / name).exists()):
        return str(here.relative_to(root.resolve()))
    return name


def _render(answer: Mapping[str, Any]) -> Iterator[str]:
    for commit in answer["commits"]:
        yield from _render_commit(commit)
    if answer["commits_total"] > len(answer["commits"]):
        yield f"... and {answer['commits_total'] - len(answer['commits'])} more commits."
    if "uncommitted" in answer:
        yield f"Not committed yet: {_format_lines(answer['uncommitted'])}"
        if "running_tasks" in answer:
            yield f"    These tasks run in this tree now: {', '.join(answer['running_tasks'])}"
    for task in answer["tasks"]:
        yield ""
        yield from _render_task(task)


def _render_commit(commit: Mapping[str, Any]) -> Iterator[str]:
    lines = f"  {_format_lines(commit['lines'])}" if "lines" in commit else ""
    renamed = f"  (then {commit['path']})" if "path" in commit else ""
    yield f"{commit['commit'][:12]} {commit['subject']}{lines}{renamed}"
    for link in commit["links"]:
        certainty = "" if link["certainty"] == "certain" else "likely "
        attempt = f", attempt {link['attempt_id']}" if "attempt_id" in link else ""
        yield f"    {certainty}made by {link['task_id']}{attempt} (known by {link['known_by']})"
    for problem in commit.get("problems", ()):
        yield f"    Its trailers are not true: {problem}"
    if "note" in commit:
        yield f"    {commit['note']}"


def _render_task(task: Mapping[str, Any]) -> Iterator[str]:
    kind, status = _KINDS.get(task["kind"], task["kind"]), task.get("status", "")
    yield f"{kind} {task['id']}  {task['name']}  {status}".rstrip()
    if goal := task.get("goal"):
        yield f"    goal        {goal['name']} ({goal['id']}): {_cut(goal.get('text') or '')}"
    if task.get("outcome"):
        yield f"    outcome     {_cut(task['outcome'])}"
    for decision in task["decisions"]:
        question = f"{_cut(decision['question'])} " if decision["question"] else ""
        yield f"    decision    {question}{_cut(decision['chosen'])}"
    for check in task["checks"]:
        waived = f" by {check['waived_by']}" if "waived_by" in check else ""
        yield f"    check       {check['check']}: {check['verdict']}{waived} ({check['proof_id']})"
    for approval in task["approvals"]:
        yield f"    approval    {approval['kind']}: {_describe_decision(approval)}"
    for landing in task["landings"]:
        where = landing.get("branch") or landing["target"]
        yield f"    landing     {landing['id']}: {landing['status']}, {where}"
    yield from _render_makers(task)


def _render_makers(task: Mapping[str, Any]) -> Iterator[str]:
    for agent in task["agents"]:
        yield f"    agent       {agent['name']} {agent.get('runtime', '')}".rstrip()
    for attempt in task["attempts"]:
        model = attempt.get("model") or "model unknown"
        cost = f"{attempt['tokens']} tokens, {format_dollars(attempt['usd'])}"
        yield f"    attempt     {attempt['id']}: {attempt['profile']}, {model}, {cost}, {attempt['stage']}"
        if "transcript" in attempt:
            yield f"    transcript  {attempt['transcript']}"
    if not task["attempts"] and (task["models"] or "tokens" in task):
        models, cost = ", ".join(task["models"]), f", {format_dollars(task['usd'])}" if "usd" in task else ""
        yield f"    cost        {models or 'model unknown'}, {task.get('tokens', 0)} tokens{cost}"


_KINDS = {"task": "Task", "tracked_task": "Tracked task", "step": "Step", "unknown": "Removed task"}


def _format_lines(ranges: list[list[int]]) -> str:
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
    return f"line{'' if len(parts) == 1 and '-' not in parts[0] else 's'} {', '.join(parts)}"


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_TEXT else f"{line[:_MAX_TEXT]}..."


def _describe_decision(approval: Mapping[str, Any]) -> str:
    """Say who decided what, and whether it was about other work than the task was completed with."""
    by = approval["decided_by"].removeprefix(PERSON_PREFIX)
    done = "refused" if approval["status"] == "refused" else "approved"
    return f"{done} by {by}{', then the work changed' if approval['status'] == 'stale' else ''}"
