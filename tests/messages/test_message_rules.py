from __future__ import annotations

import pytest

from deepwork.work.messages.models import (
    BroadcastType,
    MessageStatusFilter,
    MessageType,
    resolve_statuses,
    to_milliseconds,
)


def test_an_inbox_lists_unread_messages_by_default():
    assert resolve_statuses(None, in_thread=False) == ["unread"]


def test_a_thread_lists_messages_of_every_status():
    assert resolve_statuses(None, in_thread=True) is None


def test_all_includes_every_status():
    assert resolve_statuses(MessageStatusFilter.ALL, in_thread=False) is None


@pytest.mark.parametrize(("given", "meant"), [(0, 0), (1_800_000_000, 1_800_000_000_000), (10**11, 10**11)])
def test_a_small_timestamp_is_in_seconds(given: int, meant: int):
    assert to_milliseconds(given) == meant


def test_broadcast_is_accepted_as_an_alias_of_notification():
    assert MessageType("Broadcast") is MessageType.NOTIFICATION
    assert BroadcastType("broadcast") is BroadcastType.NOTIFICATION
