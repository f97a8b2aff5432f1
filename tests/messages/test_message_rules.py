from __future__ import annotations

import pytest

from deepwork.messages import rules
from deepwork.messages.models import BroadcastType, MessageStatusFilter, MessageType


def test_an_inbox_is_about_unread_messages():
    assert rules.resolve_statuses(None, in_thread=False) == ["unread"]


def test_a_thread_is_shown_whole():
    assert rules.resolve_statuses(None, in_thread=True) is None


def test_all_means_any_status():
    assert rules.resolve_statuses(MessageStatusFilter.ALL, in_thread=False) is None


@pytest.mark.parametrize(("given", "meant"), [(0, 0), (1_800_000_000, 1_800_000_000_000), (10**11, 10**11)])
def test_a_small_moment_is_in_seconds(given: int, meant: int):
    assert rules.to_milliseconds(given) == meant


def test_broadcast_is_an_old_word_for_notification():
    assert MessageType("Broadcast") is MessageType.NOTIFICATION
    assert BroadcastType("broadcast") is BroadcastType.NOTIFICATION
