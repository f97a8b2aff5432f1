"""Starts, changes and saves job sessions, and keeps the stack of nested sessions of each caller."""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from deepwork.gates.reviews.responses import to_shown
from deepwork.kernel.call import AlreadyAnswered, current_call, is_own_session, may_change_of_others
from deepwork.kernel.database.idempotency import build_key_reused_error
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import Code, DeepworkError, NotAllowed, NotFound, StateError
from deepwork.kernel.records import dataclass
from deepwork.work.jobs.responses import JobAnswer, StackEntry
from deepwork.work.jobs.sessions.files import SessionFiles, get_process_identity, has_exited, require_wanted
from deepwork.work.jobs.sessions.state import LastAnswer, Session, SessionEvent, StepProgress, StepRound
from deepwork.work.jobs.sessions.store import SessionStore

log = logging.getLogger("deepwork")

_ID_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
ANONYMOUS = "anonymous"
PERSON_WAIT_SECONDS = 3.0
_FILE_ONLY_FIELDS = frozenset({"last_answers", "owner", "created_seq", "base_branch"})
"""Fields that stay in the session's file and are never shown."""

_MAX_EVENT_ROUNDS = 5
_EVENT_OF_STATUS = {"completed": SessionEvent.COMPLETED, "aborted": SessionEvent.ABORTED}

Answer = TypeVar("Answer", bound=JobAnswer)


@dataclass(frozen=True)
class SessionChange(Generic[Answer]):
    """The new state of a session, and the answer to the call that changes it."""

    session: Session
    answer: Answer
    event: SessionEvent | None
    """None if this state is already saved; then only the answer to a call with a key is added."""
    stays_on_stack: bool = False
    """Whether the stack keeps a session that ends now, so that the agent's next call reports the end."""


class StateManager:
    """The sessions of a project, and the session stack of each caller of this process.

    A call with an idempotency key saves its answer in the session's file, together with its effect, so that a
    crash before the database is updated does not repeat a step.
    """

    def __init__(self, files: SessionFiles, database: Database) -> None:
        self._files = files
        self._database = database
        self._owner = get_process_identity()
        self._stacks: dict[str, list[str]] = {}
        self._changing = threading.Lock()

    @property
    def owner(self) -> str:
        """The identity of this process."""
        return self._owner

    # Finding sessions

    def find(self, session_id: str | None) -> Session:
        """Load the session that the current call refers to."""
        return self.load(self._resolve(session_id)[0])

    def _resolve(self, session_id: str | None, *, takes_over: bool = True) -> tuple[str, bool]:
        """Return the id of the session that the call refers to, and whether its process has exited."""
        if session_id:
            return session_id, False
        caller = current_call().caller
        if caller != ANONYMOUS and (stack := self._stacks.get(caller)):
            return stack[-1], False
        active = [session for session in self._list_active() if _may_change(session)]
        if caller == ANONYMOUS and len(active) == 1:
            # An anonymous caller has no stack, so the call can only refer to the single active session.
            return active[0].session_id, False
        orphans = [session for session in active if has_exited(session.owner)]
        if takes_over and len(orphans) == 1:
            return orphans[0].session_id, True
        raise _build_no_session_error(active)

    def load(self, session_id: str) -> Session:
        """Load the session in any status; one that cannot be loaded is removed from all stacks."""
        try:
            return self._files.load(session_id)
        except (StateError, NotFound):
            self._remove(session_id)
            raise

    def open(self, session: Session) -> Session:
        """Return the session if it is active, else raise; call this while holding its lock."""
        self._publish_if_behind(session)
        self._require_active(session)
        return session

    def _require_active(self, session: Session) -> None:
        if not session.is_active:
            # Another caller ended it. Report that once, and continue with the session below on the stack.
            self._remove(session.session_id)
            raise StateError(
                f"Session {session.session_id} is {session.status}{_format_abort_reason(session)}.",
                code=Code.INVALID_STATE,
                suggestion="Call {tool:get_session} for your current session, or start one with "
                "{tool:start_workflow}.",
            )

    def has_no_other_owner(self, session: Session) -> bool:
        """Whether the session is this process's, or that of one that has exited."""
        return session.owner == self._owner or has_exited(session.owner)

    def list_all(self) -> list[Session]:
        """List every readable session, oldest first."""
        return self._files.list_all()

    def _list_active(self) -> list[Session]:
        return [session for session in self.list_all() if session.is_active]

    # Changing sessions

    def start(self, create: Callable[[str], SessionChange[Answer]]) -> Answer:
        """Save the session that `create` returns for a new id.

        One at a time: of two concurrent starts, the second is nested in the first.
        """
        with self._files.lock_creation():
            id = _derive_id_from_key() or self._generate_id()
            if self._files.exists(id):
                self._raise_if_answered(self._files.load(id))
                raise build_key_reused_error(current_call())
            change = create(id)
            session = replace(change.session, created_seq=self._files.allocate_sequence())
            self._save_change(replace(change, session=session))
            return change.answer

    def change(
        self,
        session_id: str | None,
        apply: Callable[[Session, bool], SessionChange[Answer]],
        *,
        adopts: bool = True,
        accepts_ended: Callable[[Session], bool] = lambda _: False,
    ) -> Answer:
        """Lock the session that the call refers to, and save the change that `apply` returns.

        `apply` gets the session and whether it was taken over from a process that has exited. Unless `adopts`
        is false, the session is assigned to this caller and process. A session that has ended is an error
        unless `accepts_ended` returns true for it.
        """
        call = current_call()
        repeated = self._files.find_by_key(call.tool, call.key) if call.key and not session_id else None
        id, is_orphan = self._resolve(session_id or repeated, takes_over=adopts)
        if not self._files.exists(id):
            self.load(id)  # raises: an unknown id gets no lock file
        with self._files.lock(id):
            require_wanted()
            session = self.load(id)
            _require_own(session)
            self._raise_if_answered(session)
            if session.is_active or not accepts_ended(session):
                self._require_active(session)
            if is_orphan and not has_exited(session.owner):
                raise _build_no_session_error(self._list_active())
            own = replace(session, caller=call.caller, owner=self._owner) if adopts else session
            change = apply(own, is_orphan)
            self._save_change(change)
            return change.answer

    def change_for_person(self, session_id: str, apply: Callable[[Session], SessionChange[Answer]]) -> Answer:
        """Save what a person changes; the session remains the agent's.

        A call of the agent holds the lock while its step is reviewed. A person waits only a moment for it,
        because the state they decided about may be another one afterwards.
        """
        self.load(session_id)  # an unknown id gets no lock file
        with self._files.lock(session_id, _create_wait_limit(session_id)):
            session = self.load(session_id)
            self._raise_if_answered(session)
            change = apply(session)
            self._save_change(change)
            return change.answer

    def save(self, session: Session, event: SessionEvent, *, stays_on_stack: bool = False) -> Session:
        """Save an active session, or one that ends now, to its file, then to the database with an event."""
        saved = self._files.save(session)
        if saved.is_active:
            self._push(saved.session_id, saved.caller)
        elif not stays_on_stack:
            self._remove(saved.session_id)
        self._publish(saved, event)
        return saved

    def _save_change(self, change: SessionChange[Answer]) -> None:
        if current_call().key is not None:
            recorded = _record_answer(change.session, change.answer)
            event = change.event or SessionEvent.UPDATED
            self.save(recorded, event, stays_on_stack=change.stays_on_stack)
        elif change.event is not None:
            self.save(change.session, change.event, stays_on_stack=change.stays_on_stack)

    def _raise_if_answered(self, session: Session) -> None:
        """Raise the stored answer, or an error, if this call repeats the idempotency key of an earlier one.

        The process that answered it may have died before it published the change.
        """
        self._publish_if_behind(session)
        call = current_call()
        last = session.last_answers.get(call.tool)
        if call.key is None or last is None or not last.has(call.key):
            return
        if call.key in last.before:
            raise NotAllowed(
                f"The call of {call.tool} with key {call.key!r} was already executed; "
                "the session has moved on since.",
                suggestion="Call {tool:get_session} for its current state; use a new key for each new call.",
            )
        if call.digest != last.digest:
            raise build_key_reused_error(call)
        raise AlreadyAnswered(last.answer)

    def _generate_id(self) -> str:
        """Generate an id that no session of this project has."""
        while True:
            id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(8))
            if not self._files.exists(id):
                return id

    # Stacks

    def _push(self, session_id: str, caller: str) -> None:
        with self._changing:
            stack = self._stacks.setdefault(caller, [])
            if session_id not in stack:
                stack.append(session_id)

    def _remove(self, session_id: str) -> None:
        """Remove a session from every stack."""
        with self._changing:
            left = {
                caller: [id for id in stack if id != session_id] for caller, stack in self._stacks.items()
            }
            self._stacks = {caller: stack for caller, stack in left.items() if stack}

    def stack_sessions(self, caller: str, changed: Session | None = None) -> list[Session]:
        """Return the caller's active sessions, outermost first, as they will be when `changed` is saved."""
        # Damaged and missing files are skipped here; opening such a session reports them.
        sessions = {id: self._files.peek(id) for id in list(self._stacks.get(caller, ()))}
        if changed is not None:
            sessions[changed.session_id] = changed
        return [session for session in sessions.values() if session is not None and session.is_active]

    def get_stack(self, caller: str, changed: Session | None = None) -> list[StackEntry]:
        """Return the caller's stack as it is shown in answers."""
        return [
            StackEntry(workflow=session.workflow, step=session.current_step_id)
            for session in self.stack_sessions(caller, changed)
        ]

    # Publishing

    def _publish_if_behind(self, session: Session) -> None:
        """Publish a state that a process saved to the file but did not publish before it died."""
        try:
            with self._database.reading() as tx:
                behind = SessionStore(tx).get_generation(session.session_id) < session.generation
        except DeepworkError as error:
            log.warning("Cannot look up session %s in the database: %s", session.session_id, error)
            return
        if behind:
            self._publish(session, _EVENT_OF_STATUS.get(session.status, SessionEvent.UPDATED))

    def _publish(self, session: Session, event: SessionEvent) -> None:
        # The file is authoritative: while the database is unavailable, work continues and events are delayed.
        try:
            with self._database.transaction() as tx:
                if SessionStore(tx).save_if_newer(session, _build_row_data(session)):
                    tx.emit(event, build_event_payload(session), session.session_id)
        except DeepworkError as error:
            log.warning("Could not publish session %s: %s", session.session_id, error)


def _create_wait_limit(session_id: str) -> Callable[[], None]:
    """Create the check that ends a person's wait for the lock of a session."""
    deadline = time.monotonic() + PERSON_WAIT_SECONDS

    def check() -> None:
        require_wanted()
        if time.monotonic() > deadline:
            raise NotAllowed(
                f"A call of the agent is changing session {session_id} now: its step may be in review.",
                recoverable=True,
                suggestion=f"Wait until it ends, look at `deepwork sessions show {session_id}`, then decide.",
            )

    return check


def _record_answer(session: Session, answer: JobAnswer) -> Session:
    """Add the answer to the current call, which has an idempotency key."""
    call = current_call()
    last = session.last_answers.get(call.tool)
    before = (*last.before, last.key) if last else ()
    recorded = LastAnswer(call.key or "", call.digest, answer.model_dump(mode="json"), before)
    return replace(session, last_answers={**session.last_answers, call.tool: recorded})


def _derive_id_from_key() -> str | None:
    """Derive a session id from the idempotency key, so that a retry finds the session it already started."""
    call = current_call()
    if call.key is None:
        return None
    return hashlib.sha256(f"{call.account}\0{call.tool}\0{call.key}".encode()).hexdigest()[:8]


def session_to_dict(session: Session) -> dict[str, Any]:
    """Convert a session to a dictionary without its internal fields."""
    # `asdict` copies every value, which takes a hundred times as long for a long workflow.
    data = {key: value for key, value in vars(session).items() if key not in _FILE_ONLY_FIELDS}
    if not session.checks:
        del data["checks"], data["base_commit"]
    if not session.approvals:
        del data["approvals"]
    if not session.minutes:
        del data["minutes"], data["worked_ms"], data["working_since"]
    return data | {
        "entries": [{**vars(entry), "steps": list(entry.steps)} for entry in session.entries],
        "step_progress": {id: _to_progress_dict(each) for id, each in session.step_progress.items()},
        "overrides": [dict(vars(each)) for each in session.overrides],
        "self_reviews": [{**vars(each), "results": list(each.results)} for each in session.self_reviews],
        "review_rounds": [_to_round_record(each) for each in session.review_rounds],
        "decisions": [dict(vars(each)) for each in session.decisions],
    }


def _to_round_record(made: StepRound) -> dict[str, Any]:
    return {
        "step_id": made.step_id,
        "rule": made.rule,
        "round": made.round.number,
        "passed": made.round.passed,
        "reviewer": made.round.reviewer,
        "findings": to_shown(made.round.findings),
        "disputed": bool(made.round.disputed),
        "at": made.at,
        "is_over": made.is_over,
    }


def _to_progress_dict(progress: StepProgress) -> dict[str, Any]:
    data = dict(vars(progress))
    proofs = list(data.pop("proofs"))
    return {**data, "proofs": proofs} if proofs else data


def _build_row_data(session: Session) -> dict[str, Any]:
    # Sessions of one caller in different processes are not nested; the digest distinguishes the processes.
    process = hashlib.sha256(session.owner.encode()).hexdigest()[:12]
    return session_to_dict(session) | {"process": process, "base_commit": session.base_commit}


def build_event_payload(session: Session) -> dict[str, Any]:
    """Build the payload of a session event: the session with only its previous and current steps.

    This keeps an event of a workflow with two hundred steps as small as one with five.
    """
    near = {session.current_step_id, *session.current_entry.steps}
    if session.current_entry_index:
        near |= {*session.entries[session.current_entry_index - 1].steps}
    steps = {id: each for id, each in session.step_progress.items() if id in near}
    rounds = tuple(each for each in session.review_rounds if each.step_id in near)[-_MAX_EVENT_ROUNDS:]
    shown = replace(session, entries=(), step_progress=steps, review_rounds=rounds)
    return session_to_dict(shown) | {"steps_total": len(session.entries)}


def _format_abort_reason(session: Session) -> str:
    return f" ({session.abort_reason[:200]})" if session.abort_reason else ""


def _may_change(session: Session) -> bool:
    call = current_call()
    return is_own_session(call, session.session_id, session.caller) or may_change_of_others(call)


def _require_own(session: Session) -> None:
    """Raise if another token works on the session: its id is not a permission."""
    if not _may_change(session):
        raise NotAllowed(
            f"Session {session.session_id} belongs to another caller.",
            code=Code.UNAUTHORIZED,
            suggestion="Use the token that started it, or one of scope admin; a person can decide about its "
            "step or abort it.",
        )


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
