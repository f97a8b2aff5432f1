"""Eight processes claim tasks of one plan while some of them die: each task is done once, by its holder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chaos.workers import Worker
from reliability.claims import claim_together
from reliability.stopped_holders import stop_holders


@pytest.mark.differs
@pytest.mark.parametrize("count", [100, pytest.param(800, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_eight_processes_and_five_kills_do_every_task_once(
    kind: str, count: int, crew: list[Worker], tmp_path: Path, seed: int, request: pytest.FixtureRequest
):
    location = (
        str(tmp_path / "deepwork.db") if kind == "sqlite" else request.getfixturevalue("new_database")()
    )

    result = claim_together(tmp_path, crew, location, count, 5, seed)

    assert result.faults == []
    assert result.counts["lost"] == result.counts["doubled"] == 0
    assert result.counts["claims"] >= count - 5


@pytest.mark.differs
@pytest.mark.parametrize("rounds", [4, pytest.param(20, marks=pytest.mark.thorough)])
def test_a_stopped_holder_cannot_finish_a_task_after_its_lease_expired(
    crew: list[Worker], new_location: Callable[[], str], tmp_path: Path, rounds: int
):
    result = stop_holders(tmp_path, crew, new_location(), rounds)

    assert result.faults == []
    assert result.counts["rounds"] == rounds
