"""kill -9 at random moments: of processes that write, and of servers in the middle of a call."""

from __future__ import annotations

import random
import signal
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from application import make_app
from chaos.ledger import Entry, Ledger, read_entries
from chaos.team_hosts import Host
from chaos.team_members import Scribe
from chaos.team_servers import TeamServer
from chaos.workers import Worker
from chaos.writer import Writer
from deepwork.edge.server.application import Application
from deepwork.edge.server.mcp_service import KEY
from protocol.stdio_server import StdioServer
from quick import PLAIN
from reliability.bystanders import read_store_in_a_loop, visit_pages_in_a_loop
from reliability.result import Result, check_entries

A_DAY = 86_400
PATIENCE = 180
WRITES_PER_KILL = 12


def kill_writers(folder: Path, crew: list[Worker], kills: int, seed: int) -> Result:
    """Let processes write into one SQLite file; kill and replace them at random moments."""
    result, chance, location = Result(), random.Random(seed), str(folder / "deepwork.db")
    assert crew[0].do("prepare", location=location).is_well
    ledgers = [folder / f"ledger-{number}" for number in range(len(crew))]
    repeated: set[str] = set()

    for round in range(kills // len(crew)):
        written = [_measure_size(path) for path in ledgers]
        for path, worker in zip(ledgers, crew, strict=True):
            worker.order("write", location=location, ledger=str(path), name=path.name, seed=seed + round)
            worker.go()
        for path, before in zip(ledgers, written, strict=True):
            _wait_until_longer(path, before)
        for worker in chance.sample(crew, len(crew)):
            time.sleep(chance.uniform(0.005, 0.12))
            worker.kill()
        outcomes = [worker.wait_for_outcome() for worker in crew]
        result.faults += [str(each) for each in outcomes if each.signal != signal.SIGKILL]
        result.count(kills=len(crew))
        repeated |= _list_unacknowledged(ledgers)

    _check(result, folder, location, [entry for path in ledgers for entry in read_entries(path)], repeated)
    return result


def kill_threads(folder: Path, worker: Worker, threads: int, kills: int, seed: int) -> Result:
    """Let the threads of one process write into one SQLite file, which share commits; kill it at random moments."""
    result, chance, location = Result(), random.Random(seed), str(folder / "deepwork.db")
    assert worker.do("prepare", location=location).is_well
    ledgers = [folder / f"ledger-{number}" for number in range(threads)]
    repeated: set[str] = set()

    for kill in range(kills):
        written = [_measure_size(path) for path in ledgers]
        paths = [str(path) for path in ledgers]
        worker.order("write_in_threads", location=location, ledgers=paths, seed=seed + kill * threads)
        worker.go()
        for path, before in zip(ledgers, written, strict=True):
            _wait_until_longer(path, before)
        time.sleep(chance.uniform(0.005, 0.12))
        worker.kill()
        outcome = worker.wait_for_outcome()
        result.faults += [str(outcome)] if outcome.signal != signal.SIGKILL else []
        result.count(kills=1)
        repeated |= _list_unacknowledged(ledgers)

    _check(result, folder, location, [entry for path in ledgers for entry in read_entries(path)], repeated)
    return result


def kill_stdio_server(folder: Path, kills: int, seed: int) -> Result:
    """Kill a server over stdio between a call and its answer; repeat the call with its key to the next server."""
    result, chance, path = Result(), random.Random(seed), folder / "ledger"
    kept, repeated = Ledger(path), set()

    for kill in range(kills + 1):
        with StdioServer(folder, environment={"DEEPWORK_LEASE_SECONDS": str(A_DAY)}, command=PLAIN) as wire:
            writer = Writer("client", kept, lambda entry: _call_entry(wire, entry), chance)
            writer.resume()
            for _ in range(chance.randint(5, 15)):
                writer.write()
            if kill < kills:
                wire.send(_build_request(entry := writer.intend()))
                repeated.add(entry.key)
                time.sleep(chance.uniform(0, 0.02))
                wire.stop(signal.SIGKILL)
                result.count(kills=1)

    kept.close()
    _check(result, folder, str(folder / ".deepwork" / "deepwork.db"), read_entries(path), repeated, 1.0)
    return result


def kill_http_server(folder: Path, kills: int, seed: int, *, is_watched: bool = False) -> Result:
    """Kill a server over HTTP while two clients call it; each repeats its call with its key.

    `is_watched`: meanwhile another program reads the store, and somebody looks at the pages of the server.
    """
    result, chance, host = Result(), random.Random(seed), Host("local", "127.0.0.1")
    location = str(folder / "deepwork.db")
    with ExitStack() as opened:
        server = opened.enter_context(TeamServer(host, folder, location))
        if is_watched:
            opened.enter_context(read_store_in_a_loop(Path(location)))
            opened.enter_context(visit_pages_in_a_loop(server))
        writes = kills * WRITES_PER_KILL
        scribes = [Scribe(server, folder / f"scribe-{number}", writes, seed + number) for number in range(2)]
        for kill in range(kills):
            _wait_for_calls(scribes, 2 * writes * (kill + 0.5) / (kills + 1))
            time.sleep(chance.uniform(0, 0.05))
            server.kill_and_start()
            result.count(kills=1)
        for scribe in scribes:
            scribe.finish()
        result.report("internal_errors", _find_errors(server.log()))
    host.close()
    repeated = {key for scribe in scribes for key in scribe.repeated}
    _check(result, folder, location, [e for scribe in scribes for e in scribe.ledger.entries], repeated, 1.0)
    return result


def _check(
    result: Result,
    folder: Path,
    location: str,
    entries: list[Entry],
    repeated: set[str],
    acknowledged: float = 0.5,
) -> None:
    app: Application = make_app(folder, location, lease_seconds=A_DAY)
    try:
        check_entries(result, app, entries, repeated, acknowledged=acknowledged)
    finally:
        app.close()


def _list_unacknowledged(ledgers: list[Path]) -> set[str]:
    return {entry.key for path in ledgers for entry in read_entries(path) if not entry.is_acknowledged}


def _measure_size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _wait_until_longer(path: Path, before: int) -> None:
    """Wait until the writer has started to write: a kill before that would prove nothing."""
    deadline = time.monotonic() + PATIENCE
    while _measure_size(path) <= before:
        assert time.monotonic() < deadline, f"{path.name} is not written"
        time.sleep(0.002)


def _wait_for_calls(scribes: list[Scribe], calls: float) -> None:
    deadline, before = time.monotonic() + PATIENCE, -1
    while (done := sum(scribe.done for scribe in scribes)) < calls:
        if done > before:
            deadline, before = time.monotonic() + PATIENCE, done
        assert time.monotonic() < deadline, f"no progress after {done} calls"
        time.sleep(0.005)


def _find_errors(log: str) -> list[str]:
    """Find errors of ours in a server's log."""
    return [line for line in log.splitlines() if "INTERNAL_ERROR" in line or line.startswith("Traceback")]


def _call_entry(wire: StdioServer, entry: Entry) -> Any:
    answer = wire.call(entry.tool, entry.arguments, **{KEY: entry.key})
    assert "code" not in answer, answer
    return answer


def _build_request(entry: Entry) -> dict[str, Any]:
    """Build the call as a message, for a caller that does not wait for the answer."""
    params = {"name": entry.tool, "arguments": entry.arguments, "_meta": {KEY: entry.key}}
    return {"jsonrpc": "2.0", "id": entry.key, "method": "tools/call", "params": params}
