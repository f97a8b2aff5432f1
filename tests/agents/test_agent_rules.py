from __future__ import annotations

import pytest

from agents.make import build_agent
from application import LEASE_MS, NOW
from deepwork.kernel.errors import Code, NotAllowed
from deepwork.work.agents.models import (
    AgentStatus,
    get_heartbeat_interval,
    get_status,
    get_status_after_heartbeat,
    has_visible_change,
    needs_renewal,
    require_registered,
)


def test_an_agent_has_the_status_it_reported():
    assert get_status(build_agent(said=AgentStatus.BUSY), NOW, LEASE_MS) == "busy"


def test_an_agent_is_offline_after_a_lease_without_a_sign_of_life():
    assert get_status(build_agent(), NOW + LEASE_MS, LEASE_MS) == "online"
    assert get_status(build_agent(), NOW + LEASE_MS + 1, LEASE_MS) == "offline"


def test_an_unregistered_agent_is_offline_whatever_status_it_reported():
    assert get_status(build_agent(said=AgentStatus.BUSY, unregistered_at=NOW), NOW, LEASE_MS) == "offline"


def test_two_heartbeats_may_be_lost_before_the_lease_ends():
    assert get_heartbeat_interval(LEASE_MS) * 3 == LEASE_MS


def test_a_read_renews_a_lease_only_after_a_third_of_it_has_passed():
    assert not needs_renewal(build_agent(), NOW + LEASE_MS // 3, LEASE_MS)
    assert needs_renewal(build_agent(), NOW + LEASE_MS // 3 + 1, LEASE_MS)


def test_a_heartbeat_puts_an_agent_that_reported_offline_online():
    assert get_status_after_heartbeat(build_agent(said=AgentStatus.OFFLINE)) == "online"
    assert get_status_after_heartbeat(build_agent(said=AgentStatus.BUSY)) == "busy"


def test_a_sign_of_life_alone_is_not_a_visible_change():
    assert not has_visible_change(build_agent(), build_agent(last_heartbeat=NOW + 1), NOW + 1, LEASE_MS)


def test_returning_from_silence_is_a_visible_change():
    later = NOW + LEASE_MS + 1

    assert has_visible_change(build_agent(), build_agent(last_heartbeat=later), later, LEASE_MS)


def test_acting_for_an_unregistered_agent_is_refused():
    with pytest.raises(NotAllowed) as refused:
        require_registered(build_agent(unregistered_at=NOW))

    assert refused.value.code is Code.INVALID_STATE
    assert "agent_register" in refused.value.suggestion
