"""Which runs and attempts this process looks after: those whose lock it holds, until they or it end."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from deepwork.delivery.runner.attempt_files import AttemptFiles
from deepwork.kernel.files.lock import is_file_locked, try_to_lock_file
from deepwork.kernel.files.private import make_private_folder

_FOLDER, _LOCK, _CLOSED = "runs", "driver.lock", "closed"


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
