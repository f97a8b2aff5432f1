"""The record of one call: written by the transaction that has its effect, so that both happen or neither."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from functools import cache
from typing import Any

from deepwork.access import chain
from deepwork.access.models import Entry
from deepwork.access.store import AuditStore
from deepwork.database.call import Call, calling
from deepwork.database.transaction import Database, Transaction
from deepwork.errors import Code, DeepworkError

log = logging.getLogger("deepwork")


class Note:
    """What will be written down of a call; `Database` hands it every transaction of the call to write in."""

    def __init__(self, call: Call, parameters: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        self._call = call
        self._arguments = chain.told(parameters, given)
        self._digest = chain.digest(given)
        self.outcome = chain.DONE
        self._is_written = False
        self.is_kept = False

    def __call__(self, tx: Transaction) -> None:
        """The transaction is about to be stored: write, unless an earlier one of this call has."""
        if not self._is_written:
            self._is_written = True
            self._write(tx)
            tx.afterwards(self._kept)

    def keep(self, database: Database) -> None:
        """Write what no transaction of the call has written; where that fails, the call still counts."""
        try:
            with calling(Call()), database.transaction() as tx:
                self._write(tx)
        except DeepworkError as error:
            log.error("A call of %s could not be recorded: %s", self._call.tool, error)  # noqa: TRY400

    def keep_failure(self, database: Database, error: Exception) -> None:
        """Write that the call failed, after whatever it did before."""
        self.outcome = (error.code if isinstance(error, DeepworkError) else Code.INTERNAL_ERROR).value
        self.keep(database)

    def _kept(self) -> None:
        self.is_kept = True

    def _write(self, tx: Transaction) -> None:
        AuditStore(tx).append(
            Entry(
                at=tx.now,
                account=self._call.account,
                caller=self._call.caller,
                host=_host(),
                tool=self._call.tool,
                arguments=self._arguments,
                digest=self._digest,
                outcome=self.outcome,
            )
        )


@cache
def _host() -> str:
    return socket.gethostname()
