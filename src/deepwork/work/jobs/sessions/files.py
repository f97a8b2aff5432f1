"""The files of job sessions, and the process that works on each."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deepwork.gates.reviews.rounds import parse_round
from deepwork.kernel.call import current_call
from deepwork.kernel.database.seals import check_tracking
from deepwork.kernel.errors import Code, DeepworkError, NotFound, StateError, StorageError
from deepwork.kernel.files.lock import FileLock
from deepwork.kernel.files.private import (
    find_link_problem,
    format_path,
    make_folder,
    make_state_folder,
    read_state_file,
    to_storage_error,
    write_atomically,
)
from deepwork.work.jobs.sessions.state import (
    GateDecision,
    LastAnswer,
    Override,
    PersonDecision,
    PinnedEntry,
    SelfReview,
    Session,
    SessionStatus,
    StepProgress,
    StepRound,
)


def get_process_identity() -> str:
    """Return `host/pid/start time`, unique even if the system reuses the pid."""
    return f"{socket.gethostname()}/{os.getpid()}/{_read_start_time(os.getpid())}"


def has_exited(owner: str) -> bool:
    """Whether the process has exited; assumed to be running if it is on another machine."""
    host, _, pid = owner.rpartition("/")[0].rpartition("/")
    start_time = owner.rpartition("/")[2]
    if host != socket.gethostname() or not pid.isdecimal():
        return False
    return _read_start_time(int(pid)) != start_time


def _read_start_time(pid: int) -> str:
    """Read the start time of a process in clock ticks since boot; empty if it does not exist."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[19]
    except OSError:
        return "" if Path("/proc/self").exists() else _probe_process(pid)


def _probe_process(pid: int) -> str:
    """Return a constant if the process exists: without /proc its start time is not known."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "alive"


SCHEMA = 1
LOCK_SECONDS = 900.0
MAX_CACHED = 32
MAX_FILE = 64 * 1024 * 1024
_SESSION_ID_PATTERN = re.compile(r"[0-9a-z]{8}")
_DAMAGE_ERRORS = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What parsing raises for a file that does not hold a valid session."""


def require_wanted() -> None:
    """Raise if the client cancelled the current call."""
    if not current_call().is_wanted():
        raise StateError("The call was cancelled while it waited for the session.", code=Code.INVALID_STATE)


class SessionFiles:
    """The session files in the folder `.deepwork/tmp` of a project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._locks: dict[str, FileLock] = {}
        self._users: Counter[str] = Counter()
        self._known: dict[str, tuple[bytes, Session]] = {}
        self._untracked: set[str] = set()
        """Names of session files that git did not track when this process first saw them."""
        self._changing = threading.Lock()

    @contextmanager
    def lock(self, session_id: str, while_waiting: Callable[[], object] = require_wanted) -> Iterator[None]:
        """Lock the session against all other threads and processes; a cancelled call stops waiting.

        `while_waiting` is called several times a second, and may raise to end the wait.
        """
        with self._open_lock(session_id) as lock, lock.hold(LOCK_SECONDS, while_waiting):
            yield

    @contextmanager
    def lock_creation(self) -> Iterator[None]:
        """Lock the creation of sessions against all other threads and processes."""
        with self.lock("starting"):
            yield

    def allocate_sequence(self) -> int:
        """Return the next creation number; call it inside `lock_creation`.

        If the counter file is lost, it continues after the highest number in use.
        """
        counter = self.folder / "session_counter"
        try:
            last = int(read_state_file(counter))
        except (OSError, ValueError):
            last = max((session.created_seq for session in self.list_all()), default=0)
        make_state_folder(self.folder.parent)
        write_atomically(counter, str(last + 1).encode(), is_durable=False)
        return last + 1

    def exists(self, session_id: str) -> bool:
        return bool(_SESSION_ID_PATTERN.fullmatch(session_id)) and self._build_path(session_id).exists()

    def load(self, session_id: str) -> Session:
        """Load the session; a damaged file is moved aside and reported."""
        if not _SESSION_ID_PATTERN.fullmatch(session_id):
            raise _build_unknown_error(session_id)
        path = self._build_path(session_id)
        try:
            content = read_state_file(path)
        except FileNotFoundError:
            raise self._build_missing_error(session_id) from None
        except OSError as error:
            raise StorageError(f"The session file {path.name} cannot be read: {error.strerror}.") from error
        if self._is_tracked(path):
            raise _build_tracked_error(path)
        try:
            return self._parse_cached(session_id, content)
        except _DAMAGE_ERRORS:
            raise self._move_aside(path) from None

    def peek(self, session_id: str) -> Session | None:
        """Load the session, or return None if its file is unreadable; `load` handles damaged files."""
        path = self._build_path(session_id)
        try:
            session = self._parse_cached(session_id, read_state_file(path))
        except (OSError, *_DAMAGE_ERRORS):
            return None
        return None if self._is_tracked(path) else session

    def save(self, session: Session) -> Session:
        """Save the session as the next generation; the previous file remains as `.prev`.

        Raises if the file was saved meanwhile: somebody who removes a lock lets two calls in.
        """
        current = self.peek(session.session_id)
        if current is not None and current.generation != session.generation:
            raise StorageError(
                f"Session {session.session_id} was changed by another call, because a lock in "
                f"{format_path(self.folder)} was removed; this call was not stored.",
                recoverable=True,
                suggestion="See {tool:get_session} for its current state, then call again.",
            )
        make_state_folder(self.folder.parent)
        make_folder(self.folder)
        saved = replace(session, generation=session.generation + 1)
        content = _serialize(saved)
        write_atomically(self._build_path(session.session_id), content, keep_previous=session.generation > 0)
        self._cache_session(content, saved)
        return saved

    def list_all(self) -> list[Session]:
        """List every readable session, oldest first; damaged and tracked files are skipped."""
        found = filter(None, map(_load_if_readable, self._list_paths()))
        return sorted(found, key=_get_creation_order)

    def find_by_key(self, tool: str, key: str) -> str | None:
        """Find the id of the session in which this tool was called with this idempotency key."""
        encoded_key = _to_json(key).encode()
        for path in self._list_paths():
            with suppress(OSError):
                session = _load_if_readable(path) if encoded_key in read_state_file(path) else None
                if session and tool in session.last_answers and session.last_answers[tool].has(key):
                    return session.session_id
        return None

    def _list_paths(self) -> list[Path]:
        return [path for path in self.folder.glob("session_????????.json") if not self._is_tracked(path)]

    def _is_tracked(self, path: Path) -> bool:
        """Return whether git tracks the file: then a clone brought it, with decisions that nobody here made.

        Asked until the answer is no: git overwrites no file that it does not track.
        """
        if path.name in self._untracked:
            return False
        if check_tracking(path):
            return True
        self._untracked.add(path.name)
        return False

    def _parse_cached(self, session_id: str, content: bytes) -> Session:
        """Parse the session, or return the cached one if the bytes are the same."""
        known = self._known.get(session_id)
        if known is not None and known[0] == content:
            return known[1]
        session = _parse(content)
        if session.session_id != session_id:
            raise ValueError
        self._cache_session(content, session)
        return session

    def _cache_session(self, content: bytes, session: Session) -> None:
        with self._changing:
            self._known.pop(session.session_id, None)
            self._known[session.session_id] = (content, session)
            while len(self._known) > MAX_CACHED:
                del self._known[next(iter(self._known))]

    @contextmanager
    def _open_lock(self, name: str) -> Iterator[FileLock]:
        """Yield the lock of that name; its file is closed when the last user is done."""
        if problem := find_link_problem(self.folder.parent) or find_link_problem(self.folder):
            raise problem  # a link can come with a clone, and would lead to files of the user
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

    def _build_path(self, session_id: str) -> Path:
        return self.folder / f"session_{session_id}.json"

    def _build_missing_error(self, session_id: str) -> DeepworkError:
        """Build the error for a missing file, which may have been moved aside as damaged."""
        path = self._build_path(session_id)
        aside = sorted(self.folder.glob(f"{path.name}.damaged-*"))
        return _build_damaged_error(path, aside[-1]) if aside else _build_unknown_error(session_id)

    def _move_aside(self, path: Path) -> DeepworkError:
        """Move a damaged file aside and return the error to raise."""
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        aside = path.with_name(f"{path.name}.damaged-{stamp}-{os.getpid()}")
        try:
            path.rename(aside)
        except FileNotFoundError:  # another process was faster
            return self._build_missing_error(path.stem.removeprefix("session_"))
        except OSError as error:
            return to_storage_error("move aside the damaged", path, error)
        return _build_damaged_error(path, aside)


def _build_tracked_error(path: Path) -> StateError:
    name = "/".join(path.parts[-3:])
    return StateError(
        f"git tracks {name}: a session from a repository is not used, because others can change it.",
        code=Code.STORE_NOT_ADOPTED,
        suggestion=f"Run `git rm -f {name}`, commit that, and start the workflow again.",
    )


def _build_damaged_error(path: Path, aside: Path) -> StateError:
    previous = path.with_name(f"{path.name}.prev")
    back = f"To restore the previous state, rename {previous.name} to {path.name}."
    return StateError(
        f"The session file {path.name} is damaged; it was moved to {aside.name}.",
        code=Code.SESSION_DAMAGED,
        suggestion=back if previous.exists() else "Start the workflow again.",
    )


def _get_creation_order(session: Session) -> tuple[str, int, str]:
    return session.started_at, session.created_seq, session.session_id


def _load_if_readable(path: Path) -> Session | None:
    try:
        return _parse(read_state_file(path))
    except (OSError, *_DAMAGE_ERRORS):
        return None


def _serialize(session: Session) -> bytes:
    """Serialize as JSON; the last line has a checksum of the text before it."""
    # Without `indent`, which takes eight times as long for a long workflow.
    body = _to_json({"schema": SCHEMA, **vars(session)})[1:-1]
    return f'{{\n{body},\n  "sha256": "{_hash_body(body)}"\n}}\n'.encode()


def _parse(content: bytes) -> Session:
    if len(content) > MAX_FILE:
        raise ValueError
    text = content.decode()
    body, _, rest = text.rpartition(',\n  "sha256": "')
    if rest != f'{_hash_body(body[2:])}"\n}}\n':
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
            "step_progress": {
                id: StepProgress(**each | {"proofs": tuple(each.get("proofs", ()))})
                for id, each in data["step_progress"].items()
            },
            "checks": {step: tuple(names) for step, names in data.get("checks", {}).items()},
            "overrides": tuple(Override(**each) for each in data["overrides"]),
            "self_reviews": tuple(
                SelfReview(**each | {"results": tuple(each["results"])})
                for each in data.get("self_reviews", ())
            ),
            "review_rounds": tuple(
                StepRound(**each | {"round": parse_round(each["round"])})
                for each in data.get("review_rounds", ())
            ),
            "decisions": tuple(
                PersonDecision(**each | {"decision": GateDecision(each["decision"])})
                for each in data.get("decisions", ())
            ),
            "status": SessionStatus(data["status"]),
            "last_answers": {
                tool: LastAnswer(**each | {"before": tuple(each.get("before", ()))})
                for tool, each in data["last_answers"].items()
            },
        }
    )


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=vars)


def _hash_body(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()


def _build_unknown_error(session_id: str) -> NotFound:
    return NotFound(
        "session",
        session_id,
        suggestion="See {tool:get_session} or `deepwork sessions list` for existing sessions.",
    )
