"""Shared fixtures: a database of each kind, a manual clock, and skips for missing programs."""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from application import Clock, empty_database, keep_connection, make_app, skip_or_fail
from clocks import coarsen_clocks
from deepwork.edge.server.application import Application
from isolation import isolate
from postgres_server import run_postgres
from selection import mark_twins, note_collected
from store_guard import violations, watch_opened_files

# A shell that starts pytest in the background makes it, and every process it starts, ignore interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Before any test module is imported, and before the workers of pytest-xdist are started.
isolate()

# The same examples in every run, however slow the machine is; `--hypothesis-profile default` looks for new ones.
settings.register_profile(
    "same", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")

KINDS = ("sqlite", "postgres")
LONG_FOLDERS = ("chaos", "landing", "runner", "e2e", "checks", "store_admin", "tracking", "workspaces")
"""Their modules take longest. As the last ones, they would leave all workers but one without work."""

coarsen_clocks()
watch_opened_files()

# Collecting ten thousand tests makes millions of objects that stay: see `pytest_collection_finish`.
gc.disable()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real PostgreSQL server, started from a wheel and removed after the tests."""
    with run_postgres() as url, keep_connection(url):
        yield url


@pytest.fixture(autouse=True)
def _only_sqlite_opens_stores() -> Iterator[None]:
    """Fail a test in which the product opened a file of a store that SQLite had open."""
    yield
    found = violations[:]
    violations.clear()
    assert found == []


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=KINDS)
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The location of an empty store: a new SQLite file, or an emptied PostgreSQL database."""
    if request.param == "sqlite":
        return str(tmp_path / "deepwork.db")
    url: str = request.getfixturevalue("postgres_url")
    empty_database(url)
    return url


@pytest.fixture
def app(tmp_path: Path, location: str, clock: Clock) -> Iterator[Application]:
    """A complete application on each kind of database."""
    made = make_app(tmp_path, location, clock)
    yield made
    made.close()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> Iterator[None]:
    """Mark what `make test` leaves out, then, when pytest has left it out, sort the others."""
    note_collected(items, config)
    mark_twins(items)
    yield
    _sort(items)


def _sort(items: list[pytest.Item]) -> None:
    """Put folders with long modules first; under `make flaky` shuffle modules, and the tests within each."""
    if not (seed := os.environ.get("DEEPWORK_TESTS_SHUFFLE")):
        items.sort(key=lambda item: item.path.parent.name not in LONG_FOLDERS)
        return
    places: dict[Path, float] = {}
    draw = random.Random(seed)
    for path in sorted({item.path for item in items}):
        places[path] = draw.random()
    draw.shuffle(items)
    items.sort(key=lambda item: places[item.path])


def pytest_collection_finish() -> None:
    """Hide the collected tests from the garbage collector: each full collection would go through all of them."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip tests whose programs are not installed; fail instead if the run must be complete."""
    for marker in item.iter_markers("needs"):
        [program] = marker.args
        if shutil.which(program) is None:
            skip_or_fail(f"{program} is not installed (on Debian: apt-get install {program})")
