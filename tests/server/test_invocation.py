"""What stands before every tool, whichever way a call comes."""

from __future__ import annotations

from typing import Any

import pytest

from application import call_tool
from deepwork.call import Call
from deepwork.errors import DeepworkError
from deepwork.server.application import Application
from deepwork.server.invocation import invoke


def call_as(
    app: Application, scope: str, tool: str, caller: str = "ci", key: str | None = None, **arguments: Any
) -> Any:
    call = Call(caller, tool, key, account=caller, scope=scope)
    return invoke(app.database, app.registry[tool], arguments, call)


def get_error_code(app: Application, scope: str, tool: str, **arguments: Any) -> str:
    with pytest.raises(DeepworkError) as refused:
        call_as(app, scope, tool, **arguments)
    return refused.value.code


def test_the_scope_is_checked_before_the_arguments(app: Application):
    assert get_error_code(app, "read", "agent_register") == "UNAUTHORIZED"
    assert get_error_code(app, "work", "agent_register") == "INVALID_INPUT"


def test_an_unauthorized_call_changes_nothing(app: Application):
    get_error_code(app, "read", "agent_register", name="Ada", runtime="codex")

    assert call_tool(app, "agent_list")["total"] == 0


def test_a_repeated_key_does_not_bypass_the_scope_check(app: Application):
    given = {"name": "Ada", "runtime": "codex"}
    call_as(app, "work", "agent_register", key="k", **given)

    assert get_error_code(app, "read", "agent_register", key="k", **given) == "UNAUTHORIZED"


def test_an_unknown_scope_is_refused(app: Application):
    with pytest.raises(ValueError, match="root"):
        call_as(app, "root", "agent_list")


def test_only_its_own_caller_or_an_admin_can_act_for_an_agent(app: Application):
    id = call_as(app, "work", "agent_register", caller="mine", name="Ada", runtime="codex")["id"]

    assert get_error_code(app, "work", "agent_heartbeat", caller="other", agent_id=id) == "UNAUTHORIZED"
    assert (
        get_error_code(app, "work", "agent_heartbeat", caller="other", agent_id=f" {id}\t") == "UNAUTHORIZED"
    )
    assert call_as(app, "work", "agent_heartbeat", caller="mine", agent_id=id)
    assert call_as(app, "admin", "agent_heartbeat", caller="other", agent_id=id)
    assert call_tool(app, "agent_heartbeat", caller="session:1", agent_id=id)


def test_a_worker_cannot_act_for_an_agent_of_the_owner(app: Application):
    id = call_tool(app, "agent_register", caller="local", name="Ada", runtime="codex")["id"]

    assert get_error_code(app, "work", "agent_update", id=id) == "UNAUTHORIZED"
    assert get_error_code(app, "work", "agent_unregister", id=id) == "UNAUTHORIZED"


def test_a_worker_can_read_about_and_message_agents_of_others(app: Application):
    other = call_as(app, "work", "agent_register", caller="other", name="Bob", runtime="codex")["id"]
    mine = call_as(app, "work", "agent_register", name="Ada", runtime="codex")["id"]

    assert call_as(app, "work", "message_list", agent_id=other)["messages"] == []
    assert call_as(
        app, "work", "message_send", sender_id=mine, recipient_id=other, message_type="query", body="hi"
    )


def test_no_long_running_tool_runs_in_one_transaction(app: Application):
    """A long-running tool has transactions of its own; a lock must not be held while it waits."""
    assert not [
        spec.name for spec in app.registry.values() if spec.declaration.long_running and spec.one_transaction
    ]
