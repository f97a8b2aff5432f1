"""Domain models of messages, and which of them are listed."""

from __future__ import annotations

from typing import Any

from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum

_MIN_MILLISECOND_TIMESTAMP = 10**11


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


def resolve_statuses(status: MessageStatusFilter | None, *, in_thread: bool) -> list[MessageStatus] | None:
    """Return the statuses to list, None for all. Default: unread ones, in a thread all."""
    if status is None:
        status = MessageStatusFilter.ALL if in_thread else MessageStatusFilter.UNREAD
    return None if status is MessageStatusFilter.ALL else [MessageStatus(status)]


def resolve_expiry(expires_at: int | None, now: int) -> int | None:
    """Return the expiry in milliseconds; raise InvalidInput if it is past: nobody would see the message."""
    if expires_at is None:
        return None
    if (moment := to_milliseconds(expires_at)) <= now:
        raise InvalidInput(f"`expires_at` is in the past; the current time is {now} (Unix milliseconds).")
    return moment


def to_milliseconds(moment: int) -> int:
    """Convert a Unix time in seconds or milliseconds; below 10**11 it is seconds (until the year 5138)."""
    return moment * 1000 if moment < _MIN_MILLISECOND_TIMESTAMP else moment
