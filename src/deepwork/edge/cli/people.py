"""`deepwork answer` and `deepwork tell`: what a person says to agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from deepwork.edge.cli.framework.applications import call_operation, name_person, open_application
from deepwork.edge.cli.framework.documents import TextParam
from deepwork.edge.cli.framework.id_resolution import resolve_arguments, resolve_id
from deepwork.edge.cli.framework.options import json_option, key_option, place_options
from deepwork.edge.cli.framework.output import print_said
from deepwork.kernel.foreign_text import quote_line

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
@click.argument("target", metavar="TASK|ATTEMPT|AGENT|RUN")
@click.argument("text", type=TextParam(may_be_empty=False), metavar="TEXT|-", required=False)
@click.option("--now", is_flag=True, help="Interrupt the agent; it continues with your words.")
@click.option("--task-id", metavar="ID", help="The task that a message to another agent is about.")
@click.option("--urgent", is_flag=True, help="Mark a message to another agent as urgent.")
@key_option
@json_option
@place_options
def tell(
    target: str,
    text: str | None,
    now: bool,
    task_id: str | None,
    urgent: bool,
    idempotency_key: str | None,
    as_json: bool,
    path: str,
    **place: Any,
) -> None:
    """Tell whoever works on a task something, as yourself; it follows the task to the next attempt.

    An attempt, an agent or a run of `deepwork run` stands for the tasks that it works on. Any other agent
    gets a message. Without TEXT: what was told, and when it was delivered. Names work as well as ids.
    """
    with open_application(path, place, reads=True, quiet=as_json) as app:
        known = resolve_arguments(app.database, "tell", {"target": target, "task_id": task_id or ""})
        to = known["target"]
        if to.startswith("ag_") and not _is_of_run(app, to):
            if text is None or now:
                raise click.UsageError("This is not an agent of a run: write a TEXT, without --now.")
            about = {"task_id": known["task_id"]} if task_id else {}
            result = _send_message(app, to, text, idempotency_key, urgent=urgent, **about)
            said = f"Sent {result['id']} to {target}."
        elif text is None:
            result = _call(app, "list_words", {"to": to})
            said = "\n".join(map(_describe_word, result["words"])) or "Nothing was told yet."
        else:
            result = _call(app, "tell", {"to": to, "text": text, "now": now}, idempotency_key)
            said = "\n".join(map(_describe_told, result["words"]))
    print_said(result, said, as_json=as_json)


REACHES = {
    "next_call": "its agent hears it after the tool call that it is in",
    "next_start": "it opens the next start of its agent",
    "next_agent": "it opens the prompt of the next agent",
    "refusal": "its work waits for your approval: if you refuse it, the next agent hears this; "
    "if you approve it, nobody does",
    "never": "never delivered, because the task is done",
}


def _describe_told(word: dict[str, Any]) -> str:
    return f"Told {word['task_name']} ({word['task_id']}): {REACHES[word['reaches']]}."


def _describe_word(word: dict[str, Any]) -> str:
    """Describe in one line what was told, and whether it arrived."""
    if word.get("delivered_at") is None:
        arrived = f"not delivered yet: {REACHES[word['reaches']]}"
    else:
        start = f", in start {word['start']} of {word['attempt_id']}" if word.get("start") else ""
        arrived = f"delivered at {word['delivered_at']}{start}"
    return f"{word['at']}  {word['task_name']}: {quote_line(word['text'], 60)} {arrived}"


def _is_of_run(app: Application, agent_id: str) -> bool:
    """Whether `deepwork run` started the agent; raises for an unknown agent."""
    agent = call_operation(app, "agent_get", {"id": agent_id})
    return "attempt" in (agent.get("metadata") or {})


def _send_message(
    app: Application, agent_id: str, text: str, key: str | None, *, urgent: bool, **about: str
) -> Any:
    given = {
        "sender_id": _find_or_register_sender(app),
        "recipient_id": agent_id,
        "message_type": "notification",
        "body": text,
        "priority": "urgent" if urgent else "normal",
        **about,
    }
    return _call(app, "message_send", given, key)


def _choose_verdict(app: Application, task_id: str) -> str:
    """Return the verdict of a person who does not refuse: a task that asked for no review is acknowledged."""
    task = call_operation(app, "get_thing", {"kind": "tracked_task", "id": task_id})["thing"]
    return "approved" if task["manual_review_needed"] else "acknowledged"


def _record_verdict(app: Application, task_id: str, verdict: str, text: str, key: str | None) -> Any:
    """Log the milestone by which a person judges a task, as the dashboard does."""
    from deepwork.views.overview.agent_operations import build_verdict

    metadata = build_verdict(verdict, name_person())
    return _call(app, "log_milestone", {"task_id": task_id, "message": text, "metadata": metadata}, key)


def _find_or_register_sender(app: Application) -> str:
    """Return the agent that represents the person; it is registered with the first message."""
    from deepwork.views.overview.agent_operations import build_registration

    person = name_person()
    known = _call(app, "find_own_agent", {}) or _call(app, "agent_register", build_registration(person))
    return str(known["id"])


def _call(app: Application, tool: str, arguments: dict[str, Any], key: str | None = None) -> Any:
    from deepwork.kernel.call import Call
    from deepwork.kernel.database.idempotency import check_key

    call = Call(name_person(), tool, None if key is None else check_key(key))
    return call_operation(app, tool, arguments, call)
