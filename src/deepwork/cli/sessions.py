"""`deepwork sessions`: the runs of jobs, seen and steered from a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from deepwork.cli.documents import Output, outputs
from deepwork.cli.options import Function, json_option, place_options, settings_from
from deepwork.cli.output import pretty, printable, show
from deepwork.cli.verbs import Form, Verbs
from deepwork.database.call import Call
from deepwork.jobs.progress import Session
from deepwork.jobs.sessions import shown
from deepwork.jobs.tools import WorkflowTools
from deepwork.server.application import Application
from deepwork.server.invocation import invoke, invoke_async

_START = Form(note="A job's only workflow is chosen whatever WORKFLOW_NAME says.")
_OUTPUTS: dict[str, click.Parameter] = {
    "outputs": click.Argument(
        ["outputs"], nargs=-1, required=True, type=Output(), callback=outputs, metavar="NAME=FILE..."
    )
}
_DELIVER = "NAME=FILE says which file an output is; a name given twice has a list. Or all as one JSON object."


def options(command: Function) -> Function:
    """Which project, and for whom the answer is."""
    return place_options(json_option(command))


@click.group(
    cls=Verbs,
    tools=lambda: [WorkflowTools],
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
    forms={
        **dict.fromkeys(("start", "start-workflow"), _START),
        **dict.fromkeys(("finish", "finished-step"), Form(_OUTPUTS, _DELIVER, present=pretty)),
        "validate-outputs": Form(_OUTPUTS, _DELIVER),
    },
)
def sessions() -> None:
    """Sessions: the runs of jobs."""


@sessions.command("list")
@click.option("--all", "finished_too", is_flag=True, help="Also those completed or given up.")
@options
def list_sessions(finished_too: bool, as_json: bool, **place: Any) -> None:
    """Name the sessions under way, oldest first."""
    with _app(place) as app:
        found = [each for each in app.sessions.files.all() if finished_too or each.is_active]
    rows = [_row(session) for session in found]
    if rows or as_json:
        show({"sessions": rows}, as_json=as_json)
    else:
        print(
            "There is no session" + ("." if finished_too else " under way. See those that ended with --all.")
        )


@sessions.command("show")
@click.argument("session_id", metavar="ID")
@options
def show_session(session_id: str, as_json: bool, **place: Any) -> None:
    """Show a session: its steps, how often each was reviewed, and which reviews were skipped and why."""
    with _app(place) as app:
        session = app.sessions.files.load(session_id)
    show(shown(session) if as_json else _told(session), as_json=as_json)


@sessions.command()
@click.argument("session_id", metavar="ID")
@options
def resume(session_id: str, as_json: bool, **place: Any) -> None:
    """Print what an agent needs to go on with a session: its current step and how to report it."""
    with _app(place) as app:
        spec = app.registry["get_session"]
        answer = invoke(app.database, spec, {"session_id": session_id}, Call("local", spec.name))
    if as_json:
        show(answer, as_json=True)
    else:
        print("\n".join(_briefing(answer)))


@sessions.command()
@click.argument("session_id", metavar="ID")
@click.option("--explanation", required=True, metavar="TEXT", help="Why; it is kept with the session.")
@options
def abort(session_id: str, explanation: str, as_json: bool, **place: Any) -> None:
    """Give up a session."""
    given = {"session_id": session_id, "explanation": explanation}
    with _app(place) as app:
        spec = app.registry["abort_workflow"]
        answer = asyncio.run(invoke_async(spec, given, Call("local", spec.name), app.database))
    show(answer, as_json=as_json)


@contextmanager
def _app(place: dict[str, Any]) -> Iterator[Application]:
    app = Application(settings_from(place.pop("path"), **place))
    try:
        yield app
    finally:
        app.close()


def _row(session: Session) -> dict[str, Any]:
    return {
        "id": session.session_id,
        "workflow": session.workflow,
        "step": session.current_step_id,
        "status": session.status.value,
        "goal": session.goal,
        "started": session.started_at,
    }


def _told(session: Session) -> dict[str, Any]:
    """A session as a person wants to see it: what there is to say of it, its steps, its skipped reviews."""
    facts = _row(session) | {
        "branch": session.branch,
        "completed": session.completed_at,
        "abort_reason": session.abort_reason,
    }
    order = [step for entry in session.entries for step in entry.steps]
    steps = [
        {
            "step": step,
            "status": _status(session, step),
            "reviews": session.progress(step).quality_attempts,
            "outputs": ", ".join(_paths(session.progress(step).outputs.values())),
            "notes": session.progress(step).notes,
        }
        for step in order
    ]
    overrides = [dict(vars(each)) for each in session.overrides]
    told = {key: value for key, value in facts.items() if value is not None}
    return {"steps": steps, **({"reviews skipped": overrides} if overrides else {}), **told}


def _status(session: Session, step: str) -> str:
    if session.progress(step).completed_at:
        return "completed"
    return "current" if session.is_active and step == session.current_step_id else "waiting"


def _paths(values: Any) -> list[str]:
    return [path for value in values for path in ([value] if isinstance(value, str) else value)]


def _briefing(answer: dict[str, Any]) -> list[str]:
    session, step = answer["session"], answer["begin_step"]
    if step is None:
        return [printable(f"Session {session['session_id']} is {session['status']}.")]
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
        *(["To be delivered:", *outputs, ""] if outputs else []),
        f"Then call finished_step with session_id {step['session_id']!r}.",
    ]
    return [printable(line) for line in lines]
