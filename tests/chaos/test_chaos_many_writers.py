"""Many processes write into one file, a bit of everything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from application import ask
from chaos import ledger
from chaos.crew import Worker, together
from chaos.effects import damage, disagreements, is_without_gaps, told
from deepwork.server.application import Application

WRITES = 200


def test_eight_processes_with_two_hundred_writes_each_lose_nothing_and_meet_no_error(
    tmp_path: Path, crew: list[Worker], open_app: Callable[[str], Application], seed: int
):
    location = str(tmp_path / "deepwork.db")
    app = open_app(location)
    shared = ask(app, "agent_register", name="everybody's", runtime="custom", metadata={})["id"]
    ledgers = [tmp_path / f"ledger-{number}" for number in range(len(crew))]

    outcomes = together(
        crew,
        [
            {
                "do": "write", "location": location, "ledger": str(path), "name": path.name,
                "seed": seed + number, "count": WRITES, "shared": shared,
            }
            for number, path in enumerate(ledgers)
        ],
    )  # fmt: skip

    assert [outcome for outcome in outcomes if not outcome.is_well] == []
    entries = [entry for path in ledgers for entry in ledger.read(path)]
    assert len(entries) == len(crew) * WRITES
    assert ledger.faults(entries, told(app)[1:], acknowledged=1.0) == []
    assert len(told(app)) == 1 + len(entries)
    assert is_without_gaps(app)
    assert disagreements(app) == []
    assert damage(app) == []
