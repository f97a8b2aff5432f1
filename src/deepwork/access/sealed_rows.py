"""Compares the rows that let work pass with their seals, and decisions of people with the audit log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from deepwork.access.models import ChainedEntry
from deepwork.database.seals import UNSEALED, list_broken
from deepwork.database.transaction import Transaction

DECIDING_TOOLS = ("give_approval", "refuse_approval")
_WORDS = {
    "approvals": "approval",
    "person_credentials": "enrolled proof",
    "proofs": "proof of a check",
    "tokens": "token",
}
_DECIDED_SQL = """
    SELECT id, status, digest, decided_by FROM approvals
     WHERE status IN ('given', 'refused', 'used') ORDER BY id
"""


def find_forged_row(tx: Transaction, decisions: Iterable[ChainedEntry]) -> str | None:
    """Return what is wrong with the first row that deepwork did not write; `decisions` are in the log."""
    return next(_list_problems(tx, decisions), None)


def _list_problems(tx: Transaction, decisions: Iterable[ChainedEntry]) -> Iterator[str]:
    decided = {row["id"]: row for row in tx.fetch_all(_DECIDED_SQL)}
    for table, word in _WORDS.items():
        for id, problem in list_broken(tx, table):
            # Nobody decided about it yet; and a proof without a seal counts for nothing, such as an old one.
            if problem == UNSEALED and (table == "proofs" or (table == "approvals" and id not in decided)):
                continue
            said = "was not written by deepwork" if problem == UNSEALED else f"was {problem} in the store"
            yield f"the {word} {id} {said}"
    for id, (verdict, digest, by, seq) in _read_last_decisions(decisions).items():
        row = decided.get(id)
        status = "given" if row is not None and row["status"] == "used" else row and row["status"]
        if row is not None and (status, row["digest"], row["decided_by"]) != (verdict, digest, by):
            yield f"the approval {id} is {row['status']} by {row['decided_by']}, but row {seq} says otherwise"


def _read_last_decisions(entries: Iterable[ChainedEntry]) -> dict[str, tuple[str, str, str, int]]:
    """Map approvals to the last decision about them: verdict, digest, who, and the number of the entry."""
    found = {}
    for link in sorted(entries, key=lambda link: link.seq):
        verdict, _, digest = link.entry.outcome.partition(":")
        id = json.loads(link.entry.arguments).get("approval_id")
        if digest and id:
            found[id] = (verdict, digest, link.entry.caller, link.seq)
    return found
