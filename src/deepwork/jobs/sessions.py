"""Sessions and their stacks: which run a call is about, and what becomes of it."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from deepwork.database.transaction import Database
from deepwork.errors import Code, DeepworkError, StateError
from deepwork.jobs import owners
from deepwork.jobs.progress import Session, SessionEvent
from deepwork.jobs.responses import StackEntry
from deepwork.jobs.session_files import SessionFiles
from deepwork.jobs.store import SessionStore

log = logging.getLogger("deepwork")

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
ANONYMOUS = "anonymous"


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
        active = self.files.active()
        if caller == ANONYMOUS:
            # Nobody knows whose call this is, so it can only be about the one session there is.
            if len(active) == 1:
                return active[0].session_id, False
        elif stack := self._stacks.get(caller):
            return stack[-1], False
        orphans = [session for session in active if owners.is_gone(session.owner)]
        if takes_over and len(orphans) == 1:
            return orphans[0].session_id, True
        raise _none_active(active)

    def open(self, session_id: str) -> Session:
        """The session, which must be under way; to be called while it is held."""
        session = self.files.load(session_id)
        if not session.is_active:
            raise StateError(
                f"Session {session_id} is {session.status}.",
                code=Code.INVALID_STATE,
                suggestion="Start the workflow anew with start_workflow.",
            )
        self._catch_up(session)
        return session

    def save(self, session: Session, event: SessionEvent) -> Session:
        """Keep the session, then tell of it."""
        kept = self.files.save(session)
        self._tell(kept, event)
        return kept

    def adopt(self, session: Session, caller: str) -> Session:
        """The session as this caller's and this process's own, on top of its stack."""
        self.push(session.session_id, caller)
        return replace(session, caller=caller, owner=self._owner)

    def push(self, session_id: str, caller: str) -> None:
        with self._changing:
            stack = self._stacks.setdefault(caller, [])
            if session_id not in stack:
                stack.append(session_id)

    def remove(self, session_id: str) -> None:
        """Take a session off whichever stack it is on, at whatever place."""
        with self._changing:
            for caller, stack in list(self._stacks.items()):
                left = [each for each in stack if each != session_id]
                if left:
                    self._stacks[caller] = left
                else:
                    del self._stacks[caller]

    def stack_sessions(self, caller: str, *known: Session) -> list[Session]:
        """The caller's sessions under way, outermost first; those just changed as they are now."""
        fresh = {session.session_id: session for session in known}
        sessions = [self._look(id, fresh) for id in list(self._stacks.get(caller, ()))]
        return [session for session in sessions if session is not None and session.is_active]

    def get_stack(self, caller: str, *known: Session) -> list[StackEntry]:
        """The caller's stack as answers show it."""
        return [
            StackEntry(workflow=session.workflow, step=session.current_step_id)
            for session in self.stack_sessions(caller, *known)
        ]

    def _look(self, session_id: str, fresh: dict[str, Session]) -> Session | None:
        try:
            return fresh.get(session_id) or self.files.load(session_id)
        except DeepworkError:  # damaged or removed since: whoever opens it is told
            return None

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
                data = shown(session)
                if SessionStore(tx).follow(session, data):
                    tx.emit(event, data, session.session_id)
        except DeepworkError as error:
            log.warning("Session %s could not be told of: %s", session.session_id, error)


def shown(session: Session) -> dict[str, Any]:
    """A session as others see it."""
    data = asdict(session)
    for inner in ("last_answers", "owner"):
        del data[inner]
    return data


def _none_active(active: Iterable[Session]) -> StateError:
    listed = [
        f"{session.session_id} ({session.workflow}, step {session.current_step_id}: {session.goal[:80]})"
        for session in active
    ]
    return StateError(
        "No active workflow session" + (f"; under way elsewhere: {'; '.join(listed)}." if listed else "."),
        suggestion="Pass the session_id of one of them." if listed else "Begin with start_workflow.",
    )
