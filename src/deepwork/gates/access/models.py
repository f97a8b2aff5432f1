"""Tokens, scopes and audit entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from deepwork.kernel.names import CaseInsensitiveEnum

OWNER = "owner"
"""The account name of the person who runs the server."""


class Scope(CaseInsensitiveEnum):
    """What a token may do; each scope includes those before it."""

    READ = "read"
    WORK = "work"
    ADMIN = "admin"

    def covers(self, needed: Scope) -> bool:
        """Return whether this scope includes the needed one."""
        return _RANKS[self] >= _RANKS[needed]


_RANKS = {scope: rank for rank, scope in enumerate(Scope)}


@dataclass(frozen=True)
class Token:
    """A named token as stored: with a digest of its secret. Times are Unix milliseconds."""

    id: str
    name: str
    digest: str = field(repr=False)
    scope: Scope
    created_by: str
    created_at: int
    expires_at: int | None
    revoked_at: int | None
    last_used_at: int | None
    is_person: bool = False
    """Whether its holder may decide as a person does: approve, answer questions, pass a step."""
    key_digest: Callable[[str], str] = field(default=str, repr=False, compare=False)
    """Applies the key of the store to the digest of a secret; not stored."""

    def is_valid(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True)
class AuditEntry:
    """One tool call in the audit log."""

    at: int
    account: str
    caller: str
    host: str
    tool: str
    arguments: str
    digest: str
    outcome: str


@dataclass(frozen=True)
class ChainedEntry:
    """An audit entry with its number and its hash, which covers the entry before."""

    seq: int
    entry: AuditEntry
    chain: str


@dataclass(frozen=True)
class ChainKey:
    """The key of the chain: what digests the entries from a number on; earlier ones are older than it."""

    digest: Callable[[str], str] = field(repr=False)
    keyed_from: int = 1
    store_id: str = ""


@dataclass(frozen=True)
class ChainHead:
    """The end of the chain: the number of entries, and the hash of the last."""

    seq: int
    chain: str
