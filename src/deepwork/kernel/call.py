"""The current tool call, with its caller and idempotency key, in a context variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import field
from typing import Any, Protocol, TypeVar

from deepwork.kernel.records import dataclass

Prepared = TypeVar("Prepared")

PERSON_PREFIX = "human:"
"""Begins the callers that the dashboard builds. No agent's caller does: the name of a token has no colon, and
all others are `local`, `anonymous` or begin with `agent:`, `session:` or `client:`."""

AGENT_PREFIX = "agent:"
"""Begins the callers that are agents under a run: each has a token for itself alone."""

LOCAL = "local"
"""The caller of every server over stdio and of every command: it tells neither processes nor agents apart."""
ANONYMOUS = "anonymous"
"""The caller of every request over HTTP that has no token, no session and no client's name."""

CANCELLED = "CANCELLED"
"""The code of a cancelled call. No error uses it, since no client would receive it."""


@dataclass(frozen=True)
class GivenProof:
    """What a person sends along with a decision, to prove that it is a person's."""

    passphrase: str = field(default="", repr=False)
    assertion: Mapping[str, Any] | None = field(default=None, repr=False)
    """The answer of a passkey, as browsers serialize it."""
    origin: str = ""
    """The origin of the page that asked the passkey."""


class ReportProgress(Protocol):
    """Takes how much is done, of how much if that is known, and a short sentence for people."""

    def __call__(self, progress: float, total: float | None = None, message: str | None = None) -> None: ...


def ignore_progress(progress: float, total: float | None = None, message: str | None = None) -> None:
    """Report to nobody."""


class ActionOutcome:
    """Base class of what an action after a commit returns to revise the call's answer (`Answer.revise`)."""


class CallRecord(Protocol):
    """The audit entry of a call; called with each of its writing transactions."""

    outcome: str

    def __call__(self, tx: Any, /) -> None: ...


@dataclass(frozen=True)
class BoundAgent:
    """The agent under a run that a call was made with the token of."""

    agent_id: str
    session_id: str | None
    """The session of a job whose step it works on."""
    require_valid: Callable[[Any], object] = field(compare=False)
    """Takes each transaction of the call that may write, before it does; raises if the token has ended."""


@dataclass(frozen=True)
class Call:
    """One tool call, as received by its transport."""

    caller: str = LOCAL
    tool: str = ""
    key: str | None = None
    account: str = "local"
    """The namespace of idempotency keys: the name of a token, or `local`. Not the caller, because a client
    that repeats a call after a disconnect may have a new session."""
    scope: str = "admin"
    """What the caller may do; a caller that needs no token owns this machine."""
    agent: BoundAgent | None = None
    """Set if an agent under a run calls: it acts for nothing else, whoever registered it."""
    needs_person: bool = False
    """Whether the call counts as a person's, as all over REST do, so that its caller must be one."""
    digest: str = ""
    """Hash of the arguments of a call with a key; only the same arguments get the stored answer."""
    is_wanted: Callable[[], bool] = field(default=lambda: True, compare=False)
    """Returns False after the client cancelled the call."""
    report_progress: ReportProgress = field(default=ignore_progress, compare=False)
    """Tells the client how far the call is, if it wants to know; may be called often, and from any thread."""
    record: CallRecord | None = field(default=None, compare=False)
    """Called at the end of each writing transaction of the call, to write its audit entry."""
    patience: float | None = 45.0
    """How many seconds the caller waits for what takes long; None: to the end, because what a command runs
    ends with it."""
    carries_notices: bool = True
    """Whether an answer that shows an agent's notices counts as carrying them. The answers of commands and
    resources do not: people read them too."""
    read_passphrase: Callable[[], str] | None = field(default=None, repr=False, compare=False)
    """Asks the person for the passphrase, if the call turns out to need it and `proof` has none."""
    proven: Any = field(default=None, compare=False)
    """How the person proved that a call is theirs which lets work pass; see `gates/approvals/acts.py`."""
    prepared: Any = field(default=None, compare=False)
    """What the tool's `prepared_by` method returned; None if it was not called."""
    proof: GivenProof | None = field(default=None, repr=False, compare=False)
    """Not an argument, so that no digest, log or stored answer contains a passphrase."""
    outcomes: list[ActionOutcome] | None = field(default=None, compare=False)
    """Collects the outcomes of actions after commits; None if nothing waits for them."""

    def find_prepared(self, kind: type[Prepared]) -> Prepared | None:
        """Return what of this kind was prepared, alone or as one of several things."""
        parts = self.prepared if isinstance(self.prepared, tuple) else (self.prepared,)
        return next((part for part in parts if isinstance(part, kind)), None)

    def note_outcome(self, outcome: str) -> None:
        """Let the audit entry of the call say this, such as the digest of what a person approved."""
        if self.record is not None:
            self.record.outcome = outcome


class NotProven(Exception):
    """Raised when a person lets work pass a gate, and the call has not proved yet that it is theirs.

    That undoes the transaction. Then the proof is checked, and the call is made again with it.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        super().__init__("This needs the proof that it is a person's.")
        self.about = about
        """What the person decides about, beside the arguments of the call."""


class AlreadyAnswered(Exception):
    """Raised by a tool that finds the answer to an earlier call with the same idempotency key."""

    def __init__(self, answer: Any) -> None:
        super().__init__("This call was executed before.")
        self.answer = answer


_current: ContextVar[Call] = ContextVar("deepwork_call", default=Call())  # noqa: B039 - frozen


def is_person(caller: str) -> bool:
    return caller.startswith(PERSON_PREFIX)


def is_own_agent(call: Call, agent_id: str, registered_by: str) -> bool:
    """Whether the agent is the caller's: it calls itself, or the caller registered it."""
    return registered_by == call.caller if call.agent is None else agent_id == call.agent.agent_id


def is_own_session(call: Call, session_id: str, caller: str) -> bool:
    """Whether a job's session is the caller's: an agent under a run works on it, or `caller` is the same."""
    return caller == call.caller if call.agent is None else session_id == call.agent.session_id


def may_change_of_others(call: Call) -> bool:
    """Whether the caller may change what another caller works on.

    A token of scope `work` tells its holder apart from others, so it may not. A person may, and so may all
    callers with the scope `admin`, such as local ones: over stdio, callers cannot be distinguished.
    """
    return call.scope == "admin" or is_person(call.caller)


def current_call() -> Call:
    return _current.get()


class use_call:  # noqa: N801 - used like a function
    """Make this the current call inside the block."""

    __slots__ = ("_call", "_token")

    def __init__(self, call: Call) -> None:
        self._call = call

    def __enter__(self) -> None:
        self._token = _current.set(self._call)

    def __exit__(self, *error: object) -> None:
        _current.reset(self._token)
