"""One holder at a time, among all threads and processes that name the same lock file."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deepwork.errors import StorageError
from deepwork.files.failures import shown, storage_failure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class FileLock:
    """A fair lock with a deadline, which the kernel frees the moment its holder dies. Not re-entrant.

    Who wants in takes the queue, then the lock, and only then leaves the queue. So a holder that comes
    straight back finds the queue taken: nobody can pass those who wait. (With the lock alone, one busy
    process got it a hundred times as often as its neighbour.) The threads of a process first do the same
    among themselves.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start_afresh()

    @contextmanager
    def held(self, timeout: float = 30.0) -> Iterator[None]:
        """Hold the lock while the block runs; a StorageError if it does not come within `timeout` seconds."""
        try:
            self._acquire(time.monotonic() + timeout)
        except TimeoutError:
            raise self._still_taken(timeout) from None
        except OSError as error:
            raise storage_failure("lock", self._path, error) from error
        try:
            yield
        finally:
            self._release()

    def _start_afresh(self) -> None:
        self._process = os.getpid()
        self._thread_queue = threading.Lock()
        self._thread_lock = threading.Lock()
        self._files: _LockFiles | None = None
        self._waiter: _Waiter | None = None

    def close(self) -> None:
        """Close its files until it is wanted again; while somebody holds it, they are not ours to close."""
        if self._process != os.getpid() or not self._thread_lock.acquire(blocking=False):
            return
        try:
            if self._files is not None:
                self._files.close()
                self._files = None
        finally:
            self._thread_lock.release()

    def _acquire(self, deadline: float) -> None:
        if self._process != os.getpid():  # a fork shares its parent's open files, and so its parent's lock
            self._start_afresh()
        _take(self._thread_queue, deadline)
        try:
            _take(self._thread_lock, deadline)
            self._lock_files(deadline)
        finally:
            self._thread_queue.release()

    def _release(self) -> None:
        if self._files is not None and self._process == os.getpid():
            self._files.unlock()
            self._thread_lock.release()

    def _lock_files(self, deadline: float) -> None:
        try:
            while not self._lock_files_once(deadline):
                pass
        except BaseException:
            self._thread_lock.release()
            raise

    def _lock_files_once(self, deadline: float) -> bool:
        """Lock, or find that the locked file is no longer the one with the name: then it keeps nobody out."""
        files, self._files = self._files or _LockFiles(self._path), None
        if not files.try_to_lock():
            files = self._wait_in_line(files, deadline)
        if not files.are_in_place():
            files.close()
            return False
        self._files = files
        return True

    def _wait_in_line(self, files: _LockFiles, deadline: float) -> _LockFiles:
        if self._waiter is not None and self._waiter.wait_again():
            files.close()
        else:
            self._waiter = _Waiter(files)
        locked = self._waiter.result(deadline)
        self._waiter = None
        return locked

    def _still_taken(self, timeout: float) -> StorageError:
        return StorageError(
            f"The lock {shown(self._path)} was not free within {timeout:g} s.",
            suggestion="Find who holds it with `lsof`, end that program if it hangs, then call again.",
            recoverable=True,
        )


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock of this file while the block runs, and leave no file of it open."""
    lock = FileLock(path)
    try:
        with lock.held():
            yield
    finally:
        lock.close()


class _LockFiles:
    """The lock and its queue, opened; each opened pair excludes every other, in this process too."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = str(path)
        self._queue = os.open(f"{path}.queue", _OPEN, 0o600)
        self._lock = os.open(path, _OPEN, 0o600)
        self._identity = _identity(os.fstat(self._lock))

    def try_to_lock(self) -> bool:
        if not _try_flock(self._queue):
            return False
        locked = _try_flock(self._lock)
        fcntl.flock(self._queue, fcntl.LOCK_UN)
        return locked

    def lock(self) -> None:
        fcntl.flock(self._queue, fcntl.LOCK_EX)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        fcntl.flock(self._queue, fcntl.LOCK_UN)

    def unlock(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def are_in_place(self) -> bool:
        try:
            return _identity(os.lstat(self._path)) == self._identity
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Give up the lock too, if it was ours."""
        os.close(self._lock)
        os.close(self._queue)


class _Waiter:
    """A place in the line, held by a thread of its own because the kernel's wait knows no deadline.

    When the caller gives up, the place is kept for the next caller of this process; with no caller by the
    time the lock comes, it is given back at once.
    """

    def __init__(self, files: _LockFiles) -> None:
        self._files = files
        self._is_wanted = True
        self._is_over = False
        self._error: OSError | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._wait, name="deepwork-lock", daemon=True).start()

    def wait_again(self) -> bool:
        with self._changed:
            self._is_wanted = not self._is_over
            return self._is_wanted

    def result(self, deadline: float) -> _LockFiles:
        with self._changed:
            try:
                self._changed.wait_for(lambda: self._is_over, timeout=deadline - time.monotonic())
            finally:
                self._is_wanted = came = self._is_over
        if not came:
            raise TimeoutError
        if self._error is not None:
            raise self._error
        return self._files

    def _wait(self) -> None:
        try:
            self._files.lock()
        except OSError as error:
            self._error = error
        with self._changed:
            self._is_over = True
            if self._error is not None or not self._is_wanted:
                self._files.close()
            self._changed.notify()


def _take(lock: threading.Lock, deadline: float) -> None:
    if not lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
        raise TimeoutError


def _try_flock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
