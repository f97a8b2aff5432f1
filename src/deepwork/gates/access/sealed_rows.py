"""Compares the rows that let work pass with their seals, and with what the audit log says about them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain

from deepwork.gates.access.audit_chain import DONE, compute_digest
from deepwork.gates.access.models import ChainedEntry
from deepwork.gates.approvals.decision_log import USE_TOOL, LoggedFact, confirms_given
from deepwork.kernel.database.seals import LIST_ID, UNSEALED, list_broken
from deepwork.kernel.database.transaction import Transaction

DECIDING_TOOLS = ("give_approval", "refuse_approval")
REVOKING_TOOL = "token_revoke"
LOGGED_TOOLS = (*DECIDING_TOOLS, USE_TOOL, REVOKING_TOOL)
"""Calls and uses in the log that say what rows must be now."""
_WORDS = {
    "approvals": "approval",
    "person_credentials": "enrolled proof",
    "proofs": "proof of a check",
    "tokens": "token",
}
_DECIDED_SQL = """
    SELECT id, subject_kind, status, digest, decided_by FROM approvals
     WHERE status IN ('given', 'refused', 'used') ORDER BY id
"""
_ENDED_SQL = "SELECT id FROM approvals WHERE status IN ('stale', 'expired')"
_UNGATED = "tracked_task"
"""No gate waits for what people said about tracked tasks, and they say it with other calls."""
_VALID_TOKENS_SQL = "SELECT id, name, created_at FROM tokens WHERE revoked_at IS NULL ORDER BY id"


def find_forged_row(tx: Transaction, entries: Iterable[ChainedEntry]) -> str | None:
    """Return what is wrong with the first row that deepwork did not write, or that the log contradicts.

    `entries` are those of `LOGGED_TOOLS`, in their order.
    """
    logged = list(entries)
    problems = chain(_list_broken_rows(tx), _list_old_approvals(tx, logged), _list_old_tokens(tx, logged))
    return next(problems, None)


def _list_broken_rows(tx: Transaction) -> Iterator[str]:
    ended = {row["id"] for row in tx.fetch_all(_ENDED_SQL)}
    for table, word in _WORDS.items():
        for id, problem in list_broken(tx, table):
            # Without a seal these count for nothing: proofs, and approvals that lead to nothing any more.
            if problem == UNSEALED and (table == "proofs" or (table == "approvals" and id in ended)):
                continue
            if id == LIST_ID:
                yield f"the list of what is in the store was changed: {word}"
                continue
            said = "was not written by deepwork" if problem == UNSEALED else f"was {problem} in the store"
            yield f"the {word} {id} {said}"


def _list_old_approvals(tx: Transaction, entries: Iterable[ChainedEntry]) -> Iterator[str]:
    """Yield approvals that say something else than the log, such as one that was put back with its seal."""
    facts = _group_facts(entries)
    for row in tx.fetch_all(_DECIDED_SQL):
        known, said = facts.get(row["id"], []), f"the approval {row['id']} is {row['status']}"
        decisions = [fact for fact in known if fact.verdict != "used"]
        if row["subject_kind"] == _UNGATED:
            continue
        if row["status"] == "given" and not confirms_given(known, row["digest"], row["decided_by"]):
            yield f"{said} by {row['decided_by']}, but the log says otherwise"
        # A person also decides by acting, which is used at once; and older logs lack what was decided.
        elif row["status"] != "given" and decisions:
            verdict = "given" if row["status"] == "used" else row["status"]
            if decisions[-1] != LoggedFact(verdict, row["digest"], row["decided_by"]):
                yield f"{said} by {row['decided_by']}, but the log says otherwise"


def _group_facts(entries: Iterable[ChainedEntry]) -> dict[str, list[LoggedFact]]:
    """Map approvals to what the log says about them, in its order; failed calls say nothing."""
    found: dict[str, list[LoggedFact]] = {}
    for link in entries:
        verdict, _, digest = link.entry.outcome.partition(":")
        id = json.loads(link.entry.arguments).get("approval_id")
        if digest and id:
            found.setdefault(id, []).append(LoggedFact(verdict, digest, link.entry.caller))
    return found


def _list_old_tokens(tx: Transaction, entries: Iterable[ChainedEntry]) -> Iterator[str]:
    """Yield tokens that are valid although the log says that they were revoked."""
    revoked = [
        link.entry for link in entries if link.entry.tool == REVOKING_TOOL and link.entry.outcome == DONE
    ]
    for row in tx.fetch_all(_VALID_TOKENS_SQL):
        digest = compute_digest({"name": row["name"]})
        if any(entry.digest == digest and entry.at >= row["created_at"] for entry in revoked):
            yield f"the token {row['id']} is not revoked, but the log says that it was"
