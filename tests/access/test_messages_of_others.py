"""Only the token of the recipient, or of an admin, can archive a message or mark it read."""

from __future__ import annotations

from typing import Any

import pytest

from access.make import call_tool_as
from application import list_event_types
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import Code, NotAllowed


@pytest.fixture
def message(app: Application) -> str:
    """A message that waits for one of Alice's agents."""
    sender = call_tool_as(app, "bob", "agent_register", name="Bob", runtime="codex")["id"]
    recipient = call_tool_as(app, "alice", "agent_register", name="Ada", runtime="codex")["id"]
    sent = call_tool_as(
        app, "bob", "message_send", sender_id=sender, recipient_id=recipient, message_type="query", body="x"
    )
    id: str = sent["id"]
    return id


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("message_archive", "message_ids"), ("message_mark_read", "message_ids"), ("message_get", "id")],
)
def test_another_token_cannot_archive_a_message_or_mark_it_read(
    app: Application, message: str, tool: str, arguments: str
):
    given: dict[str, Any] = {arguments: [message] if arguments == "message_ids" else message}

    with pytest.raises(NotAllowed) as refused:
        call_tool_as(app, "bob", tool, **given)

    assert refused.value.code is Code.UNAUTHORIZED
    assert list_event_types(app)[-1] == "message:created"
    call_tool_as(app, "alice", tool, **given)
    call_tool_as(app, "owner", tool, scope="admin", **given)


def test_another_token_may_read_a_message_without_marking_it_read(app: Application, message: str):
    assert call_tool_as(app, "bob", "message_get", id=message, mark_read=False)["status"] == "unread"
