"""`deepwork answer` and `deepwork tell`: what a person says to agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.applications import call_operation, name_person, open_application
from deepwork.edge.cli.framework.documents import TextParam
from deepwork.edge.cli.framework.id_resolution import resolve_arguments, resolve_id
from deepwork.edge.cli.framework.options import json_option, key_option, place_options
from deepwork.edge.cli.framework.output import print_said

if TYPE_CHECKING:
    from deepwork.edge.server.application import Application


@click.command()
@click.argument("id", metavar="ISSUE|TASK")
@click.argument("text", type=TextParam(may_be_empty=False), metavar="TEXT|-")
@click.option("--refuse", is_flag=True, help="Refuse what the task did; TEXT says what must change.")
@key_option
@json_option
@place_options
def answer(
    id: str, text: str, refuse: bool, idempotency_key: str | None, as_json: bool, path: str, **place: Any
) -> None:
    """Answer what waits for you: resolve an issue; approve or refuse a tracked task that asks for it.

    It is recorded as yours. ISSUE and TASK are ids, or as much of one as is unique; a task can also be named.
    """
    with open_application(path, place, reads=True, quiet=as_json) as app:
        id = resolve_id(app.database, "any_issue", id)
        if id.startswith("tt_"):
            verdict = "refused" if refuse else _choose_verdict(app, id)
            result = _record_verdict(app, id, verdict, text, idempotency_key)
            said = f"Recorded your verdict on {id}: {verdict}."
        elif refuse:
            raise click.UsageError("--refuse is for a tracked task (tt_...); answer an issue with a text.")
        else:
            result = _call(app, "resolve_issue", {"issue_id": id, "note": text}, idempotency_key)
            again = " already" if result.get("already_resolved") else ""
            said = f"Resolved {id}{again}."
    print_said(result, said, as_json=as_json)


@click.command()
@click.argument("agent", metavar="AGENT")
@click.argument("text", type=TextParam(may_be_empty=False), metavar="TEXT|-")
@click.option("--task-id", metavar="ID", help="The task that it is about.")
@click.option("--urgent", is_flag=True, help="Mark it as urgent.")
@key_option
@json_option
@place_options
def tell(
    agent: str,
    text: str,
    task_id: str | None,
    urgent: bool,
    idempotency_key: str | None,
    as_json: bool,
    path: str,
    **place: Any,
) -> None:
    """Send a message to an agent, as yourself.

    AGENT is an id, as much of one as is unique, or the agent's name.
    """
    with open_application(path, place, reads=True, quiet=as_json) as app:
        known = resolve_arguments(app.database, "tell", {"agent": agent, "task_id": task_id or ""})
        about = {"task_id": known["task_id"]} if task_id else {}
        result = _call(
            app,
            "message_send",
            {
                "sender_id": _find_or_register_sender(app, known["agent"]),
                "recipient_id": known["agent"],
                "message_type": "notification",
                "body": text,
                "priority": "urgent" if urgent else "normal",
                **about,
            },
            idempotency_key,
        )
    print_said(result, f"Sent {result['id']} to {agent}.", as_json=as_json)


def _choose_verdict(app: Application, task_id: str) -> str:
    """Return the verdict of a person who does not refuse: a task that asked for no review is acknowledged."""
    task = call_operation(app, "get_thing", {"kind": "tracked_task", "id": task_id})["thing"]
    return "approved" if task["manual_review_needed"] else "acknowledged"


def _record_verdict(app: Application, task_id: str, verdict: str, text: str, key: str | None) -> Any:
    """Log the milestone by which a person judges a task, as the dashboard does."""
    from deepwork.views.overview.agent_operations import build_verdict

    metadata = build_verdict(verdict, name_person())
    return _call(app, "log_milestone", {"task_id": task_id, "message": text, "metadata": metadata}, key)


def _find_or_register_sender(app: Application, recipient: str) -> str:
    """Return the agent that represents the person; it is registered with the first message."""
    from deepwork.views.overview.agent_operations import build_registration

    call_operation(app, "agent_get", {"id": recipient})  # raises for an unknown agent, before registering
    person = name_person()
    known = _call(app, "find_own_agent", {}) or _call(app, "agent_register", build_registration(person))
    return str(known["id"])


def _call(app: Application, tool: str, arguments: dict[str, Any], key: str | None = None) -> Any:
    from deepwork.kernel.call import Call
    from deepwork.kernel.database.idempotency import check_key

    call = Call(name_person(), tool, None if key is None else check_key(key))
    return call_operation(app, tool, arguments, call)
