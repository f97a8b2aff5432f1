"""What is kept of tokens, and of calls."""

from __future__ import annotations

from collections.abc import Iterator

from deepwork.access.chain import content, linked
from deepwork.access.models import Entry, Head, Link, Scope, Token
from deepwork.database.engine import Row, stored
from deepwork.database.statements import where
from deepwork.database.transaction import Transaction

PAGE = 1000


class TokenStore:
    """Tokens, as rows."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, token: Token) -> bool:
        """Keep a new token; False if another that is not revoked has its name."""
        added = self._tx.run(
            """
            INSERT INTO tokens (id, name, digest, scope, created_by, created_at, expires_at)
            VALUES (:id, :name, :digest, :scope, :created_by, :created_at, :expires_at)
            ON CONFLICT DO NOTHING
            """,
            id=token.id, name=token.name, digest=token.digest, scope=token.scope,
            created_by=token.created_by, created_at=token.created_at, expires_at=token.expires_at,
        )  # fmt: skip
        return added == 1

    def find(self, id: str) -> Token | None:
        """The token with this id, valid or not."""
        row = self._tx.one(f"SELECT {_TOKEN} FROM tokens WHERE id = :id", id=id)
        return None if row is None else _token(row)

    def all(self) -> list[Token]:
        """Every token there ever was, oldest first."""
        return [
            _token(row)
            for row in self._tx.all(f"SELECT {_TOKEN} FROM tokens ORDER BY created_at, created_seq")
        ]

    def revoke(self, name: str) -> bool:
        """End the token with this name; False if there is none that is not revoked."""
        sql = "UPDATE tokens SET revoked_at = :now WHERE name = :name AND revoked_at IS NULL"
        return self._tx.run(sql, now=self._tx.now, name=name) == 1

    def retire(self, name: str) -> None:
        """Free the name of a token that has run out."""
        self._tx.run(
            """
            UPDATE tokens SET revoked_at = expires_at
             WHERE name = :name AND revoked_at IS NULL AND expires_at <= :now
            """,
            now=self._tx.now, name=name,
        )  # fmt: skip

    def used(self, id: str, unless_since: int) -> None:
        """Note that the token was used, unless that was noted a moment ago."""
        self._tx.run(
            """
            UPDATE tokens SET last_used_at = :now
             WHERE id = :id AND (last_used_at IS NULL OR last_used_at < :unless_since)
            """,
            now=self._tx.now, id=id, unless_since=unless_since,
        )  # fmt: skip


class AuditStore:
    """Calls, as rows in a chain."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def append(self, entry: Entry) -> None:
        """Add the entry to the end of the chain; to be the last thing that a transaction does.

        The head's row stays locked until the commit, so that rows are chained in the order of their numbers.
        """
        if self._tx.row_lock:
            # Others may append at this moment: the database computes the chain once the row is ours.
            self._tx.run(_APPEND, content=content(entry), **vars(entry))
            return
        # Whoever writes is alone here, so we compute it ourselves.
        head = self.head()
        link = Link(head.seq + 1, entry, linked(head.chain, head.seq + 1, entry))
        self._tx.run("UPDATE audit_head SET seq = :seq, chain = :chain", seq=link.seq, chain=link.chain)
        self._tx.insert("audit", {"seq": link.seq, **vars(entry), "chain": link.chain})

    def head(self) -> Head:
        """The end of the chain, as it was last written."""
        return _head(self._tx.one("SELECT seq, chain FROM audit_head") or {})

    def newest(self, *, account: str | None, tool: str | None, since: int | None, limit: int) -> list[Link]:
        """The last calls that match, newest first."""
        conditions = where({"account = :account": account, "tool = :tool": tool, "at >= :since": since})
        rows = self._tx.all(
            f"SELECT {_LINK} FROM audit {conditions} ORDER BY seq DESC LIMIT :limit",
            account=account, tool=tool, since=since, limit=limit,
        )  # fmt: skip
        return [_link(row) for row in rows]

    def chained(self) -> Iterator[Link]:
        """Every call from the first, some at a time."""
        last = None
        while rows := self._tx.all(_NEXT if last is not None else _FIRST, last=last, limit=PAGE):
            yield from map(_link, rows)
            last = rows[-1]["seq"]


_TOKEN = ", ".join(Token.__dataclass_fields__)
_ENTRY = ", ".join(Entry.__dataclass_fields__)
_LINK = f"seq, {_ENTRY}, chain"
_FIRST = f"SELECT {_LINK} FROM audit ORDER BY seq LIMIT :limit"
_NEXT = f"SELECT {_LINK} FROM audit WHERE seq > :last ORDER BY seq LIMIT :limit"
_APPEND = f"""
    WITH head AS (
        UPDATE audit_head
           SET seq = seq + 1,
               chain = encode(sha256(convert_to(chain || ':' || (seq + 1) || ':' || :content, 'UTF8')), 'hex')
        RETURNING seq, chain
    )
    INSERT INTO audit ({_LINK})
    SELECT seq, {", ".join(f":{name}" for name in Entry.__dataclass_fields__)}, chain FROM head
"""


@stored
def _token(row: Row) -> Token:
    return Token(**(row | {"scope": Scope(row["scope"])}))


@stored
def _link(row: Row) -> Link:
    entry = Entry(**{name: row[name] for name in Entry.__dataclass_fields__})
    return Link(int(row["seq"]), entry, row["chain"])


@stored
def _head(row: Row) -> Head:
    return Head(int(row["seq"]), str(row["chain"]))
