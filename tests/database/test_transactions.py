"""Transactions, on every database."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from application import NOW, call_tool, list_event_types, list_events, make_app
from deepwork.edge.server.application import Application
from deepwork.kernel.call import ActionOutcome, Call, use_call
from deepwork.kernel.database.transaction import PendingEvent, join_transaction
from deepwork.kernel.errors import StorageError


def count_leases(app: Application) -> int:
    with app.database.reading() as tx:
        return int(tx.fetch_value("SELECT count(*) FROM leases"))


def add_lease(app: Application, what: str) -> None:
    with app.database.transaction() as tx:
        tx.insert("leases", {"what": what, "who": None, "epoch": 1, "until": 0})


def test_an_error_rolls_everything_back_and_emits_no_event(app: Application):
    def fail_after_writing() -> None:
        with app.database.transaction() as tx:
            tx.insert("leases", {"what": "a", "who": None, "epoch": 1, "until": 0})
            tx.emit("agent:updated", {})
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        fail_after_writing()

    assert count_leases(app) == 0
    assert list_event_types(app) == []


def test_rows_are_read_as_tuples_in_the_order_of_the_columns(app: Application):
    add_lease(app, "a")
    add_lease(app, "b")

    with app.database.reading() as tx:
        rows = tx.fetch_tuples("SELECT epoch, what FROM leases WHERE what IN :names", names=["b", "c"])
        as_dictionaries = tx.fetch_all("SELECT what FROM leases WHERE what = :name", name="a")

    assert rows == [(1, "b")]
    assert as_dictionaries == [{"what": "a"}]


def test_a_failed_transaction_does_not_affect_the_next(app: Application):
    def break_a_constraint() -> None:
        add_lease(app, "a")

    add_lease(app, "a")
    with pytest.raises(StorageError, match="nothing was changed"):
        break_a_constraint()
    add_lease(app, "b")

    assert count_leases(app) == 2


def test_a_reader_sees_one_snapshot(app: Application):
    with app.database.reading() as tx:
        before = tx.fetch_value("SELECT count(*) FROM leases")
        with ThreadPoolExecutor(1) as other:
            other.submit(add_lease, app, "a").result()

        assert tx.fetch_value("SELECT count(*) FROM leases") == before
    assert count_leases(app) == 1


def test_a_reader_cannot_write(app: Application):
    def write() -> None:
        with app.database.reading() as tx:
            tx.execute("UPDATE event_sequence SET last_seq = 7")

    with pytest.raises(StorageError):
        write()

    assert app.feed.get_last_seq() == 0


def test_time_is_constant_within_a_transaction(app: Application):
    with app.database.transaction() as tx:
        assert tx.now == tx.now == NOW


def test_by_default_time_comes_from_the_database(tmp_path: Path, location: str):
    app = make_app(tmp_path, location)
    with app.database.reading() as tx:
        assert 1_700_000_000_000 < tx.now < 4_000_000_000_000
    app.close()


def test_a_transaction_has_the_caller(app: Application):
    with use_call(Call(caller="ci-token")), app.database.reading() as tx:
        assert tx.caller == "ci-token"
    with app.database.reading() as tx:
        assert tx.caller == "local"


def test_threads_wait_for_each_other_and_lose_nothing(app: Application):
    with ThreadPoolExecutor(8) as writers:
        list(writers.map(lambda number: add_lease(app, f"task:{number}"), range(80)))

    assert count_leases(app) == 80


def test_concurrent_first_uses_prepare_the_database_once(app: Application):
    gate = threading.Barrier(8)

    def use(number: int) -> None:
        gate.wait()
        add_lease(app, str(number))

    with ThreadPoolExecutor(8) as users:
        list(users.map(use, range(8)))

    assert count_leases(app) == 8


def test_many_rows_are_added_with_one_statement(app: Application):
    with app.database.transaction() as tx:
        rows = [{"what": f"task:{n}", "who": None, "epoch": 1, "until": 0} for n in range(1000)]
        tx.insert_many("leases", rows)
        tx.insert_many("leases", [])

    assert count_leases(app) == 1000


def test_events_are_numbered_without_gaps_despite_failures(app: Application):
    def fail() -> None:
        with app.database.transaction() as tx:
            tx.emit("agent:updated", {})
            raise RuntimeError

    for number in range(5):
        call_tool(app, "agent_register", name=f"n{number}", runtime="custom")
        with pytest.raises(RuntimeError):
            fail()

    assert [event.seq for event in list_events(app)] == [1, 2, 3, 4, 5]


# After the commit


def test_actions_run_after_the_outermost_commit_and_may_open_transactions(app: Application):
    seen: list[int] = []

    with app.database.transaction() as outer, join_transaction(outer):
        add_lease(app, "a")
        with app.database.transaction() as inner:
            inner.after_commit(lambda: add_lease(app, "b"))
            inner.after_commit(lambda: seen.append(count_leases(app)))
        assert count_leases(app) == 1

    assert seen == [2]


def test_no_action_or_handler_runs_after_a_rollback(app: Application):
    seen: list[str] = []
    app.database.subscribe(["agent:updated"], lambda _: seen.append("handler"))

    def fail() -> None:
        with app.database.transaction() as tx:
            tx.emit("agent:updated", {})
            tx.after_commit(lambda: seen.append("action"))
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        fail()

    assert seen == []


def test_a_subscriber_gets_its_events_once_after_the_actions_of_the_transaction(app: Application):
    seen: list[object] = []

    def handle(events: Sequence[PendingEvent]) -> None:
        seen.append([event.data["number"] for event in events])

    app.database.subscribe(["agent:updated"], handle)
    app.database.subscribe(["agent:registered"], handle)

    with app.database.transaction() as tx:
        for number, type in enumerate(["agent:updated", "message:sent", "agent:updated"]):
            tx.emit(type, {"number": number})
        tx.after_commit(lambda: seen.append("action"))

    assert seen == ["action", [0, 2]]


def test_the_call_collects_the_outcomes_of_actions_and_handlers(app: Application):
    of_action, of_handler = ActionOutcome(), ActionOutcome()
    outcomes: list[ActionOutcome] = []
    app.database.subscribe(["agent:updated"], lambda _: of_handler)

    with use_call(Call(outcomes=outcomes)), app.database.transaction() as tx:
        tx.emit("agent:updated", {})
        tx.after_commit(lambda: None)
        tx.after_commit(lambda: of_action)

    assert outcomes == [of_action, of_handler]


def test_an_action_that_raises_fails_the_call_but_not_the_commit(app: Application):
    def fail() -> None:
        raise RuntimeError("too late")

    def write() -> None:
        with app.database.transaction() as tx:
            tx.insert("leases", {"what": "a", "who": None, "epoch": 1, "until": 0})
            tx.after_commit(fail)

    with pytest.raises(RuntimeError, match="too late"):
        write()

    assert count_leases(app) == 1


def test_rows_are_new_change_only_as_they_were_and_are_listed_in_pages(app: Application):
    with app.database.transaction() as tx:
        tx.execute("CREATE TABLE things (id TEXT PRIMARY KEY, created_at BIGINT, word TEXT)")
        rows = [{"id": id, "created_at": at, "word": "red"} for id, at in (("a", 1), ("b", 1), ("c", 2))]
        added = [tx.insert_new("things", row) for row in (*rows, rows[0])]
        green, blue = rows[0] | {"word": "green"}, rows[0] | {"word": "blue"}
        saved = [tx.save_change("things", rows[0], after, "word") for after in (green, blue, rows[0])]
        first, total = tx.list_newest("things", "id", {"word = :word": "red"}, None, 1, word="red")
        rest, _ = tx.list_newest("things", "id", {"word = :word": None}, (2, "c"), 9)

    assert added == [True, True, True, False]
    assert saved == [True, False, True]  # the last one changes nothing
    assert ([row["id"] for row in first], total) == (["c"], 2)
    assert [row["id"] for row in rest] == ["b", "a"]
