"""kill -9 at any moment: acknowledged calls are stored, and a repeated call has one effect."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos import ledger
from chaos.effects import find_damage, find_mismatches, is_without_gaps, list_effects
from chaos.ledger import Entry, Ledger
from chaos.workers import Worker
from chaos.writer import Writer
from deepwork.server.application import Application
from deepwork.server.mcp_service import KEY
from protocol.stdio_server import StdioServer
from quick import PLAIN

KILLS = 30
SERVER_KILLS = 3


def test_thirty_kills_during_writes_lose_no_acknowledged_write(
    tmp_path: Path, crew: list[Worker], open_app: Callable[[str], Application], seed: int
):
    chance, location = random.Random(seed), str(tmp_path / "deepwork.db")
    pair = crew[:2]
    assert pair[0].do("prepare", location=location).is_well
    ledgers = [tmp_path / f"ledger-{number}" for number in range(len(pair))]

    for round in range(KILLS // len(pair)):
        written = [size(path) for path in ledgers]
        for path, worker in zip(ledgers, pair, strict=True):
            worker.order("write", location=location, ledger=str(path), name=path.name, seed=seed + round)
            worker.go()
        for path, before in zip(ledgers, written, strict=True):
            wait_until_longer(path, before)
        for worker in chance.sample(pair, len(pair)):
            time.sleep(chance.uniform(0.005, 0.12))
            worker.kill()
        outcomes = [worker.wait_for_outcome() for worker in pair]
        assert [outcome for outcome in outcomes if outcome.signal != signal.SIGKILL] == []

    app = open_app(location)
    entries = [entry for path in ledgers for entry in ledger.read_entries(path)]
    assert ledger.find_faults(entries, list_effects(app)) == []
    assert is_without_gaps(app)
    assert find_mismatches(app) == []
    assert find_damage(app) == []


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def wait_until_longer(path: Path, before: int) -> None:
    """Wait until the writer has started to write: a kill before that would prove nothing."""
    deadline = time.monotonic() + 120
    while size(path) <= before:
        assert time.monotonic() < deadline, f"{path.name} is not written"
        time.sleep(0.002)


def test_a_call_repeated_after_the_server_was_killed_has_one_effect(
    tmp_path: Path, open_app: Callable[[str], Application], seed: int
):
    chance, path = random.Random(seed), tmp_path / "ledger"
    kept = Ledger(path)

    for kill in range(SERVER_KILLS + 1):
        with StdioServer(tmp_path, environment={"DEEPWORK_LEASE_SECONDS": "86400"}, command=PLAIN) as wire:
            writer = Writer("client", kept, lambda entry: call_entry(wire, entry), chance)
            writer.resume()
            for _ in range(chance.randint(5, 15)):
                writer.write()
            if kill < SERVER_KILLS:
                wire.send(build_request(writer.intend()))
                time.sleep(chance.uniform(0, 0.02))
                wire.stop(signal.SIGKILL)

    kept.close()
    app = open_app(str(tmp_path / ".deepwork" / "deepwork.db"))
    entries = ledger.read_entries(path)
    assert all(entry.is_acknowledged for entry in entries)
    assert ledger.find_faults(entries, list_effects(app)) == []
    assert is_without_gaps(app)
    assert find_mismatches(app) == []
    assert find_damage(app) == []


def call_entry(wire: StdioServer, entry: Entry) -> Any:
    answer = wire.call(entry.tool, entry.arguments, **{KEY: entry.key})
    assert "code" not in answer, answer
    return answer


def build_request(entry: Entry) -> dict[str, Any]:
    """Build the call as a message, for a caller that does not wait for the answer."""
    params = {"name": entry.tool, "arguments": entry.arguments, "_meta": {KEY: entry.key}}
    return {"jsonrpc": "2.0", "id": entry.key, "method": "tools/call", "params": params}
