"""Locks between processes: files that one process at a time holds.

SQLite's locks belong to the process. Closing any descriptor of such a file drops them all, even one that
was opened only to read. So code that reads files which a caller named, or every file of a project, opens
them with `open_unlocked`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deepwork.kernel.errors import StorageError
from deepwork.kernel.files.private import format_path, make_folder, to_storage_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

FileIdentity = tuple[int, int]
"""The device and inode of a file."""

locked_files: set[FileIdentity] = set()
"""The files that SQLite has open in this process; only `kernel/database/store_file.py` changes this."""


def read_file_identity(path: str) -> FileIdentity | None:
    """Read which file is at this path; None if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_locked(status: os.stat_result) -> bool:
    """Return whether SQLite has this file open in this process."""
    return (status.st_dev, status.st_ino) in locked_files


def open_unlocked(path: str | os.PathLike[str], flags: int = os.O_RDONLY) -> int:
    """Open a file, like `os.open`; raises PermissionError for a file of a store. Fits `open(opener=…)`."""
    look = os.lstat if flags & os.O_NOFOLLOW else os.stat
    if locked_files and is_locked(look(path)):
        raise PermissionError(errno.EACCES, "The file belongs to deepwork's store", os.fspath(path))
    return os.open(path, flags | os.O_CLOEXEC)


_OPEN_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

_STEP_SECONDS = 0.25


class FileLock:
    """A fair lock with a timeout, which the kernel releases when its holder dies. Not re-entrant.

    A waiter locks the queue file, then the lock file, and only then releases the queue file. So a holder that
    immediately returns finds the queue locked and cannot overtake those who wait. (With the lock alone, one
    busy process got it a hundred times as often as its neighbour.) The threads of a process first do the
    same among themselves.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reset()

    def hold(
        self, timeout: float = 30.0, while_waiting: Callable[[], object] | None = None
    ) -> AbstractContextManager[None]:
        """Hold the lock while the block runs; raises StorageError after `timeout` seconds.

        `while_waiting` is called several times a second, and may raise to end the wait.
        """
        return _Holding(self, timeout, while_waiting)

    def acquire(self, timeout: float, while_waiting: Callable[[], object] | None = None) -> None:
        """Acquire the lock for a block that ends with `release`; raises like `hold`."""
        try:
            self._acquire_in_steps(time.monotonic() + timeout, while_waiting)
        except TimeoutError:
            raise self.build_timeout_error(timeout) from None
        except OSError as error:
            raise to_storage_error("lock", self._path, error) from error

    def _reset(self) -> None:
        self._process = os.getpid()
        self._thread_queue = threading.Lock()
        self._thread_lock = threading.Lock()
        self._files: _LockFiles | None = None
        self._waiter: _Waiter | None = None

    def close(self) -> None:
        """Close the lock files until the next use; does nothing while the lock is held."""
        if self._process != os.getpid() or not self._thread_lock.acquire(blocking=False):
            return
        try:
            if self._files is not None:
                self._files.close()
                self._files = None
        finally:
            self._thread_lock.release()

    def _acquire_in_steps(self, deadline: float, while_waiting: Callable[[], object] | None) -> None:
        """Acquire the lock; a step that times out keeps its place in the queue of processes."""
        while while_waiting is not None and time.monotonic() + _STEP_SECONDS < deadline:
            try:
                self._acquire(time.monotonic() + _STEP_SECONDS)
            except TimeoutError:
                while_waiting()
            else:
                return
        self._acquire(deadline)

    def _acquire(self, deadline: float) -> None:
        if self._process != os.getpid():  # a forked child shares its parent's open files, and so its lock
            self._reset()
        _acquire_thread_lock(self._thread_queue, deadline)
        try:
            _acquire_thread_lock(self._thread_lock, deadline)
            self._lock_files(deadline)
        finally:
            self._thread_queue.release()

    def release(self) -> None:
        """Release the lock."""
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
        """Lock the files; return False if the locked file has been replaced and so excludes nobody."""
        files, self._files = self._files or _LockFiles(self._path), None
        if not files.try_to_lock():
            files = self._wait_in_queue(files, deadline)
        if not files.are_in_place():
            files.close()
            return False
        self._files = files
        return True

    def _wait_in_queue(self, files: _LockFiles, deadline: float) -> _LockFiles:
        if self._waiter is not None and self._waiter.wait_again():
            files.close()
        else:
            self._waiter = _Waiter(files)
        locked = self._waiter.wait_for_result(deadline)
        self._waiter = None
        return locked

    def build_timeout_error(self, timeout: float) -> StorageError:
        """Return the error of somebody who waited so long for the lock."""
        return StorageError(
            f"The lock {format_path(self._path)} was not free within {timeout:g} s.",
            suggestion="Find its holder with `lsof`, stop that program if it hangs, then call again.",
            recoverable=True,
        )


class _Holding:
    """A block that holds the lock. A class, because a generator takes several times as long."""

    __slots__ = ("_lock", "_timeout", "_while_waiting")

    def __init__(self, lock: FileLock, timeout: float, while_waiting: Callable[[], object] | None) -> None:
        self._lock, self._timeout, self._while_waiting = lock, timeout, while_waiting

    def __enter__(self) -> None:
        self._lock.acquire(self._timeout, self._while_waiting)

    def __exit__(self, *error: object) -> None:
        self._lock.release()


@contextmanager
def hold_file_lock(path: Path) -> Iterator[None]:
    """Hold the lock of this file while the block runs, then close its files."""
    lock = FileLock(path)
    try:
        with lock.hold():
            yield
    finally:
        lock.close()


class _LockFiles:
    """The open lock and queue files; each open pair excludes every other, also within this process."""

    def __init__(self, path: Path) -> None:
        make_folder(path.parent)
        self._path = str(path)
        self._queue = os.open(f"{path}.queue", _OPEN_FLAGS, 0o600)
        self._lock = os.open(path, _OPEN_FLAGS, 0o600)
        self._identity = _get_identity(os.fstat(self._lock))

    def try_to_lock(self) -> bool:
        if not try_flock(self._queue):
            return False
        locked = try_flock(self._lock)
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
            return _get_identity(os.lstat(self._path)) == self._identity
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Close the files, which also releases the lock if it was held."""
        os.close(self._lock)
        os.close(self._queue)


class _Waiter:
    """A place in the queue, held by a separate thread because `flock` has no timeout.

    When the caller gives up, the place is kept for the next caller of this process; if there is none by the
    time the lock is acquired, it is released immediately.
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

    def wait_for_result(self, deadline: float) -> _LockFiles:
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


def try_to_lock_file(path: Path) -> int | None:
    """Lock a file until the returned descriptor is closed; None if another process holds it."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise to_storage_error("lock", path, error) from error
    if try_flock(descriptor):
        return descriptor
    os.close(descriptor)
    return None


def is_file_locked(path: Path) -> bool | None:
    """Return whether a process holds the lock of a file; None if there is none, or not for this user.

    Those who ask take a shared lock for a moment, so that they do not exclude each other.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def _acquire_thread_lock(lock: threading.Lock, deadline: float) -> None:
    if not lock.acquire(timeout=max(0.0, deadline - time.monotonic())):
        raise TimeoutError


def try_flock(descriptor: int) -> bool:
    """Lock an open file for this process; False if another one holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _get_identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
