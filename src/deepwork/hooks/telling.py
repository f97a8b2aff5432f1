"""A situation in words: short, for an agent that has forgotten, with the call that goes on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from deepwork.database.engine import Row
from deepwork.hooks.store import MOST_COUNTED

if TYPE_CHECKING:
    from deepwork.hooks.situation import Situation

MOST_TOKENS = 2000
"""What one telling may cost."""
_LINE = 200
_BODY = 1000


def situation_text(situation: Situation) -> str:
    """All of it, within its budget; empty where nothing is under way."""
    if situation.is_empty:
        return ""
    parts = [
        "deepwork keeps this for you; it is how things stand now.",
        *_who(situation),
        *(_jobs(situation.jobs) if situation.jobs_are_own else _somebodys_jobs(situation.jobs)),
        *_held(situation),
        *_lost(situation.lost),
        *_tracked(situation),
        *_plans(situation),
        *_unread(situation.unread),
    ]
    return within_budget("\n".join(parts))


def within_budget(text: str) -> str:
    """The text, cut where it would cost too much."""
    if len(text.encode()) <= MOST_TOKENS:  # no byte is more than a token
        return text
    from deepwork.plans.tokens import fits, head_length  # noqa: PLC0415 - most texts are short

    if fits(text, MOST_TOKENS):
        return text
    return text[: head_length(text, MOST_TOKENS - 20)] + "\n… (cut; ask deepwork's tools for the rest)"


def urgent_text(messages: Iterable[Any], names: dict[str, str]) -> str:
    """Urgent messages, each with who sent it and how to answer."""
    told = []
    for message in messages:
        sender = names.get(message.sender_id or "", message.sender_id) or "deepwork"
        body = message.body if isinstance(message.body, str) else json.dumps(message.body, ensure_ascii=False)
        subject = f": {one_line(message.subject)}" if message.subject else ""
        cut = " … (cut)" if len(body) > _BODY else ""
        told.append(
            f"URGENT message {message.id} for you from {one_line(sender)} ({message.sender_id}){subject}\n"
            f"{_quoted(body[:_BODY] + cut)}\n"
            f'Mark it with message_mark_read(message_ids=["{message.id}"]); answer with message_send.'
        )
    return within_budget("\n\n".join(told))


def _quoted(body: str) -> str:
    """What another wrote, line by line: none of it can look like a line of ours."""
    return "\n".join(f"> {line}" for line in body.splitlines())


def silence_text(agent_id: str, name: str) -> str:
    """For an agent that everybody believes gone."""
    return (
        f"deepwork counts agent {one_line(name)} ({agent_id}) as offline: it was silent for too long. "
        f'Call agent_heartbeat(agent_id="{agent_id}") to come back; it names the claims that were lost.'
    )


def lost_text(rows: Iterable[Row]) -> str:
    """Claims that others took over."""
    return "\n".join(_lost(rows))


def reminder_text(job: Row | None, held: Iterable[Row]) -> str:
    """What is not finished, for an agent about to stop; empty where all is."""
    lines = [*_jobs([job] if job else []), *(_task(row) for row in held)]
    if not lines:
        return ""
    end = "If you stop because a person must decide, say so and stop; deepwork keeps the state."
    return within_budget("\n".join(["Before you stop: this is not finished in deepwork.", *lines, end]))


def session_data(row: Row) -> dict[str, Any]:
    """What the row of a job session says of it."""
    data = json.loads(row["data"])
    return data if isinstance(data, dict) else {}


def one_line(text: Any, most: int = _LINE) -> str:
    """A text as one line that is not too long."""
    line = " ".join(str(text or "").split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _who(situation: Situation) -> Iterator[str]:
    if situation.agents:
        yield f"You are agent {_named(situation.agents)}: use that id, do not register again."
    if situation.perhaps:
        tasks = [f'{row["id"]} "{one_line(row["name"], 60)}"' for row in situation.perhaps_held]
        holding = f" and holds {', '.join(tasks)}" if tasks else ""
        yield (
            f"If this conversation is the one that acted as agent {_named(situation.perhaps)}{holding}, go on"
            " with that id; otherwise register: another session may be using it."
        )


def _named(agents: dict[str, str]) -> str:
    return ", ".join(f"{one_line(name, 60)} ({id})" for id, name in agents.items())


def _jobs(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        data = session_data(row)
        progress = (data.get("step_progress") or {}).get(row["step_id"]) or {}
        waits = "its review sent it back: mend it" if progress.get("quality_attempts") else "do it"
        named = f'session_id="{row["id"]}"'
        yield (
            f"Job session {_place(row, data)}; {waits}, then"
            f" call finished_step({named}). get_session({named}) has the instructions and outputs."
            f" Goal: {one_line(data.get('goal'))}"
        )


def _somebodys_jobs(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        data = session_data(row)
        yield (
            f"Under way here, perhaps by another session: job session {_place(row, data)}. Go on with it only"
            f' if you are asked to: get_session(session_id="{row["id"]}") has the instructions.'
            f" Goal: {one_line(data.get('goal'))}"
        )


def _place(row: Row, data: dict[str, Any]) -> str:
    """Which job session it is, and where it stands."""
    step = f"{row['id']}, {row['job_name']}/{row['workflow_name']}: at step {row['step_id']}"
    if isinstance(entries := data.get("entries"), list):
        step += f" ({int(data.get('current_entry_index') or 0) + 1} of {len(entries)})"
    return step


def _held(situation: Situation) -> Iterator[str]:
    for place, row in enumerate(situation.held):
        yield _task(row)
        if place == 0 and situation.context is not None:
            context = json.dumps(situation.context, ensure_ascii=False, separators=(",", ":"))
            yield f"  Its context: {context}"


def _task(row: Row) -> str:
    begin = "" if row["status"] in ("in_progress", "paused") else ', set it to "in_progress"'
    return (
        f'You hold task {row["id"]} "{one_line(row["name"], 100)}" ({row["status"]}) of plan'
        f' "{one_line(row["plan_name"], 100)}" ({row["workflow_id"]}): go on with it{begin}, note progress'
        " with checkpoint_add, end it with task_update_status, or give it back with task_release."
    )


def _lost(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        name = f' "{one_line(row["name"], 100)}"' if row["name"] else ""
        yield (
            f"Your claim on task {row['what']}{name} ran out and another took it: stop working on it, and"
            f' call agent_heartbeat(agent_id="{row["who"]}").'
        )


def _tracked(situation: Situation) -> Iterator[str]:
    for row in situation.tracked:
        tasks = [task for task in situation.tracked_tasks if task["workflow_id"] == row["id"]]
        named = "; ".join(
            f'{task["id"]} "{one_line(task["name"], 60)}"'
            + (f" by {one_line(task['agent_name'], 40)}" if task["agent_name"] else "")
            for task in tasks
        )
        parts = 'include=["tasks","decisions","blockers"]'
        yield (
            f'Tracked workflow {row["id"]} "{one_line(row["name"], 100)}": phase {row["current_phase"]} of'
            f" {row['total_phases']}; {'open tasks: ' + named if named else 'no task open'}."
            f' get_context(workflow_id="{row["id"]}", {parts}) tells the rest.'
        )


def _plans(situation: Situation) -> Iterator[str]:
    """Plans that anybody may work on; those of which a task is held are told with it."""
    mine = {row["workflow_id"] for row in situation.held}
    for row in situation.plans:
        if row["id"] not in mine:
            yield (
                f'Plan {row["id"]} "{one_line(row["name"], 100)}": {_count(row["done"])} of'
                f" {_count(row['total'])} tasks done."
                f' workflow_next_tasks(workflow_id="{row["id"]}") says what can be claimed.'
            )


def _count(number: int) -> str:
    return str(number) if number <= MOST_COUNTED else f"over {MOST_COUNTED}"


def _unread(rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        urgent = f", {row['urgent']} urgent" if row["urgent"] else ""
        yield f'{row["waiting"]} unread messages{urgent}: message_list(agent_id="{row["id"]}").'
