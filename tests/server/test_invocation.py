"""What stands before every tool, whichever way a call comes."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from application import call_tool, list_event_types
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.edge.server.registry import index_by_name
from deepwork.kernel.answers import Done
from deepwork.kernel.call import Call, current_call
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import Code, DeepworkError, GateClosed
from deepwork.kernel.operations import NotPrepared, Traits, operation


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


class Doors:
    """Tools of which one has to prove something, without a transaction, before it changes anything."""

    traits: ClassVar = Traits(toolset="plans", one_transaction=True)

    def __init__(self, database: Database, is_closed: bool = False) -> None:
        self._database = database
        self._is_closed = is_closed
        self.proved: list[str] = []
        self.opened = 0

    @operation("work", prepared_by="_prove", prepared_when=("how", "slowly"))
    def open_door(self, how: str) -> Done:
        """Open the door."""
        with self._database.transaction() as tx:
            tx.emit("door:opened", {"how": how})
            if how == "slowly" and current_call().prepared is None:
                raise NotPrepared
            self.opened += 1
            return Done()

    def _prove(self, how: str) -> str:
        with self._database.transaction() as tx:  # none is open around it, so this one commits
            tx.emit("door:proved", {"how": how})
        self.proved.append(how)
        if self._is_closed:
            raise GateClosed("It is closed.", code=Code.CHECKS_FAILED, suggestion="Knock.", evidence={})
        return "a proof"


def open_door(app: Application, doors: Doors, how: str, key: str | None = None) -> Any:
    spec = index_by_name([doors])["open_door"]
    return invoke(app.database, spec, {"how": how}, Call("ci", "open_door", key, account="ci"))


def list_outcomes(app: Application) -> list[str]:
    with app.database.reading() as tx:
        return [entry["outcome"] for entry in tx.fetch_all("SELECT outcome FROM audit ORDER BY seq")]


def test_a_call_is_prepared_only_if_it_asks_for_that(app: Application):
    doors = Doors(app.database)

    open_door(app, doors, "quickly")
    open_door(app, doors, "slowly")

    assert (doors.proved, doors.opened) == (["slowly"], 2)
    assert list_event_types(app) == ["door:opened", "door:proved", "door:opened"]
    assert list_outcomes(app) == ["done", "done"]


def test_a_repeated_key_is_answered_without_preparing_again(app: Application):
    doors = Doors(app.database)

    answers = [open_door(app, doors, "slowly", key="k") for _ in range(2)]

    assert answers[0] == answers[1]
    assert (doors.proved, doors.opened) == (["slowly"], 1)
    assert list_outcomes(app) == ["done", "repeated"]


def test_a_call_whose_preparation_fails_changes_nothing_and_keeps_no_key(app: Application):
    doors = Doors(app.database, is_closed=True)

    for _ in range(2):
        with pytest.raises(GateClosed):
            open_door(app, doors, "slowly", key="k")

    assert (doors.proved, doors.opened) == (["slowly", "slowly"], 0)
    assert "door:opened" not in list_event_types(app)
    assert list_outcomes(app) == ["CHECKS_FAILED", "CHECKS_FAILED"]


def test_only_a_call_that_may_be_prepared_counts_as_slow(app: Application):
    spec = index_by_name([Doors(app.database)])["open_door"]

    assert spec.may_take_long({"how": " Slowly"})
    assert not spec.may_take_long({"how": "quickly"})
    assert not spec.may_take_long({"how": 1})
