"""The effect of a call, built twice for comparison: from the caller's arguments, and from the store's events.

Each call has a unique effect: names, bodies and tasks contain the key of the call.
"""

from __future__ import annotations

import json
from typing import Any

from application import call_tool, list_events
from deepwork.edge.server.application import Application
from deepwork.kernel.events.log import Event


def build_intended_effect(tool: str, arguments: dict[str, Any]) -> str:
    """Build the effect that a call should have."""
    return json.dumps(_INTENDED[tool](arguments), sort_keys=True)


def list_effects(app: Application) -> list[str]:
    """List the effects in the store's event log, in order."""
    return [json.dumps(build_effect(event), sort_keys=True) for event in list_events(app)]


def is_without_gaps(app: Application) -> bool:
    """Whether events are numbered 1, 2, 3 … and inboxes likewise."""
    with app.database.reading() as tx:
        seqs = [row["seq"] for row in tx.fetch_all("SELECT seq FROM events ORDER BY seq")]
        last = tx.fetch_value("SELECT last_seq FROM event_sequence")
        broken = tx.fetch_all(
            """
            SELECT agent_id FROM inboxes
             WHERE received <> (SELECT count(*) FROM messages WHERE recipient_id = agent_id)
                OR received <> (SELECT max(position) FROM messages WHERE recipient_id = agent_id)
            """
        )
    return seqs == list(range(1, last + 1)) and not broken


def find_mismatches(app: Application) -> list[str]:
    """List agents and messages whose rows differ from their last event."""
    newest = {event.data["id"]: event for event in list_events(app)}
    kept = _load_current(app)
    wrong = [
        id
        for id in newest.keys() & kept.keys()
        if _without_heartbeat(newest[id].data) != _without_heartbeat(kept[id])
    ]
    return sorted([*wrong, *(newest.keys() ^ kept.keys())])


def find_damage(app: Application) -> list[Any]:
    """List the problems that SQLite finds in the file."""
    with app.database.reading() as tx:
        found = [row["integrity_check"] for row in tx.fetch_all("PRAGMA integrity_check")]
        return [*(each for each in found if each != "ok"), *tx.fetch_all("PRAGMA foreign_key_check")]


def _load_current(app: Application) -> dict[str, dict[str, Any]]:
    with app.database.reading() as tx:
        agents = [row["id"] for row in tx.fetch_all("SELECT id FROM agents")]
        messages = [row["id"] for row in tx.fetch_all("SELECT id FROM messages")]
    return {id: call_tool(app, "agent_get", id=id) for id in agents} | {
        id: call_tool(app, "message_get", id=id, mark_read=False) for id in messages
    }


def _without_heartbeat(data: dict[str, Any]) -> dict[str, Any]:
    """Remove what changes without an event: the heartbeat, and the name of the sender, which is not in events."""
    return {key: value for key, value in data.items() if key not in ("last_heartbeat", "sender_name")}


def build_effect(event: Event) -> list[Any]:
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
