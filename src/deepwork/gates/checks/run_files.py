"""Runs that go on: shared in this process by a table, between processes by locks, with their outputs."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp

from deepwork.gates.checks.models import Proof
from deepwork.kernel.environment import get_cache_folder
from deepwork.kernel.errors import StorageError
from deepwork.kernel.files.lock import try_flock
from deepwork.kernel.files.private import (
    make_private_folder,
    read_private_file,
    remove_old_files,
    require_safe_parents,
    write_atomically,
)


class CheckRun:
    """One run of a check, or the wait for that of another process."""

    def __init__(self, execute: Callable[[], Proof]) -> None:
        self._execute = execute
        self._began = time.monotonic()
        self._is_over = threading.Event()
        self._proof: Proof | None = None
        self._error: BaseException | None = None
        self.is_seen = False

    @property
    def is_over(self) -> bool:
        return self._is_over.is_set()

    @property
    def seconds(self) -> int:
        """How long it has been running."""
        return int(time.monotonic() - self._began)

    @property
    def is_done_with(self) -> bool:
        """Whether nobody needs its result any more."""
        return self.is_seen or self._error is not None

    def start(self) -> None:
        """Start its thread, which ends with this process."""
        threading.Thread(target=self._run, name="deepwork-check", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait at most this long; return whether it is over."""
        return self._is_over.wait(seconds)

    def get_proof(self) -> Proof:
        """Return the proof, or raise what ended the run; a later call with the same inputs runs it again."""
        self.is_seen = True
        if self._error is not None:
            raise self._error
        assert self._proof is not None
        return self._proof

    def _run(self) -> None:
        try:
            self._proof = self._execute()
        except BaseException as error:  # noqa: BLE001 - the calls that wait raise it
            self._error = error
        finally:
            self._is_over.set()


class RunTable:
    """The runs by what they prove; a finished one is kept until a call has got its result."""

    def __init__(self) -> None:
        self._runs: dict[str, CheckRun] = {}
        self._lock = threading.Lock()

    def join(self, key: str, execute: Callable[[], Proof]) -> CheckRun:
        """Return the run of this key that nobody has got the result of; otherwise start one."""
        with self._lock:
            for other in [each for each, run in self._runs.items() if run.is_over and run.is_done_with]:
                del self._runs[other]
            if key not in self._runs:
                self._runs[key] = CheckRun(execute)
                self._runs[key].start()
            return self._runs[key]


_OPEN_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_POLL_SECONDS = 0.05


@contextmanager
def hold_run_lock(path: Path) -> Iterator[int]:
    """Hold the lock while the block runs, however long others hold it before; yields its descriptor.

    A program that inherits the descriptor holds it too. If this process is killed, the lock becomes free when
    that program has ended.
    """
    descriptor = _acquire(path)
    try:
        yield descriptor
    finally:
        path.unlink(missing_ok=True)  # those who wait notice that it was replaced
        os.close(descriptor)


def _acquire(path: Path) -> int:
    while True:
        descriptor = os.open(path, _OPEN_FLAGS, 0o600)
        try:
            while not try_flock(descriptor):
                time.sleep(_POLL_SECONDS)
            if _is_in_place(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_in_place(descriptor: int, path: Path) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    mine = os.fstat(descriptor)
    return (mine.st_dev, mine.st_ino) == (found.st_dev, found.st_ino)


_RETENTION_SECONDS = 30 * 24 * 3600
_OUTPUT_PATTERN = re.compile(r"pf_[0-9a-z]{12}\.log")


class OutputFiles:
    """Writes, reads and removes outputs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, proof_id: str, output: bytes) -> tuple[Path, str]:
        """Write the output of a run; return its file and digest. Removes files that are a month old."""
        make_private_folder(self._folder)
        remove_old_files(self._folder, re.compile(".*"), _RETENTION_SECONDS)
        path = self._folder / f"{proof_id}.log"
        write_atomically(path, output, is_durable=False)
        return path, sha256(output).hexdigest()

    def read(self, name: str | None) -> bytes | None:
        """Return the output with this file name; None if it was removed."""
        if name is None or not _OUTPUT_PATTERN.fullmatch(name):
            return None
        return read_private_file(self._folder / name)


_CLEAN = "clean"
_PREFIX = "tree-"
_CLEAN_PATTERN = re.compile(_PREFIX + r"[a-z0-9_]{8}")
_MIN_AGE_SECONDS = 60
"""A folder that is younger may not be locked yet."""


@contextmanager
def open_clean_folder() -> Iterator[tuple[Path, int]]:
    """Yield an empty folder with an unpredictable name, and the descriptor that keeps it from being removed.

    Tools that look for settings in parent folders find none of the project, and none of another user.
    """
    parent = get_cache_folder() / _CLEAN
    make_private_folder(parent.parent)
    make_private_folder(parent)
    require_safe_parents(parent)
    _remove_left(parent)
    require_nothing_else(parent)
    folder = Path(mkdtemp(prefix=_PREFIX, dir=parent))
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield folder, descriptor
        require_nothing_else(parent)
    finally:
        os.close(descriptor)
        shutil.rmtree(folder, ignore_errors=True)


def require_nothing_else(parent: Path) -> None:
    """Raise StorageError if something is beside the clean folders, or beside the folder that has them all."""
    found = [entry for entry in parent.iterdir() if not _CLEAN_PATTERN.fullmatch(entry.name)]
    found += [entry for entry in parent.parent.iterdir() if entry != parent]
    if found:
        raise StorageError(
            f"{found[0]} is not a file of deepwork: a tool that runs below could take it for its settings.",
            suggestion="Remove it, then call again.",
        )


def _remove_left(parent: Path) -> None:
    """Remove the folders of processes that were killed: nobody holds a lock on them."""
    for entry in os.scandir(parent):
        if not _CLEAN_PATTERN.fullmatch(entry.name):
            continue
        with suppress(OSError):
            if time.time() - entry.stat(follow_symlinks=False).st_ctime < _MIN_AGE_SECONDS:
                continue
            descriptor = os.open(entry.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(entry.path, ignore_errors=True)
            finally:
                os.close(descriptor)
