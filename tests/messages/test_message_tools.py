"""Message tools, on every database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agents.make import register_agent
from application import NOW, Clock, call_tool, list_event_types, list_events, make_app, measure_bytes
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import Code, InvalidInput, NotAllowed, NotFound


@pytest.fixture
def ada(app: Application) -> str:
    return register_agent(app, "Ada", role="coordinator")


@pytest.fixture
def bob(app: Application) -> str:
    return register_agent(app, "Bob")


def send(app: Application, sender: str, recipient: str, body: Any = "hello", **given: Any) -> dict[str, str]:
    arguments = {"sender_id": sender, "recipient_id": recipient, "message_type": "query", "body": body}
    sent: dict[str, str] = call_tool(app, "message_send", **(arguments | given))
    return sent


def list_inbox(app: Application, agent: str, **filters: Any) -> list[Any]:
    return [
        message["body"] for message in call_tool(app, "message_list", agent_id=agent, **filters)["messages"]
    ]


def test_a_message_is_received_as_it_was_sent(app: Application, ada: str, bob: str):
    body = {"question": "which port?", "options": [1, 2], "none": None}

    sent = send(app, ada, bob, body, subject="Ports", priority="high", workflow_id="tw_1", task_id="tt_1")

    answer = call_tool(app, "message_list", agent_id=bob)
    assert answer["unread_count"] == 1
    assert answer["messages"] == [
        {
            "id": sent["id"],
            "sender_id": ada,
            "sender_name": "Ada",
            "recipient_id": bob,
            "message_type": "query",
            "subject": "Ports",
            "body": body,
            "priority": "high",
            "status": "unread",
            "workflow_id": "tw_1",
            "task_id": "tt_1",
            "thread_id": sent["thread_id"],
            "created_at": NOW,
        }
    ]


def test_a_reply_joins_the_thread_and_both_agents_see_all_of_it(
    app: Application, ada: str, bob: str, clock: Clock
):
    asked = send(app, ada, bob, "which port?")
    clock.advance(seconds=1)
    answered = send(app, bob, ada, "8000", message_type="response", reply_to_id=asked["id"])

    assert answered["thread_id"] == asked["thread_id"]
    for agent in (ada, bob):
        assert list_inbox(app, agent, thread_id=asked["thread_id"]) == ["8000", "which port?"]


def test_another_agent_does_not_see_the_thread(app: Application, ada: str, bob: str):
    asked = send(app, ada, bob)

    assert list_inbox(app, register_agent(app, "Eve"), thread_id=asked["thread_id"]) == []


def test_the_inbox_shows_unread_messages_newest_first(app: Application, ada: str, bob: str):
    for text in ("one", "two", "three"):
        send(app, ada, bob, text)

    assert list_inbox(app, bob) == ["three", "two", "one"]


def test_a_read_message_leaves_the_inbox(app: Application, ada: str, bob: str, clock: Clock):
    sent = send(app, ada, bob)
    clock.advance(seconds=5)

    message = call_tool(app, "message_get", id=sent["id"])

    assert (message["status"], message["read_at"]) == ("read", NOW + 5000)
    assert list_inbox(app, bob) == []
    assert list_inbox(app, bob, status="read") == ["hello"]


def test_a_message_can_be_fetched_without_marking_it_read(app: Application, ada: str, bob: str):
    sent = send(app, ada, bob)

    assert call_tool(app, "message_get", id=sent["id"], mark_read=False)["status"] == "unread"
    assert list_inbox(app, bob) == ["hello"]


def test_reading_twice_emits_one_event(app: Application, ada: str, bob: str):
    sent = send(app, ada, bob)

    call_tool(app, "message_get", id=sent["id"])
    call_tool(app, "message_get", id=sent["id"])
    call_tool(app, "message_mark_read", message_ids=[sent["id"]])

    assert list_event_types(app).count("message:read") == 1


def test_archived_messages_stay_archived(app: Application, ada: str, bob: str):
    sent = send(app, ada, bob)

    call_tool(app, "message_archive", message_ids=[sent["id"]])
    call_tool(app, "message_mark_read", message_ids=[sent["id"]])

    assert list_inbox(app, bob) == []
    assert list_inbox(app, bob, status="archived") == ["hello"]
    assert list_inbox(app, bob, status="all") == ["hello"]


def test_unknown_ids_are_listed_and_the_others_are_processed(app: Application, ada: str, bob: str):
    sent = send(app, ada, bob)

    for tool in ("message_mark_read", "message_archive"):
        answer = call_tool(app, tool, message_ids=["msg_x", sent["id"], "msg_y"])
        assert answer == {"success": True, "unknown": ["msg_x", "msg_y"]}
    assert "unknown" not in call_tool(app, "message_mark_read", message_ids=[sent["id"]])


def test_every_filter_of_the_inbox_works(app: Application, ada: str, bob: str, clock: Clock):
    send(app, ada, bob, "plain")
    send(app, ada, bob, "urgent", priority="urgent")
    send(app, ada, bob, "news", message_type="notification", workflow_id="tw_1")
    clock.advance(seconds=60)
    send(app, ada, bob, "late")

    assert list_inbox(app, bob, priority=["urgent", "high"]) == ["urgent"]
    assert list_inbox(app, bob, message_type=["notification"]) == ["news"]
    assert list_inbox(app, bob, workflow_id="tw_1") == ["news"]
    assert list_inbox(app, bob, since=NOW) == ["late"]
    assert list_inbox(app, bob, since=NOW // 1000) == ["late"]
    assert list_inbox(app, bob, priority=[]) == ["late", "news", "urgent", "plain"]
    assert call_tool(app, "message_list", agent_id=bob, priority=["urgent"])["unread_count"] == 4


def test_a_cursor_returns_later_messages_oldest_first(app: Application, ada: str, bob: str):
    ids = [send(app, ada, bob, text)["id"] for text in ("one", "two", "three", "four")]

    assert list_inbox(app, bob, since_id=ids[0], limit=2) == ["two", "three"]
    assert list_inbox(app, bob, since_id=ids[2]) == ["four"]
    assert list_inbox(app, bob, since_id=ids[3]) == []


@pytest.mark.differs
def test_a_cursor_misses_no_message_of_concurrent_senders(app: Application, ada: str, bob: str):
    first = send(app, ada, bob, "0")["id"]

    with ThreadPoolExecutor(6) as senders:
        list(senders.map(lambda number: send(app, ada, bob, str(number)), range(1, 41)))

    seen, cursor = [], first
    while page := call_tool(app, "message_list", agent_id=bob, since_id=cursor, limit=7)["messages"]:
        seen += [int(message["body"]) for message in page]
        cursor = page[-1]["id"]
    assert sorted(seen) == list(range(1, 41))


def test_a_broadcast_reaches_every_online_agent_except_the_sender(
    app: Application, ada: str, bob: str, clock: Clock
):
    silent = bob
    clock.advance(seconds=91)
    eve, max = register_agent(app, "Eve"), register_agent(app, "Max", runtime="codex")

    answer = call_tool(app, "message_broadcast", sender_id=ada, message_type="notification", body="tea?")

    assert answer["sent_count"] == len(answer["message_ids"]) == 2
    assert list_inbox(app, eve) == list_inbox(app, max) == ["tea?"]
    assert list_inbox(app, silent) == list_inbox(app, ada) == []


def test_a_broadcast_can_be_filtered(app: Application, ada: str, bob: str):
    max = register_agent(app, "Max", runtime="codex")
    call_tool(app, "agent_update", id=max, status="busy")

    def reached(**filter: str) -> int:
        count: int = call_tool(
            app, "message_broadcast", sender_id=bob, message_type="status_update", body="x",
            recipient_filter=filter,
        )["sent_count"]  # fmt: skip
        return count

    assert reached(role="coordinator") == 1
    assert reached(runtime="codex") == 1
    assert reached(status="busy") == 1
    assert reached(status="busy", role="coordinator") == 0


def test_a_broadcast_is_one_thread(app: Application, ada: str, bob: str):
    eve = register_agent(app, "Eve")
    call_tool(app, "message_broadcast", sender_id=ada, message_type="notification", body="tea?")

    threads = {
        call_tool(app, "message_list", agent_id=agent)["messages"][0]["thread_id"] for agent in (bob, eve)
    }

    assert len(threads) == 1


def test_unread_messages_are_counted_by_priority(app: Application, ada: str, bob: str):
    for priority in ("low", "urgent", "urgent"):
        send(app, ada, bob, priority=priority)

    assert call_tool(app, "message_count_unread", agent_id=bob) == {
        "count": 3,
        "by_priority": {"low": 1, "normal": 0, "high": 0, "urgent": 2},
    }
    assert call_tool(app, "message_count_unread", agent_id=bob, priority=["urgent"]) == {
        "count": 2,
        "by_priority": {"urgent": 2},
    }


def test_an_expired_message_is_not_listed(app: Application, ada: str, bob: str, clock: Clock):
    send(app, ada, bob, expires_at=NOW + 1000)
    assert list_inbox(app, bob) == ["hello"]

    clock.advance(seconds=2)

    assert list_inbox(app, bob) == []
    assert call_tool(app, "message_count_unread", agent_id=bob)["count"] == 0


def test_sending_a_message_is_a_sign_of_life(app: Application, ada: str, bob: str, clock: Clock):
    clock.advance(seconds=91)
    assert call_tool(app, "agent_get", id=ada)["status"] == "offline"

    send(app, ada, bob)

    assert call_tool(app, "agent_get", id=ada)["status"] == "online"


def test_listing_the_inbox_is_a_sign_of_life(app: Application, ada: str, clock: Clock):
    clock.advance(seconds=10)
    call_tool(app, "message_list", agent_id=ada)
    assert call_tool(app, "agent_get", id=ada)["last_heartbeat"] == NOW

    clock.advance(seconds=30)
    call_tool(app, "message_list", agent_id=ada)
    assert call_tool(app, "agent_get", id=ada)["last_heartbeat"] == NOW + 40_000


def test_a_long_body_is_truncated_in_lists_but_not_in_a_single_message(app: Application, ada: str, bob: str):
    text, thing = "x" * 100_000, {"rows": ["y" * 1000] * 50}
    ids = [send(app, ada, bob, body)["id"] for body in (text, thing)]

    listed = call_tool(app, "message_list", agent_id=bob)

    assert measure_bytes(listed) < 12_000
    assert all(message["truncated"] for message in listed["messages"])
    assert [call_tool(app, "message_get", id=id)["body"] for id in ids] == [text, thing]


def test_a_message_may_have_one_mebibyte_and_not_more(app: Application, ada: str, bob: str):
    largest = "ä" * (512 * 1024)

    assert call_tool(app, "message_get", id=send(app, ada, bob, largest)["id"])["body"] == largest
    with pytest.raises(InvalidInput) as refused:
        send(app, ada, bob, largest + "!")
    assert refused.value.code is Code.TOO_LARGE
    assert "body" in refused.value.message


@pytest.mark.parametrize(
    "text", ["a\tb\r\nc", "\x1b[31mred\x1b[0m", "日本語", "👩‍👩‍👧", "\u202eright\u200b", "e\u0301", "'; DROP TABLE agents; --", "%(x)s :x"]
)  # fmt: skip
def test_any_text_is_returned_unchanged(app: Application, ada: str, bob: str, text: str):
    sent = send(app, ada, bob, text, subject=text)

    message = call_tool(app, "message_get", id=sent["id"])

    assert (message["body"], message["subject"]) == (text, text.strip())


def test_unknown_agents_and_messages_are_named_in_the_error(app: Application, ada: str, bob: str):
    for arguments, code in [
        ({"sender_id": "ag_x"}, Code.SENDER_NOT_FOUND),
        ({"recipient_id": "ag_x"}, Code.RECIPIENT_NOT_FOUND),
        ({"reply_to_id": "msg_x"}, Code.MESSAGE_NOT_FOUND),
    ]:
        with pytest.raises(NotFound, match="_x") as missing:
            send(app, ada, bob, **arguments)
        assert missing.value.code is code
    for tool in ("message_list", "message_count_unread"):
        with pytest.raises(NotFound) as missing:
            call_tool(app, tool, agent_id="ag_x")
        assert missing.value.code is Code.AGENT_NOT_FOUND
    with pytest.raises(NotFound):
        call_tool(app, "message_get", id="msg_x")


def test_messages_to_or_from_an_unregistered_agent_are_refused(app: Application, ada: str, bob: str):
    call_tool(app, "agent_unregister", id=bob)

    for sender, recipient in ((ada, bob), (bob, ada)):
        with pytest.raises(NotAllowed) as refused:
            send(app, sender, recipient)
        assert refused.value.code is Code.INVALID_STATE


def test_an_invalid_filter_field_is_named_in_the_error(app: Application, ada: str):
    with pytest.raises(InvalidInput, match=r"recipient_filter\.roll"):
        call_tool(
            app, "message_broadcast", sender_id=ada, message_type="notification", body="x",
            recipient_filter={"roll": "worker"},
        )  # fmt: skip


def test_each_message_event_has_its_workflow(app: Application, ada: str, bob: str):
    sent = send(app, ada, bob, "x" * 5000, workflow_id="tw_1")

    told_of = list_events(app)[-1]

    assert (told_of.type, told_of.workflow_id, told_of.data["id"]) == ("message:created", "tw_1", sent["id"])
    assert len(told_of.data["body"]) < 2100


def test_a_cursor_in_a_thread_covers_both_inboxes(app: Application, ada: str, bob: str, clock: Clock):
    for _ in range(3):
        send(app, ada, bob, "before")
    first = send(app, ada, bob, "one")
    for text, sender, recipient in (("two", bob, ada), ("three", bob, ada), ("four", ada, bob)):
        clock.advance(seconds=1)
        send(app, sender, recipient, text, reply_to_id=first["id"])

    for agent in (ada, bob):
        assert list_inbox(app, agent, thread_id=first["thread_id"], since_id=first["id"]) == [
            "two",
            "three",
            "four",
        ]


def test_a_cursor_from_another_inbox_is_refused(app: Application, ada: str, bob: str):
    sent = send(app, ada, bob)

    with pytest.raises(InvalidInput, match="inbox"):
        call_tool(app, "message_list", agent_id=ada, since_id=sent["id"])


def test_a_message_that_expires_in_the_past_is_refused(app: Application, ada: str, bob: str):
    with pytest.raises(InvalidInput, match="past"):
        send(app, ada, bob, expires_at=NOW - 1)

    assert send(app, ada, bob, expires_at=NOW // 1000 + 60)


def test_the_size_limit_applies_to_objects(app: Application, ada: str, bob: str):
    with pytest.raises(InvalidInput) as refused:
        send(app, ada, bob, {str(number): "x" * 1_000_000 for number in range(3)})

    assert refused.value.code is Code.TOO_LARGE


def test_a_message_event_stays_small_for_a_large_body(app: Application, ada: str, bob: str):
    send(app, ada, bob, {"rows": ["y" * 1000] * 900})

    event = list_events(app)[-1]
    assert measure_bytes(event.data) < 70_000
    assert event.data["truncated"] is True
    assert event.data["recipient_id"] == bob


def test_a_read_only_server_reads_messages_without_writing(tmp_path: Path, location: str, clock: Clock):
    writer = make_app(tmp_path, location, clock)
    ada, bob = register_agent(writer), register_agent(writer)
    sent = send(writer, ada, bob)
    clock.advance(seconds=60)
    before = list_events(writer)
    reader = make_app(tmp_path, location, clock, read_only=True)

    assert call_tool(reader, "message_get", id=sent["id"])["status"] == "unread"
    assert call_tool(reader, "message_list", agent_id=bob)["unread_count"] == 1

    assert list_events(writer) == before
    assert call_tool(writer, "agent_get", id=bob)["last_heartbeat"] == NOW
    writer.close()
    reader.close()
