"""Tokens, their scopes, and the keyed chain of entries of the audit log.

The chain alone cannot show that its last entries were removed and its head was set back. An anchor can: a
signed note of its end shows later that nothing before it is missing.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from hashlib import sha256
from typing import Any

from deepwork.kernel.operations import OperationDeclaration
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum

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


# `json.dumps` would create an encoder for every call.
_dump_json = json.JSONEncoder(separators=(",", ":")).encode
_dump_sorted_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=str).encode

MAX_IDS = 20
DONE, REPEATED = "done", "repeated"
_ENTITY_ID_PATTERN = re.compile(r"(wf|tk|cp|ws|rp|tmpl|ag|msg|thr|tw|ph|tt|dc|is|ml|rv|ap)_[0-9a-z]{12}")


@dataclass(frozen=True)
class ChainVerdict:
    """The result of verifying the whole audit log."""

    rows: int
    chain: str
    """The hash of the last good row; a copy kept elsewhere proves that nothing before it was rewritten."""
    bad_row: int | None = None
    problem: str | None = None
    unkeyed_rows: int | None = None
    """How many rows at the beginning are chained without a key: anybody could have written those."""
    anchored_rows: int | None = None
    """How many rows the log had when the anchor was made with which it was compared."""


def serialize_entry(entry: AuditEntry) -> str:
    """Serialise an entry to JSON, identically in Python and in SQL."""
    # Not `astuple`, which copies every value and takes longer than everything else here.
    return _dump_json(list(vars(entry).values()))


def hash_text(text: str) -> str:
    """Hash a text without a key, as entries before the store had one."""
    return sha256(text.encode()).hexdigest()


def compute_chain(before: str, seq: int, entry: AuditEntry, digest: Callable[[str], str] = hash_text) -> str:
    """Compute the hash of the entry with this number from the hash before it."""
    return digest(f"{before}:{seq}:{serialize_entry(entry)}")


def verify_chain(links: Iterable[ChainedEntry], head: ChainHead, key: ChainKey) -> ChainVerdict:
    """Verify the chain up to the first row that is missing or was changed."""
    verdict = _verify_links(links, head, key)
    unkeyed = min(verdict.rows, key.keyed_from - 1)
    return replace(verdict, unkeyed_rows=unkeyed) if unkeyed > 0 else verdict


def _verify_links(links: Iterable[ChainedEntry], head: ChainHead, key: ChainKey) -> ChainVerdict:
    seq, chain = 0, ""
    for link in links:
        if link.seq != seq + 1:
            return ChainVerdict(seq, chain, seq + 1, f"row {seq + 1} is missing")
        if not _is_linked(chain, link, key.digest if link.seq >= key.keyed_from else hash_text):
            return ChainVerdict(seq, chain, link.seq, f"row {link.seq} was changed after it was written")
        seq, chain = link.seq, link.chain
    if seq < head.seq:
        return ChainVerdict(seq, chain, seq + 1, f"rows {seq + 1} to {head.seq} are missing at the end")
    if ChainHead(seq, chain) != head:
        return ChainVerdict(seq, chain, head.seq + 1, f"the log should end with row {head.seq}, but does not")
    return ChainVerdict(seq, chain)


def _is_linked(before: str, link: ChainedEntry, digest: Callable[[str], str]) -> bool:
    try:
        return compute_chain(before, link.seq, link.entry, digest) == link.chain
    except TypeError:  # a stored value is not text
        return False


def summarize_arguments(parameters: Iterable[str], given: Mapping[str, Any]) -> str:
    """Serialise the names of known arguments, and values that are ids; never free text."""
    return _dump_json({name: _extract_ids(given[name]) for name in parameters if name in given})


def compute_digest(given: Mapping[str, Any]) -> str:
    """Hash the arguments, so that someone who knows them can prove which they were."""
    return sha256(_dump_sorted_json(given).encode()).hexdigest()


def classify_outcome(answer: Any) -> str:
    """Return the outcome of a call from its answer: done or refused, with the reason if known."""
    fields = answer if isinstance(answer, dict) else getattr(answer, "__dict__", {})
    if fields.get("success") is False:
        return f"refused:{fields['reason']}" if isinstance(fields.get("reason"), str) else "refused"
    return DONE


def _extract_ids(value: Any) -> Any:
    if isinstance(value, str):
        return value if _ENTITY_ID_PATTERN.fullmatch(value) else None
    if isinstance(value, list):
        found = [
            item for item in value[:MAX_IDS] if isinstance(item, str) and _ENTITY_ID_PATTERN.fullmatch(item)
        ]
        return found or None
    return None


_ANCHOR_PATTERN = re.compile(r"dwa1\.([0-9a-f]{1,64})\.(\d{1,18})\.([0-9a-f]{0,64})\.([0-9a-f]{64})")


@dataclass(frozen=True)
class Anchor:
    """The end of the audit log of one store at some time, signed with the key of the store."""

    store_id: str
    head: ChainHead
    signature: str


def create_anchor(head: ChainHead, key: ChainKey) -> str:
    """Create the text of an anchor."""
    return f"dwa1.{key.store_id}.{head.seq}.{head.chain}.{_sign_anchor(head, key)}"


def parse_anchor(text: str) -> Anchor | None:
    """Parse the text of an anchor; None if it is none."""
    found = _ANCHOR_PATTERN.fullmatch(text.strip())
    return Anchor(found[1], ChainHead(int(found[2]), found[3]), found[4]) if found else None


def find_anchor_problem(anchor: Anchor, last: int, chain: str | None, key: ChainKey) -> str | None:
    """Compare the log with an anchor: its last number, and its hash at the number of the anchor."""
    if anchor.store_id != key.store_id:
        return "the anchor belongs to another store, or this one was adopted or replaced since"
    if not hmac.compare_digest(anchor.signature, _sign_anchor(anchor.head, key)):
        return "the anchor was changed, or not made with the key of this store"
    if anchor.head.seq > last:
        return f"the log ends with row {last}, but it had {anchor.head.seq} rows: its end was cut off"
    if anchor.head.seq and chain != anchor.head.chain:
        return f"row {anchor.head.seq} is not the one of the anchor: the log was rewritten"
    return None


def _sign_anchor(head: ChainHead, key: ChainKey) -> str:
    return key.digest(f"anchor:{key.store_id}:{head.seq}:{head.chain}")
