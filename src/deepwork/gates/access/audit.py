"""Writes the audit entry of a call in the transaction with its effect, so that both are stored or neither."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from deepwork.gates.access import audit_chain
from deepwork.gates.access.models import AuditEntry
from deepwork.gates.access.store import AuditStore
from deepwork.gates.approvals.decision_log import USE_TOOL
from deepwork.gates.approvals.models import ApprovalEvent
from deepwork.kernel.call import CANCELLED, Call, current_call, use_call
from deepwork.kernel.database.transaction import Database, PendingEvent, Transaction
from deepwork.kernel.errors import Code, DeepworkError, StorageError
from deepwork.kernel.records import copy_with

log = logging.getLogger("deepwork")


class AuditRecord:
    """The audit entry of one call; `Database` calls it at the end of each writing transaction of the call."""

    def __init__(self, call: Call, parameters: Iterable[str], given: Mapping[str, Any]) -> None:
        self._call = call
        self._arguments = audit_chain.summarize_arguments(parameters, given)
        self._digest = audit_chain.compute_digest(given)
        self.outcome = audit_chain.DONE
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


def record_uses(tx: Transaction, events: Iterable[PendingEvent]) -> None:
    """Write an entry for each approval that this transaction uses up, whatever call does it."""
    for event in events:
        if event.type == ApprovalEvent.USED:
            given = {"approval_id": event.data["id"]}
            arguments = audit_chain.summarize_arguments(given, given)
            outcome = f"used:{event.data['digest']}"
            _append(tx, current_call(), USE_TOOL, arguments, audit_chain.compute_digest(given), outcome)


def _append(tx: Transaction, call: Call, tool: str, arguments: str, digest: str, outcome: str) -> None:
    who = {"account": call.account, "caller": call.caller, "host": _get_host()}
    what = {"tool": tool, "arguments": arguments, "digest": digest, "outcome": outcome}
    AuditStore(tx).append(AuditEntry(at=tx.now, **who, **what))


@cache
def _get_host() -> str:
    return os.uname().nodename
