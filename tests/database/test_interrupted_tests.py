"""Tests that are interrupted or killed leave no PostgreSQL server, no other process and no folder behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SMALL_TEST = """
import time
from pathlib import Path

from postgres_server import run_postgres


def test_that_is_interrupted():
    with run_postgres() as url:
        Path("folder").write_text(url.partition("host=")[2])
        Path("server").write_text((Path(url.partition("host=")[2]) / "postmaster.pid").read_text().split()[0])
        time.sleep(600)
"""


LONG_TEST = """
import os
import subprocess
import time
from pathlib import Path

from isolation import isolate

FOLDER = isolate()


def test_that_is_interrupted():
    started = subprocess.Popen(["sleep", "600"], start_new_session=True)
    lines = [str(started.pid), str(os.getpid()), str(FOLDER), os.environ["DEEPWORK_TESTS_ACCOUNT_HOME"]]
    Path("new").write_text("\\n".join(lines))
    Path("new").rename("started")
    started.wait()
"""

signals = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)


@signals
def test_a_test_run_that_ends_early_leaves_no_server_and_no_data(tmp_path: Path, number: signal.Signals):
    (tmp_path / "test_small.py").write_text(SMALL_TEST)
    run = start_tests(tmp_path, "test_small.py")
    while not (tmp_path / "server").exists() or not (tmp_path / "server").read_text():
        assert run.poll() is None
        time.sleep(0.05)
    server = int((tmp_path / "server").read_text())
    folder = Path((tmp_path / "folder").read_text())

    os.kill(run.pid, number)
    run.wait()

    while Path(f"/proc/{server}").exists() or folder.parent.exists():
        time.sleep(0.05)


@signals
@pytest.mark.parametrize("workers", [pytest.param("0", marks=pytest.mark.thorough), "1"])
def test_a_test_run_that_ends_early_leaves_no_process_and_no_folder(
    tmp_path: Path, number: signal.Signals, workers: str
):
    (tmp_path / "test_long.py").write_text(LONG_TEST)
    run = start_tests(tmp_path, "-n", workers, "test_long.py")
    while not (tmp_path / "started").exists():
        assert run.poll() is None
        time.sleep(0.05)
    program, worker, *folders = (tmp_path / "started").read_text().splitlines()

    os.kill(run.pid, number)
    run.wait()

    left = [Path("/proc", program), Path("/proc", worker), *map(Path, folders)]
    while any(path.exists() for path in left):
        time.sleep(0.05)


def start_tests(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    plain = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(folder)]
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *plain, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
