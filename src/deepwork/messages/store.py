"""What is kept of messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.database.engine import Row, stored
from deepwork.database.statements import where
from deepwork.database.transaction import Transaction
from deepwork.errors import InvalidInput, NotFound
from deepwork.messages.models import Message, MessageStatus, MessageType, Priority


class MessageStore:
    """Messages, as rows."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def next_positions(self, recipients: Sequence[str]) -> dict[str, int]:
        """The next place in each inbox.

        An inbox stays ours until the commit, so places become visible in their order and a reader who polls
        from the last one it saw misses none.
        """
        rows = self._tx.all(
            """
            INSERT INTO inboxes (agent_id, received)
            SELECT id, 1 FROM agents WHERE id IN :recipients ORDER BY id
                ON CONFLICT (agent_id) DO UPDATE SET received = inboxes.received + 1
            RETURNING agent_id, received
            """,
            recipients=list(recipients),
        )
        return {row["agent_id"]: row["received"] for row in rows}

    def add(self, messages: Sequence[Message]) -> None:
        """Keep new messages."""
        self._tx.insert_all("messages", [_row(message) for message in messages])

    def get(self, id: str) -> Message:
        """The message with this id."""
        row = self._tx.one(f"SELECT {_COLUMNS} FROM messages WHERE id = :id", id=id)
        if row is None:
            raise NotFound("message", id, suggestion="See message_list for the messages of an agent.")
        return _message(row)

    def not_for(self, ids: Sequence[str], caller: str) -> str | None:
        """One of these messages that is for an agent which somebody else registered."""
        found: str | None = self._tx.value(
            "SELECT messages.id FROM messages JOIN agents ON agents.id = recipient_id"
            " WHERE messages.id IN :ids AND registered_by <> :caller LIMIT 1",
            ids=list(ids), caller=caller,
        )  # fmt: skip
        return found

    def matching(self, agent_id: str, filters: Mapping[str, Any], limit: int) -> list[Message]:
        """Messages of an agent: newest first, or after a cursor oldest first, so that none is skipped."""
        in_thread = filters.get("thread_id") is not None
        direction = "ASC" if filters.keys() & {"since_position", "since_id"} else "DESC"
        # In an inbox the position is the order, and an index has it; a thread runs through several inboxes.
        order = f"created_at {direction}, created_seq {direction}" if in_thread else f"position {direction}"
        mine = _SENT_OR_RECEIVED if in_thread else _RECEIVED
        condition = where({mine: agent_id, **{text: filters.get(name) for name, text in _FILTERS.items()}})
        rows = self._tx.all(
            f"SELECT {_COLUMNS} FROM messages {condition} AND {_NOT_EXPIRED} ORDER BY {order} LIMIT :limit",
            agent_id=agent_id, limit=limit, now=self._tx.now, **filters,
        )  # fmt: skip
        return [_message(row) for row in rows]

    def cursor(self, agent_id: str, since_id: str, thread_id: str | None) -> dict[str, Any]:
        """The filter for what comes after a message: by its place in the inbox, in a thread by its time."""
        message = self.get(since_id)
        if thread_id is not None:
            return {"since_id": message.id}
        if message.recipient_id != agent_id:
            raise InvalidInput(
                f"`since_id`: the message {since_id!r} is not in this agent's inbox.",
                suggestion="Use the id of a message that this agent received, or name its thread_id.",
            )
        return {"since_position": message.position}

    def unread(self, agent_id: str, priorities: Sequence[Priority] | None = None) -> dict[Priority, int]:
        """How many messages wait for the agent, by priority."""
        condition = where(
            {
                _RECEIVED: agent_id,
                "status = 'unread'": True,
                "priority IN :priorities": priorities or None,
            }
        )
        rows = self._tx.all(
            f"SELECT priority, count(*) AS waiting FROM messages {condition} AND {_NOT_EXPIRED}"
            " GROUP BY priority",
            agent_id=agent_id, priorities=priorities, now=self._tx.now,
        )  # fmt: skip
        return dict(map(_waiting, rows))

    def mark_read(self, ids: Sequence[str]) -> list[Message]:
        """Mark unread messages as read; those that were unread."""
        return self._changed("status = 'read', read_at = :now", "status = 'unread'", ids)

    def archive(self, ids: Sequence[str]) -> list[Message]:
        """Put messages away; those that were not away yet."""
        return self._changed("status = 'archived'", "status <> 'archived'", ids)

    def unknown(self, ids: Sequence[str]) -> list[str]:
        """Ids that no message has, in the order given."""
        rows = self._tx.all("SELECT id FROM messages WHERE id IN :ids", ids=list(ids))
        known = {row["id"] for row in rows}
        return [each for each in dict.fromkeys(ids) if each not in known]

    def _changed(self, change: str, condition: str, ids: Sequence[str]) -> list[Message]:
        rows = self._tx.all(
            f"UPDATE messages SET {change} WHERE id IN :ids AND {condition} RETURNING {_COLUMNS}",
            ids=list(ids), now=self._tx.now,
        )  # fmt: skip
        return sorted((_message(row) for row in rows), key=lambda message: message.position)


_COLUMNS = ", ".join(Message.__dataclass_fields__)
_RECEIVED = "recipient_id = :agent_id"
_SENT_OR_RECEIVED = "(recipient_id = :agent_id OR sender_id = :agent_id)"
_NOT_EXPIRED = "(expires_at IS NULL OR expires_at > :now)"
_FILTERS = {
    "thread_id": "thread_id = :thread_id",
    "statuses": "status IN :statuses",
    "types": "message_type IN :types",
    "priorities": "priority IN :priorities",
    "workflow_id": "workflow_id = :workflow_id",
    "since": "created_at > :since",
    "since_position": "position > :since_position",
    "since_id": """(created_at, created_seq) > (
        SELECT created_at, created_seq FROM messages WHERE id = :since_id)""",
}


def _row(message: Message) -> Row:
    return vars(message) | {"body": json.dumps(message.body, ensure_ascii=False)}


@stored
def _waiting(row: Row) -> tuple[Priority, int]:
    return Priority(row["priority"]), int(row["waiting"])


@stored
def _message(row: Row) -> Message:
    read = {
        "message_type": MessageType(row["message_type"]),
        "priority": Priority(row["priority"]),
        "status": MessageStatus(row["status"]),
        "body": json.loads(row["body"]),
    }
    return Message(**(row | read))
