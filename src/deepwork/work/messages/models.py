"""Domain models of messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deepwork.kernel.names import CaseInsensitiveEnum


class MessageType(CaseInsensitiveEnum):
    TASK_ASSIGNMENT = "task_assignment"
    STATUS_UPDATE = "status_update"
    QUERY = "query"
    RESPONSE = "response"
    NOTIFICATION = "notification"

    @classmethod
    def _missing_(cls, value: object) -> CaseInsensitiveEnum | None:
        # Agents that know an earlier tool of this kind send "broadcast".
        return cls.NOTIFICATION if str(value).lower() == "broadcast" else super()._missing_(value)


class BroadcastType(CaseInsensitiveEnum):
    NOTIFICATION = "notification"
    STATUS_UPDATE = "status_update"

    @classmethod
    def _missing_(cls, value: object) -> CaseInsensitiveEnum | None:
        return cls.NOTIFICATION if str(value).lower() == "broadcast" else super()._missing_(value)


class Priority(CaseInsensitiveEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"


class MessageStatus(CaseInsensitiveEnum):
    UNREAD = "unread"
    READ = "read"
    ARCHIVED = "archived"


class MessageStatusFilter(CaseInsensitiveEnum):
    """Which messages to list; `all` includes archived ones."""

    UNREAD = "unread"
    READ = "read"
    ARCHIVED = "archived"
    ALL = "all"


class MessageEvent(CaseInsensitiveEnum):
    """Events about messages; the payload is the message as `MessageView` shows it."""

    CREATED = "message:created"
    READ = "message:read"
    ARCHIVED = "message:archived"


@dataclass(frozen=True)
class Message:
    """One message to one agent; times are Unix milliseconds."""

    id: str
    sender_id: str | None
    recipient_id: str
    position: int
    """Its position in the recipient's inbox, counted from 1 without gaps."""
    message_type: MessageType
    subject: str | None
    body: str | dict[str, Any]
    priority: Priority
    status: MessageStatus
    workflow_id: str | None
    task_id: str | None
    reply_to_id: str | None
    thread_id: str
    created_at: int
    read_at: int | None
    expires_at: int | None
