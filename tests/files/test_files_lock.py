"""The lock has one holder at a time, is fair, and has a timeout."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import deepwork
from deepwork.kernel.errors import StorageError
from deepwork.kernel.files.lock import FileLock
from effort import measure_effort

SOURCE = str(Path(deepwork.__file__).parents[1])

HOLD = """
with lock.hold():
    print("held", flush=True)
    sys.stdin.read()
"""
HAMMER = """
turns, most = 0, int(sys.argv[2])
taken = os.open(sys.argv[1] + ".turns", os.O_CREAT | os.O_WRONLY | os.O_APPEND)  # one byte for each turn of any process
print("ready", flush=True)
sys.stdin.readline()
while os.fstat(taken).st_size < most:
    with lock.hold(timeout=100):
        alone = os.open(sys.argv[1] + ".inside", os.O_CREAT | os.O_EXCL)  # fails if two are inside
        busy_until = time.monotonic() + 0.001
        while time.monotonic() < busy_until: pass
        os.close(alone); os.unlink(sys.argv[1] + ".inside")
        os.write(taken, b".")
        turns += 1
print(turns)
"""
PATIENCE = 100
"""Seconds; only a hang takes longer, even on a busy machine."""
FAIR = 0.25
"""The minimum number of turns of each participant, as a share of the average."""


def start(script: str, path: Path, *args: str) -> subprocess.Popen[str]:
    prelude = (
        "import os, sys, time\nfrom pathlib import Path\nfrom deepwork.kernel.files.lock import FileLock\n"
        "lock = FileLock(Path(sys.argv[1]))\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", prelude + script, str(path), *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": SOURCE, "PYTHONDONTWRITEBYTECODE": "1"},
        text=True,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "on demand" / "x.lock"


@pytest.fixture
def holder(path: Path):
    """Start another process that holds the lock."""
    process = start(HOLD, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_the_lock_file_is_readable_only_by_its_owner(path: Path) -> None:
    with FileLock(path).hold():
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o077 == 0


def test_a_lock_is_free_again_after_an_error_inside(path: Path) -> None:
    lock = FileLock(path)

    with pytest.raises(ValueError, match="inside"), lock.hold():
        raise ValueError("inside")

    with lock.hold(timeout=0):
        pass


def test_two_locks_on_one_file_exclude_each_other(path: Path) -> None:
    with FileLock(path).hold(), pytest.raises(StorageError), FileLock(path).hold(timeout=0.05):
        pass


def test_a_timeout_names_the_lock_and_what_to_do(path: Path, holder: subprocess.Popen[str]) -> None:
    started = time.monotonic()

    with pytest.raises(StorageError) as late, FileLock(path).hold(timeout=0.2):
        pass

    assert time.monotonic() - started > 0.15
    assert path.name in late.value.message
    assert "lsof" in late.value.suggestion


def test_killing_the_holder_frees_the_lock_immediately(path: Path, holder: subprocess.Popen[str]) -> None:
    lock, killed = FileLock(path), threading.Event()

    def kill() -> None:
        killed.set()
        holder.send_signal(signal.SIGKILL)

    timer = threading.Timer(0.2, kill)
    timer.start()

    with lock.hold(timeout=PATIENCE):
        assert killed.is_set()
    timer.join()


def test_a_waiter_that_gave_up_does_not_keep_the_lock(path: Path, holder: subprocess.Popen[str]) -> None:
    gave_up, other = FileLock(path), FileLock(path)
    with pytest.raises(StorageError), gave_up.hold(timeout=0.05):
        pass

    holder.kill()

    with other.hold(timeout=PATIENCE):
        pass


def test_a_process_that_gives_up_repeatedly_has_one_waiting_thread(
    path: Path, holder: subprocess.Popen[str]
) -> None:
    lock = FileLock(path)
    before = set(threading.enumerate())

    for _ in range(20):
        with pytest.raises(StorageError), lock.hold(timeout=0.01):
            pass
    waiting = set(threading.enumerate()) - before
    holder.kill()
    with lock.hold(timeout=PATIENCE):
        pass

    assert len(waiting) == 1


def test_a_lock_file_removed_while_held_still_excludes_others(path: Path) -> None:
    veteran, newcomer = FileLock(path), FileLock(path)
    with veteran.hold():
        pass
    path.unlink()

    with newcomer.hold(), pytest.raises(StorageError), veteran.hold(timeout=0.05):
        pass


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_does_not_share_its_parents_lock(path: Path) -> None:
    lock = FileLock(path)
    with lock.hold():
        child = os.fork()
        if child == 0:
            os._exit(0 if child_is_kept_out(lock) else 1)
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


def child_is_kept_out(lock: FileLock) -> bool:
    try:
        with lock.hold(timeout=0.05):
            return False
    except StorageError:
        return True


def test_threads_exclude_each_other_and_all_get_their_turn(path: Path) -> None:
    lock, inside, ready = FileLock(path), threading.Lock(), threading.Barrier(8)
    turns = [0] * 8

    def hammer(number: int) -> None:
        ready.wait()
        while sum(turns) < 1600:
            with lock.hold(timeout=PATIENCE):
                assert inside.acquire(blocking=False)
                time.sleep(0.0005)
                inside.release()
            turns[number] += 1

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(hammer, range(8)))

    assert min(turns) >= FAIR * sum(turns) / 8, turns


def test_processes_exclude_each_other_and_all_get_their_turn(path: Path) -> None:
    path.parent.mkdir(parents=True, mode=0o700)
    processes = [start(HAMMER, path, "1600") for _ in range(8)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    turns = [int(process.communicate(timeout=PATIENCE)[0]) for process in processes]

    assert all(process.returncode == 0 for process in processes)
    assert min(turns) >= FAIR * sum(turns) / 8, turns


def test_an_unwritable_path_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StorageError, match=r"x\.lock"), FileLock(tmp_path / "file" / "x.lock").hold():
        pass


def test_taking_a_free_lock_takes_microseconds(path: Path) -> None:
    lock = FileLock(path)

    def take_often() -> None:
        for _ in range(2000):
            with lock.hold():
                pass

    assert measure_effort(take_often, enough=60) < 60


def test_a_wait_can_be_ended_early(tmp_path: Path):
    class NotWanted(Exception):
        pass

    def give_up() -> None:
        raise NotWanted

    with FileLock(tmp_path / "lock").hold(), pytest.raises(NotWanted):  # noqa: SIM117
        with FileLock(tmp_path / "lock").hold(timeout=900, while_waiting=give_up):
            pass

    with FileLock(tmp_path / "lock").hold(timeout=60):
        pass
