"""One holder at a time, in turn, and never for ever."""

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
from deepwork.errors import StorageError
from deepwork.files.lock import FileLock

SOURCE = str(Path(deepwork.__file__).parents[1])

HOLD = """
with lock.held():
    print("held", flush=True)
    time.sleep(60)
"""
HAMMER = """
turns, longest = 0, 0.0
end = float(sys.argv[2])
while time.time() < end:
    asked = time.monotonic()
    with lock.held():
        longest = max(longest, time.monotonic() - asked)
        alone = os.open(sys.argv[1] + ".inside", os.O_CREAT | os.O_EXCL)  # fails if two are inside
        busy_until = time.monotonic() + 0.001
        while time.monotonic() < busy_until: pass
        os.close(alone); os.unlink(sys.argv[1] + ".inside")
        turns += 1
print(turns, longest)
"""


def start(script: str, path: Path, *args: str) -> subprocess.Popen[str]:
    prelude = (
        "import os, sys, time\nfrom pathlib import Path\nfrom deepwork.files.lock import FileLock\n"
        "lock = FileLock(Path(sys.argv[1]))\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", prelude + script, str(path), *args],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": SOURCE, "PYTHONDONTWRITEBYTECODE": "1"},
        text=True,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "made" / "on demand" / "x.lock"


@pytest.fixture
def holder(path: Path):
    """Another process that holds the lock."""
    process = start(HOLD, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_the_lock_file_is_made_for_its_owner_only(path: Path) -> None:
    with FileLock(path).held():
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o077 == 0


def test_a_lock_is_free_again_after_an_error_inside(path: Path) -> None:
    lock = FileLock(path)

    with pytest.raises(ValueError, match="inside"), lock.held():
        raise ValueError("inside")

    with lock.held(timeout=0):
        pass


def test_two_locks_on_one_file_exclude_each_other(path: Path) -> None:
    with FileLock(path).held(), pytest.raises(StorageError), FileLock(path).held(timeout=0.05):
        pass


def test_who_waits_too_long_learns_which_lock_it_was_and_what_to_do(
    path: Path, holder: subprocess.Popen[str]
) -> None:
    started = time.monotonic()

    with pytest.raises(StorageError) as late, FileLock(path).held(timeout=0.2):
        pass

    assert time.monotonic() - started > 0.15
    assert path.name in late.value.message
    assert "lsof" in late.value.suggestion


def test_a_kill_of_the_holder_frees_the_lock_at_once(path: Path, holder: subprocess.Popen[str]) -> None:
    lock = FileLock(path)
    killed = threading.Timer(0.2, holder.send_signal, [signal.SIGKILL])
    killed.start()
    started = time.monotonic()

    with lock.held(timeout=10):
        assert 0.15 < time.monotonic() - started < 9


def test_a_place_given_up_is_given_back_when_its_turn_comes(
    path: Path, holder: subprocess.Popen[str]
) -> None:
    gave_up, other = FileLock(path), FileLock(path)
    with pytest.raises(StorageError), gave_up.held(timeout=0.05):
        pass

    holder.kill()

    with other.held(timeout=5):
        pass


def test_however_often_a_process_gives_up_it_stands_in_line_once(
    path: Path, holder: subprocess.Popen[str]
) -> None:
    lock = FileLock(path)
    before = threading.active_count()

    for _ in range(20):
        with pytest.raises(StorageError), lock.held(timeout=0.01):
            pass
    waiting = threading.active_count() - before
    holder.kill()
    with lock.held(timeout=5):
        pass

    assert waiting == 1


def test_a_lock_file_removed_under_way_still_keeps_others_out(path: Path) -> None:
    veteran, newcomer = FileLock(path), FileLock(path)
    with veteran.held():
        pass
    path.unlink()

    with newcomer.held(), pytest.raises(StorageError), veteran.held(timeout=0.05):
        pass


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_does_not_share_its_parents_lock(path: Path) -> None:
    lock = FileLock(path)
    with lock.held():
        child = os.fork()
        if child == 0:
            os._exit(0 if child_is_kept_out(lock) else 1)
        _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0


def child_is_kept_out(lock: FileLock) -> bool:
    try:
        with lock.held(timeout=0.05):
            return False
    except StorageError:
        return True


def test_threads_never_meet_inside_and_all_get_their_turn(path: Path) -> None:
    lock, inside, end = FileLock(path), threading.Lock(), time.monotonic() + 1

    def hammer(_: int) -> int:
        turns = 0
        while time.monotonic() < end:
            with lock.held():
                assert inside.acquire(blocking=False)
                time.sleep(0.0005)
                inside.release()
            turns += 1
        return turns

    with ThreadPoolExecutor(8) as threads:
        turns = list(threads.map(hammer, range(8)))

    assert min(turns) >= 0.4 * sum(turns) / 8, turns


def test_processes_never_meet_inside_and_all_get_their_turn(path: Path) -> None:
    end = time.time() + 3
    processes = [start(HAMMER, path, str(end)) for _ in range(8)]
    answers = [process.communicate(timeout=30)[0].split() for process in processes]

    turns = [int(turns) for turns, _ in answers]

    assert all(process.returncode == 0 for process in processes)
    assert min(turns) >= 0.4 * sum(turns) / 8, answers


def test_an_unwritable_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StorageError, match=r"x\.lock"), FileLock(tmp_path / "file" / "x.lock").held():
        pass


def test_taking_a_free_lock_costs_microseconds(path: Path) -> None:
    lock, rounds = FileLock(path), 2000

    def once() -> float:
        started = time.process_time()
        for _ in range(rounds):
            with lock.held():
                pass
        return (time.process_time() - started) / rounds

    assert min(once() for _ in range(5)) < 50e-6
