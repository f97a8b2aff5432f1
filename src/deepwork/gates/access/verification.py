"""Verifies the audit log, and compares the rows that let work pass with their seals and with the log."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from deepwork.gates.access.models import (
    DONE,
    Anchor,
    ChainedEntry,
    ChainVerdict,
    compute_digest,
    find_anchor_problem,
    verify_chain,
)
from deepwork.gates.access.store import AuditStore
from deepwork.gates.approvals.credentials import ENROLLING_TOOLS, Credential, CredentialFile, CredentialStore
from deepwork.gates.approvals.store import USE_TOOL, LoggedFact, confirms_given
from deepwork.kernel.database.seals import LIST_ID, UNSEALED, list_broken
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.user_settings import CredentialKind

_REPORT_EVERY = 500
_REVOKING_TOOL = "token_revoke"
_LOGGED_TOOLS = ("give_approval", "refuse_approval", USE_TOOL, _REVOKING_TOOL)
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


def verify_log(
    tx: Transaction, expected: Anchor | None, report: Callable[[int, int], None] = lambda _seq, _total: None
) -> ChainVerdict:
    """Verify the chain, then compare it with an anchor, and rows and enrolled proofs with what it says.

    `report` gets the number of the entry that was reached, and how many there are.
    """
    store = AuditStore(tx)
    head, key = store.get_head(), store.get_key()
    verdict = verify_chain(_report_progress(store.iterate_chain(), head.seq, report), head, key)
    if expected and verdict.problem is None:
        problem = find_anchor_problem(expected, verdict.rows, store.find_chain(expected.head.seq), key)
        verdict = replace(verdict, problem=problem, anchored_rows=expected.head.seq)
    if verdict.problem is None:
        verdict = replace(verdict, problem=_find_enrollment_problem(tx) or find_forged_row(tx))
    return verdict


def _report_progress(
    links: Iterable[ChainedEntry], total: int, report: Callable[[int, int], None]
) -> Iterator[ChainedEntry]:
    for link in links:
        if link.seq % _REPORT_EVERY == 0:
            report(link.seq, total)
        yield link


def _find_enrollment_problem(tx: Transaction) -> str | None:
    store = AuditStore(tx)
    # Entries before the key of the store are older than its adoption, which forgets proofs.
    entries = store.list_of_tools(ENROLLING_TOOLS, store.get_key().keyed_from)
    done = [link for link in entries if link.entry.outcome == DONE]
    return find_proof_problem(done, CredentialStore(tx).list_unverified(), CredentialFile().load())


def find_forged_row(tx: Transaction) -> str | None:
    """Return what is wrong with the first row that deepwork did not write, or that the log contradicts."""
    store = AuditStore(tx)
    logged = store.list_of_tools(_LOGGED_TOOLS, store.get_key().keyed_from)
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
        link.entry for link in entries if link.entry.tool == _REVOKING_TOOL and link.entry.outcome == DONE
    ]
    for row in tx.fetch_all(_VALID_TOKENS_SQL):
        digest = compute_digest({"name": row["name"]})
        if any(entry.digest == digest and entry.at >= row["created_at"] for entry in revoked):
            yield f"the token {row['id']} is not revoked, but the log says that it was"


def find_proof_problem(
    entries: Iterable[ChainedEntry], credentials: Collection[Credential], elsewhere: Iterable[Credential] = ()
) -> str | None:
    """Return what differs between the entries of calls that enrolled a proof and the stored proofs.

    `credentials` include removed ones; `elsewhere` are those that this user enrolled in other stores, which a
    new store takes over.
    """
    enrolled = {link.entry.digest: link.seq for link in entries}
    stored = {_digest_enrollment(each): each for each in credentials}
    known = {_digest_enrollment(each) for each in elsewhere}
    for digest, credential in stored.items():
        if credential.removed_at is None and digest not in enrolled and digest not in known:
            return f"no call in the log enrolled the {credential.method} {credential.id} of this store"
    for digest, seq in enrolled.items():
        if digest not in stored:
            return f"the proof that row {seq} enrolled was changed in the store or removed from it"
    return None


def _digest_enrollment(credential: Credential) -> str:
    """Compute the digest of the arguments of the call that enrolled it."""
    data: Any = dict(credential.data)
    if credential.method is CredentialKind.PASSKEY:
        return compute_digest({"name": credential.name, **data.get("enrolled_with", {})})
    return compute_digest({"verifier": data})
