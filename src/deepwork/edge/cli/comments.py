"""`deepwork comment`: what a person says about lines of work, and the queue of finished work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from deepwork.edge.cli.framework.applications import call_operation, name_person, open_application
from deepwork.edge.cli.framework.documents import TextParam
from deepwork.edge.cli.framework.id_resolution import resolve_arguments
from deepwork.edge.cli.framework.options import json_option, key_option, passphrase_option, place_options
from deepwork.edge.cli.framework.output import print_answer, print_said, to_printable
from deepwork.edge.cli.framework.patches import render_weakened
from deepwork.edge.cli.framework.proofs import build_act_call
from deepwork.kernel.call import PERSON_PREFIX, Call
from deepwork.kernel.database.idempotency import check_key

_REACHES = {
    "next_call": "its agent hears it after the tool call that it is in",
    "next_start": "it opens the next start of the same session",
    "next_agent": "it opens the prompt of the next agent",
}


@click.command()
@click.argument("task", metavar="TASK|COMMENT")
@click.argument("place", metavar="[FILE:LINE]", required=False)
@click.argument("text", type=TextParam(may_be_empty=False), metavar="[TEXT|-]", required=False)
@click.option("--old", is_flag=True, help="The line is one of the file before the task.")
@click.option("--later", is_flag=True, help="Keep it until you send the work back.")
@click.option(
    "--send-back",
    "words",
    type=TextParam(),
    metavar="TEXT|-",
    help="Send the work back with all comments that were kept, and with TEXT; it may be empty then.",
)
@click.option("--fixed", "state", flag_value="fixed", help="Say that this comment is answered.")
@click.option("--withdraw", "state", flag_value="withdrawn", help="Take this comment back.")
@passphrase_option
@key_option
@json_option
@place_options
def comment(
    task: str,
    place: str | None,
    text: str | None,
    old: bool,
    later: bool,
    words: str | None,
    state: str | None,
    passphrase_stdin: bool,
    idempotency_key: str | None,
    as_json: bool,
    path: str,
    **where: Any,
) -> None:
    """Comment on a line of a task's work, as yourself; its agent corrects it, and it comes back checked.

    Work that is done, or waits for you, is worked on again by the same session. Without FILE:LINE: the
    comments on the task, and whether its agent heard them.
    """
    if place is not None and (text is None or words is not None or state is not None):
        raise click.UsageError("A line takes a TEXT, and no --send-back, --fixed or --withdraw.")
    key = None if idempotency_key is None else check_key(idempotency_key)
    with open_application(path, where, reads=True, quiet=as_json) as app:
        if state is not None:
            call = build_act_call("close_comment", key, passphrase_stdin=passphrase_stdin)
            given = {"comment_id": task, "state": state}
            result = call_operation(app, call.tool, given, call)
            print_said(result, f"{task} is {state}.", as_json=as_json)
            return
        id = resolve_arguments(app.database, "comment", {"task_id": task})["task_id"]
        if place is not None:
            file, line = _parse_place(place)
            about = {"task_id": id, "path": file, "line": line, "text": text, "later": later}
            about |= {"side": "old"} if old else {}
            result = call_operation(app, "comment_on_task", about, _call("comment_on_task", key))
            said = _describe_sent(result)
        elif words is not None:
            about = {"task_id": id} | ({"text": words} if words.strip() else {})
            result = call_operation(app, "send_back_task", about, _call("send_back_task", key))
            said = _describe_sent(result)
        else:
            result = call_operation(app, "list_comments", {"task_id": id})
            said = "\n".join(map(_describe_comment, result["comments"])) or "Nobody commented on it yet."
    print_said(result, said, as_json=as_json)


def list_queue(show: str, as_json: bool, path: str, **where: Any) -> None:
    """Print the finished tasks that wait for a review."""
    with open_application(path, where, reads=True, quiet=as_json) as app:
        found = call_operation(app, "list_review_queue", {"show": show, "limit": 100})
    print_answer(found, as_json=as_json, render=_render_queue)


def approve_work(task: str, passphrase_stdin: bool, as_json: bool, path: str, **where: Any) -> None:
    """Record that the person at this shell reviewed completed work as it is now."""
    call = build_act_call("approve_work", passphrase_stdin=passphrase_stdin)
    with open_application(path, where) as app:
        id = resolve_arguments(app.database, "comment", {"task_id": task})["task_id"]
        entry = call_operation(app, "get_task_review", {"id": id})["entry"]
        result = call_operation(app, call.tool, {"task_id": id, "digest": entry["digest"]}, call)
    print_said(result, f"Reviewed: {entry['name']}.", as_json=as_json)


def _call(tool: str, key: str | None) -> Call:
    return Call(name_person(), tool, key)


def _parse_place(place: str) -> tuple[str, int]:
    file, _, line = place.rpartition(":")
    if not file or not line.isascii() or not line.isdecimal() or int(line) < 1:
        raise click.UsageError(f"{place[:100]!r} is no FILE:LINE, such as src/app.py:12.")
    return file, int(line)


def _describe_sent(sent: Mapping[str, Any]) -> str:
    if "reaches" not in sent:
        [kept] = sent["comments"]
        return f"Kept {kept['id']}: it goes with `deepwork comment {sent['task_id']} --send-back TEXT`."
    how = "Sent back" if sent["reopened"] else "Told"
    arrives = f"no run works on it, `{sent['next']}` does" if sent.get("next") else _REACHES[sent["reaches"]]
    return f"{how} {sent['task_id']}: {arrives}."


def _describe_comment(comment: Mapping[str, Any]) -> str:
    by, old = comment["by"].removeprefix(PERSON_PREFIX), " (old)" if comment["side"] == "old" else ""
    state = comment["state"] if comment.get("sent_at") or comment["state"] != "open" else "not sent"
    return (
        f"{comment['id']}  {state:9}  {to_printable(comment['path'])}:{comment['line']}{old}  "
        f"{to_printable(by)}: {to_printable(' '.join(comment['text'].split()))}"
    )


def _render_queue(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"REVIEW  {found['unreviewed']} of {found['finished']} unreviewed"
    for entry in found["entries"]:
        lines = f"+{entry['added']} -{entry['removed']}" if "added" in entry else "?"
        checks = ", ".join(f"{each['name']} {each.get('verdict', 'not proved')}" for each in entry["checks"])
        open_ones = sum(entry["comments"][state] for state in ("unsent", "open", "delivered"))
        about = [lines, checks or "no checks", f"round {max(1, len(entry['rounds']))}"]
        about += [f"{open_ones} open comments"] if open_ones else []
        yield f"{entry['id']}  {to_printable(entry['name'])}  ({to_printable(', '.join(about))})"
        yield from (f"  {line}" for line in render_weakened(entry))
        if entry.get("approval_id"):
            yield f"  deepwork approvals show {entry['approval_id']}"
    more = found["total"] - len(found["entries"])
    if more:
        yield f"… and {more} more"
