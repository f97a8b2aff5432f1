"""Which messages a question means."""

from __future__ import annotations

from deepwork.errors import InvalidInput
from deepwork.messages.models import MessageStatus, WantedStatus

_SECONDS_BELOW = 10**11


def wanted_statuses(status: WantedStatus | None, *, in_thread: bool) -> list[MessageStatus] | None:
    """The statuses to look for, None for any: unread ones, or a whole thread, unless said otherwise."""
    if status is None:
        status = WantedStatus.ALL if in_thread else WantedStatus.UNREAD
    return None if status is WantedStatus.ALL else [MessageStatus(status)]


def still_ahead(expires_at: int | None, now: int) -> int | None:
    """When a message ends, in milliseconds; one that has ended already would never be seen."""
    if expires_at is None:
        return None
    if (moment := as_milliseconds(expires_at)) <= now:
        raise InvalidInput(f"`expires_at` is in the past; it is {now} now, in Unix milliseconds.")
    return moment


def as_milliseconds(moment: int) -> int:
    """A Unix time in either unit: in seconds, such a small number would be the year 5138."""
    return moment * 1000 if moment < _SECONDS_BELOW else moment
