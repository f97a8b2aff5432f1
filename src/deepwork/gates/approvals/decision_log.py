"""What the keyed audit log says about an approval: who decided what about it last, and whether it was used.

A seal shows that deepwork wrote a row, not that this is its newest state: somebody can put back a row with
its old seal. The log is a chain: `deepwork audit verify` notices if an entry was taken out of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from deepwork.gates.approvals.models import Approval
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.store_key import StoreKey
from deepwork.kernel.database.transaction import Transaction

USE_TOOL = "use_approval"
"""Names the entry of a use: not a call, but part of the call that passed the gate."""
_ENTRY_COLUMNS = ("at", "account", "caller", "host", "tool", "arguments", "digest", "outcome")
_SELECT_SQL = f"""
    SELECT seq, chain, {", ".join(_ENTRY_COLUMNS)},
           (SELECT earlier.chain FROM audit AS earlier WHERE earlier.seq = audit.seq - 1) AS chain_before
      FROM audit WHERE tool IN ('give_approval', 'refuse_approval', 'use_approval')
       AND substr(arguments, 1, 32) = :beginning AND seq >= :since ORDER BY seq
"""  # noqa: S608 - constants


@dataclass(frozen=True)
class LoggedFact:
    """What an entry says about an approval."""

    verdict: str
    digest: str
    caller: str


def is_confirmed(tx: Transaction, approval: Approval) -> bool:
    """Return whether the log says that this person gave exactly this, last, and that it was not used yet."""
    facts = _read_facts(tx, approval.id)
    return confirms_given(facts, approval.digest, approval.decided_by)


def confirms_given(facts: Sequence[LoggedFact], digest: str, decided_by: str | None) -> bool:
    """Return whether the facts about an approval, in their order, say that it was given and not used."""
    if any(fact.verdict == "used" for fact in facts):
        return False
    return bool(facts) and facts[-1] == LoggedFact("given", digest, decided_by or "")


def _read_facts(tx: Transaction, id: str) -> list[LoggedFact]:
    """Read what the log says about an approval, in its order; nothing if an entry was changed."""
    key = tx.read_store_key()
    rows = tx.fetch_all(_SELECT_SQL, beginning=f'{{"approval_id":"{id}"', since=key.keyed_from)
    if not all(_is_linked(key, row) for row in rows):
        return []
    # A call that failed has a code as its outcome, and no digest.
    return [_parse_fact(row) for row in rows if ":" in row["outcome"]]


def _parse_fact(row: Row) -> LoggedFact:
    verdict, _, digest = str(row["outcome"]).partition(":")
    return LoggedFact(verdict, digest, row["caller"])


def _is_linked(key: StoreKey, row: Row) -> bool:
    """Return whether the entry is as it was written, after the entry before it."""
    content = json.dumps([row[name] for name in _ENTRY_COLUMNS], separators=(",", ":"))
    digest = key.compute_digest(f"{row['chain_before'] or ''}:{row['seq']}:{content}")
    return digest == str(row["chain"])
