"""How to run one batch of each part: some minutes each, so that a stopped run loses little."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from reliability.attacks import attack_often
from reliability.bystanders import read_store_in_a_loop
from reliability.claims import claim_together
from reliability.fuzz import fuzz_tools
from reliability.kills import kill_http_server, kill_stdio_server, kill_writers
from reliability.landings import kill_landings
from reliability.resources import Resources
from reliability.restarts import restart_often
from reliability.result import Result
from reliability.runs import kill_runs
from reliability.stopped_holders import stop_holders
from reliability.temporal_kills import kill_temporal_workers
from reliability.write_calls import Claim, FinishedStep, Scene, kill_at_every_write

Batch = Callable[[Resources, Path, int], Result]
"""Runs a batch in an empty folder, with a seed."""


def _fuzz_sqlite(_: Resources, folder: Path, seed: int) -> Result:
    return fuzz_tools(folder, str(folder / "deepwork.db"), 2_000, seed)


def _fuzz_postgres(resources: Resources, folder: Path, seed: int) -> Result:
    with resources.new_database() as location:
        return fuzz_tools(folder, location, 2_000, seed)


def _kill_writers(resources: Resources, folder: Path, seed: int) -> Result:
    return kill_writers(folder, resources.get_crew(2), 30, seed)


def _kill_stdio_server(_: Resources, folder: Path, seed: int) -> Result:
    return kill_stdio_server(folder, 10, seed)


def _kill_http_server(_: Resources, folder: Path, seed: int) -> Result:
    return kill_http_server(folder, 10, seed)


def _kill_watched_http_server(_: Resources, folder: Path, seed: int) -> Result:
    return kill_http_server(folder, 10, seed, is_watched=True)


def _claim_beside_reader(resources: Resources, folder: Path, seed: int) -> Result:
    store = folder / "deepwork.db"
    with read_store_in_a_loop(store):
        return claim_together(folder, resources.get_crew(8), str(store), 2_500, 5, seed)


def _claim_on_sqlite(resources: Resources, folder: Path, seed: int) -> Result:
    return claim_together(folder, resources.get_crew(8), str(folder / "deepwork.db"), 2_500, 5, seed)


def _claim_on_postgres(resources: Resources, folder: Path, seed: int) -> Result:
    with resources.new_database() as location:
        return claim_together(folder, resources.get_crew(16), location, 6_000, 15, seed, plans=4)


def _stop_on_sqlite(resources: Resources, folder: Path, _: int) -> Result:
    return stop_holders(folder, resources.get_crew(8), str(folder / "deepwork.db"), 40)


def _stop_on_postgres(resources: Resources, folder: Path, _: int) -> Result:
    with resources.new_database() as location:
        return stop_holders(folder, resources.get_crew(8), location, 40)


def _kill_runs_on_sqlite(_: Resources, folder: Path, seed: int) -> Result:
    return kill_runs(folder, "sqlite", 25, seed)


def _kill_runs_on_postgres(resources: Resources, folder: Path, seed: int) -> Result:
    with resources.new_database() as location:
        return kill_runs(folder, location, 25, seed)


def _kill_landings_on_sqlite(_: Resources, folder: Path, seed: int) -> Result:
    return kill_landings(folder, str(folder / "deepwork.db"), 50, seed)


def _kill_landings_on_postgres(resources: Resources, folder: Path, seed: int) -> Result:
    with resources.new_database() as location:
        return kill_landings(folder, location, 50, seed)


def _attack(_: Resources, folder: Path, seed: int) -> Result:
    return attack_often(folder, 100, seed)


def _kill_temporal_workers(_: Resources, folder: Path, seed: int) -> Result:
    return kill_temporal_workers(folder, 15, seed)


def _restart(resources: Resources, folder: Path, seed: int) -> Result:
    return restart_often(
        resources.network, resources.team_postgres, folder, restarts=5, writes=150, broadcasts=40, seed=seed
    )


def _kill_at_writes(scene: type[Scene]) -> Batch:
    def run(resources: Resources, folder: Path, seed: int) -> Result:
        result = kill_at_every_write(folder, resources.get_crew(1)[0], scene())
        result.count(passes=1)
        return result

    return run


def _soak(_: Resources, folder: Path, seed: int) -> Result:
    from reliability.soak import soak_page  # only this part needs a browser

    return soak_page(folder, seconds=600)


BATCHES: dict[str, Batch] = {
    "fuzz-sqlite": _fuzz_sqlite,
    "fuzz-postgres": _fuzz_postgres,
    "kills": _kill_writers,
    "kills-stdio": _kill_stdio_server,
    "kills-http": _kill_http_server,
    "kills-watched": _kill_watched_http_server,
    "write-calls-claim": _kill_at_writes(Claim),
    "write-calls-step": _kill_at_writes(FinishedStep),
    "claims-sqlite": _claim_on_sqlite,
    "claims-watched": _claim_beside_reader,
    "stopped-holders-sqlite": _stop_on_sqlite,
    "stopped-holders-postgres": _stop_on_postgres,
    "runs-sqlite": _kill_runs_on_sqlite,
    "runs-postgres": _kill_runs_on_postgres,
    "landings-sqlite": _kill_landings_on_sqlite,
    "landings-postgres": _kill_landings_on_postgres,
    "attacks": _attack,
    "temporal": _kill_temporal_workers,
    "restarts": _restart,
    "claims-postgres": _claim_on_postgres,
    "soak": _soak,
}
