"""Many processes make all kinds of writes into one file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from application import call_tool
from chaos import ledger
from chaos.effects import find_damage, find_mismatches, is_without_gaps, list_effects
from chaos.workers import Worker, run_together
from deepwork.edge.server.application import Application


@pytest.mark.parametrize("writes", [25, pytest.param(200, marks=pytest.mark.thorough)])
def test_eight_processes_that_write_at_the_same_time_lose_nothing_and_meet_no_error(
    tmp_path: Path, crew: list[Worker], open_app: Callable[[str], Application], seed: int, writes: int
):
    location = str(tmp_path / "deepwork.db")
    app = open_app(location)
    shared = call_tool(app, "agent_register", name="everybody's", runtime="custom", metadata={})["id"]
    ledgers = [tmp_path / f"ledger-{number}" for number in range(len(crew))]

    outcomes = run_together(
        crew,
        [
            {
                "do": "write", "location": location, "ledger": str(path), "name": path.name,
                "seed": seed + number, "count": writes, "shared": shared,
            }
            for number, path in enumerate(ledgers)
        ],
    )  # fmt: skip

    assert [outcome for outcome in outcomes if not outcome.is_well] == []
    entries = [entry for path in ledgers for entry in ledger.read_entries(path)]
    assert len(entries) == len(crew) * writes
    assert ledger.find_faults(entries, list_effects(app)[1:], acknowledged=1.0) == []
    assert len(list_effects(app)) == 1 + len(entries)
    assert is_without_gaps(app)
    assert find_mismatches(app) == []
    assert find_damage(app) == []
