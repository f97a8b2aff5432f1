"""Sessions as plain files: readable, written whole or not at all, and never silently reset."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deepwork.errors import Code, DeepworkError, NotFound, StateError, StorageError
from deepwork.files.atomic import write_atomically
from deepwork.files.failures import storage_failure
from deepwork.files.lock import FileLock
from deepwork.files.state import make_state_folder
from deepwork.jobs.progress import (
    LastAnswer,
    Override,
    PinnedEntry,
    Session,
    SessionStatus,
    StepProgress,
)

SCHEMA = 1
LOCK_SECONDS = 900.0
MAX_KNOWN = 32
MAX_FILE = 64 * 1024 * 1024
_ID = re.compile(r"[0-9a-z]{8}")
_UNUSABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading a file raises that does not hold a session."""


class SessionFiles:
    """The folder `.deepwork/tmp` of a project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._locks: dict[str, FileLock] = {}
        self._users: Counter[str] = Counter()
        self._known: dict[str, tuple[bytes, Session]] = {}
        self._lines: dict[str, dict[str, tuple[StepProgress, str]]] = {}
        self._changing = threading.Lock()

    @contextmanager
    def held(self, session_id: str) -> Iterator[None]:
        """Nobody else, in any process, works on the session meanwhile."""
        with self._lock(session_id) as lock, lock.held(timeout=LOCK_SECONDS):
            yield

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Nobody else, in any process, begins a session meanwhile."""
        with self.held("starting"):
            yield

    def next_seq(self) -> int:
        """The next number in the order of creation; call it inside `starting`.

        A lost counter goes on after the highest number in use.
        """
        counter = self.folder / "session_counter"
        try:
            last = int(counter.read_text(encoding="ascii"))
        except (OSError, ValueError):
            last = max((session.created_seq for session in self.all()), default=0)
        make_state_folder(self.folder.parent)
        write_atomically(counter, str(last + 1).encode(), is_durable=False)
        return last + 1

    def exists(self, session_id: str) -> bool:
        return self._path(session_id).exists()

    def load(self, session_id: str) -> Session:
        """The session as it was last saved."""
        if not _ID.fullmatch(session_id):
            raise _unknown(session_id)
        path = self._path(session_id)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise self._missing(session_id) from None
        except OSError as error:
            raise StorageError(f"The session file {path.name} cannot be read: {error.strerror}.") from error
        try:
            return self._read(session_id, content)
        except _UNUSABLE:
            raise self._damaged(path) from None

    def peek(self, session_id: str) -> Session | None:
        """The session, if its file can be read; a damaged one is left for whoever opens it."""
        try:
            return self._read(session_id, self._path(session_id).read_bytes())
        except (OSError, *_UNUSABLE):
            return None

    def save(self, session: Session) -> Session:
        """Keep the session; the one before stays beside it as `.prev`."""
        make_state_folder(self.folder.parent)
        self.folder.mkdir(mode=0o700, exist_ok=True)
        kept = replace(session, generation=session.generation + 1)
        content = _written(kept, self._lines_of(kept))
        write_atomically(self._path(session.session_id), content, keep_previous=session.generation > 0)
        self._remember(content, kept)
        return kept

    def active(self) -> list[Session]:
        """Every session under way, oldest first; damaged files are left for whoever opens them."""
        return [session for session in self.all() if session.is_active]

    def all(self) -> list[Session]:
        """Every readable session, oldest first."""
        found = filter(None, map(_peeked, self.folder.glob("session_????????.json")))
        return sorted(found, key=_creation_order)

    def answered_under(self, tool: str, key: str) -> str | None:
        """The session whose last answer of a tool was given under this key."""
        spelled = _json(key).encode()
        for path in self.folder.glob("session_????????.json"):
            with suppress(OSError):
                session = _peeked(path) if spelled in path.read_bytes() else None
                if session and tool in session.last_answers and session.last_answers[tool].has(key):
                    return session.session_id
        return None

    def _read(self, session_id: str, content: bytes) -> Session:
        """The session that these bytes hold; the same bytes are not parsed again."""
        known = self._known.get(session_id)
        if known is not None and known[0] == content:
            return known[1]
        session = _parsed(content)
        if session.session_id != session_id:
            raise ValueError
        self._remember(content, session)
        return session

    def _lines_of(self, session: Session) -> list[str]:
        """Each step as a line; only those that changed since the last time are written anew."""
        known = self._lines.get(session.session_id, {})
        lines = {
            id: before if (before := known.get(id)) and before[0] is each else (each, _line(id, each))
            for id, each in session.step_progress.items()
        }
        self._lines[session.session_id] = lines
        return [line for _, line in lines.values()]

    def _remember(self, content: bytes, session: Session) -> None:
        with self._changing:
            self._known.pop(session.session_id, None)
            self._known[session.session_id] = (content, session)
            while len(self._known) > MAX_KNOWN:
                oldest = next(iter(self._known))
                del self._known[oldest]
                self._lines.pop(oldest, None)

    @contextmanager
    def _lock(self, name: str) -> Iterator[FileLock]:
        """The lock of that name; its files are open only while somebody wants it."""
        with self._changing:
            lock = self._locks.setdefault(name, FileLock(self.folder / f"session_{name}.lock"))
            self._users[name] += 1
        try:
            yield lock
        finally:
            with self._changing:
                self._users[name] -= 1
                if not self._users[name]:
                    del self._users[name]
                    self._locks.pop(name).close()

    def _path(self, session_id: str) -> Path:
        return self.folder / f"session_{session_id}.json"

    def _missing(self, session_id: str) -> DeepworkError:
        """What to say of a file that is not there: perhaps it was put aside."""
        path = self._path(session_id)
        aside = sorted(self.folder.glob(f"{path.name}.damaged-*"))
        return _was_damaged(path, aside[-1]) if aside else _unknown(session_id)

    def _damaged(self, path: Path) -> DeepworkError:
        """Put a file that cannot be trusted aside, and say so."""
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        aside = path.with_name(f"{path.name}.damaged-{stamp}-{os.getpid()}")
        try:
            path.rename(aside)
        except FileNotFoundError:  # somebody else has just done so
            return self._missing(path.stem.removeprefix("session_"))
        except OSError as error:
            return storage_failure("move aside the damaged", path, error)
        return _was_damaged(path, aside)


def _was_damaged(path: Path, aside: Path) -> StateError:
    previous = path.with_name(f"{path.name}.prev")
    back = f"To go on from the state before, rename {previous.name} to {path.name}."
    return StateError(
        f"The session file {path.name} is damaged; it was kept as {aside.name}.",
        code=Code.SESSION_DAMAGED,
        suggestion=back if previous.exists() else "Start the workflow anew.",
    )


def _creation_order(session: Session) -> tuple[str, int, str]:
    return session.started_at, session.created_seq, session.session_id


def _peeked(path: Path) -> Session | None:
    try:
        return _parsed(path.read_bytes())
    except (OSError, *_UNUSABLE):
        return None


def _line(id: str, progress: StepProgress) -> str:
    return f"    {_json(id)}: {_json(vars(progress))}"


def _written(session: Session, steps: list[str]) -> bytes:
    """One key a line, one step a line: readable, and fast however long the workflow."""
    # Not `asdict`, which copies every value: with it a step of a long workflow took twice as long.
    data = {
        "schema": SCHEMA,
        **vars(session),
        "entries": [vars(each) for each in session.entries],
        "overrides": [vars(each) for each in session.overrides],
        "last_answers": {tool: vars(each) for tool, each in session.last_answers.items()},
    }
    lines = [f'  "{key}": {_json(value)}' for key, value in data.items() if key != "step_progress"]
    progress = "{\n" + ",\n".join(steps) + "\n  }" if steps else "{}"
    body = ",\n".join([*lines, f'  "step_progress": {progress}'])
    return f'{{\n{body},\n  "sha256": "{_digest(body)}"\n}}\n'.encode()


def _parsed(content: bytes) -> Session:
    if len(content) > MAX_FILE:
        raise ValueError
    text = content.decode()
    body, _, rest = text.rpartition(',\n  "sha256": "')
    if rest != f'{_digest(body[2:])}"\n}}\n':
        raise ValueError
    data: dict[str, Any] = json.loads(text)
    if data.pop("schema") != SCHEMA:
        raise ValueError
    del data["sha256"]
    return Session(
        **data
        | {
            "entries": tuple(
                PinnedEntry(tuple(each["steps"]), each["is_concurrent"]) for each in data["entries"]
            ),
            "step_progress": {id: StepProgress(**each) for id, each in data["step_progress"].items()},
            "overrides": tuple(Override(**each) for each in data["overrides"]),
            "status": SessionStatus(data["status"]),
            "last_answers": {
                tool: LastAnswer(**each | {"before": tuple(each.get("before", ()))})
                for tool, each in data["last_answers"].items()
            },
        }
    )


_json = json.JSONEncoder(ensure_ascii=False).encode


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _unknown(session_id: str) -> NotFound:
    return NotFound(
        "session", session_id, suggestion="See get_session or `deepwork sessions list` for those there are."
    )
