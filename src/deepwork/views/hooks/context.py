"""Context of one hook event: its project, and what hooks remember of its session in a small JSON file."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from deepwork.kernel.config import Settings
from deepwork.kernel.files.lock import FileLock
from deepwork.kernel.files.private import find_link_problem, make_state_folder, write_atomically
from deepwork.kernel.records import dataclass
from deepwork.views.hooks.failure_log import FOLDER
from deepwork.views.hooks.identity import SessionRecord
from deepwork.views.hooks.protocol import HookEvent

MAX_RECORDS = 100
FRESH_SECONDS = 24 * 3600
"""A session without events for longer is not a candidate for resuming."""
_MAX_FILE_BYTES = 64 * 1024
_LOCK_SECONDS = 1.0


class SessionMemory:
    """Session records in the folder `hooks` next to the store."""

    def __init__(self, store_folder: Path) -> None:
        self.folder = store_folder / FOLDER

    def load(self, event: HookEvent, root: Path, subagent: str | None = None) -> SessionRecord:
        """Load the session's record; an empty one for a new session."""
        name = event.subagent if subagent is None else subagent
        found = _read_record(self._get_path(event.client, event.session_id, name))
        if found is not None and found.session_id == event.session_id:
            return found
        return SessionRecord(event.client, event.session_id, name, str(root))

    def find_resumable(self, event: HookEvent, root: Path) -> SessionRecord | None:
        """Find the recent session that this one may continue under a new id; None unless exactly one fits."""
        since = time.time() - FRESH_SECONDS
        paths = [path for path in self._list_files() if _get_modified_at(path) > since]
        candidates = [
            record
            for record in map(_read_record, paths)
            if record
            and not record.subagent
            and record.has_identity
            and (record.client, record.root) == (event.client, str(root))
        ]
        return candidates[0] if len(candidates) == 1 else None

    def touch(self, event: HookEvent) -> None:
        """Mark the session, and the main session of a subagent, as recently used to prevent removal."""
        for subagent in {event.subagent, ""}:
            with suppress(OSError):  # no record
                os.utime(self._get_path(event.client, event.session_id, subagent))

    def save(self, record: SessionRecord) -> None:
        """Save the record; a new one pushes out the oldest."""
        self._make_folder()
        path = self._get_path(record.client, record.session_id, record.subagent)
        is_new = not path.exists()
        data = {each.name: getattr(record, each.name) for each in fields(record)}
        write_atomically(path, json.dumps(data).encode(), is_durable=False)
        if is_new:
            self._remove_oldest()

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Serialise hooks of the same store: clients run them in parallel for parallel tools."""
        self._make_folder()
        lock = FileLock(self.folder / "lock")
        try:
            with lock.hold(timeout=_LOCK_SECONDS):
                yield
        finally:
            lock.close()

    def _make_folder(self) -> None:
        """Create the folder; a link could come with a clone, and files beyond it would be deleted."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        if problem := find_link_problem(self.folder):
            raise problem

    def _remove_oldest(self) -> None:
        by_age = sorted(self._list_files(), key=_get_modified_at, reverse=True)
        for path in by_age[MAX_RECORDS:]:
            path.unlink(missing_ok=True)

    def _list_files(self) -> list[Path]:
        return list(self.folder.glob("*.json"))

    def _get_path(self, client: str, session_id: str, subagent: str) -> Path:
        name = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in session_id)
        helper = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in subagent)
        return self.folder / f"{client}.{name[:80]}{'.' + helper[:60] if helper else ''}.json"


def _read_record(path: Path) -> SessionRecord | None:
    """Read a record; None for a missing or damaged file, whose content will be learned again."""
    try:
        content = path.read_bytes()
        data: Any = json.loads(content) if len(content) <= _MAX_FILE_BYTES else None
        known = {each.name for each in fields(SessionRecord)}
        read: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in data.items()
            if key in known
        }
        return SessionRecord(**read)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def _get_modified_at(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0


_MAX_DELIVERED_NOTICES = 50


@dataclass(frozen=True)
class HookContext:
    """One event together with the settings of its project."""

    settings: Settings
    event: HookEvent
    is_own_only: bool = False
    """Whether the answer may tell only of the session's own work, not of that of the project."""

    @property
    def memory(self) -> SessionMemory:
        return SessionMemory(self.settings.store_folder)

    def load_record(self, subagent: str | None = None) -> SessionRecord:
        """Load the record of the event's session; pass "" for the main session of a subagent."""
        return self.memory.load(self.event, self.settings.project_root, subagent)

    @property
    def has_known_session(self) -> bool:
        """Whether anything is recorded about this session or about the main session of a subagent."""
        return self.load_record().has_identity or self.load_record("").has_identity

    def update_record(self, update: Callable[[SessionRecord], SessionRecord]) -> SessionRecord:
        """Apply `update` to the stored record and save it.

        Parallel tools end at the same time, so hooks take turns under a lock.
        """
        with self.lock():
            before = self.load_record()
            after = update(before)
            if after != before:
                self.memory.save(after)
        return after

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Let one hook at a time read and write the session's record."""
        make_state_folder(self.settings.store_folder)  # missing if the database is on a server
        with self.memory.lock():
            yield


def add_delivered(record: SessionRecord, names: Sequence[str]) -> SessionRecord:
    """Return the record with these notices marked as delivered."""
    return replace(record, told=(*record.told, *names)[-_MAX_DELIVERED_NOTICES:])
