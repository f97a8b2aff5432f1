"""What a token is, and what is written down of a call."""

from __future__ import annotations

from dataclasses import dataclass, field

from deepwork.names import Word

OWNER = "owner"
"""The name under which whoever runs the server calls."""


class Scope(Word):
    """How much a token may do; each includes those before it."""

    READ = "read"
    WORK = "work"
    ADMIN = "admin"

    def covers(self, needed: Scope) -> bool:
        """Whether this is enough where that is needed."""
        order = list(Scope)
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True)
class Token:
    """A named token, as the store knows it: without its secret. Times are Unix milliseconds."""

    id: str
    name: str
    digest: str = field(repr=False)
    scope: Scope
    created_by: str
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    last_used_at: int | None

    def is_valid(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True)
class Entry:
    """One call, as it is written down."""

    at: int
    account: str
    caller: str
    host: str
    tool: str
    arguments: str
    digest: str
    outcome: str


@dataclass(frozen=True)
class Link:
    """An entry in its place: numbered, and chained to the one before."""

    seq: int
    entry: Entry
    chain: str


@dataclass(frozen=True)
class Head:
    """The end of the chain: how many rows were written, and the chain of the last."""

    seq: int
    chain: str
