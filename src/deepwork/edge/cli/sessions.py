"""`deepwork sessions`: list, show, resume and abort job sessions, and the job tools as commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from deepwork.edge.cli.framework.applications import (
    call_operation,
    is_typed,
    open_application,
    print_unnotified,
)
from deepwork.edge.cli.framework.documents import OutputParam, TextParam, merge_outputs
from deepwork.edge.cli.framework.id_resolution import resolve_id
from deepwork.edge.cli.framework.options import (
    Function,
    json_option,
    passphrase_option,
    person_option,
    place_options,
)
from deepwork.edge.cli.framework.output import (
    print_answer,
    print_listed,
    print_said,
    render_json,
    to_printable,
)
from deepwork.edge.cli.framework.proofs import build_act_call
from deepwork.edge.cli.framework.tool_commands import CommandOverrides, ToolGroup, call_tool
from deepwork.edge.cli.states import add_state_to, add_states, show_state, show_states
from deepwork.edge.server.application import Application
from deepwork.gates.reviews.round_trees import format_finding
from deepwork.gates.reviews.rounds import read_findings
from deepwork.kernel.call import Call
from deepwork.kernel.errors import Code, DeepworkError
from deepwork.kernel.foreign_text import split_lines
from deepwork.work.jobs.sessions.state import SessionStatus

Row = dict[str, Any]
_START_OVERRIDES = CommandOverrides(note="If the job has a single workflow, WORKFLOW_NAME is ignored.")
_OUTPUT_PARAMETERS: dict[str, click.Parameter] = {
    "outputs": click.Argument(
        ["outputs"],
        nargs=-1,
        required=True,
        type=OutputParam(),
        callback=merge_outputs,
        metavar="NAME=FILE...",
    )
}
_OUTPUTS_HELP = (
    "NAME=FILE names the file of an output; repeat NAME for a list. Or give all as one JSON object."
)


def options(command: Function) -> Function:
    """Add --path, --db, --global and --json."""
    return place_options(json_option(command))


step_option = click.option("--step-id", metavar="ID", help="Refuse unless this step is current.")


@click.group(
    cls=ToolGroup,
    tools=["deepwork.work.jobs.tools:WorkflowTools"],
    only={
        "start_workflow",
        "finished_step",
        "go_to_step",
        "get_session",
        "validate_outputs",
        "abort_workflow",
    },
    aliases={
        "start": "start-workflow",
        "finish": "finished-step",
        "get": "get-session",
        "back-to": "go-to-step",
    },
    overrides={
        **dict.fromkeys(("start", "start-workflow"), _START_OVERRIDES),
        **dict.fromkeys(
            ("finish", "finished-step"),
            CommandOverrides(_OUTPUT_PARAMETERS, _OUTPUTS_HELP, render=render_json),
        ),
        "validate-outputs": CommandOverrides(_OUTPUT_PARAMETERS, _OUTPUTS_HELP),
    },
)
def sessions() -> None:
    """Job sessions: start, inspect and finish runs of jobs."""


@sessions.command("list")
@click.option("--all", "finished_too", is_flag=True, help="Include completed and aborted sessions.")
@options
def list_sessions(finished_too: bool, as_json: bool, **place: Any) -> None:
    """List active sessions, those in the worktrees of runs too, oldest first."""
    with open_application(place.pop("path"), place, reads=True, quiet=as_json) as app:
        found = _list_everywhere(app, {"all": finished_too})
        rows = add_states(app, "session", found)
    active = "There are no active sessions. --all lists the others too."
    none = "There are no sessions." if finished_too else active
    print_listed({"sessions": rows}, "sessions", show_states(rows), none, as_json=as_json)


@sessions.command("show")
@click.argument("session_id", metavar="ID")
@options
def show_session(session_id: str, as_json: bool, **place: Any) -> None:
    """Show a session: its steps, how often each was reviewed, and which reviews were skipped and why."""
    with open_with_session(place, session_id, reads=True, quiet=as_json) as (app, known):
        session = call_operation(app, "get_whole_session", {"session_id": known})["session"]
        state = add_state_to("session", app, {"id": known})
    whole = session | state if as_json else show_state(_build_details(session) | state)
    print_answer(whole, as_json=as_json)


@sessions.command()
@click.argument("session_id", metavar="ID")
@options
def resume(session_id: str, as_json: bool, **place: Any) -> None:
    """Print what an agent needs to resume a session: its current step and how to report it."""
    with open_with_session(place, session_id, reads=True, quiet=as_json) as (app, known):
        answer = call_operation(app, "get_session", {"session_id": known}, Call("local", "get_session"))
    print_answer(answer, as_json=as_json, render=_render_briefing)


@sessions.command()
@click.argument("session_id", metavar="ID")
@click.option("--explanation", required=True, metavar="TEXT", help="The reason; stored with the session.")
@person_option
@options
def abort(session_id: str, explanation: str, as_person: bool, as_json: bool, **place: Any) -> None:
    """Abort a session."""
    as_person = as_person or is_typed()
    with open_with_session(place, session_id) as (app, known):
        given = {"session_id": known, "explanation": explanation}
        answer = call_tool(app, app.registry["abort_workflow"], given, as_person=as_person)
    print_answer(answer, as_json=as_json)
    if not as_person and not as_json:
        print_unnotified("abort_workflow")


@sessions.command("pass")
@click.argument("session_id", metavar="SESSION")
@click.option("--comment", metavar="TEXT", help="Why it may pass; the agent reads it.")
@step_option
@passphrase_option
@options
def pass_step(session_id: str, comment: str | None, step_id: str | None, **how: Any) -> None:
    """Let the step at its quality gate pass; the job goes on to the next step."""
    _decide("pass_step", how, session_id=session_id, comment=comment, step_id=step_id)


@sessions.command("send-back")
@click.argument("session_id", metavar="SESSION")
@click.argument("text", type=TextParam(may_be_empty=False), metavar="TEXT|-")
@step_option
@passphrase_option
@options
def send_back_step(session_id: str, text: str, step_id: str | None, **how: Any) -> None:
    """Let the agent do the step at its quality gate again, with TEXT as feedback."""
    _decide("send_back_step", how, session_id=session_id, text=text, step_id=step_id)


@sessions.command("grant-round")
@click.argument("session_id", metavar="SESSION")
@step_option
@passphrase_option
@options
def grant_round(session_id: str, step_id: str | None, **how: Any) -> None:
    """Allow the step at its quality gate one more review."""
    _decide("grant_round", how, session_id=session_id, step_id=step_id)


def _decide(action: str, how: dict[str, Any], *, session_id: str, **given: str | None) -> None:
    """Decide about the step at its quality gate, in the name of the person at this shell."""
    as_json, call = how.pop("as_json"), build_act_call(action, passphrase_stdin=how.pop("passphrase_stdin"))
    with open_with_session(how, session_id) as (app, known):
        arguments = {name: value for name, value in given.items() if value is not None}
        arguments |= {"session_id": known}
        answer = call_operation(app, action, arguments, call)
    print_said(answer, _render_decision(answer), as_json=as_json)


def _render_decision(answer: dict[str, Any]) -> str:
    """Say what happened, and what the agent does next."""
    step, next_step = answer["step_id"], answer["next_step"]
    if answer["status"] == "workflow_complete":
        return f"Step {step} passed: the workflow is complete."
    if answer["status"] == "next_step":
        return f"Step {step} passed. The agent's next call is answered with step {next_step}."
    if answer["decision"] == "sent_back":
        return f"Step {step} was sent back. The agent's next call is answered with your text."
    left = answer["attempts_left"]
    return f"Step {step} may be reviewed {left} more time{'' if left == 1 else 's'}."


def _build_details(session: Row) -> Row:
    """Build what `sessions show` prints: steps, skipped reviews, and facts that are known."""
    facts = {
        "id": session["session_id"],
        "workflow": f"{session['job_name']}/{session['workflow_name']}",
        "step": session["current_step_id"],
        "status": session["status"],
        "goal": session["goal"],
        "started": session["started_at"],
        "branch": session["branch"],
        "completed": session["completed_at"],
        "abort_reason": session["abort_reason"],
        "waiting for": _format_wait(session),
    }
    lists = {
        "steps": [_build_step(session, step) for entry in session["entries"] for step in entry["steps"]],
        "rounds": _list_rounds(session),
        "self-reviews": [
            {"step_id": each["step_id"], "verdict": _name_verdict(each), "at": each["at"]}
            for each in session["self_reviews"]
        ],
        "reviews skipped": session["overrides"],
        "decided by people": [
            {name: value for name, value in each.items() if name != "is_seen"}
            for each in session["decisions"]
        ],
    }
    known = {key: value for key, value in facts.items() if value is not None}
    return {name: rows for name, rows in lists.items() if rows} | known


def _build_step(session: Row, step: str) -> Row:
    progress = session["step_progress"].get(step, {})
    return {
        "step": step,
        "status": _get_step_status(session, step),
        "reviews": progress.get("quality_attempts", 0),
        "outputs": ", ".join(_flatten_paths(progress.get("outputs", {}).values())),
        "notes": progress.get("notes"),
    }


def _list_rounds(session: Row) -> list[Row]:
    """List each finding of each round of the reviews, and the rounds without any."""
    return [
        {
            "step": each["step_id"],
            "review": each["rule"],
            "round": each["round"],
            "verdict": _name_verdict(each),
            "finding": format_finding(read_findings([finding])[0]) if finding else None,
            "effect": finding["effect"] if finding else None,
        }
        for each in session["review_rounds"]
        for finding in each["findings"] or (None,)
    ]


def _name_verdict(review: Row) -> str:
    return "passed" if review["passed"] else "failed"


def _format_wait(session: Row) -> str | None:
    """Say why only a person can decide about the current step; None if nobody waits."""
    reason: str | None = _get_current_progress(session).get("person_reason")
    return f"a person ({reason.replace('_', ' ')})" if _is_active(session) and reason else None


def _get_step_status(session: Row, step: str) -> str:
    if session["step_progress"].get(step, {}).get("completed_at"):
        return "completed"
    if not _is_active(session) or step != session["current_step_id"]:
        return "waiting"
    return "current" if _get_current_progress(session).get("submitted_outputs") is None else "at its gate"


def _get_current_progress(session: Row) -> Row:
    progress: Row = session["step_progress"].get(session["current_step_id"], {})
    return progress


def _is_active(session: Row) -> bool:
    return bool(session["status"] == SessionStatus.ACTIVE)


def _flatten_paths(values: Any) -> list[str]:
    return [path for value in values for path in ([value] if isinstance(value, str) else value)]


def _render_briefing(answer: dict[str, Any]) -> list[str]:
    session, step = answer["session"], answer["begin_step"]
    if step is None:
        return [to_printable(f"Session {session['session_id']} is {session['status']}.")]
    outputs = [
        f"  {each['name']} ({each['type']}{'' if each['required'] else ', optional'}): {each['description']}"
        for each in step["step_expected_outputs"]
    ]
    lines = [
        f"Session {step['session_id']} of {session['job_name']}/{session['workflow_name']}",
        f"Goal: {session['goal']}",
        f"Current step: {step['step_id']}",
        "",
        *split_lines(step["step_instructions"]),
        "",
        *(["Expected outputs:", *outputs, ""] if outputs else []),
        f"Then call finished_step with session_id {step['session_id']!r}; at a shell:",
        f"  deepwork sessions finish NAME=FILE --session-id {step['session_id']}",
    ]
    return [to_printable(line) for line in lines]


@contextmanager
def open_with_session(
    place: dict[str, Any], session_id: str, *, reads: bool = False, quiet: bool = False
) -> Iterator[tuple[Application, str]]:
    """Open the application of the tree that has the session, on the store of the project.

    Returns it with the id of the session, of which a person may have given the beginning.
    """
    path = place.pop("path")
    with open_application(path, place, reads=reads, needs_session=not reads, quiet=quiet) as app:
        known = resolve_id(app.database, "session", session_id)
        tree = None if _has_session(app, known) else _find_tree(app, known)
        if tree is None:
            yield app, known
            return
        with closing(_open_tree(app, tree)) as of_tree:
            yield of_tree, known


def _open_tree(app: Application, tree: Path) -> Application:
    """Open the application of a worktree, on the store of the project."""
    return Application(replace(app.settings, project_root=tree, database=app.settings.database_location))


def _list_everywhere(app: Application, given: Row) -> list[Row]:
    found = {each["id"]: each for each in call_operation(app, "list_sessions", given)["sessions"]}
    for tree in call_operation(app, "list_session_trees", {})["trees"]:
        with closing(_open_tree(app, Path(tree))) as of_tree:
            listed = call_operation(of_tree, "list_sessions", given)["sessions"]
        found |= {each["id"]: each for each in listed}
    return sorted(found.values(), key=lambda each: str(each["started"]))


def _has_session(app: Application, session_id: str) -> bool:
    try:
        call_operation(app, "get_whole_session", {"session_id": session_id})
    except DeepworkError as error:
        return error.code is not Code.SESSION_NOT_FOUND
    return True


def _find_tree(app: Application, session_id: str) -> Path | None:
    """Find the worktree in which a run of this machine works on a session."""
    tree = call_operation(app, "find_session_tree", {"session_id": session_id}).get("tree")
    return Path(tree) if tree else None
