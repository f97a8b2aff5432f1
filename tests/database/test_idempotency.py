"""A repeated call has one effect, on every database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from application import Clock, call_tool, list_event_types
from deepwork.edge.server.application import Application
from deepwork.kernel.database.idempotency import check_key
from deepwork.kernel.errors import Code, Conflict, InvalidInput, NotFound


def register(app: Application, key: str, name: str = "Ada", caller: str = "local") -> str:
    id: str = call_tool(app, "agent_register", key=key, caller=caller, name=name, runtime="custom")["id"]
    return id


def count_agents(app: Application) -> int:
    count: int = call_tool(app, "agent_list")["total"]
    return count


def test_the_same_key_gives_the_same_answer_and_one_effect(app: Application):
    assert register(app, "k1") == register(app, "k1")

    assert count_agents(app) == 1
    assert list_event_types(app) == ["agent:registered"]


def test_different_arguments_under_a_used_key_are_refused(app: Application):
    register(app, "k1")

    with pytest.raises(Conflict, match="k1") as refused:
        register(app, "k1", name="Bob")

    assert refused.value.code is Code.KEY_REUSED
    assert count_agents(app) == 1


def test_a_key_belongs_to_one_caller_and_one_tool(app: Application):
    register(app, "k1")
    register(app, "k1", caller="somebody else")
    id = register(app, "k2")

    assert call_tool(app, "agent_heartbeat", key="k1", agent_id=id)["success"]
    assert count_agents(app) == 3


def test_a_call_that_failed_may_be_repeated_under_its_key(app: Application):
    with pytest.raises(NotFound):
        call_tool(app, "agent_heartbeat", key="k1", agent_id="ag_x")

    with pytest.raises(NotFound):
        call_tool(app, "agent_heartbeat", key="k1", agent_id="ag_x")


def test_only_one_of_many_concurrent_calls_under_one_key_takes_effect(app: Application):
    with ThreadPoolExecutor(8) as callers:
        ids = set(callers.map(lambda _: register(app, "k1"), range(16)))

    assert len(ids) == 1
    assert count_agents(app) == 1


def test_a_key_is_forgotten_after_a_week(app: Application, clock: Clock):
    first = register(app, "k1")
    clock.advance(seconds=8 * 24 * 3600)

    assert register(app, "k1") != first


def test_a_read_needs_no_key(app: Application):
    assert call_tool(app, "agent_list", key="k1")["total"] == 0
    register(app, "k2")

    assert call_tool(app, "agent_list", key="k1")["total"] == 1


@pytest.mark.parametrize("key", ["", "x" * 129, "a\nb", 5, None, ["k"]])
def test_an_invalid_key_is_refused(key: object):
    with pytest.raises(InvalidInput, match="idempotency key"):
        check_key(key)
