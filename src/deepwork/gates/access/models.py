"""Tokens, their scopes, and entries of the audit log."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from deepwork.kernel.names import CaseInsensitiveEnum
from deepwork.kernel.operations import OperationDeclaration

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


_RESERVED_NAMES = frozenset({OWNER, "local", "anonymous"})  # callers that have no named token
_TOKEN_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_TOKEN_ID_PATTERN = re.compile(r"[0-9a-z]{12}")
_TOKEN_PATTERN = re.compile(rf"dw_({_TOKEN_ID_PATTERN.pattern})_([A-Za-z0-9_-]{{43}})")
_PLACEHOLDER_DIGEST = "0" * 64


def is_token_name(text: str) -> bool:
    """Return whether a token may have this name; a text that looks like a token may not."""
    return (
        _TOKEN_NAME_PATTERN.fullmatch(text) is not None
        and text not in _RESERVED_NAMES
        and parse_token(text) is None
    )


def format_token(id: str, secret: str) -> str:
    """Format a token as given to its holder."""
    return f"dw_{id}_{secret}"


def parse_token(text: str) -> tuple[str, str] | None:
    """Return the id and the secret of a token; None if it is not a named token."""
    found = _TOKEN_PATTERN.fullmatch(text)
    return (found[1], found[2]) if found else None


def is_token_id(text: str) -> bool:
    """Return whether the text has the format of a token id."""
    return _TOKEN_ID_PATTERN.fullmatch(text) is not None


def hash_secret(secret: str) -> str:
    """Hash a secret. A fast hash is enough, because a secret has 256 random bits."""
    return sha256(secret.encode()).hexdigest()


def key_digest(digest: str, compute: Callable[[str], str]) -> str:
    """Apply the store's key to the digest of a secret, so that it means nothing in another store."""
    return compute(f"token:{digest}")


def matches_secret(secret: str, token: Token | None) -> bool:
    """Compare a secret with that of a token, in constant time even if there is no token."""
    digest = hash_secret(secret)
    if token is None:
        return hmac.compare_digest(digest, _PLACEHOLDER_DIGEST)
    return hmac.compare_digest(token.key_digest(digest), token.digest)


def get_required_scope(tool: OperationDeclaration, arguments: Mapping[str, Any]) -> Scope:
    """Return the scope that a call of the tool with these arguments needs."""
    rule = tool.when_false
    if rule and arguments.get(rule.argument, rule.default) is False:
        return Scope(rule.scope)
    return Scope(tool.scope)


def is_offered_to(scope: Scope, tool: OperationDeclaration) -> bool:
    """Whether the scope covers any call of the tool."""
    lowest = tool.when_false.scope if tool.when_false else tool.scope
    return scope.covers(Scope(lowest))


def find_acting_agent(tool: OperationDeclaration, arguments: Mapping[str, Any]) -> str | None:
    """Return the id of the agent on whose behalf the call is made, if it names one."""
    agent_id = arguments.get(tool.acts_as) if tool.acts_as else None
    return agent_id if isinstance(agent_id, str) else None
