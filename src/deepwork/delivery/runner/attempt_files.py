"""The files of attempts, and the processor time of their processes.

Output is read from a stored offset. Offsets never change: what was read long ago is freed by a hole in the
file, where the file system can, and stays otherwise.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import time
from collections.abc import Collection, Iterator
from dataclasses import field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from deepwork.kernel.errors import DeepworkError, NotAllowed
from deepwork.kernel.files.lock import is_file_locked, try_to_lock_file
from deepwork.kernel.files.private import format_path, make_private_folder, to_storage_error
from deepwork.kernel.records import dataclass
from deepwork.kernel.supervision import supervisor

_PROC = "/proc"
_MAX_AGE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """The processes of this machine at one moment: children and milliseconds of CPU, by pid."""

    children: dict[int, list[int]] = field(default_factory=dict)
    milliseconds: dict[int, int] = field(default_factory=dict)

    @classmethod
    def read(cls) -> CpuTimes:
        """Return the times of all processes, at most two seconds old: fifty agents ask, one after the other.

        Nothing is known on a system without /proc.
        """
        return _read_once(int(time.monotonic() / _MAX_AGE_SECONDS))

    @classmethod
    def read_now(cls) -> CpuTimes:
        """Return the times of all processes as they are now."""
        times = cls()
        if not Path(_PROC, "self/stat").exists():
            return times
        milliseconds_per_tick = 1000 // os.sysconf("SC_CLK_TCK")
        for name in os.listdir(_PROC):  # noqa: PTH208 (hundreds of names, often)
            if name.isdigit() and (words := _read_stat(name)):
                # With the times of children that were waited for, so that the sum never falls.
                times.milliseconds[int(name)] = sum(map(int, words[11:15])) * milliseconds_per_tick
                times.children.setdefault(int(words[1]), []).append(int(name))
        return times

    def measure_tree(self, root: int) -> int | None:
        """Return what a process and its descendants used, also those that have ended; None if unknown."""
        if root not in self.milliseconds:
            return None
        total, waiting = 0, [root]
        while waiting:
            pid = waiting.pop()
            total += self.milliseconds[pid]
            waiting += self.children.get(pid, ())
        return total


@lru_cache(maxsize=1)
def _read_once(_moment: int) -> CpuTimes:
    return CpuTimes.read_now()


def _read_stat(name: str) -> list[bytes]:
    """Return the words of a process's state after its name, which may contain anything; also of zombies."""
    return supervisor.read_file(f"{_PROC}/{name}/stat").rpartition(b")")[2].split()


MAX_LINE_BYTES = 1_000_000
"""A longer line is cut."""
CUT_MARK = " [deepwork cut this line]"
"""The end of a line that was cut; count the lines that have it."""
KEPT_OUTPUT_BYTES = 64_000_000
"""How much of what was read stays on the disk."""

_MAX_RECORD_BYTES = 100_000
_MAX_SKIPS = 16
"""How often one look reads on in a line that was cut."""
_FREED_STEP_BYTES = 8_000_000
_BLOCK_BYTES = 4096
_SEARCHED_BYTES = 65_536
_PUNCH_HOLE_AND_KEEP_SIZE = 0x02 | 0x01
_FOLDER = "runs"
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_REPLACED = frozenset({errno.EACCES, errno.EPERM, errno.EISDIR, errno.ELOOP, errno.ENOTDIR, errno.ENXIO})
"""What the system says of something that is in the place of a file of ours; trying again is no use."""
_LOCK, _CLOSED = "driver.lock", "closed"


class DamagedFiles(NotAllowed):
    """An agent, or somebody else, has put something else in the place of a file of its start."""


@dataclass(frozen=True)
class AttemptFiles:
    """Where the files of one start of an attempt are."""

    folder: Path

    @classmethod
    def locate(cls, state_folder: Path, attempt_id: str, start_number: int) -> AttemptFiles:
        """Return the files of the start with this number, whether they exist or not."""
        return _locate(state_folder, attempt_id, start_number)

    @cached_property
    def prompt(self) -> Path:
        """What the agent reads from its standard input; written before it is started."""
        return self.folder / "prompt"

    @cached_property
    def bridge(self) -> Path:
        """Where the agent's bridge finds the socket of the runner, and its token."""
        return self.folder / "bridge.json"

    @cached_property
    def stdout(self) -> Path:
        """What the agent wrote."""
        return self.folder / "stdout"

    @cached_property
    def stderr(self) -> Path:
        """What the agent complained about."""
        return self.folder / "stderr"

    @cached_property
    def lock(self) -> Path:
        """Locked while the agent is being started, and while it runs."""
        return self.folder / "lock"

    @cached_property
    def launch(self) -> Path:
        """What is about to be started, where; written before anything is."""
        return self.folder / "launch"

    @cached_property
    def process(self) -> Path:
        """Which process it is; written by the shim before the agent runs."""
        return self.folder / "process"

    @cached_property
    def exit(self) -> Path:
        """How it ended; written by the shim when everything has ended."""
        return self.folder / "exit"


@lru_cache(maxsize=1000)
def _locate(state_folder: Path, attempt_id: str, start_number: int) -> AttemptFiles:
    # Every second for every agent: putting paths together takes longer than reading the files.
    return AttemptFiles(state_folder / _FOLDER / attempt_id / str(start_number))


def read_record(path: Path) -> dict[str, Any] | None:
    """Return the values that were written into one of these files; None if it was not written."""
    try:
        descriptor = open_to_read(path)
        try:
            content = os.read(descriptor, _MAX_RECORD_BYTES)
        finally:
            os.close(descriptor)
        record = json.loads(content)
    except (FileNotFoundError, DamagedFiles):
        return None
    except (ValueError, RecursionError):  # damaged; atomic writes leave no half of one
        return None
    except OSError as error:
        raise _to_error(path, error) from error
    return record if isinstance(record, dict) else None


def open_to_read(path: Path) -> int:
    """Open a file that an agent can reach; raises DamagedFiles for a pipe, a link or a folder."""
    try:
        descriptor = os.open(path, _READ_FLAGS)
    except OSError as error:
        if error.errno in _REPLACED:
            raise _to_error(path, error) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _to_error(path, OSError(errno.EISDIR, "it is not a file"))
    return descriptor


def _to_error(path: Path, error: OSError) -> DeepworkError:
    if error.errno in _REPLACED:
        return DamagedFiles(f"The file {format_path(path)} cannot be read: {error.strerror}.")
    return to_storage_error("read", path, error)


def read_lines(
    files: AttemptFiles, offset: int, max_bytes: int, *, is_over: bool | None = None
) -> tuple[list[str], int]:
    """Return the complete lines of the output from this offset on, and the offset to go on from.

    It reads about `max_bytes`, more only if a single line is longer. Half a line at the end is returned when
    nothing can follow: `is_over` says so, or if it is None the exit code that was written. Of a line longer
    than MAX_LINE_BYTES only the beginning is returned, with CUT_MARK.
    """
    try:
        size = os.stat(files.stdout).st_size  # noqa: PTH116 (it is read every second)
        if size <= offset:
            return [], offset
        if is_over is None:
            is_over = files.exit.exists()  # before reading: nothing is written after it
        descriptor = open_to_read(files.stdout)
        try:
            start = _skip_hole(descriptor, offset, size)
            return _read_lines(descriptor, start, max_bytes, is_over=is_over)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return [], offset
    except OSError as error:
        raise _to_error(files.stdout, error) from error


def find_line(files: AttemptFiles, offset: int, end: int) -> tuple[int, bool]:
    """Return where the first whole line begins at or after an offset, and whether nothing is before it.

    If there is none before `end`, that is `end`.
    """
    try:
        descriptor = open_to_read(files.stdout)
    except FileNotFoundError:
        return 0, True
    except OSError as error:
        raise _to_error(files.stdout, error) from error
    try:
        kept = _skip_hole(descriptor, 0, end)  # what is before was freed
        if offset <= kept:
            is_whole = kept == 0
            offset = kept
            if is_whole:
                return 0, True
        elif not _is_inside_line(descriptor, offset):
            return offset, False
        found = _find_newline(descriptor, offset, end)
        return found, offset == kept
    finally:
        os.close(descriptor)


def _find_newline(descriptor: int, offset: int, end: int) -> int:
    """Return the offset after the next end of a line; `end` if there is none before it."""
    while offset < end:
        data = os.pread(descriptor, min(_SEARCHED_BYTES, end - offset), offset)
        newline = data.find(b"\n")
        if newline >= 0:
            return min(end, offset + newline + 1)
        if not data:
            break
        offset += len(data)
    return end


def read_tail(path: Path, max_bytes: int) -> str:
    """Return the end of an output file, from the start of a line if it has one; empty if there is none."""
    try:
        with os.fdopen(open_to_read(path), "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - max_bytes))
            tail = file.read(max_bytes)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise _to_error(path, error) from error
    if size > max_bytes:
        _, newline, rest = tail.partition(b"\n")
        tail = rest if newline and rest else tail
    return tail.decode(errors="replace")


def read_times(files: AttemptFiles) -> tuple[float, float]:
    """Return when the output and the errors were last written, in Unix milliseconds; 0 if never."""
    return _read_time(files.stdout), _read_time(files.stderr)


def _read_time(path: Path) -> float:
    try:
        status = path.stat()
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise _to_error(path, error) from error
    return status.st_mtime_ns / 1_000_000 if status.st_size else 0


def free_output(files: AttemptFiles, stored_offset: int) -> None:
    """Free the disk of all but the last KEPT_OUTPUT_BYTES of what was read; `stored_offset` never goes back.

    The error output is only ever read at its end.
    """
    _free_beginning(files.stdout, stored_offset)
    _free_beginning(files.stderr, None)


# --- lines


def _read_lines(descriptor: int, offset: int, max_bytes: int, *, is_over: bool) -> tuple[list[str], int]:
    if _is_inside_line(descriptor, offset):  # the rest of a line that was cut
        offset, is_at_line = _skip_line(descriptor, offset, max_bytes)
        if not is_at_line:
            return [], offset
    data = os.pread(descriptor, max(1, max_bytes), offset)
    if b"\n" not in data and len(data) <= MAX_LINE_BYTES:
        data = os.pread(descriptor, MAX_LINE_BYTES + 1, offset)
    end = data.rfind(b"\n") + 1
    if end == 0 and len(data) > MAX_LINE_BYTES:
        return [_decode_line(data)], offset + MAX_LINE_BYTES
    if is_over and not os.pread(descriptor, 1, offset + len(data)):
        end = len(data)
    if end <= MAX_LINE_BYTES:  # so no line is longer, and all are decoded together
        return _decode_lines(data[:end]), offset + end
    return [_decode_line(line) for line in _split_lines(data, end)], offset + end


def _decode_lines(data: bytes) -> list[str]:
    lines = data.decode(errors="replace").split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if b"\r" in data else lines


def _split_lines(data: bytes, end: int) -> Iterator[bytes]:
    """Yield the lines up to `end` one by one, with at most one byte more than is kept of a line."""
    start = 0
    while start < end:
        newline = data.find(b"\n", start, end)
        stop = end if newline < 0 else newline
        yield data[start : min(stop, start + MAX_LINE_BYTES + 1)]
        start = stop + 1


def _decode_line(line: bytes) -> str:
    if len(line) > MAX_LINE_BYTES:
        return line[:MAX_LINE_BYTES].decode(errors="replace") + CUT_MARK
    return line.removesuffix(b"\r").decode(errors="replace")


def _is_inside_line(descriptor: int, offset: int) -> bool:
    return offset > 0 and os.pread(descriptor, 1, offset - 1) != b"\n"


def _skip_line(descriptor: int, offset: int, max_bytes: int) -> tuple[int, bool]:
    """Return the offset after the end of the line, or as far as was looked, and whether it has ended."""
    for _ in range(_MAX_SKIPS):
        data = os.pread(descriptor, max(max_bytes, _BLOCK_BYTES), offset)
        newline = data.find(b"\n")
        if newline >= 0:
            return offset + newline + 1, True
        offset += len(data)
    return offset, False


# --- holes


def _skip_hole(descriptor: int, offset: int, size: int) -> int:
    """Return the offset, or that of the first content after it that has not been freed."""
    if not hasattr(os, "SEEK_DATA") or os.pread(descriptor, 1, offset) != b"\0":
        return offset
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError:  # there is none
        return size


def _free_beginning(path: Path, read: int | None) -> None:
    """Punch a hole up to what is kept; do nothing if that frees little, or if it is not possible here."""
    if not sys.platform.startswith("linux"):
        return
    try:
        status = path.stat()
        end = ((status.st_size if read is None else read) - KEPT_OUTPUT_BYTES) // _BLOCK_BYTES * _BLOCK_BYTES
        kept = status.st_size - max(0, end)
        if end > 0 and status.st_blocks * 512 > kept + _FREED_STEP_BYTES:
            _punch_hole(path, end)
    except (OSError, AttributeError):  # it costs disk, and nothing else
        return


def _punch_hole(path: Path, end: int) -> None:
    """Free the beginning of a file; nothing happens where the file system has no holes."""
    import ctypes  # noqa: PLC0415 (hardly ever needed)

    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        library = ctypes.CDLL(None)
        fallocate = getattr(library, "fallocate64", None) or library.fallocate
        fallocate(descriptor, _PUNCH_HOLE_AND_KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(end))
    finally:
        os.close(descriptor)


class AttemptLocks:
    """The locks that this process holds."""

    def __init__(self, state_folder: Path) -> None:
        self._folder = state_folder / _FOLDER
        self._held: dict[str, int] = {}
        self._has_new = False

    def take(self, id: str) -> bool:
        """Hold the lock of a run or an attempt, if no other process does."""
        if id in self._held:
            return True
        folder = self._folder / id
        make_private_folder(folder)
        descriptor = try_to_lock_file(folder / _LOCK)
        if descriptor is None:
            return False
        self._held[id] = descriptor
        self._has_new = True
        return True

    def has_new(self) -> bool:
        """Return whether a lock was taken since the last call."""
        found, self._has_new = self._has_new, False
        return found

    def release_others(self, kept: Collection[str]) -> None:
        """Release all other locks."""
        for attempt_id in [id for id in self._held if id not in kept]:
            os.close(self._held.pop(attempt_id))

    def release_all(self) -> None:
        """Release every lock."""
        self.release_others(())


def is_driven(state_folder: Path, id: str) -> bool | None:
    """Return whether a process of this machine looks after a run or an attempt; None if none ever did."""
    return is_file_locked(state_folder / _FOLDER / id / _LOCK)


def list_unclosed(state_folder: Path, opened: Collection[str]) -> Iterator[tuple[str, AttemptFiles]]:
    """Yield the other attempts with their last start, unless nothing of them is known to run."""
    folder = state_folder / _FOLDER
    if not folder.is_dir():
        return
    for entry in list(os.scandir(folder)):
        if entry.name in opened or not entry.is_dir() or (folder / entry.name / _CLOSED).exists():
            continue
        starts = [
            int(path.name)
            for path in Path(entry.path).iterdir()
            if path.name.isascii() and path.name.isdigit()
        ]
        if starts:
            yield entry.name, AttemptFiles.locate(state_folder, entry.name, max(starts))


def mark_closed(state_folder: Path, attempt_id: str) -> None:
    """Remember that nothing of an attempt runs any more."""
    (state_folder / _FOLDER / attempt_id / _CLOSED).touch()
