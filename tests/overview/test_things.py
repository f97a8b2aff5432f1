"""Things of any kind by id, with their states."""

from __future__ import annotations

import pytest

from application import call_tool
from deepwork.edge.cli.framework.applications import call_operation
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import InvalidInput
from workspaces.make import create_plan


def test_states_of_things_that_do_not_exist_are_left_out(app: Application) -> None:
    plan, _ = create_plan(app, "one")

    states = call_operation(app, "get_states", {"kind": "plan", "ids": [plan, "wf_000000000000"]})["states"]

    assert {id: state["state"] for id, state in states.items()} == {plan: "ready"}


def test_a_thing_has_its_fields_without_a_state_if_its_kind_has_none(app: Application) -> None:
    ada, bob = (call_tool(app, "agent_register", name=name, runtime="codex")["id"] for name in ("Ada", "Bob"))
    given = {"sender_id": ada, "recipient_id": bob, "message_type": "notification", "body": "Hello"}
    sent = call_tool(app, "message_send", **given)["id"]

    thing = call_operation(app, "get_thing", {"kind": "message", "id": sent})["thing"]

    assert (thing["body"], "state" in thing) == ("Hello", False)


@pytest.mark.parametrize("kind", ["notice", "issue", "nonsense"])
def test_a_thing_that_does_not_exist_is_refused(app: Application, kind: str) -> None:
    with pytest.raises(InvalidInput, match="There is no"):
        call_operation(app, "get_thing", {"kind": kind, "id": "nt_000000000000"})
