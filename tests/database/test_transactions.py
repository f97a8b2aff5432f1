"""Transactions, on every database."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deepwork.database.call import Call, calling
from deepwork.errors import StorageError
from deepwork.server.house import House
from house import NOW, ask, events, house_at, told


def count(house: House) -> int:
    with house.database.reading() as tx:
        return int(tx.value("SELECT count(*) FROM leases"))


def add_lease(house: House, what: str) -> None:
    with house.database.transaction() as tx:
        tx.insert("leases", {"what": what, "who": None, "epoch": 1, "until": 0})


def test_an_error_undoes_everything_and_tells_nothing(house: House):
    def fail_after_writing() -> None:
        with house.database.transaction() as tx:
            tx.insert("leases", {"what": "a", "who": None, "epoch": 1, "until": 0})
            tx.emit("agent:updated", {})
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        fail_after_writing()

    assert count(house) == 0
    assert told(house) == []


def test_a_failed_transaction_does_not_harm_the_next(house: House):
    def break_a_constraint() -> None:
        add_lease(house, "a")

    add_lease(house, "a")
    with pytest.raises(StorageError, match="nothing was changed"):
        break_a_constraint()
    add_lease(house, "b")

    assert count(house) == 2


def test_a_reader_sees_one_moment(house: House):
    with house.database.reading() as tx:
        before = tx.value("SELECT count(*) FROM leases")
        with ThreadPoolExecutor(1) as other:
            other.submit(add_lease, house, "a").result()

        assert tx.value("SELECT count(*) FROM leases") == before
    assert count(house) == 1


def test_a_reader_cannot_write(house: House):
    def write() -> None:
        with house.database.reading() as tx:
            tx.run("UPDATE event_sequence SET last_seq = 7")

    with pytest.raises(StorageError):
        write()

    assert house.feed.last() == 0


def test_time_stands_still_within_a_transaction(house: House):
    with house.database.transaction() as tx:
        assert tx.now == tx.now == NOW


def test_without_a_clock_of_ours_the_database_tells_the_time(tmp_path: Path, location: str):
    house = house_at(tmp_path, location)
    with house.database.reading() as tx:
        assert 1_700_000_000_000 < tx.now < 4_000_000_000_000
    house.close()


def test_a_transaction_knows_on_whose_behalf_it_is(house: House):
    with calling(Call(caller="ci-token")), house.database.reading() as tx:
        assert tx.caller == "ci-token"
    with house.database.reading() as tx:
        assert tx.caller == "local"


def test_threads_wait_for_each_other_and_lose_nothing(house: House):
    with ThreadPoolExecutor(8) as writers:
        list(writers.map(lambda number: add_lease(house, f"task:{number}"), range(80)))

    assert count(house) == 80


def test_many_first_uses_at_once_prepare_once(house: House):
    gate = threading.Barrier(8)

    def use(number: int) -> None:
        gate.wait()
        add_lease(house, str(number))

    with ThreadPoolExecutor(8) as users:
        list(users.map(use, range(8)))

    assert count(house) == 8


def test_many_rows_are_added_at_once(house: House):
    with house.database.transaction() as tx:
        rows = [{"what": f"task:{n}", "who": None, "epoch": 1, "until": 0} for n in range(1000)]
        tx.insert_all("leases", rows)
        tx.insert_all("leases", [])

    assert count(house) == 1000


def test_events_are_numbered_without_gaps_whatever_fails_between(house: House):
    def fail() -> None:
        with house.database.transaction() as tx:
            tx.emit("agent:updated", {})
            raise RuntimeError

    for number in range(5):
        ask(house, "agent_register", name=f"n{number}", runtime="custom")
        with pytest.raises(RuntimeError):
            fail()

    assert [event.seq for event in events(house)] == [1, 2, 3, 4, 5]
