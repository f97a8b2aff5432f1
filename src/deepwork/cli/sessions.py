"""`deepwork sessions`: list, show, resume and abort job sessions, and the job tools as commands."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import click

from deepwork.call import Call
from deepwork.cli.framework.applications import open_application
from deepwork.cli.framework.documents import OutputParam, merge_outputs
from deepwork.cli.framework.options import Function, json_option, place_options
from deepwork.cli.framework.output import print_answer, render_json, to_printable
from deepwork.cli.framework.tool_commands import CommandOverrides, ToolGroup
from deepwork.jobs.sessions.state import Session
from deepwork.jobs.sessions.state_manager import session_to_dict
from deepwork.server.application import Application
from deepwork.server.invocation import invoke

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


@click.group(
    cls=ToolGroup,
    tools=["deepwork.jobs.tools:WorkflowTools"],
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
    """List active sessions, oldest first."""
    with _open_to_read(place, as_json=as_json) as app:
        found = [each for each in app.sessions.list_all() if finished_too or each.is_active]
    rows = [_build_row(session) for session in found]
    if rows or as_json:
        print_answer({"sessions": rows}, as_json=as_json)
    else:
        print(
            "There are no sessions."
            if finished_too
            else "There are no active sessions. --all lists the others too."
        )


@sessions.command("show")
@click.argument("session_id", metavar="ID")
@options
def show_session(session_id: str, as_json: bool, **place: Any) -> None:
    """Show a session: its steps, how often each was reviewed, and which reviews were skipped and why."""
    with _open_to_read(place, as_json=as_json) as app:
        session = app.sessions.load(session_id)
    print_answer(session_to_dict(session) if as_json else _build_details(session), as_json=as_json)


@sessions.command()
@click.argument("session_id", metavar="ID")
@options
def resume(session_id: str, as_json: bool, **place: Any) -> None:
    """Print what an agent needs to resume a session: its current step and how to report it."""
    with _open_to_read(place, as_json=as_json) as app:
        spec = app.registry["get_session"]
        answer = invoke(app.database, spec, {"session_id": session_id}, Call("local", spec.name))
    if as_json:
        print_answer(answer, as_json=True)
    else:
        print("\n".join(_render_briefing(answer)))


@sessions.command()
@click.argument("session_id", metavar="ID")
@click.option("--explanation", required=True, metavar="TEXT", help="The reason; stored with the session.")
@options
def abort(session_id: str, explanation: str, as_json: bool, **place: Any) -> None:
    """Abort a session."""
    given = {"session_id": session_id, "explanation": explanation}
    with _open_application(place) as app:
        spec = app.registry["abort_workflow"]
        answer = invoke(app.database, spec, given, Call("local", spec.name))
    print_answer(answer, as_json=as_json)


def _open_application(place: dict[str, Any]) -> AbstractContextManager[Application]:
    return open_application(place.pop("path"), place)


def _open_to_read(place: dict[str, Any], *, as_json: bool) -> AbstractContextManager[Application]:
    return open_application(place.pop("path"), place, reads=True, quiet=as_json)


def _build_row(session: Session) -> dict[str, Any]:
    return {
        "id": session.session_id,
        "workflow": session.workflow,
        "step": session.current_step_id,
        "status": session.status.value,
        "goal": session.goal,
        "started": session.started_at,
    }


def _build_details(session: Session) -> dict[str, Any]:
    """Build what `sessions show` prints: steps, skipped reviews, and facts that are known."""
    facts = _build_row(session) | {
        "branch": session.branch,
        "completed": session.completed_at,
        "abort_reason": session.abort_reason,
    }
    order = [step for entry in session.entries for step in entry.steps]
    steps = [
        {
            "step": step,
            "status": _get_step_status(session, step),
            "reviews": session.get_progress(step).quality_attempts,
            "outputs": ", ".join(_flatten_paths(session.get_progress(step).outputs.values())),
            "notes": session.get_progress(step).notes,
        }
        for step in order
    ]
    overrides = [dict(vars(each)) for each in session.overrides]
    known = {key: value for key, value in facts.items() if value is not None}
    return {"steps": steps, **({"reviews skipped": overrides} if overrides else {}), **known}


def _get_step_status(session: Session, step: str) -> str:
    if session.get_progress(step).completed_at:
        return "completed"
    return "current" if session.is_active and step == session.current_step_id else "waiting"


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
        *step["step_instructions"].splitlines(),
        "",
        *(["Expected outputs:", *outputs, ""] if outputs else []),
        f"Then call finished_step with session_id {step['session_id']!r}.",
    ]
    return [to_printable(line) for line in lines]
