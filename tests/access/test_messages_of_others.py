"""Only whoever a message is for puts it away."""

from __future__ import annotations

from typing import Any

import pytest

from access.make import ask_as
from application import told
from deepwork.errors import Code, NotAllowed
from deepwork.server.application import Application


@pytest.fixture
def letter(app: Application) -> str:
    """A message that waits for an agent of alice's."""
    sender = ask_as(app, "bob", "agent_register", name="Bob", runtime="codex")["id"]
    recipient = ask_as(app, "alice", "agent_register", name="Ada", runtime="codex")["id"]
    sent = ask_as(
        app, "bob", "message_send", sender_id=sender, recipient_id=recipient, message_type="query", body="x"
    )
    id: str = sent["id"]
    return id


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("message_archive", "message_ids"), ("message_mark_read", "message_ids"), ("message_get", "id")],
)
def test_another_token_cannot_put_it_away(app: Application, letter: str, tool: str, arguments: str):
    given: dict[str, Any] = {arguments: [letter] if arguments == "message_ids" else letter}

    with pytest.raises(NotAllowed) as refused:
        ask_as(app, "bob", tool, **given)

    assert refused.value.code is Code.UNAUTHORIZED
    assert told(app)[-1] == "message:created"
    ask_as(app, "alice", tool, **given)
    ask_as(app, "owner", tool, scope="admin", **given)


def test_another_token_may_read_it(app: Application, letter: str):
    assert ask_as(app, "bob", "message_get", id=letter, mark_read=False)["status"] == "unread"
