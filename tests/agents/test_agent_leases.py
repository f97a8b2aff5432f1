"""Leases, on every database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from deepwork.agents.leases import LeaseStore
from deepwork.agents.models import Lease
from deepwork.server.house import House
from house import LEASE_MS, Clock


def take(house: House, what: str, who: str) -> Lease | None:
    with house.database.transaction() as tx:
        return LeaseStore(tx, LEASE_MS).take(what, who)


def release(house: House, what: str, who: str) -> bool:
    with house.database.transaction() as tx:
        return LeaseStore(tx, LEASE_MS).release(what, who)


def losses(house: House, who: str) -> list[str]:
    with house.database.transaction() as tx:
        return LeaseStore(tx, LEASE_MS).collect_losses(who)


def epoch(lease: Lease | None) -> int:
    assert lease is not None
    return lease.epoch


def test_what_one_holds_another_cannot_take(house: House):
    assert take(house, "task:a", "ag_1")

    assert take(house, "task:a", "ag_2") is None


def test_taking_what_one_holds_is_no_change_of_hands(house: House):
    first, second = take(house, "task:a", "ag_1"), take(house, "task:a", "ag_1")

    assert epoch(first) == epoch(second) == 1


def test_an_expired_lease_passes_to_who_asks_with_the_next_epoch(house: House, clock: Clock):
    take(house, "task:a", "ag_1")
    clock.advance(seconds=91)

    taken = take(house, "task:a", "ag_2")

    assert taken is not None
    assert (taken.who, taken.epoch) == ("ag_2", 2)


def test_who_lost_a_lease_is_told_once(house: House, clock: Clock):
    take(house, "task:a", "ag_1")
    clock.advance(seconds=91)
    take(house, "task:a", "ag_2")

    assert losses(house, "ag_1") == ["task:a"]
    assert losses(house, "ag_1") == []


def test_a_late_holder_keeps_what_nobody_took(house: House, clock: Clock):
    take(house, "task:a", "ag_1")
    clock.advance(seconds=1000)

    assert epoch(take(house, "task:a", "ag_1")) == 1
    assert take(house, "task:a", "ag_2") is None


def test_a_renewed_lease_runs_its_full_time_again(house: House, clock: Clock):
    take(house, "task:a", "ag_1")
    clock.advance(seconds=80)
    with house.database.transaction() as tx:
        assert LeaseStore(tx, LEASE_MS).renew("ag_1") == 1
    clock.advance(seconds=80)

    assert take(house, "task:a", "ag_2") is None


def test_a_released_lease_is_free_and_its_epoch_never_comes_again(house: House):
    take(house, "task:a", "ag_1")

    assert release(house, "task:a", "ag_1")
    assert not release(house, "task:a", "ag_1")
    assert epoch(take(house, "task:a", "ag_1")) == 2


def test_nobody_releases_what_another_holds(house: House):
    take(house, "task:a", "ag_1")

    assert not release(house, "task:a", "ag_2")


def test_of_many_asking_at_once_exactly_one_wins(house: House):
    with ThreadPoolExecutor(8) as agents:
        wins = list(agents.map(lambda number: take(house, "task:a", f"ag_{number}"), range(16)))

    assert sum(lease is not None for lease in wins) == 1
