"""Rules for filtering and expiring messages."""

from __future__ import annotations

from deepwork.kernel.errors import InvalidInput
from deepwork.work.messages.models import MessageStatus, MessageStatusFilter

_MIN_MILLISECOND_TIMESTAMP = 10**11


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
