"""Leases, on every database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from application import LEASE_MS, Clock
from deepwork.edge.server.application import Application
from deepwork.work.agents.models import Lease
from deepwork.work.agents.store import LeaseStore


def take(app: Application, what: str, who: str) -> Lease | None:
    with app.database.transaction() as tx:
        return LeaseStore(tx, LEASE_MS).take(what, who)


def release(app: Application, what: str, who: str) -> bool:
    with app.database.transaction() as tx:
        return LeaseStore(tx, LEASE_MS).release(what, who)


def collect_losses(app: Application, who: str) -> list[str]:
    with app.database.transaction() as tx:
        return LeaseStore(tx, LEASE_MS).collect_losses(who)


def get_epoch(lease: Lease | None) -> int:
    assert lease is not None
    return lease.epoch


def test_a_held_lease_cannot_be_taken_by_another_agent(app: Application):
    assert take(app, "task:a", "ag_1")

    assert take(app, "task:a", "ag_2") is None


def test_taking_a_lease_twice_keeps_its_epoch(app: Application):
    first, second = take(app, "task:a", "ag_1"), take(app, "task:a", "ag_1")

    assert get_epoch(first) == get_epoch(second) == 1


def test_an_expired_lease_can_be_taken_with_the_next_epoch(app: Application, clock: Clock):
    take(app, "task:a", "ag_1")
    clock.advance(seconds=91)

    taken = take(app, "task:a", "ag_2")

    assert taken is not None
    assert (taken.who, taken.epoch) == ("ag_2", 2)


def test_a_lost_lease_is_reported_once(app: Application, clock: Clock):
    take(app, "task:a", "ag_1")
    clock.advance(seconds=91)
    take(app, "task:a", "ag_2")

    assert collect_losses(app, "ag_1") == ["task:a"]
    assert collect_losses(app, "ag_1") == []


def test_a_late_holder_keeps_a_lease_that_no_one_took(app: Application, clock: Clock):
    take(app, "task:a", "ag_1")
    clock.advance(seconds=1000)

    assert get_epoch(take(app, "task:a", "ag_1")) == 1
    assert take(app, "task:a", "ag_2") is None


def test_a_renewed_lease_lasts_its_full_duration_again(app: Application, clock: Clock):
    take(app, "task:a", "ag_1")
    clock.advance(seconds=80)
    with app.database.transaction() as tx:
        assert LeaseStore(tx, LEASE_MS).renew("ag_1") == 1
    clock.advance(seconds=80)

    assert take(app, "task:a", "ag_2") is None


def test_a_released_lease_is_free_and_its_epoch_is_not_reused(app: Application):
    take(app, "task:a", "ag_1")

    assert release(app, "task:a", "ag_1")
    assert not release(app, "task:a", "ag_1")
    assert get_epoch(take(app, "task:a", "ag_1")) == 2


def test_a_lease_held_by_another_agent_cannot_be_released(app: Application):
    take(app, "task:a", "ag_1")

    assert not release(app, "task:a", "ag_2")


@pytest.mark.differs
def test_exactly_one_of_many_concurrent_callers_gets_the_lease(app: Application):
    with ThreadPoolExecutor(8) as agents:
        wins = list(agents.map(lambda number: take(app, "task:a", f"ag_{number}"), range(16)))

    assert sum(lease is not None for lease in wins) == 1
