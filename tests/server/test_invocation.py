"""What stands before every tool, whichever way a call comes."""

from __future__ import annotations

from typing import Any

import pytest

from deepwork.database.call import Call
from deepwork.errors import DeepworkError
from deepwork.server.house import House
from deepwork.server.invocation import ONE_TRANSACTION, invoke
from house import ask


def ask_as(
    house: House, scope: str, tool: str, caller: str = "ci", key: str | None = None, **arguments: Any
) -> Any:
    call = Call(caller, tool, key, account=caller, scope=scope)
    return invoke(house.database, house.registry[tool], arguments, call)


def code(house: House, scope: str, tool: str, **arguments: Any) -> str:
    with pytest.raises(DeepworkError) as refused:
        ask_as(house, scope, tool, **arguments)
    return refused.value.code


def test_the_scope_is_asked_for_before_anything_else(house: House):
    assert code(house, "read", "agent_register") == "UNAUTHORIZED"
    assert code(house, "work", "agent_register") == "INVALID_INPUT"


def test_a_call_that_is_refused_changes_nothing(house: House):
    code(house, "read", "agent_register", name="Ada", runtime="codex")

    assert ask(house, "agent_list")["total"] == 0


def test_a_key_does_not_get_past_the_scope(house: House):
    given = {"name": "Ada", "runtime": "codex"}
    ask_as(house, "work", "agent_register", key="k", **given)

    assert code(house, "read", "agent_register", key="k", **given) == "UNAUTHORIZED"


def test_a_scope_that_is_none_opens_nothing(house: House):
    with pytest.raises(ValueError, match="root"):
        ask_as(house, "root", "agent_list")


def test_an_agent_is_acted_for_by_its_own_caller_or_an_admin(house: House):
    id = ask_as(house, "work", "agent_register", caller="mine", name="Ada", runtime="codex")["id"]

    assert code(house, "work", "agent_heartbeat", caller="other", agent_id=id) == "UNAUTHORIZED"
    assert code(house, "work", "agent_heartbeat", caller="other", agent_id=f" {id}\t") == "UNAUTHORIZED"
    assert ask_as(house, "work", "agent_heartbeat", caller="mine", agent_id=id)
    assert ask_as(house, "admin", "agent_heartbeat", caller="other", agent_id=id)
    assert ask(house, "agent_heartbeat", caller="session:1", agent_id=id)


def test_an_agent_of_the_owner_is_not_a_workers(house: House):
    id = ask(house, "agent_register", caller="local", name="Ada", runtime="codex")["id"]

    assert code(house, "work", "agent_update", id=id) == "UNAUTHORIZED"
    assert code(house, "work", "agent_unregister", id=id) == "UNAUTHORIZED"


def test_others_may_be_read_about_and_written_to(house: House):
    other = ask_as(house, "work", "agent_register", caller="other", name="Bob", runtime="codex")["id"]
    mine = ask_as(house, "work", "agent_register", name="Ada", runtime="codex")["id"]

    assert ask_as(house, "work", "message_list", agent_id=other)["messages"] == []
    assert ask_as(
        house, "work", "message_send", sender_id=mine, recipient_id=other, message_type="query", body="hi"
    )


def test_every_toolset_of_one_transaction_has_tools_that_need_no_other_thread(house: House):
    """Whatever is asynchronous sees to its own transactions; a lock must not be held while it waits."""
    assert not [
        spec.name for spec in house.registry.values() if spec.is_async and spec.toolset in ONE_TRANSACTION
    ]
