"""Storage of messages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from deepwork.kernel.database.engine import Row, build_where, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import InvalidInput, NotFound
from deepwork.kernel.values import build_record, decode, index_members
from deepwork.work.messages.models import Message, MessageStatus, MessageType, Priority


class MessageStore:
    """Reads and writes messages."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def allocate_positions(self, recipients: Sequence[str]) -> dict[str, int]:
        """Return the next free position in each recipient's inbox and take it.

        The inbox rows stay locked until the commit, so positions become visible in order, and a reader that
        polls from the last position it saw misses none.
        """
        sql = """
            INSERT INTO inboxes (agent_id, received)
            SELECT id, 1 FROM agents WHERE id IN :recipients ORDER BY id
                ON CONFLICT (agent_id) DO UPDATE SET received = inboxes.received + 1
            RETURNING agent_id, received
        """
        rows = self._tx.fetch_all(sql, recipients=list(recipients))
        return {row["agent_id"]: row["received"] for row in rows}

    def add(self, messages: Sequence[Message]) -> None:
        """Insert new messages."""
        self._tx.insert_many("messages", [_to_row(message) for message in messages])

    def get(self, id: str) -> Message:
        """Return the message; NotFound if there is none."""
        row = self._tx.fetch_one(f"SELECT {_COLUMNS} FROM messages WHERE id = :id", id=id)
        if row is None:
            raise NotFound("message", id, suggestion="List an agent's messages with {tool:message_list}.")
        return _from_row(row)

    def count_of_task(self, task_id: str) -> int:
        """Count the messages about a task."""
        return int(self._tx.fetch_value("SELECT count(*) FROM messages WHERE task_id = :id", id=task_id))

    def have_recipient(self, ids: Sequence[str], agent_id: str) -> bool:
        """Return whether all these messages exist and were sent to this agent."""
        sql = "SELECT count(*) FROM messages WHERE id IN :ids AND recipient_id = :agent"
        return int(self._tx.fetch_value(sql, ids=list(ids), agent=agent_id)) == len(set(ids))

    def find_not_owned_by(self, ids: Sequence[str], caller: str, agent_id: str | None) -> str | None:
        """Return the id of one of these messages whose recipient is not the agent, nor one of the caller."""
        sql = (
            "SELECT messages.id FROM messages JOIN agents ON agents.id = recipient_id"
            " WHERE messages.id IN :ids AND registered_by <> :caller AND recipient_id <> :agent_id LIMIT 1"
        )
        found: str | None = self._tx.fetch_value(sql, ids=list(ids), caller=caller, agent_id=agent_id or "")
        return found

    def list_matching(self, agent_id: str, filters: Mapping[str, Any], limit: int) -> list[Message]:
        """Return messages of an agent, newest first; after a cursor oldest first, so that none is skipped."""
        in_thread = filters.get("thread_id") is not None
        direction = "ASC" if filters.keys() & {"since_position", "since_id"} else "DESC"
        # An inbox is sorted by position, which is indexed; a thread spans several inboxes.
        order = f"created_at {direction}, created_seq {direction}" if in_thread else f"position {direction}"
        mine = _SENT_OR_RECEIVED if in_thread else _RECEIVED
        condition = build_where(
            {mine: agent_id, **{text: filters.get(name) for name, text in _FILTER_CONDITIONS.items()}}
        )
        sql = f"SELECT {_COLUMNS} FROM messages {condition} AND {_NOT_EXPIRED} ORDER BY {order} LIMIT :limit"
        rows = self._tx.fetch_all(sql, agent_id=agent_id, limit=limit, now=self._tx.now, **filters)
        return [_from_row(row) for row in rows]

    def build_cursor_filter(self, agent_id: str, since_id: str, thread_id: str | None) -> dict[str, Any]:
        """Build the filter for messages after `since_id`: by position, in a thread by creation order."""
        message = self.get(since_id)
        if thread_id is not None:
            return {"since_id": message.id}
        if message.recipient_id != agent_id:
            raise InvalidInput(
                f"`since_id`: message {since_id!r} is not in this agent's inbox.",
                suggestion="Use the id of a message that this agent received, or pass its thread_id.",
            )
        return {"since_position": message.position}

    def count_unread(
        self, agent_id: str, priorities: Sequence[Priority] | None = None
    ) -> dict[Priority, int]:
        """Count the agent's unread messages by priority."""
        condition = build_where(
            {_RECEIVED: agent_id, "status = 'unread'": True, "priority IN :priorities": priorities or None}
        )
        sql = (
            f"SELECT priority, count(*) AS waiting FROM messages {condition} AND {_NOT_EXPIRED}"
            " GROUP BY priority"
        )
        rows = self._tx.fetch_all(sql, agent_id=agent_id, priorities=priorities, now=self._tx.now)
        return dict(map(_unread_count_from_row, rows))

    def count_unread_by_agent(self, agent_ids: Sequence[str]) -> dict[str, int]:
        """Count the unread messages of each agent."""
        sql = """
            SELECT recipient_id, count(*) AS waiting FROM messages
             WHERE recipient_id IN :ids AND status = 'unread' AND (expires_at IS NULL OR expires_at > :now)
             GROUP BY recipient_id
        """
        rows = self._tx.fetch_all(sql, ids=list(agent_ids), now=self._tx.now)
        return {row["recipient_id"]: row["waiting"] for row in rows}

    def count_received(self, agent_id: str) -> int:
        """Count all messages an agent ever received, which is the position of the newest."""
        sql = "SELECT coalesce((SELECT received FROM inboxes WHERE agent_id = :id), 0)"
        found: int = self._tx.fetch_value(sql, id=agent_id)
        return found

    def mark_read(self, ids: Sequence[str]) -> list[Message]:
        """Mark messages as read; return those that were unread."""
        return self._update("status = 'read', read_at = :now", "status = 'unread'", ids)

    def archive(self, ids: Sequence[str]) -> list[Message]:
        """Archive messages; return those that were not archived."""
        return self._update("status = 'archived'", "status <> 'archived'", ids)

    def list_unknown(self, ids: Sequence[str]) -> list[str]:
        """Return the ids that do not exist, in the order given."""
        rows = self._tx.fetch_all("SELECT id FROM messages WHERE id IN :ids", ids=list(ids))
        known = {row["id"] for row in rows}
        return [each for each in dict.fromkeys(ids) if each not in known]

    def _update(self, change: str, condition: str, ids: Sequence[str]) -> list[Message]:
        sql = f"UPDATE messages SET {change} WHERE id IN :ids AND {condition} RETURNING {_COLUMNS}"
        rows = self._tx.fetch_all(sql, ids=list(ids), now=self._tx.now)
        return sorted((_from_row(row) for row in rows), key=lambda message: message.position)


_COLUMNS = ", ".join(Message.__dataclass_fields__)
_RECEIVED = "recipient_id = :agent_id"
_SENT_OR_RECEIVED = "(recipient_id = :agent_id OR sender_id = :agent_id)"
_NOT_EXPIRED = "(expires_at IS NULL OR expires_at > :now)"
_FILTER_CONDITIONS = {
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


def _to_row(message: Message) -> Row:
    return vars(message) | {"body": json.dumps(message.body, ensure_ascii=False)}


@row_parser
def _unread_count_from_row(row: Row) -> tuple[Priority, int]:
    return Priority(row["priority"]), int(row["waiting"])


@row_parser
def _from_row(row: Row) -> Message:
    row["message_type"] = _TYPES[row["message_type"]]
    row["priority"] = _PRIORITIES[row["priority"]]
    row["status"] = _STATUSES[row["status"]]
    row["body"] = decode(row["body"])
    return build_record(Message, row)


_TYPES, _PRIORITIES, _STATUSES = (
    index_members(MessageType),
    index_members(Priority),
    index_members(MessageStatus),
)
