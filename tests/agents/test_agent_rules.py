from __future__ import annotations

import pytest

from agents.make import agent
from application import LEASE_MS, NOW
from deepwork.agents import rules
from deepwork.agents.models import AgentStatus
from deepwork.errors import Code, NotAllowed


def test_an_agent_is_what_it_says():
    assert rules.status(agent(said=AgentStatus.BUSY), NOW, LEASE_MS) == "busy"


def test_an_agent_is_offline_after_a_lease_without_a_sign_of_life():
    assert rules.status(agent(), NOW + LEASE_MS, LEASE_MS) == "online"
    assert rules.status(agent(), NOW + LEASE_MS + 1, LEASE_MS) == "offline"


def test_an_agent_that_left_is_offline_whatever_it_said():
    assert rules.status(agent(said=AgentStatus.BUSY, unregistered_at=NOW), NOW, LEASE_MS) == "offline"


def test_two_heartbeats_may_be_lost_before_the_lease_ends():
    assert rules.heartbeat_interval(LEASE_MS) * 3 == LEASE_MS


def test_a_read_is_worth_a_write_only_after_a_third_of_the_lease():
    assert not rules.wants_renewal(agent(), NOW + LEASE_MS // 3, LEASE_MS)
    assert rules.wants_renewal(agent(), NOW + LEASE_MS // 3 + 1, LEASE_MS)


def test_a_heartbeat_brings_back_an_agent_that_said_offline():
    assert rules.revived(agent(said=AgentStatus.OFFLINE)) == "online"
    assert rules.revived(agent(said=AgentStatus.BUSY)) == "busy"


def test_a_sign_of_life_alone_is_no_news():
    assert not rules.is_news(agent(), agent(last_heartbeat=NOW + 1), NOW + 1, LEASE_MS)


def test_coming_back_from_silence_is_news():
    later = NOW + LEASE_MS + 1

    assert rules.is_news(agent(), agent(last_heartbeat=later), later, LEASE_MS)


def test_nobody_acts_in_the_name_of_an_agent_that_left():
    with pytest.raises(NotAllowed) as refused:
        rules.require_registered(agent(unregistered_at=NOW))

    assert refused.value.code is Code.INVALID_STATE
    assert "agent_register" in refused.value.suggestion
