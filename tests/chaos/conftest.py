"""Fixtures of the reliability tests: worker processes, new databases, and a seed to repeat a run."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from application import make_app
from chaos.team_hosts import Network
from chaos.team_postgres import TeamPostgres
from chaos.workers import Worker
from deepwork.edge.server.application import Application

CREW = 8
A_DAY = 86_400
LONG = 3600
"""Seconds. Many processes on few cores are slow; workers that do nothing are noticed earlier (`workers.py`)."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder a long timeout, unless they set one."""
    for item in items:
        if item.path.parent == Path(__file__).parent and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LONG))


@pytest.fixture(scope="session")
def all_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Worker]]:
    folder = tmp_path_factory.mktemp("crew")
    workers = [Worker(folder)]
    yield workers
    _close(workers)


@pytest.fixture
def crew(all_workers: list[Worker], tmp_path_factory: pytest.TempPathFactory) -> list[Worker]:
    """Eight idle worker processes."""
    first = _get_idle(all_workers, tmp_path_factory)
    while len(all_workers) < CREW:
        all_workers.append(first.fork())
    return all_workers


@pytest.fixture
def worker(all_workers: list[Worker], tmp_path_factory: pytest.TempPathFactory) -> Worker:
    """One idle worker process."""
    return _get_idle(all_workers, tmp_path_factory)


def _get_idle(workers: list[Worker], folders: pytest.TempPathFactory) -> Worker:
    """Return the first worker; start a new one if a failed test left one working."""
    if not all(worker.is_idle for worker in workers):
        _close(workers)
        workers[:] = [Worker(folders.mktemp("crew"))]
    return workers[0]


def _close(workers: list[Worker]) -> None:
    """End them, those that were forked first."""
    for worker in reversed(workers):
        worker.close()


@pytest.fixture
def seed() -> int:
    """The same seed every time; set DEEPWORK_CHAOS_SEED=NUMBER, or =random for a new one."""
    given = os.environ.get("DEEPWORK_CHAOS_SEED") or "1"
    chosen = random.SystemRandom().randrange(1_000_000) if given == "random" else int(given)
    print(f"DEEPWORK_CHAOS_SEED={chosen}")
    return chosen


@pytest.fixture
def new_database(postgres_url: str) -> Iterator[Callable[[], str]]:
    """Returns a function that creates empty databases on the tests' PostgreSQL."""
    made: list[str] = []

    def make() -> str:
        name = f"chaos_{os.getpid()}_{random.SystemRandom().randrange(10**9)}"
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        made.append(name)
        return postgres_url.replace("/postgres?", f"/{name}?")

    yield make
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for name in made:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgres"])
def new_location(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Returns a function that creates locations for new stores, on each kind of database."""
    if request.param == "postgres":
        make: Callable[[], str] = request.getfixturevalue("new_database")
        return make
    numbers = iter(range(1000))
    return lambda: str(tmp_path / f"round-{next(numbers)}" / "deepwork.db")


@pytest.fixture
def open_app(tmp_path: Path) -> Iterator[Callable[[str], Application]]:
    """Returns a function that opens a store; closed at the end of the test."""
    opened: list[Application] = []

    def open_at(location: str) -> Application:
        opened.append(make_app(tmp_path, location, lease_seconds=A_DAY))
        return opened[-1]

    yield open_at
    for app in opened:
        app.close()


@pytest.fixture(scope="session")
def network() -> Iterator[Network]:
    """Two hosts and a database's host."""
    with Network() as made:
        yield made


@pytest.fixture(scope="session")
def team_postgres(network: Network) -> Iterator[TeamPostgres]:
    """A PostgreSQL that the two hosts share, and that may be restarted."""
    server = TeamPostgres(network)
    yield server
    server.close()
