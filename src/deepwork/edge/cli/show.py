"""`deepwork show`: anything that has an id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.applications import call_operation, open_application
from deepwork.edge.cli.framework.id_resolution import (
    Candidate,
    choose,
    list_candidates,
    refuse_short_beginning,
)
from deepwork.edge.cli.framework.options import json_option, place_options
from deepwork.edge.cli.framework.output import print_answer, render_lines, to_printable
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.foreign_text import split_lines

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application

_TITLES = {
    "plan": "Plan",
    "task": "Task of a plan",
    "record": "Tracked workflow",
    "tracked_task": "Tracked task",
    "session": "Job session",
    "step": "Step of a job",
    "stored_template": "Template",
}
_TOOLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "plan": ("workflow_get", "id", {"include_tasks": True}),
    "task": ("task_get", "id", {}),
    "agent": ("agent_get", "id", {}),
    "record": (
        "get_context",
        "workflow_id",
        {"include": ["phase_summary", "tasks", "decisions", "blockers"]},
    ),
    "session": ("get_session", "session_id", {}),
    "stored_template": ("template_list", "template_id", {}),
}
"""By kind: the tool that gets it, the parameter for its id, and other arguments."""
_NEXT_COMMANDS = {
    "agent": ("deepwork tell {id} TEXT",),
    "plan": ("deepwork plans show {id} --graph", "deepwork plans progress {id}"),
    "task": ("deepwork tasks context {id}", "deepwork diff {id}"),
    "tracked_task": ("deepwork diff {id}",),
    "run": ("deepwork runs show {id}", "deepwork runs attach {id}"),
    "attempt": ("deepwork runs logs {id}",),
    "landing": ("deepwork landings show {id}",),
}


@click.command()
@click.argument("id", metavar="ID")
@json_option
@place_options
def show(id: str, as_json: bool, path: str, **place: Any) -> None:
    """Show anything by its id: a plan, task, agent, message, workspace, tracked work, issue, job session, ...

    ID is an id, as much of one as is unique, or the name of a plan, task, agent, phase or repository.
    """
    with open_application(path, place, reads=True, quiet=as_json) as app:
        found = _find(app, id)
        answer = _read(app, found)
    print_answer(answer, as_json=as_json, render=lambda it: _render(found, it))


def _find(app: Application, given: str) -> Candidate:
    from deepwork.views.overview.identifier_store import NAMED_KINDS

    session, slash, _ = given.partition("/")
    kinds = ("session",) if slash else (*NAMED_KINDS, "session")
    found = list_candidates(app.database, kinds, session if slash else given)
    if not found:
        refuse_short_beginning("any", given)
        raise InvalidInput(
            f"Nothing here has the id or name {given!r}.",
            suggestion="`deepwork status` lists the current work; `deepwork plans list` and the lists of the"
            " other commands list all.",
        )
    chosen = choose(given, found)
    return Candidate("step", given, session) if slash else chosen


def _read(app: Application, found: Candidate) -> dict[str, Any]:
    if found.kind in _TOOLS:
        tool, parameter, more = _TOOLS[found.kind]
        return _add_states(app, found, call_operation(app, tool, {parameter: found.id, **more}))
    if found.kind == "step":
        step: dict[str, Any] = call_operation(app, "get_work_task", {"id": found.id})
        return step
    thing: dict[str, Any] = call_operation(app, "get_thing", {"kind": found.kind, "id": found.id})["thing"]
    return thing


def _add_states(app: Application, found: Candidate, answer: dict[str, Any]) -> dict[str, Any]:
    """Add the state of what a tool got, if its kind has states."""
    from deepwork.edge.cli.states import add_context_states, add_plan_state, add_state_to

    if found.kind == "plan":
        return add_plan_state(app, answer)
    if found.kind == "record":
        return add_context_states(app, answer)
    if found.kind in ("task", "session"):
        state = add_state_to(found.kind, app, {"id": found.id})
        return answer | {key: value for key, value in state.items() if key != "id"}
    return answer


def _render(found: Candidate, answer: dict[str, Any]) -> Iterator[str]:
    title = _TITLES.get(found.kind) or found.kind.capitalize()
    yield to_printable(f"{title} {found.id}")
    yield ""
    renderers: dict[str, Callable[[dict[str, Any]], list[str]]] = {
        "plan": _render_plan,
        "record": _render_record,
        "session": _render_session,
        "step": lambda whole: _render_facts(whole["task"]),
        "stored_template": lambda listed: _render_facts(listed["templates"][0]),
    }
    yield from renderers.get(found.kind, _render_facts)(answer)
    if commands := list(_list_commands(found, answer)):
        yield ""
        yield from commands


def _list_commands(found: Candidate, answer: dict[str, Any]) -> Iterator[str]:
    if found.kind == "issue" and not answer.get("resolved_at"):
        yield f"deepwork answer {found.id} TEXT"
    if found.kind == "approval" and answer["status"] == "pending":
        yield f"deepwork approvals approve {found.id}"
        yield f"deepwork approvals refuse {found.id} --comment TEXT"
    yield from (command.format(id=found.id) for command in _NEXT_COMMANDS.get(found.kind, ()))


def _render_plan(answer: dict[str, Any]) -> list[str]:
    from deepwork.edge.cli.plans import render_plan

    return render_plan(answer)


def _render_record(answer: dict[str, Any]) -> list[str]:
    from deepwork.edge.cli.track import render_context

    return render_context(answer)


def _render_session(answer: dict[str, Any]) -> list[str]:
    step = answer.get("begin_step") or {}
    facts = {key: value for key, value in answer["session"].items() if not isinstance(value, (dict, list))}
    facts |= {key: answer[key] for key in ("state", "because", "next")}
    text = split_lines(step.get("step_instructions", ""))
    return [*_render_facts(facts), *(["", *map(to_printable, text)] if text else [])]


def _render_facts(thing: dict[str, Any]) -> list[str]:
    """Render a thing without its empty fields; its state is in the place of what is stored."""
    from deepwork.edge.cli.states import show_state

    if thing.get("state") and not {"status", "stage"}.isdisjoint(thing):
        thing = show_state(thing)
    return render_lines({key: value for key, value in thing.items() if value not in (None, [], {}, "")})
