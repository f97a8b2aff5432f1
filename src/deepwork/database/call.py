"""Who is asking, and under which idempotency key: known to every transaction without being passed along."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """One tool call, as its front door saw it."""

    caller: str = "local"
    tool: str = ""
    key: str | None = None
    account: str = "local"
    """Whose idempotency keys count: the name of a token, or everybody on this machine. Not the caller's,
    because whoever repeats a call after a cut may come back under another session."""
    scope: str = "admin"
    """How much the caller may do; whoever needs no token is the owner of this machine."""
    note: Callable[[Any], None] | None = field(default=None, compare=False)
    """Given each writing transaction of the call as its last step, to write down in it what was called."""


_current: ContextVar[Call] = ContextVar("deepwork_call", default=Call())  # noqa: B039 - frozen


def current_call() -> Call:
    return _current.get()


@contextmanager
def calling(call: Call) -> Iterator[None]:
    """For the time of the block, everything is done on behalf of this call."""
    token = _current.set(call)
    try:
        yield
    finally:
        _current.reset(token)
