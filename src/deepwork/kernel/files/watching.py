"""Notices what a check reads while others change it: new names, files open for writing, and named pipes.

A program that mapped a file into its memory can change it again and again, and only the first change sets
its time. So nothing that such a file has can be proved.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import signal
import stat
import struct
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import field
from pathlib import Path
from types import TracebackType
from typing import Self

from deepwork.kernel.files.lock import open_unlocked
from deepwork.kernel.records import dataclass

_IN_CREATE, _IN_DELETE, _IN_MOVED_FROM, _IN_MOVED_TO = 0x100, 0x200, 0x40, 0x80
_IN_Q_OVERFLOW, _IN_ISDIR = 0x4000, 0x4000_0000
_IN_ONLYDIR, _IN_DONT_FOLLOW = 0x0100_0000, 0x0200_0000
_MASK = _IN_CREATE | _IN_DELETE | _IN_MOVED_FROM | _IN_MOVED_TO | _IN_ONLYDIR | _IN_DONT_FOLLOW
_HEADER = struct.Struct("iIII")
_READ_BYTES = 256 * 1024


@dataclass
class FolderEvents:
    """What appeared and disappeared, as paths relative to the root of the watch."""

    added_files: set[str] = field(default_factory=set)
    added_folders: set[str] = field(default_factory=set)
    removed: set[str] = field(default_factory=set)
    renamed_folders: dict[str, str] = field(default_factory=dict)
    """Where each was moved to, if that is a watched folder, too."""
    is_complete: bool = True
    """Whether nothing was missed: the kernel keeps a limited number of events."""


class CannotWatch(Exception):
    """The system does not let us watch so many folders."""


class FolderWatch:
    """Watches folders while a `with` block runs; `events` says afterwards what happened.

    Linux only (inotify): elsewhere nothing is noticed, and `is_supported` is false.
    """

    is_supported = sys.platform == "linux"

    def __init__(self, root: Path, folders: Iterable[str]) -> None:
        """`folders` are relative to the root; those that do not exist are left out."""
        self.events = FolderEvents()
        self._root, self._folders = root, folders
        self._names: dict[int, str] = {}
        self._leaving: dict[int, str] = {}
        """Folders that lost their name, by what the event of their new name will have, too."""

    def __enter__(self) -> Self:
        if self.is_supported:
            self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_supported:
            return
        os.close(self._stop)
        self._thread.join()
        self._read()
        os.close(self._descriptor)

    def _start(self) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self._descriptor = library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise CannotWatch(os.strerror(ctypes.get_errno()))
        for folder in self._folders:
            place = os.fsencode(self._root / folder)
            number = library.inotify_add_watch(self._descriptor, place, ctypes.c_uint32(_MASK))
            if number >= 0:
                self._names[number] = folder
            elif (code := ctypes.get_errno()) not in (errno.ENOENT, errno.ENOTDIR):
                os.close(self._descriptor)
                raise CannotWatch(os.strerror(code))
        self._wake, self._stop = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._read_until_stopped, name="deepwork-watch", daemon=True)
        self._thread.start()

    def _read_until_stopped(self) -> None:
        """Read while the block runs: the queue of the kernel is limited."""
        while self._wake not in select.select([self._descriptor, self._wake], [], [])[0]:
            self._read()
        os.close(self._wake)

    def _read(self) -> None:
        while True:
            try:
                content = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                return
            place = 0
            while place < len(content):
                number, mask, cookie, length = _HEADER.unpack_from(content, place)
                place += _HEADER.size
                name = os.fsdecode(content[place : place + length].rstrip(b"\0"))
                self._add(number, mask, cookie, name)
                place += length

    def _add(self, number: int, mask: int, cookie: int, name: str) -> None:
        if mask & _IN_Q_OVERFLOW:
            self.events.is_complete = False
        if number not in self._names or not name:
            return
        folder = self._names[number]
        path = f"{folder}/{name}" if folder else name
        if mask & _IN_ISDIR and cookie:
            self._follow(mask, cookie, path)
        if mask & (_IN_DELETE | _IN_MOVED_FROM):
            self.events.removed.add(path)
        elif mask & _IN_ISDIR:
            self.events.added_folders.add(path)
        else:
            self.events.added_files.add(path)

    def _follow(self, mask: int, cookie: int, path: str) -> None:
        if mask & _IN_MOVED_FROM:
            self._leaving[cookie] = path
        elif old := self._leaving.pop(cookie, None):
            self.events.renamed_folders[old] = path


_SET_SIGNAL = 10
"""F_SETSIG of Linux, which Python does not name."""
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def find_open_for_writing(folder: Path, paths: Iterable[str]) -> list[str]:
    """List the files that some program may write without opening them again; elsewhere than on Linux none."""
    if sys.platform != "linux":
        return []
    start = f"{folder}/"
    return [path for path in paths if _is_open_for_writing(start + path)]


def _is_open_for_writing(path: str) -> bool:
    """Ask the kernel for a lease: it gives none to read a file that somebody may write."""
    try:
        descriptor = open_unlocked(path, _FLAGS)
    except OSError:  # a link, or gone: both are compared elsewhere
        return False
    try:
        # Whoever opens the file at this moment would else end this process: the default of SIGIO.
        fcntl.fcntl(descriptor, _SET_SIGNAL, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:  # other errors: a file of another user, or a file system without leases
        return error.errno == errno.EAGAIN
    finally:
        os.close(descriptor)  # ends the lease
    return False


def list_pipes(root: Path, folders: Iterable[str]) -> list[str]:
    """List the named pipes and devices that are directly in these folders, relative to the root."""
    return [
        f"{folder}/{name}" if folder else name
        for folder in folders
        for name in _list_names(os.path.join(root, folder))  # noqa: PTH118 - faster
    ]


def _list_names(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                is_usual = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
                if not is_usual and not entry.is_symlink() and not _is_socket(entry):
                    yield entry.name
    except (FileNotFoundError, NotADirectoryError):  # removed meanwhile
        return


def _is_socket(entry: os.DirEntry[str]) -> bool:
    """Return whether nobody can read it like a file."""
    return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
