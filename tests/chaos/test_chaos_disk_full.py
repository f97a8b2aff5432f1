"""The disk is full: writes fail with a clear error, reads work, and writes work again once there is space."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from application import call_tool, skip_or_fail
from chaos.effects import find_damage, find_mismatches, is_without_gaps
from chaos.workers import Worker
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import Code, StorageError


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mounts a disk of two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        skip_or_fail("only root can mount a small disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        skip_or_fail(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fill a disk."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65_536, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return ballast


def register_agents(app: Application, count: int) -> int:
    notes = {f"note {number}": "y" * 2000 for number in range(10)}
    for number in range(count):
        call_tool(app, "agent_register", name=f"no {number}", runtime="custom", metadata=notes)
    return count


def test_a_full_disk_refuses_writes_answers_reads_and_recovers(
    small_disk: Path, open_app: Callable[[str], Application]
):
    app = open_app(str(small_disk / "deepwork.db"))
    register_agents(app, 3)
    ballast = fill(small_disk)

    with pytest.raises(StorageError) as full:
        register_agents(app, 200)

    assert (full.value.code, full.value.recoverable) == (Code.STORAGE_FULL, True)
    assert "deepwork.db" in full.value.message
    kept = call_tool(app, "agent_list")["total"]
    assert kept >= 3
    with pytest.raises(StorageError) as still_full:
        register_agents(app, 200)
    assert still_full.value.code is Code.STORAGE_FULL

    kept = call_tool(app, "agent_list")["total"]
    ballast.unlink()

    assert register_agents(app, 3) == 3
    assert call_tool(app, "agent_list")["total"] == kept + 3
    assert is_without_gaps(app)
    assert find_mismatches(app) == []
    assert find_damage(app) == []


# Free space in KiB. Between 0 and 32, writing the log's shared index fails, which SQLite reports as "I/O error".
@pytest.mark.parametrize("room", [0, 48, 64, 96, 128])
def test_a_process_that_starts_on_a_full_disk_reports_it_and_works_once_there_is_space(
    room: int, small_disk: Path, open_app: Callable[[str], Application]
):
    location, ballast = str(small_disk / "deepwork.db"), fill(small_disk)
    os.truncate(ballast, ballast.stat().st_size - room * 1024)

    with pytest.raises(StorageError) as full:
        register_agents(open_app(location), 10)

    assert full.value.code is Code.STORAGE_FULL
    ballast.unlink()
    assert register_agents(open_app(location), 1) == 1


def test_a_file_that_may_not_grow_refuses_writes_answers_reads_and_recovers(
    tmp_path: Path, worker: Worker, open_app: Callable[[str], Application]
):
    app = open_app(str(tmp_path / "deepwork.db"))
    register_agents(app, 3)
    app.close()

    outcome = worker.do("outgrow", location=str(tmp_path / "deepwork.db"), limit=1_000_000)

    assert outcome.is_well, outcome
    refused, before, written, after = outcome.answer
    assert "deepwork.db" in refused["error"]["message"]
    assert refused["error"]["code"] in (Code.STORAGE_FULL, Code.STORAGE_ERROR)
    assert before["answer"] > 3
    assert (written["answer"], after["answer"]) == (3, before["answer"] + 3)
    assert find_damage(open_app(str(tmp_path / "deepwork.db"))) == []
