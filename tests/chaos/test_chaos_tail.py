"""One process follows events while others emit them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.workers import Outcome, Worker, run_together


def emit_twice_and_follow(crew: list[Worker], location: str, total: int, seed: int) -> list[Outcome]:
    return run_together(
        crew[:3],
        [
            {"do": "follow", "location": location, "upto": total, "seconds": 200},
            {"do": "emit", "location": location, "name": "Ada", "count": total // 2, "seed": seed},
            {"do": "emit", "location": location, "name": "Bob", "count": total // 2, "seed": seed + 1},
        ],
    )


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, int]:
    """A new database, and the number of events to emit."""
    if request.param == "sqlite":
        return str(tmp_path / "deepwork.db"), 400
    make: Callable[[], str] = request.getfixturevalue("new_database")
    return make(), 2000


def test_a_third_process_sees_every_event_of_two_others_once_and_in_order(
    place: tuple[str, int], crew: list[Worker], seed: int
):
    location, total = place

    outcomes = emit_twice_and_follow(crew, location, total, seed)

    assert [outcome for outcome in outcomes if not outcome.is_well] == []
    seen = outcomes[0].answer
    assert [seq for seq, _, _ in seen] == list(range(1, total + 1))
    for name in ("Ada", "Bob"):
        assert [number for _, by, number in seen if by == name] == list(range(1, total // 2 + 1))
    # They emitted concurrently, not one after the other.
    assert len({by for _, by, _ in seen[: total // 2]}) == 2
