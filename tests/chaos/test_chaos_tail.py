"""One process follows what others tell, while they tell it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.crew import Outcome, Worker, together


def told_by_two_and_followed_by_a_third(
    crew: list[Worker], location: str, total: int, seed: int
) -> list[Outcome]:
    return together(
        crew[:3],
        [
            {"do": "follow", "location": location, "upto": total, "seconds": 200},
            {"do": "emit", "location": location, "name": "Ada", "count": total // 2, "seed": seed},
            {"do": "emit", "location": location, "name": "Bob", "count": total // 2, "seed": seed + 1},
        ],
    )


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, int]:
    """A new database, and how many events to tell on it."""
    if request.param == "sqlite":
        return str(tmp_path / "deepwork.db"), 400
    make: Callable[[], str] = request.getfixturevalue("new_database")
    return make(), 2000


def test_a_third_process_sees_every_event_of_two_others_once_and_in_order(
    place: tuple[str, int], crew: list[Worker], seed: int
):
    location, total = place

    outcomes = told_by_two_and_followed_by_a_third(crew, location, total, seed)

    assert [outcome for outcome in outcomes if not outcome.is_well] == []
    seen = outcomes[0].answer
    assert [seq for seq, _, _ in seen] == list(range(1, total + 1))
    for name in ("Ada", "Bob"):
        assert [number for _, by, number in seen if by == name] == list(range(1, total // 2 + 1))
    # They told at the same time, not one after the other.
    assert len({by for _, by, _ in seen[: total // 2]}) == 2
