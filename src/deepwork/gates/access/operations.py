"""What people read and do about access: tokens, and the audit log. Agents cannot call any of it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, ClassVar, Self

from deepwork.gates.access import models
from deepwork.gates.access.models import ChainedEntry, Scope, Token, create_anchor, parse_anchor
from deepwork.gates.access.store import AuditStore, TokenStore
from deepwork.gates.access.verification import verify_log
from deepwork.kernel.answers import Answer, Field, Name
from deepwork.kernel.call import AGENT_PREFIX, LOCAL, current_call
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.reserved_names import require_unreserved
from deepwork.kernel.values import encode_letters

DAY_MS = 24 * 3600 * 1000


class TokenOperations:
    """Creates, lists and revokes tokens."""

    traits: ClassVar = Traits(toolset="tokens", people_only=True, one_transaction=True)

    def __init__(self, database: Database) -> None:
        self._database = database

    @operation("admin")
    def token_create(
        self,
        name: Name,
        scope: Scope,
        expires_days: Annotated[int, Field(ge=1, le=3650)] | None = None,
        is_person: bool = False,
    ) -> NewToken:
        """Create a named token with a scope; the token is shown only once.

        With `is_person`, its holder may decide as a person does; that needs at least the scope `work`.
        """
        _require_name(name)
        _require_scope_of_person(scope, is_person=is_person)
        require_unreserved("name", name, LOCAL)
        secret = secrets.token_urlsafe(32)
        with self._database.transaction() as tx:
            store = TokenStore(tx)
            store.retire(name)
            token = Token(
                id=encode_letters(secrets.token_bytes(12)),
                name=name,
                digest=models.key_digest(models.hash_secret(secret), tx.read_store_key().compute_digest),
                scope=scope,
                created_by=tx.caller,
                created_at=tx.now,
                expires_at=tx.now + expires_days * DAY_MS if expires_days else None,
                revoked_at=None,
                last_used_at=None,
                is_person=is_person,
            )
            if not store.add(token):
                raise NotAllowed(
                    f"Token {name!r} already exists.",
                    suggestion=f"Choose another name, or revoke that token: deepwork tokens revoke {name}",
                )
            text = models.format_token(token.id, secret)
            return NewToken(
                name=name, scope=scope, token=text, expires_at=token.expires_at, is_person=is_person
            )

    @operation("admin", read_only=True)
    def token_list(self) -> Tokens:
        """List all tokens, including revoked ones, with creator, scope and last use."""
        with self._database.reading() as tx:
            return Tokens(tokens=[TokenView.from_token(token, tx.now) for token in TokenStore(tx).list_all()])

    @operation("admin", destructive=True)
    def token_revoke(self, name: Name) -> Revoked:
        """Revoke a token; every server rejects it within seconds."""
        _require_name(name)
        with self._database.transaction() as tx:
            if not TokenStore(tx).revoke(name):
                raise NotAllowed(
                    f"There is no token {name!r} to revoke.", suggestion="See `deepwork tokens list`."
                )
            return Revoked(name=name, revoked_at=tx.now)


class AuditCall(Answer):
    """A call in the audit log, without free text of its arguments."""

    seq: int
    at: int
    account: str
    caller: str
    host: str
    tool: str
    arguments: dict[str, Any]
    digest: str
    outcome: str
    profile: str | None = None
    """The profile of the agent under a run that called, and the name of its task."""
    task: str | None = None
    chain: str

    @classmethod
    def of_entry(cls, link: ChainedEntry, work: tuple[str, str] | None) -> Self:
        profile, task = work or (None, None)
        shown = vars(link.entry) | {"arguments": json.loads(link.entry.arguments)}
        return cls(seq=link.seq, chain=link.chain, profile=profile, task=task, **shown)


class AuditCalls(Answer):
    calls: list[AuditCall]


class AuditAnchor(Answer):
    """The end of the audit log, signed."""

    anchor: str
    store: str
    rows: int
    chain: str


class AuditVerdict(Answer):
    """The result of verifying the whole audit log, and the rows that it is about."""

    intact: bool
    rows: int
    chain: str
    bad_row: int | None = None
    problem: str | None = None
    unkeyed_rows: int | None = None
    anchored_rows: int | None = None


FindWork = Callable[[Transaction, Collection[str]], Mapping[str, tuple[str, str]]]
"""Returns the profile and the task's name of agents under a run, by the account with which they call."""


class AuditOperations:
    """Reads and verifies the audit log."""

    traits: ClassVar = Traits(toolset="tokens", people_only=True)

    def __init__(self, database: Database, find_work: FindWork) -> None:
        self._database, self._find_work = database, find_work

    @operation("admin", read_only=True)
    def list_audit_calls(
        self,
        account: str | None = None,
        tool: str | None = None,
        since: Annotated[int | None, Field(description="Unix milliseconds")] = None,
        limit: Annotated[int, Field(ge=1, le=10_000)] = 50,
    ) -> AuditCalls:
        """List calls that may have changed something, newest first."""
        with self._database.reading() as tx:
            links = AuditStore(tx).list_newest(account=account, tool=tool, since=since, limit=limit)
            agents = {link.entry.account for link in links if link.entry.caller.startswith(AGENT_PREFIX)}
            work = self._find_work(tx, agents) if agents else {}
        return AuditCalls(
            calls=[
                AuditCall.of_entry(
                    link, work.get(link.entry.account) if link.entry.caller.startswith(AGENT_PREFIX) else None
                )
                for link in links
            ]
        )

    @operation("admin", read_only=True)
    def get_audit_anchor(self) -> AuditAnchor:
        """Return the end of the log now, signed: it shows later that nothing before it was removed."""
        with self._database.reading() as tx:
            head, key = AuditStore(tx).get_head(), AuditStore(tx).get_key()
        return AuditAnchor(
            anchor=create_anchor(head, key), store=key.store_id, rows=head.seq, chain=head.chain
        )

    @operation("admin", read_only=True)
    def verify_audit_log(
        self, expect: Annotated[str | None, Field(description="An anchor that was kept elsewhere")] = None
    ) -> AuditVerdict:
        """Verify the hash chain, and what lets work pass against the calls that made it."""
        anchor = parse_anchor(expect) if expect else None
        if expect and anchor is None:
            raise InvalidInput("This is not an anchor: pass what `deepwork audit anchor` printed.")
        report = current_call().report_progress
        with self._database.reading() as tx:
            verdict = verify_log(tx, anchor, lambda seq, total: report(seq, total, "Verifying"))
        return AuditVerdict.of(verdict, intact=verdict.problem is None)


def _require_name(name: str) -> None:
    # Not repeated in the error: somebody may have pasted the token itself.
    if not models.is_token_name(name):
        raise InvalidInput(
            "This is not a valid token name.",
            suggestion="A name has up to 63 letters, digits, dots, dashes and underscores, and starts with a "
            "letter or digit; `owner`, `local` and `anonymous` are reserved.",
        )


def _require_scope_of_person(scope: Scope, *, is_person: bool) -> None:
    if is_person and not scope.covers(Scope.WORK):
        raise InvalidInput(
            "A person's token cannot have the scope read: who decides changes work.",
            suggestion="Leave `--scope` out, which means work, or omit `--person`.",
        )


class TokenView(Answer):
    """A token without its secret."""

    name: str
    id: str
    scope: Scope
    status: str
    created_by: str
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    last_used_at: int | None = None
    is_person: bool = False

    @classmethod
    def from_token(cls, token: Token, now: int) -> Self:
        hidden = {"digest", "key_digest"}
        shown = {key: value for key, value in vars(token).items() if key not in hidden}
        return cls(**shown, status=_format_status(token, now))


class NewToken(Answer):
    """A new token; its secret is returned only once."""

    name: str
    scope: Scope
    token: str
    expires_at: int | None = None
    is_person: bool = False


class Tokens(Answer):
    tokens: list[TokenView]


class Revoked(Answer):
    name: str
    revoked_at: int


def _format_status(token: Token, now: int) -> str:
    if token.is_valid(now):
        return "valid"
    return "expired" if token.revoked_at is None or token.revoked_at == token.expires_at else "revoked"
