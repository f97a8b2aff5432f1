"""Sessions and their stacks: which run a call is about, and what becomes of it."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from deepwork.database.transaction import Database
from deepwork.errors import Code, DeepworkError, NotFound, StateError
from deepwork.jobs import owners
from deepwork.jobs.progress import Session, SessionEvent
from deepwork.jobs.responses import StackEntry
from deepwork.jobs.session_files import SessionFiles
from deepwork.jobs.store import SessionStore

log = logging.getLogger("deepwork")

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
ANONYMOUS = "anonymous"
_PRIVATE = frozenset({"last_answers", "owner", "created_seq"})
"""Fields of a session that stay in its file."""


class StateManager:
    """Every session of a project, and the stack of each caller of this process."""

    def __init__(self, files: SessionFiles, database: Database) -> None:
        self.files = files
        self._database = database
        self._owner = owners.this_process()
        self._stacks: dict[str, list[str]] = {}
        self._changing = threading.Lock()

    @property
    def owner(self) -> str:
        """This process."""
        return self._owner

    def new_id(self) -> str:
        """An id that no session of this project has."""
        while True:
            id = "".join(secrets.choice(_ALPHABET) for _ in range(8))
            if not self.files.exists(id):
                return id

    def resolve(self, session_id: str | None, caller: str, *, takes_over: bool = True) -> tuple[str, bool]:
        """Which session a call is about, and whether it had to be taken over from a process that is gone."""
        if session_id:
            return session_id, False
        if caller != ANONYMOUS and (stack := self._stacks.get(caller)):
            return stack[-1], False
        active = self.files.active()
        if caller == ANONYMOUS and len(active) == 1:
            # Nobody knows whose call this is, so it can only be about the one session there is.
            return active[0].session_id, False
        orphans = [session for session in active if owners.is_gone(session.owner)]
        if takes_over and len(orphans) == 1:
            return orphans[0].session_id, True
        raise _none_active(active)

    def load(self, session_id: str) -> Session:
        """The session, whatever became of it; one that is lost is on nobody's stack any more."""
        try:
            return self.files.load(session_id)
        except (StateError, NotFound):
            self.remove(session_id)
            raise

    def open(self, session: Session) -> Session:
        """The session, which must be under way; to be called while it is held."""
        if not session.is_active:
            # Somebody else ended it. Whoever has it on a stack is told so once, then the one below goes on.
            self.remove(session.session_id)
            raise StateError(
                f"Session {session.session_id} is {session.status}{_because(session)}.",
                code=Code.INVALID_STATE,
                suggestion="See get_session for what you are in now, or begin anew with start_workflow.",
            )
        self._catch_up(session)
        return session

    def take_over(self, session: Session) -> Session:
        """An orphan, to be called while it is held: of two processes that found it, only one gets it."""
        self.open(session)
        if not owners.is_gone(session.owner):
            raise _none_active(self.files.active())
        return session

    def save(self, session: Session, event: SessionEvent) -> Session:
        """Keep the session, then tell of it."""
        kept = self.files.save(session)
        self._tell(kept, event)
        return kept

    @contextmanager
    def adopting(self, session: Session, caller: str) -> Iterator[Session]:
        """The session as this caller's and this process's own, on its stack; not if the block fails."""
        is_new = session.session_id not in self._stacks.get(caller, ())
        self.push(session.session_id, caller)
        try:
            yield replace(session, caller=caller, owner=self._owner)
        except BaseException:
            if is_new:
                self._take_off(session.session_id, caller)
            raise

    def push(self, session_id: str, caller: str) -> None:
        with self._changing:
            stack = self._stacks.setdefault(caller, [])
            if session_id not in stack:
                stack.append(session_id)

    def remove(self, session_id: str) -> None:
        """Take a session off whichever stack it is on, at whatever place."""
        for caller in list(self._stacks):
            self._take_off(session_id, caller)

    def _take_off(self, session_id: str, caller: str) -> None:
        with self._changing:
            left = [each for each in self._stacks.pop(caller, []) if each != session_id]
            if left:
                self._stacks[caller] = left

    def stack_sessions(self, caller: str, *known: Session) -> list[Session]:
        """The caller's sessions under way, outermost first; those just changed as they are now."""
        fresh = {session.session_id: session for session in known}
        # A file that is damaged or gone is left out here: whoever opens it is told.
        sessions = [fresh.get(id) or self.files.peek(id) for id in list(self._stacks.get(caller, ()))]
        return [session for session in sessions if session is not None and session.is_active]

    def get_stack(self, caller: str, *known: Session) -> list[StackEntry]:
        """The caller's stack as answers show it."""
        return [
            StackEntry(workflow=session.workflow, step=session.current_step_id)
            for session in self.stack_sessions(caller, *known)
        ]

    def _catch_up(self, session: Session) -> None:
        """Tell what a process that died between saving and telling could not."""
        try:
            with self._database.reading() as tx:
                behind = SessionStore(tx).generation(session.session_id) < session.generation
        except DeepworkError as error:
            log.warning("Session %s cannot be looked up in the database: %s", session.session_id, error)
            return
        if behind:
            self._tell(session, SessionEvent.UPDATED)

    def _tell(self, session: Session, event: SessionEvent) -> None:
        # The file is the truth: a database that is away delays the news, and stops nobody's work.
        try:
            with self._database.transaction() as tx:
                if SessionStore(tx).follow(session, shown(session)):
                    tx.emit(event, news(session), session.session_id)
        except DeepworkError as error:
            log.warning("Session %s could not be told of: %s", session.session_id, error)


def shown(session: Session) -> dict[str, Any]:
    """A session as others see it."""
    # Not `asdict`, which copies every value and so takes a hundred times as long for a long workflow.
    data = {key: value for key, value in vars(session).items() if key not in _PRIVATE}
    return data | {
        "entries": [{**vars(entry), "steps": list(entry.steps)} for entry in session.entries],
        "step_progress": {id: dict(vars(each)) for id, each in session.step_progress.items()},
        "overrides": [dict(vars(each)) for each in session.overrides],
    }


def news(session: Session) -> dict[str, Any]:
    """A session as its events tell it: as others see it, but of the steps only the last and the current.

    So that an event is no longer for a workflow of two hundred steps than for one of five.
    """
    near = {session.current_step_id, *session.current_entry.steps}
    if session.current_entry_index:
        near |= {*session.entries[session.current_entry_index - 1].steps}
    steps = {id: each for id, each in session.step_progress.items() if id in near}
    return shown(replace(session, entries=(), step_progress=steps)) | {"steps_total": len(session.entries)}


def _because(session: Session) -> str:
    return f" ({session.abort_reason[:200]})" if session.abort_reason else ""


def _none_active(active: Iterable[Session]) -> StateError:
    listed = [
        f"{session.session_id} ({session.workflow}, step {session.current_step_id}: {session.goal[:80]})"
        for session in active
    ]
    return StateError(
        "No active workflow session" + (f"; under way elsewhere: {'; '.join(listed)}." if listed else "."),
        suggestion="Pass the session_id of one of them." if listed else "Begin with start_workflow.",
    )
