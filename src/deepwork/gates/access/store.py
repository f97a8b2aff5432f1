"""The rows of tokens and of the audit log."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any

from deepwork.gates.access import models
from deepwork.gates.access.models import (
    AuditEntry,
    ChainedEntry,
    ChainHead,
    ChainKey,
    Scope,
    Token,
    key_digest,
    serialize_entry,
)
from deepwork.gates.approvals.models import ApprovalEvent
from deepwork.gates.approvals.store import USE_TOOL
from deepwork.kernel.call import CANCELLED, Call, current_call, use_call
from deepwork.kernel.database.engine import Row, UnreadableRow, build_where, row_parser
from deepwork.kernel.database.seals import is_sealed, save_seal
from deepwork.kernel.database.store_key import StoreKey
from deepwork.kernel.database.transaction import Database, PendingEvent, Transaction
from deepwork.kernel.errors import Code, DeepworkError, StorageError
from deepwork.kernel.events.log import append_events
from deepwork.kernel.values import copy_with

PAGE = 1000


class TokenStore:
    """Stores tokens."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, token: Token) -> bool:
        """Insert a token; False if another token with its name is not revoked."""
        row = {name: getattr(token, name) for name in _TOKEN_FIELDS}
        added = self._tx.insert_new("tokens", row)
        if added:
            save_seal(self._tx, "tokens", token.id)
        return added

    def find(self, id: str) -> Token | None:
        """Return the token with this id, valid or not; None also if it is not as deepwork stored it."""
        row = self._tx.fetch_one(f"SELECT {_TOKEN_COLUMNS} FROM tokens WHERE id = :id", id=id)
        if row is None or not is_sealed(self._tx, "tokens", id):
            return None
        compute = self._tx.read_store_key().compute_digest
        return replace(_parse_token(row), key_digest=partial(key_digest, compute=compute))

    def find_valid_ids(self, ids: Sequence[str]) -> set[str]:
        """Return those of the ids that belong to tokens which are neither revoked nor expired."""
        sql = """
            SELECT id FROM tokens
             WHERE id IN :ids AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > :now)
        """
        return {row["id"] for row in self._tx.fetch_all(sql, ids=list(ids), now=self._tx.now)}

    def list_all(self) -> list[Token]:
        """Return all tokens, including revoked ones, oldest first."""
        return [
            _parse_token(row)
            for row in self._tx.fetch_all(
                f"SELECT {_TOKEN_COLUMNS} FROM tokens ORDER BY created_at, created_seq"
            )
        ]

    def revoke(self, name: str) -> bool:
        """Revoke the token with this name; False if there is no unrevoked one."""
        sql = "UPDATE tokens SET revoked_at = :now WHERE name = :name AND revoked_at IS NULL RETURNING id"
        return self._seal_changed(sql, name)

    def retire(self, name: str) -> None:
        """Revoke an expired token, so that its name can be reused."""
        sql = """
            UPDATE tokens SET revoked_at = expires_at
             WHERE name = :name AND revoked_at IS NULL AND expires_at <= :now RETURNING id
        """
        self._seal_changed(sql, name)

    def _seal_changed(self, sql: str, name: str) -> bool:
        """Change the token with this name, and seal it again; False if there is none."""
        changed = self._tx.fetch_all(sql, now=self._tx.now, name=name)
        for row in changed:
            save_seal(self._tx, "tokens", row["id"])
        return bool(changed)

    def record_use(self, id: str, unless_since: int) -> None:
        """Record that the token was used, unless that was recorded since the given time."""
        sql = """
            UPDATE tokens SET last_used_at = :now
             WHERE id = :id AND (last_used_at IS NULL OR last_used_at < :unless_since)
        """
        self._tx.execute(sql, now=self._tx.now, id=id, unless_since=unless_since)


class AuditStore:
    """Stores audit entries in a hash chain."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def append(self, entry: AuditEntry) -> None:
        """Append the entry to the chain; must be the last write of a transaction.

        The head's row stays locked until the commit, so that entries are chained in numeric order. The
        database computes the hash, because it knows the head once it has locked it.
        """
        is_appended = self._append_with(self._tx.store_key, entry)
        # If not, another process restored a backup, which has another key.
        if not is_appended and not self._append_with(self._tx.read_store_key(), entry):
            raise UnreadableRow

    def _append_with(self, key: StoreKey, entry: AuditEntry) -> bool:
        """Append the entry; False if this is no longer the key of the store."""
        values = {"content": serialize_entry(entry), "store_id": key.store_id}
        if self._tx.row_lock:
            inner, outer = key.pads
            return self._tx.execute(_APPEND_SQL, inner=inner, outer=outer, **values, **vars(entry)) == 1
        # SQLite cannot change two tables with one statement.
        row = self._tx.fetch_one(_EXTEND_CHAIN_SQL, key=key.key, **values)
        if row is None:
            return False
        head = _parse_head(row)
        self._tx.insert("audit", {"seq": head.seq, **vars(entry), "chain": head.chain})
        return True

    def get_key(self) -> ChainKey:
        """Return the key of the chain."""
        key = self._tx.read_store_key()
        return ChainKey(key.compute_digest, key.keyed_from, key.store_id)

    def get_head(self) -> ChainHead:
        """Return the stored end of the chain."""
        return _parse_head(self._tx.fetch_one("SELECT seq, chain FROM audit_head") or {})

    def find_chain(self, seq: int) -> str | None:
        """Return the hash of the entry with this number."""
        found = self._tx.fetch_value("SELECT chain FROM audit WHERE seq = :seq", seq=seq)
        return None if found is None else str(found)

    def list_newest(
        self, *, account: str | None, tool: str | None, since: int | None, limit: int
    ) -> list[ChainedEntry]:
        """Return the last matching entries, newest first."""
        conditions = build_where({"account = :account": account, "tool = :tool": tool, "at >= :since": since})
        sql = f"SELECT {_AUDIT_COLUMNS} FROM audit {conditions} ORDER BY seq DESC LIMIT :limit"
        rows = self._tx.fetch_all(sql, account=account, tool=tool, since=since, limit=limit)
        return [_parse_link(row) for row in rows]

    def list_of_tools(self, tools: Sequence[str], since: int) -> list[ChainedEntry]:
        """Return the entries of calls of these tools, from this number on."""
        sql = f"SELECT {_AUDIT_COLUMNS} FROM audit WHERE tool IN :tools AND seq >= :since ORDER BY seq"
        return [_parse_link(row) for row in self._tx.fetch_all(sql, tools=list(tools), since=since)]

    def iterate_chain(self) -> Iterator[ChainedEntry]:
        """Iterate over all entries from the first, one page at a time."""
        last = None
        while rows := self._tx.fetch_all(
            _NEXT_PAGE_SQL if last is not None else _FIRST_PAGE_SQL, last=last, limit=PAGE
        ):
            yield from map(_parse_link, rows)
            last = rows[-1]["seq"]


_TOKEN_FIELDS = tuple(name for name in Token.__dataclass_fields__ if name != "key_digest")
_TOKEN_COLUMNS = ", ".join(_TOKEN_FIELDS)
_ENTRY_COLUMNS = ", ".join(AuditEntry.__dataclass_fields__)
_AUDIT_COLUMNS = f"seq, {_ENTRY_COLUMNS}, chain"
_FIRST_PAGE_SQL = f"SELECT {_AUDIT_COLUMNS} FROM audit ORDER BY seq LIMIT :limit"
_NEXT_PAGE_SQL = f"SELECT {_AUDIT_COLUMNS} FROM audit WHERE seq > :last ORDER BY seq LIMIT :limit"
_EXTEND_CHAIN_SQL = """
    UPDATE audit_head
       SET seq = seq + 1, chain = hmac_hex(:key, chain || ':' || (seq + 1) || ':' || :content)
     WHERE EXISTS (SELECT 1 FROM store_identity WHERE id = :store_id)
    RETURNING seq, chain
"""
_APPEND_SQL = f"""
    WITH head AS (
        UPDATE audit_head
           SET seq = seq + 1,
               chain = encode(sha256(:outer || sha256(
                   :inner || convert_to(chain || ':' || (seq + 1) || ':' || :content, 'UTF8'))), 'hex')
         WHERE EXISTS (SELECT 1 FROM store_identity WHERE id = :store_id)
        RETURNING seq, chain
    )
    INSERT INTO audit ({_AUDIT_COLUMNS})
    SELECT seq, {", ".join(f":{name}" for name in AuditEntry.__dataclass_fields__)}, chain FROM head
"""


@row_parser
def _parse_token(row: Row) -> Token:
    return Token(**(row | {"scope": Scope(row["scope"]), "is_person": bool(row["is_person"])}))


@row_parser
def _parse_link(row: Row) -> ChainedEntry:
    entry = AuditEntry(**{name: row[name] for name in AuditEntry.__dataclass_fields__})
    return ChainedEntry(int(row["seq"]), entry, row["chain"])


@row_parser
def _parse_head(row: Row) -> ChainHead:
    return ChainHead(int(row["seq"]), str(row["chain"]))


log = logging.getLogger("deepwork")


class AuditRecord:
    """The audit entry of one call; `Database` calls it at the end of each writing transaction of the call."""

    def __init__(self, call: Call, parameters: Iterable[str], given: Mapping[str, Any]) -> None:
        self._call = call
        self._arguments = models.summarize_arguments(parameters, given)
        self._digest = models.compute_digest(given)
        self.outcome = models.DONE
        self._is_written = False
        self.is_saved = False

    def __call__(self, tx: Transaction) -> None:
        """Write the entry before the commit, unless an earlier transaction of this call did."""
        if not self._is_written:
            self._is_written = True
            self._write(tx)
            tx.after_commit(self._mark_saved)

    def save(self, database: Database) -> None:
        """Write the entry in its own transaction; a failure is logged and does not fail the call."""
        try:
            with use_call(Call()), database.transaction() as tx:
                tx.write_last(self._write)
        except DeepworkError as error:
            log.error("A call of %s could not be recorded in the audit log: %s", self._call.tool, error)  # noqa: TRY400

    def save_failure(self, database: Database, error: Exception) -> None:
        """Write an entry that the call failed, in addition to entries for its earlier effects."""
        code = error.code if isinstance(error, DeepworkError) else Code.INTERNAL_ERROR
        self.outcome = code.value if self._call.is_wanted() else CANCELLED
        self.save(database)

    def _mark_saved(self) -> None:
        self.is_saved = True

    def _write(self, tx: Transaction) -> None:
        _append(tx, self._call, self._call.tool, self._arguments, self._digest, self.outcome)


@contextmanager
def record_part(database: Database, tool: str, given: Mapping[str, Any]) -> Iterator[None]:
    """Record what the block does, which is part of the current call, as a call of this tool."""
    call = copy_with(current_call(), tool=tool, key=None, record=None, outcomes=None)
    record = AuditRecord(call, given, given)
    with use_call(copy_with(call, record=record)):
        try:
            yield
        except StorageError:  # the store is unavailable for the entry too
            raise
        except Exception as error:
            record.save_failure(database, error)
            raise


def record_events(tx: Transaction, events: Sequence[PendingEvent]) -> None:
    """Store the events of a transaction; whatever call uses an approval, that is in the audit log too."""
    append_events(tx, events)
    for event in events:
        if event.type == ApprovalEvent.USED:
            given = {"approval_id": event.data["id"]}
            arguments = models.summarize_arguments(given, given)
            outcome = f"used:{event.data['digest']}"
            _append(tx, current_call(), USE_TOOL, arguments, models.compute_digest(given), outcome)


def _append(tx: Transaction, call: Call, tool: str, arguments: str, digest: str, outcome: str) -> None:
    who = {"account": call.account, "caller": call.caller, "host": _get_host()}
    what = {"tool": tool, "arguments": arguments, "digest": digest, "outcome": outcome}
    AuditStore(tx).append(AuditEntry(at=tx.now, **who, **what))


@cache
def _get_host() -> str:
    return os.uname().nodename
