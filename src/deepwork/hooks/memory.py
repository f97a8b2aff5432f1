"""What hooks remember from one call to the next: a small file for each session of a client."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from deepwork.files.atomic import write_atomically
from deepwork.files.lock import FileLock
from deepwork.hooks.clients import Heard
from deepwork.hooks.learning import Record

FOLDER = "hooks"
MOST_KEPT = 100
FRESH_SECONDS = 24 * 3600
"""A session silent for longer is not thought of when another goes on."""
_MAX_FILE = 64 * 1024
_LOCK_SECONDS = 1.0


class Memory:
    """The folder `hooks` beside the store."""

    def __init__(self, store_folder: Path) -> None:
        self.folder = store_folder / FOLDER

    def recall(self, heard: Heard, root: Path, subagent: str | None = None) -> Record:
        """What is known of the session; an empty record of a new one."""
        name = heard.subagent if subagent is None else subagent
        found = _read(self._path(heard.client, heard.session_id, name))
        if found is not None and found.session_id == heard.session_id:
            return found
        return Record(heard.client, heard.session_id, name, str(root))

    def kin_of(self, heard: Heard, root: Path) -> Record | None:
        """The session that this one may go on with, under another id: the only one here, if it is."""
        since = time.time() - FRESH_SECONDS
        paths = [path for path in self._files() if _changed_at(path) > since]
        kin = [
            record for record in map(_read, paths)
            if record and not record.subagent and record.knows_something
            and (record.client, record.root) == (heard.client, str(root))
        ]  # fmt: skip
        return kin[0] if len(kin) == 1 else None

    def touch(self, heard: Heard) -> None:
        """The session lives, and whoever waits for it: they are not the ones to be forgotten."""
        for subagent in {heard.subagent, ""}:
            with suppress(OSError):  # nothing is known of it
                os.utime(self._path(heard.client, heard.session_id, subagent))

    def keep(self, record: Record) -> None:
        """Write it down; sessions long gone are forgotten."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        path = self._path(record.client, record.session_id, record.subagent)
        is_new = not path.exists()
        data = {each.name: getattr(record, each.name) for each in fields(record)}
        write_atomically(path, json.dumps(data).encode(), is_durable=False)
        if is_new:
            self._forget_oldest()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Clients call hooks for parallel tools at the same time: what is told once is decided alone."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        lock = FileLock(self.folder / "lock")
        try:
            with lock.held(timeout=_LOCK_SECONDS):
                yield
        finally:
            lock.close()

    def _forget_oldest(self) -> None:
        by_age = sorted(self._files(), key=_changed_at, reverse=True)
        for path in by_age[MOST_KEPT:]:
            path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return list(self.folder.glob("*.json"))

    def _path(self, client: str, session_id: str, subagent: str) -> Path:
        name = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in session_id)
        helper = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in subagent)
        return self.folder / f"{client}.{name[:80]}{'.' + helper[:60] if helper else ''}.json"


def _read(path: Path) -> Record | None:
    """A record; a file that holds none is as good as none: what it knew is learnt again."""
    try:
        content = path.read_bytes()
        data: Any = json.loads(content) if len(content) <= _MAX_FILE else None
        known = {each.name for each in fields(Record)}
        read: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in data.items()
            if key in known
        }
        return Record(**read)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def _changed_at(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
