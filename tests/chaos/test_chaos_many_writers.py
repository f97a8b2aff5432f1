"""Many processes write into one file, a bit of everything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from chaos import ledger
from chaos.crew import Worker, together
from chaos.effects import damage, disagreements, is_without_gaps, told
from deepwork.server.house import House
from house import ask

WRITES = 200


def test_eight_processes_with_two_hundred_writes_each_lose_nothing_and_meet_no_error(
    tmp_path: Path, crew: list[Worker], open_house: Callable[[str], House], seed: int
):
    location = str(tmp_path / "deepwork.db")
    house = open_house(location)
    shared = ask(house, "agent_register", name="everybody's", runtime="custom", metadata={})["id"]
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
    assert ledger.faults(entries, told(house)[1:], acknowledged=1.0) == []
    assert len(told(house)) == 1 + len(entries)
    assert is_without_gaps(house)
    assert disagreements(house) == []
    assert damage(house) == []
