"""What a call leaves behind, told twice: as the caller meant it, and as the store tells it.

Calls are made so that each is news of its own: names, bodies and tasks carry the key of their call.
"""

from __future__ import annotations

import json
from typing import Any

from application import ask, events
from deepwork.events.log import Event
from deepwork.server.application import Application


def intended(tool: str, arguments: dict[str, Any]) -> str:
    """The effect of a call."""
    return json.dumps(_INTENDED[tool](arguments), sort_keys=True)


def told(app: Application) -> list[str]:
    """The effects in the store's log, in order."""
    return [json.dumps(_told(event), sort_keys=True) for event in events(app)]


def is_without_gaps(app: Application) -> bool:
    """Whether events are numbered 1, 2, 3 … and inboxes likewise."""
    with app.database.reading() as tx:
        seqs = [row["seq"] for row in tx.all("SELECT seq FROM events ORDER BY seq")]
        last = tx.value("SELECT last_seq FROM event_sequence")
        broken = tx.all(
            """
            SELECT agent_id FROM inboxes
             WHERE received <> (SELECT count(*) FROM messages WHERE recipient_id = agent_id)
                OR received <> (SELECT max(position) FROM messages WHERE recipient_id = agent_id)
            """
        )
    return seqs == list(range(1, last + 1)) and not broken


def disagreements(app: Application) -> list[str]:
    """Agents and messages that are not kept as they were last told."""
    newest = {event.data["id"]: event for event in events(app)}
    kept = _kept(app)
    wrong = [id for id in newest.keys() & kept.keys() if _lasting(newest[id].data) != _lasting(kept[id])]
    return sorted([*wrong, *(newest.keys() ^ kept.keys())])


def damage(app: Application) -> list[Any]:
    """What SQLite itself finds wrong with the file."""
    with app.database.reading() as tx:
        found = [row["integrity_check"] for row in tx.all("PRAGMA integrity_check")]
        return [*(each for each in found if each != "ok"), *tx.all("PRAGMA foreign_key_check")]


def _kept(app: Application) -> dict[str, dict[str, Any]]:
    with app.database.reading() as tx:
        agents = [row["id"] for row in tx.all("SELECT id FROM agents")]
        messages = [row["id"] for row in tx.all("SELECT id FROM messages")]
    return {id: ask(app, "agent_get", id=id) for id in agents} | {
        id: ask(app, "message_get", id=id, mark_read=False) for id in messages
    }


def _lasting(data: dict[str, Any]) -> dict[str, Any]:
    """Without what changes and is not told: signs of life are no news."""
    return {key: value for key, value in data.items() if key != "last_heartbeat"}


def _told(event: Event) -> list[Any]:
    data = event.data
    match event.type:
        case "agent:registered":
            return [event.type, data["name"], data["metadata"]]
        case "agent:updated":
            task = data.get("current_task_id")
            return [event.type, data["id"], task, data["metadata"].get(task)]
        case "message:created":
            return [event.type, data["sender_id"], data["recipient_id"], data["body"]]
        case _:
            return [event.type, data["id"]]


_INTENDED = {
    "agent_register": lambda given: ["agent:registered", given["name"], given["metadata"]],
    "agent_heartbeat": lambda given: ["agent:updated", given["agent_id"], given["current_task_id"], None],
    "agent_update": lambda given: [
        "agent:updated", given["id"], given["current_task_id"], given["metadata"][given["current_task_id"]],
    ],
    "agent_unregister": lambda given: ["agent:unregistered", given["id"]],
    "message_send": lambda given: [
        "message:created", given["sender_id"], given["recipient_id"], given["body"],
    ],
    "message_mark_read": lambda given: ["message:read", *given["message_ids"]],
    "message_archive": lambda given: ["message:archived", *given["message_ids"]],
}  # fmt: skip
