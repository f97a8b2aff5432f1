"""Response models of the message tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Self

from deepwork.kernel.answers import Answer
from deepwork.kernel.notices.responses import NoticeView
from deepwork.kernel.paging import Page
from deepwork.work.messages.models import Message, MessageStatus, MessageType, Priority

MAX_LISTED_BODY = 4000


class MessageView(Answer):
    """A message as its recipient sees it."""

    id: str
    sender_id: str | None = None
    sender_name: str | None = None
    recipient_id: str
    message_type: MessageType
    subject: str | None = None
    body: str | dict[str, Any]
    priority: Priority
    status: MessageStatus
    workflow_id: str | None = None
    task_id: str | None = None
    reply_to_id: str | None = None
    thread_id: str
    created_at: int
    read_at: int | None = None
    expires_at: int | None = None
    truncated: bool | None = None

    @classmethod
    def from_message(cls, message: Message, names: Mapping[str, str] | None = None) -> Self:
        """Build the view; `names` are those of the senders by id."""
        return cls.of(message, sender_name=(names or {}).get(message.sender_id or ""))

    @classmethod
    def excerpt_from_message(cls, message: Message, names: Mapping[str, str] | None = None) -> Self:
        """Build the view for a list, where a long body is cut; message_get returns the whole."""
        text = message.body if isinstance(message.body, str) else json.dumps(message.body, ensure_ascii=False)
        if len(text) <= MAX_LISTED_BODY:
            return cls.from_message(message, names)
        cut = text[:MAX_LISTED_BODY] + "…"
        return cls.from_message(message, names).model_copy({"body": cut, "truncated": True})


_PAYLOAD_FIELDS = tuple(name for name in MessageView.model_fields if name not in ("sender_name", "truncated"))


def build_message_payload(message: Message) -> dict[str, Any]:
    """Build the payload of an event: what `MessageView` shows, several times as fast."""
    fields = vars(message)
    return {name: value for name in _PAYLOAD_FIELDS if (value := fields[name]) is not None}


class Sent(Answer):
    id: str
    thread_id: str


class Broadcast(Answer):
    sent_count: int
    message_ids: list[str]


class MessageList(Answer):
    messages: list[MessageView]
    unread_count: int
    notices: list[NoticeView] | None = None


class Messages(Answer):
    messages: list[MessageView]
    cursor: str | None = None


class MessagePage(Page):
    messages: list[MessageView]


class Marked(Answer):
    success: bool = True
    unknown: list[str] | None = None


class UnreadCount(Answer):
    count: int
    by_priority: dict[Priority, int]
