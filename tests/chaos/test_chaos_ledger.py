"""The ledger detects faults: a check that cannot fail is worthless."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.ledger import Entry, Ledger, find_faults, read_entries

CALL = {"name": "a-0", "runtime": "custom", "metadata": {}}


def entry(name: str, *, acknowledged: bool = True) -> Entry:
    arguments = CALL | {"name": name}
    return Entry(name, "agent_register", arguments, {"id": f"ag_{name}"} if acknowledged else None)


def test_a_complete_store_has_no_faults():
    entries = [entry("a-0"), entry("a-1")]

    assert find_faults(entries, [each.effect for each in entries]) == []


@pytest.mark.parametrize("is_there", [True, False])
def test_an_unacknowledged_write_may_exist_or_not(is_there: bool):
    sure, perhaps = entry("a-0"), entry("a-1", acknowledged=False)

    assert find_faults([sure, perhaps], [sure.effect, perhaps.effect][: 1 + is_there]) == []


def test_a_lost_acknowledged_write_is_reported():
    [fault] = find_faults([entry("a-0"), entry("a-1")], [entry("a-0").effect])

    assert fault.startswith("was acknowledged but is missing")
    assert "a-1" in fault


def test_a_changed_write_is_reported():
    changed = Entry("a-0", "agent_register", CALL | {"metadata": {"other": 1}})

    assert len(find_faults([entry("a-0")], [changed.effect])) == 2


def test_a_second_effect_of_one_call_is_reported():
    [fault] = find_faults([entry("a-0")], [entry("a-0").effect] * 2)

    assert fault.startswith("exists 2 times")


def test_an_unintended_effect_is_reported():
    [fault] = find_faults([entry("a-0")], [entry("a-0").effect, entry("b-0").effect])

    assert fault.startswith("exists but was not intended")


def test_a_run_with_too_few_acknowledged_writes_is_reported():
    [fault] = find_faults([entry("a-0"), entry("a-1", acknowledged=False), entry("a-2", acknowledged=False)],
                     [entry("a-0").effect])  # fmt: skip

    assert "1 of 3 calls" in fault
    assert find_faults([], []) != []


def test_a_ledger_is_read_as_it_was_written_even_when_its_last_line_was_cut(tmp_path: Path):
    path = tmp_path / "ledger"
    ledger = Ledger(path)
    done = ledger.acknowledge(ledger.intend("a-0", "agent_register", CALL), {"id": "ag_1"})
    open_call = ledger.intend("a-1", "agent_register", CALL | {"name": "a-1"})
    ledger.close()
    with path.open("ab") as file:
        file.write(b'\n{"ack": "a-1", "ans')

    assert read_entries(path) == [done, open_call]

    again = Ledger(path)
    finished = again.acknowledge(open_call, {"id": "ag_2"})
    again.close()
    assert read_entries(path) == [done, finished]
