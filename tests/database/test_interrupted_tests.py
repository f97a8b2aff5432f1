"""Tests that are interrupted or killed leave no PostgreSQL server behind."""

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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_a_test_run_that_ends_early_leaves_no_server_and_no_data(tmp_path: Path, number: signal.Signals):
    (tmp_path / "test_small.py").write_text(SMALL_TEST)
    words = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(tmp_path), "test_small.py"]
    run = subprocess.Popen(
        [sys.executable, "-m", "pytest", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not (tmp_path / "server").exists() or not (tmp_path / "server").read_text():
        assert run.poll() is None
        time.sleep(0.05)
    server = int((tmp_path / "server").read_text())
    folder = Path((tmp_path / "folder").read_text())

    os.kill(run.pid, number)
    run.wait()

    while Path(f"/proc/{server}").exists() or folder.parent.exists():
        time.sleep(0.05)
