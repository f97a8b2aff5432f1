"""Manages job sessions and the stack of nested sessions of each caller."""

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
from deepwork.jobs.responses import StackEntry
from deepwork.jobs.sessions import process_identity
from deepwork.jobs.sessions.files import SessionFiles
from deepwork.jobs.sessions.state import Session, SessionEvent
from deepwork.jobs.sessions.store import SessionStore

log = logging.getLogger("deepwork")

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
ANONYMOUS = "anonymous"
_FILE_ONLY = frozenset({"last_answers", "owner", "created_seq"})
"""Fields that stay in the session's file and are never shown."""


class StateManager:
    """The sessions of a project, and the session stack of each caller of this process."""

    def __init__(self, files: SessionFiles, database: Database) -> None:
        self.files = files
        self._database = database
        self._owner = process_identity.get_process_identity()
        self._stacks: dict[str, list[str]] = {}
        self._changing = threading.Lock()

    @property
    def owner(self) -> str:
        """The identity of this process."""
        return self._owner

    def new_id(self) -> str:
        """Generate an id that no session of this project has."""
        while True:
            id = "".join(secrets.choice(_ALPHABET) for _ in range(8))
            if not self.files.exists(id):
                return id

    def resolve(self, session_id: str | None, caller: str, *, takes_over: bool = True) -> tuple[str, bool]:
        """Return the id of the session that a call refers to, and whether its process has exited."""
        if session_id:
            return session_id, False
        if caller != ANONYMOUS and (stack := self._stacks.get(caller)):
            return stack[-1], False
        active = self.files.list_active()
        if caller == ANONYMOUS and len(active) == 1:
            # An anonymous caller has no stack, so the call can only refer to the single active session.
            return active[0].session_id, False
        orphans = [session for session in active if process_identity.has_exited(session.owner)]
        if takes_over and len(orphans) == 1:
            return orphans[0].session_id, True
        raise _build_no_session_error(active)

    def load(self, session_id: str) -> Session:
        """Load the session in any status; one that cannot be loaded is removed from all stacks."""
        try:
            return self.files.load(session_id)
        except (StateError, NotFound):
            self.remove(session_id)
            raise

    def open(self, session: Session) -> Session:
        """Return the session if it is active, else raise; call this while holding its lock."""
        if not session.is_active:
            # Another caller ended it. Report that once, and continue with the session below on the stack.
            self.remove(session.session_id)
            raise StateError(
                f"Session {session.session_id} is {session.status}{_format_abort_reason(session)}.",
                code=Code.INVALID_STATE,
                suggestion="Call {tool:get_session} for your current session, or start one with "
                "{tool:start_workflow}.",
            )
        self._publish_if_behind(session)
        return session

    def take_over(self, session: Session) -> Session:
        """Take over a session whose process has exited; call this while holding its lock."""
        self.open(session)
        if not process_identity.has_exited(session.owner):
            raise _build_no_session_error(self.files.list_active())
        return session

    def save(self, session: Session, event: SessionEvent) -> Session:
        """Save the session to its file, then to the database with an event."""
        saved = self.files.save(session)
        self._publish(saved, event)
        return saved

    @contextmanager
    def adopting(self, session: Session, caller: str) -> Iterator[Session]:
        """Assign the session to this caller and process and push it; undo the push if the block fails."""
        is_new = session.session_id not in self._stacks.get(caller, ())
        self.push(session.session_id, caller)
        try:
            yield replace(session, caller=caller, owner=self._owner)
        except BaseException:
            if is_new:
                self._remove_from_stack(session.session_id, caller)
            raise

    def push(self, session_id: str, caller: str) -> None:
        with self._changing:
            stack = self._stacks.setdefault(caller, [])
            if session_id not in stack:
                stack.append(session_id)

    def remove(self, session_id: str) -> None:
        """Remove a session from every stack."""
        for caller in list(self._stacks):
            self._remove_from_stack(session_id, caller)

    def _remove_from_stack(self, session_id: str, caller: str) -> None:
        with self._changing:
            left = [each for each in self._stacks.pop(caller, []) if each != session_id]
            if left:
                self._stacks[caller] = left

    def stack_sessions(self, caller: str, *known: Session) -> list[Session]:
        """Return the caller's active sessions, outermost first; `known` replaces those not saved yet."""
        fresh = {session.session_id: session for session in known}
        # Damaged and missing files are skipped here; opening such a session reports them.
        sessions = [fresh.get(id) or self.files.peek(id) for id in list(self._stacks.get(caller, ()))]
        return [session for session in sessions if session is not None and session.is_active]

    def get_stack(self, caller: str, *known: Session) -> list[StackEntry]:
        """Return the caller's stack as it is shown in answers."""
        return [
            StackEntry(workflow=session.workflow, step=session.current_step_id)
            for session in self.stack_sessions(caller, *known)
        ]

    def _publish_if_behind(self, session: Session) -> None:
        """Publish a state that a process saved to the file but did not publish before it died."""
        try:
            with self._database.reading() as tx:
                behind = SessionStore(tx).get_generation(session.session_id) < session.generation
        except DeepworkError as error:
            log.warning("Cannot look up session %s in the database: %s", session.session_id, error)
            return
        if behind:
            self._publish(session, SessionEvent.UPDATED)

    def _publish(self, session: Session, event: SessionEvent) -> None:
        # The file is authoritative: while the database is unavailable, work continues and events are delayed.
        try:
            with self._database.transaction() as tx:
                if SessionStore(tx).save_if_newer(session, session_to_dict(session)):
                    tx.emit(event, build_event_payload(session), session.session_id)
        except DeepworkError as error:
            log.warning("Could not publish session %s: %s", session.session_id, error)


def session_to_dict(session: Session) -> dict[str, Any]:
    """Convert a session to a dictionary without its internal fields."""
    # `asdict` copies every value, which takes a hundred times as long for a long workflow.
    data = {key: value for key, value in vars(session).items() if key not in _FILE_ONLY}
    return data | {
        "entries": [{**vars(entry), "steps": list(entry.steps)} for entry in session.entries],
        "step_progress": {id: dict(vars(each)) for id, each in session.step_progress.items()},
        "overrides": [dict(vars(each)) for each in session.overrides],
    }


def build_event_payload(session: Session) -> dict[str, Any]:
    """Build the payload of a session event: the session with only its previous and current steps.

    This keeps an event of a workflow with two hundred steps as small as one with five.
    """
    near = {session.current_step_id, *session.current_entry.steps}
    if session.current_entry_index:
        near |= {*session.entries[session.current_entry_index - 1].steps}
    steps = {id: each for id, each in session.step_progress.items() if id in near}
    return session_to_dict(replace(session, entries=(), step_progress=steps)) | {
        "steps_total": len(session.entries)
    }


def _format_abort_reason(session: Session) -> str:
    return f" ({session.abort_reason[:200]})" if session.abort_reason else ""


def _build_no_session_error(active: Iterable[Session]) -> StateError:
    listed = [
        f"{session.session_id} ({session.workflow}, step {session.current_step_id}: {session.goal[:80]})"
        for session in active
    ]
    return StateError(
        "No active workflow session" + (f"; active elsewhere: {'; '.join(listed)}." if listed else "."),
        suggestion="Pass the session_id of one of them."
        if listed
        else "Start one with {tool:start_workflow}.",
    )
