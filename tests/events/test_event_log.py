"""The log and its feed, on every database."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from application import Clock, call_tool, list_events, make_app
from deepwork.edge.server.application import Application
from deepwork.kernel.events.feed import EventBatch, EventFeed, ResyncRequired
from deepwork.kernel.events.log import Event, EventStore, truncate_texts
from deepwork.kernel.values import format_timestamp


def emit_events(app: Application, count: int, workflow_id: str | None = None) -> None:
    with app.database.transaction() as tx:
        for number in range(count):
            tx.emit("agent:updated", {"number": number}, workflow_id)


def read_batch(app: Application, since: int, **given: object) -> EventBatch:
    read = app.feed.read(since, **given)  # type: ignore[arg-type]
    assert isinstance(read, EventBatch)
    return read


def test_an_event_has_type_time_workflow_and_data(app: Application):
    call_tool(app, "agent_register", name="Ada", runtime="custom")

    [event] = list_events(app)

    assert (event.seq, event.type, event.workflow_id) == (1, "agent:registered", None)
    assert event.ts == "2027-01-15T08:00:00.000Z"
    assert event.data["name"] == "Ada"


def test_a_reader_resumes_where_it_stopped(app: Application):
    emit_events(app, 5)

    assert [event.seq for event in read_batch(app, 0, limit=3).events] == [1, 2, 3]
    assert [event.seq for event in read_batch(app, 3, limit=3).events] == [4, 5]
    assert read_batch(app, 5) == EventBatch([], 5)


def test_events_can_be_filtered_by_workflow(app: Application):
    emit_events(app, 2, "wf_1")
    emit_events(app, 3, "wf_2")
    emit_events(app, 1, "wf_1")

    read = read_batch(app, 0, workflow_id="wf_1")

    assert [event.seq for event in read.events] == [1, 2, 6]
    assert read.upto == 6


def test_old_events_are_deleted_and_readers_from_before_must_resync(app: Application, clock: Clock):
    emit_events(app, 10)
    clock.advance(seconds=31 * 24 * 3600)
    emit_events(app, 500)

    assert app.feed.read(3) == ResyncRequired(since=3, resume_at=510)
    assert read_batch(app, 10).events[0].seq == 11
    with app.database.reading() as tx:
        assert EventStore(tx).get_oldest_seq() == 11


def test_a_reader_from_the_future_must_resync(app: Application):
    emit_events(app, 2)

    assert app.feed.read(7) == ResyncRequired(since=7, resume_at=2)


def test_a_follower_sees_events_of_other_processes(tmp_path: Path, location: str):
    writer, reader = make_app(tmp_path, location), make_app(tmp_path, location)
    emit_events(writer, 2)
    seen: list[Event | ResyncRequired] = []
    enough = threading.Event()

    def follow() -> None:
        for event in reader.feed.follow(0, should_stop=enough.is_set):
            seen.append(event)
            if len(seen) == 6:
                enough.set()

    following = threading.Thread(target=follow)
    following.start()
    emit_events(writer, 1)
    emit_events(writer, 3)
    following.join(timeout=100)

    assert [event.seq for event in seen if isinstance(event, Event)] == [1, 2, 3, 4, 5, 6]
    writer.close()
    reader.close()


def test_only_a_commit_wakes_a_listener(tmp_path: Path, location: str):
    writer, reader = make_app(tmp_path, location), make_app(tmp_path, location)
    emit_events(writer, 1)
    listener = reader.database.engine.listen()

    assert not listener.wait(0.05)
    emit_events(writer, 1)
    assert listener.wait(100)

    listener.close()
    writer.close()
    reader.close()


def test_following_ends_on_request(app: Application):
    emit_events(app, 1)

    assert [
        event.seq
        for event in EventFeed(app.database).follow(1, should_stop=lambda: True)
        if isinstance(event, Event)
    ] == []


@pytest.mark.parametrize(
    ("data", "kept"),
    [
        ({"a": "x" * 2048}, {"a": "x" * 2048}),
        ({"a": ["y" * 3000]}, {"a": ["y" * 2048 + "…"]}),
        ({"a": {"b": 1, "c": None}}, {"a": {"b": 1, "c": None}}),
    ],
)
def test_long_strings_are_truncated(data: object, kept: object):
    assert truncate_texts(data) == kept


def test_timestamps_are_formatted_in_utc():
    assert format_timestamp(0) == "1970-01-01T00:00:00.000Z"
