"""Agent tools, on every database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agents.make import register_agent
from application import LEASE_MS, NOW, Clock, call_tool, list_event_types, list_events
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import Code, DeepworkError, InvalidInput, NotAllowed, NotFound
from deepwork.views.setup.clients import BY_NAME
from deepwork.work.agents.store import LeaseStore


def test_a_new_agent_is_online(app: Application):
    answer = call_tool(app, "agent_register", name="Ada", runtime="claude_code")

    assert answer == {"id": answer["id"], "name": "Ada", "status": "online"}
    assert answer["id"].startswith("ag_")
    assert len(answer["id"]) == 15


def test_an_agent_is_stored_as_given(app: Application):
    id = register_agent(
        app, "Ada", runtime="codex", role="coordinator", capabilities=["python", "sql", "python"],
        workspace_path="/src", metadata={"model": "x", "nested": {"a": [1, None]}},
    )  # fmt: skip

    assert call_tool(app, "agent_get", id=id) == {
        "id": id,
        "name": "Ada",
        "runtime": "codex",
        "role": "coordinator",
        "status": "online",
        "capabilities": ["python", "sql"],
        "workspace_path": "/src",
        "metadata": {"model": "x", "nested": {"a": [1, None]}},
        "last_heartbeat": NOW,
        "created_at": NOW,
        "updated_at": NOW,
    }


def test_two_agents_may_have_the_same_name(app: Application):
    assert register_agent(app, "Ada") != register_agent(app, "Ada")


def test_enum_values_are_case_insensitive(app: Application):
    id = register_agent(app, runtime="CLAUDE_CODE", role="Coordinator")

    assert call_tool(app, "agent_get", id=id)["runtime"] == "claude_code"


@pytest.mark.parametrize("name", [*BY_NAME, *(name.replace("-", "_") for name in BY_NAME)])
def test_a_runtime_can_be_spelled_as_in_setup(app: Application, name: str):
    id = register_agent(app, runtime=name)

    assert call_tool(app, "agent_get", id=id)["runtime"] == name.replace("-", "_")
    assert [each["id"] for each in call_tool(app, "agent_list", runtime=name)["agents"]] == [id]


def test_a_heartbeat_returns_when_the_next_one_is_due(app: Application, clock: Clock):
    id = register_agent(app)
    clock.advance(seconds=20)

    assert call_tool(app, "agent_heartbeat", agent_id=id) == {"success": True, "next_heartbeat_ms": 30_000}
    assert call_tool(app, "agent_get", id=id)["last_heartbeat"] == NOW + 20_000


def test_a_heartbeat_may_set_the_status_and_the_current_task(app: Application):
    id = register_agent(app)

    call_tool(app, "agent_heartbeat", agent_id=id, current_task_id="tt_1", status="busy")

    agent = call_tool(app, "agent_get", id=id)
    assert (agent["status"], agent["current_task_id"]) == ("busy", "tt_1")


def test_a_silent_agent_is_offline_without_a_write(app: Application, clock: Clock):
    id = register_agent(app)
    clock.advance(seconds=91)

    assert call_tool(app, "agent_get", id=id)["status"] == "offline"
    assert call_tool(app, "agent_list", status=["offline"])["total"] == 1
    assert list_event_types(app) == ["agent:registered"]


def test_the_next_write_emits_one_event_for_an_agent_that_fell_silent(app: Application, clock: Clock):
    silent = register_agent(app, "silent")
    clock.advance(seconds=91)
    awake = register_agent(app, "awake")
    call_tool(app, "agent_heartbeat", agent_id=awake)

    [news] = [event for event in list_events(app) if event.type == "agent:updated"]
    assert (news.data["id"], news.data["status"]) == (silent, "offline")


def test_a_silent_agent_is_noticed_although_the_first_call_after_it_failed(app: Application, clock: Clock):
    register_agent(app, "silent")
    other = register_agent(app, "other")
    call_tool(app, "agent_heartbeat", agent_id=other)
    clock.advance(seconds=LEASE_MS / 1000 + 1)
    with pytest.raises(NotFound):
        call_tool(app, "message_send", sender_id=other, recipient_id="ag_x", message_type="query", body="?")

    call_tool(app, "agent_heartbeat", agent_id=other)

    silent = [event.data for event in list_events(app) if event.data.get("status") == "offline"]
    assert [agent["name"] for agent in silent] == ["silent"]


def test_many_heartbeats_are_one_transaction_in_which_nobody_counts_as_silent(app: Application, clock: Clock):
    first, second, gone = (register_agent(app) for _ in range(3))
    call_tool(app, "agent_unregister", id=gone)
    with app.database.transaction() as tx:
        LeaseStore(tx, LEASE_MS).take("task:tk_1", first)
        LeaseStore(tx, LEASE_MS).take("task:tk_2", second)
    clock.advance(seconds=LEASE_MS / 1000 + 1)
    with app.database.transaction() as tx:
        LeaseStore(tx, LEASE_MS).take("task:tk_1", second)

    lost = app.presence.record_heartbeats([second, first, gone, first])

    assert lost == {first: ["task:tk_1"], second: []}
    assert app.presence.record_heartbeats([first]) == {first: []}
    assert {call_tool(app, "agent_get", id=id)["status"] for id in (first, second)} == {"online"}
    with app.database.reading() as tx:
        held = LeaseStore(tx, LEASE_MS).find("task:tk_2")
        assert held is not None
        assert held.until == tx.now + LEASE_MS


def test_a_heartbeat_brings_a_silent_agent_back_and_lists_its_lost_claims(app: Application, clock: Clock):
    first, second = register_agent(app), register_agent(app)
    with app.database.transaction() as tx:
        LeaseStore(tx, LEASE_MS).take("task:tk_1", first)
        LeaseStore(tx, LEASE_MS).take("task:tk_2", first)
    clock.advance(seconds=91)
    with app.database.transaction() as tx:
        LeaseStore(tx, LEASE_MS).take("task:tk_1", second)

    answer = call_tool(app, "agent_heartbeat", agent_id=first)

    assert answer["lost_claims"] == ["task:tk_1"]
    assert call_tool(app, "agent_get", id=first)["status"] == "online"
    assert "lost_claims" not in call_tool(app, "agent_heartbeat", agent_id=first)


def test_a_heartbeat_renews_the_leases_of_the_agent(app: Application, clock: Clock):
    id = register_agent(app)
    with app.database.transaction() as tx:
        LeaseStore(tx, LEASE_MS).take("task:tk_1", id)
    clock.advance(seconds=60)
    call_tool(app, "agent_heartbeat", agent_id=id)

    with app.database.reading() as tx:
        [lease] = LeaseStore(tx, LEASE_MS).list_held_by(id)
    assert lease.until == clock.now + LEASE_MS


def test_an_unregistered_agent_must_register_again(app: Application):
    id = register_agent(app)
    call_tool(app, "agent_unregister", id=id)

    for tool, name in (("agent_heartbeat", "agent_id"), ("agent_update", "id")):
        with pytest.raises(NotAllowed) as refused:
            call_tool(app, tool, **{name: id})
        assert refused.value.code is Code.INVALID_STATE
        assert "agent_register" in refused.value.suggestion


def test_unregistering_releases_every_lease_of_the_agent(app: Application):
    id = register_agent(app)
    with app.database.transaction() as tx:
        LeaseStore(tx, LEASE_MS).take("task:tk_1", id)

    assert call_tool(app, "agent_unregister", id=id) == {"success": True, "tasks_released": 1}

    with app.database.reading() as tx:
        assert LeaseStore(tx, LEASE_MS).list_held_by(id) == []
    agent = call_tool(app, "agent_get", id=id)
    assert agent["status"] == "offline"
    assert "current_task_id" not in agent


def test_unregistering_twice_has_one_effect(app: Application):
    id = register_agent(app)
    call_tool(app, "agent_unregister", id=id)

    assert call_tool(app, "agent_unregister", id=id) == {"success": True, "tasks_released": 0}
    assert list_event_types(app) == ["agent:registered", "agent:unregistered"]


def test_an_update_changes_only_the_given_fields(app: Application):
    id = register_agent(app, metadata={"a": 1, "b": 2}, workspace_path="/old")

    call_tool(app, "agent_update", id=id, status="busy", current_task_id="tt_1", metadata={"b": 3})

    agent = call_tool(app, "agent_get", id=id)
    assert agent["metadata"] == {"a": 1, "b": 3}
    assert (agent["status"], agent["current_task_id"], agent["workspace_path"]) == ("busy", "tt_1", "/old")


def test_null_clears_the_current_task_and_omitting_it_keeps_it(app: Application):
    id = register_agent(app)
    call_tool(app, "agent_update", id=id, current_task_id="tt_1")

    call_tool(app, "agent_update", id=id, status="busy")
    assert call_tool(app, "agent_get", id=id)["current_task_id"] == "tt_1"

    call_tool(app, "agent_update", id=id, current_task_id=None)
    assert "current_task_id" not in call_tool(app, "agent_get", id=id)


def test_an_update_that_changes_nothing_emits_no_event(app: Application):
    id = register_agent(app)

    call_tool(app, "agent_update", id=id, status="online")

    assert list_event_types(app) == ["agent:registered"]


@pytest.mark.differs
def test_concurrent_updates_are_all_kept(app: Application):
    id = register_agent(app)

    def add(number: int) -> None:
        call_tool(app, "agent_update", id=id, metadata={f"key{number}": number})

    with ThreadPoolExecutor(8) as callers:
        list(callers.map(add, range(24)))

    assert len(call_tool(app, "agent_get", id=id)["metadata"]) == 24


def test_every_filter_of_the_list_works(app: Application, clock: Clock):
    ada = register_agent(app, "Ada", runtime="codex", role="coordinator")
    clock.advance(seconds=1)
    bob = register_agent(app, "Bob", runtime="codex")
    call_tool(app, "agent_update", id=bob, status="busy")
    register_agent(app, "Eve")

    def ids(**filters: Any) -> list[str]:
        return [agent["id"] for agent in call_tool(app, "agent_list", **filters)["agents"]]

    assert ids(role="coordinator") == [ada]
    assert ids(runtime="codex") == [ada, bob]
    assert ids(status=["busy"]) == [bob]
    assert len(ids(status=["busy", "online"])) == 3
    assert len(ids(status=[])) == 3
    assert ids(runtime="codex", status=["online"]) == [ada]


def test_a_limited_list_still_returns_the_total(app: Application):
    for _ in range(5):
        register_agent(app)

    answer = call_tool(app, "agent_list", limit=2)

    assert (len(answer["agents"]), answer["total"]) == (2, 5)


@pytest.mark.parametrize("limit", [0, -1, 1001])
def test_a_limit_out_of_range_is_an_input_error(app: Application, limit: int):
    with pytest.raises(InvalidInput, match="limit"):
        call_tool(app, "agent_list", limit=limit)


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("agent_get", "id"),
        ("agent_update", "id"),
        ("agent_unregister", "id"),
        ("agent_heartbeat", "agent_id"),
    ],
)
def test_an_unknown_agent_is_named_in_the_error(app: Application, tool: str, name: str):
    with pytest.raises(NotFound, match="ag_nobody") as missing:
        call_tool(app, tool, **{name: "ag_nobody"})

    assert missing.value.code is Code.AGENT_NOT_FOUND


def test_a_refused_call_emits_no_event(app: Application):
    id = register_agent(app)
    before = list_events(app)

    with pytest.raises(DeepworkError):
        call_tool(app, "agent_update", id=id, status="sleeping")

    assert list_events(app) == before


def test_every_change_emits_the_current_state_of_the_agent(app: Application):
    id = register_agent(app, "Ada")
    call_tool(app, "agent_update", id=id, status="busy")
    call_tool(app, "agent_unregister", id=id)

    assert [(event.type, event.data["status"]) for event in list_events(app)] == [
        ("agent:registered", "online"),
        ("agent:updated", "busy"),
        ("agent:unregistered", "offline"),
    ]
    assert all(event.data["id"] == id and event.workflow_id is None for event in list_events(app))
