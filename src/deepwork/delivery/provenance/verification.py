"""Verifies the trailers of commits: do they name the work that the commits contain?"""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from deepwork.delivery.provenance.rules import (
    AttemptIdentity,
    CommitLink,
    CommitVerdict,
    KnownBy,
    TrailerClaim,
    VerifiedCommit,
    are_supported,
    build_matches,
    describe_other_content,
    find_chain,
    find_claimed_task,
    find_identity_problem,
    find_supported,
    group_by_task,
    list_claimed_matches,
    parse_claims,
    supports,
)
from deepwork.delivery.provenance.store import LinkStore
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.git.command import MAX_LISTING_BYTES, Git
from deepwork.kernel.git.history import HistoryCommit, list_commits, resolve_range
from deepwork.kernel.git.patches import compute_patch_ids, list_merges_with_own_changes

_MAX_CHAIN = 50
"""How many recorded changes a squash may consist of."""

Found = tuple[CommitLink, KnownBy]
"""A recorded link that fits a commit, and how it fits."""
Evidence = dict[str, list[Found]]
"""Recorded links by the hash of the commit that they fit, with how they fit."""
IsSettled = Callable[[HistoryCommit, Collection[Found]], bool]
"""Tells whether links are enough to know who made a commit, so that nothing else is compared."""


class EvidenceFinder:
    """Compares commits of one repository with what is recorded. Git runs between the transactions."""

    def __init__(self, database: Database, git: Git) -> None:
        self._database = database
        self._git = git.at(git.root, max_output=MAX_LISTING_BYTES)

    def find(
        self, commits: Sequence[HistoryCommit], judged: Sequence[HistoryCommit], is_settled: IsSettled
    ) -> tuple[Evidence, set[str]]:
        """Find evidence for commits; return it, and the hashes of judged commits that it does not settle.

        Patch ids take longest: only unsettled commits are compared by them.
        """
        evidence: Evidence = {}

        def keep_open(candidates: Iterable[HistoryCommit]) -> list[HistoryCommit]:
            return [each for each in candidates if not is_settled(each, evidence.get(each.hash, ()))]

        with self._database.reading() as tx:
            _add_by_hash(tx, commits, evidence)
            opened = keep_open(judged)
            unknown = [commit for commit in commits if commit.hash not in evidence]
            _add_by_trees(tx, [*unknown, *(each for each in opened if each.hash in evidence)], evidence)
            opened = keep_open(opened)
            _add_by_chains(tx, opened, evidence)
        opened = keep_open(opened)
        self._add_by_patch_ids(opened, evidence)
        opened = keep_open(opened)
        self._add_by_parents([commit for commit in opened if len(commit.parents) > 1], evidence)
        return evidence, {commit.hash for commit in keep_open(opened)}

    def _add_by_patch_ids(self, commits: Collection[HistoryCommit], evidence: Evidence) -> None:
        pairs = {commit.hash: commit.change for commit in commits if commit.change}
        if not pairs:
            return
        computed = compute_patch_ids(self._git.run, pairs.values())
        ids = {hash: found for hash, pair in pairs.items() if (found := computed.get(pair))}
        with self._database.reading() as tx:
            links = LinkStore(tx).list_by_patch_ids(set(ids.values()))
        by_id: dict[str | None, list[CommitLink]] = {}
        for link in links:
            by_id.setdefault(link.patch_id, []).append(link)
        for hash, id in ids.items():
            _add(evidence, hash, by_id.get(id, ()), KnownBy.PATCH_ID)

    def _add_by_parents(self, merges: Sequence[HistoryCommit], evidence: Evidence) -> None:
        """Link merges with the work that they merge, unless they have content of their own."""
        merged = {parent for merge in merges for parent in merge.parents[1:]}
        if not merged:
            return
        with self._database.reading() as tx:
            links = LinkStore(tx).list_by_commits(merged)
        by_commit: dict[str, list[CommitLink]] = {}
        for link in links:
            by_commit.setdefault(link.commit_hash, []).append(link)
        wanted = [merge for merge in merges if any(parent in by_commit for parent in merge.parents[1:])]
        changed = list_merges_with_own_changes(self._git.run, [merge.hash for merge in wanted])
        for merge in wanted:
            if merge.hash not in changed:
                found = [link for parent in merge.parents[1:] for link in by_commit.get(parent, ())]
                _add(evidence, merge.hash, found, KnownBy.PARENTS)


def _add_by_hash(tx: Transaction, commits: Iterable[HistoryCommit], evidence: Evidence) -> None:
    for link in LinkStore(tx).list_by_commits([commit.hash for commit in commits]):
        evidence.setdefault(link.commit_hash, []).append((link, link.known_by))


def _add_by_trees(tx: Transaction, commits: Collection[HistoryCommit], evidence: Evidence) -> None:
    store = LinkStore(tx)
    ending = store.list_by_trees({commit.tree for commit in commits})
    trees = {link.tree for link in ending}
    fitting = [commit for commit in commits if commit.tree in trees and commit.before is not None]
    if not fitting:
        return
    changes = group_by_task(store.list_by_tasks({link.task_id for link in ending}))
    for commit in fitting:
        found = [link for own in changes.values() for link in own.find(commit.before or "", commit.tree)]
        _add(evidence, commit.hash, found, KnownBy.TREE)


def _add_by_chains(tx: Transaction, commits: Collection[HistoryCommit], evidence: Evidence) -> None:
    """Link squashes of several tasks with every change that they consist of."""
    by_end: dict[str, list[CommitLink]] = {}
    unread = {commit.tree for commit in commits}
    for _ in range(_MAX_CHAIN):
        found = LinkStore(tx).list_by_trees(unread)
        for link in found:
            by_end.setdefault(link.tree, []).append(link)
        unread = {link.tree_before for link in found if link.tree_before} - by_end.keys()
        if not unread:
            break
    for commit in commits:
        chain = find_chain(commit.before or "", commit.tree, by_end, _MAX_CHAIN) if commit.before else ()
        _add(evidence, commit.hash, chain, KnownBy.TREE)


def _add(evidence: Evidence, hash: str, links: Iterable[CommitLink], known_by: KnownBy) -> None:
    for link in links:
        evidence.setdefault(hash, []).append((link, known_by))


class WorkDirectory(Protocol):
    """Finds attempts, tasks of all kinds, and landings."""

    def find_attempts(self, tx: Transaction, ids: Collection[str]) -> dict[str, AttemptIdentity]:
        """Return the attempts with these ids, by id."""

    def find_tasks(self, tx: Transaction, ids: Collection[str]) -> set[str]:
        """Return which of these ids are planned tasks, tracked tasks or steps of jobs."""

    def find_landings(self, tx: Transaction, ids: Collection[str]) -> set[str]:
        """Return which of these ids are landings."""


MAX_COMMITS = 100_000
# Read once: reading a member of an enum takes as long as building a value for a commit.
_UNLINKED, _VERIFIED, _BY_PATCH_ID = CommitVerdict.UNLINKED, CommitVerdict.VERIFIED, KnownBy.PATCH_ID
_CUT_OFF = (
    "Its parent is not in this repository, so its change cannot be compared: fetch more of the history."
)


class ProvenanceVerifier:
    """Verifies commits of one repository."""

    def __init__(self, database: Database, git: Git, directory: WorkDirectory) -> None:
        self._database, self._git, self._directory = database, git, directory

    def verify(self, range_text: str, *, is_required: bool = False) -> list[VerifiedCommit]:
        """Verify the commits of a range, newest first.

        `is_required`: compare also commits without trailers by their patch ids, which takes longer.
        """
        wanted = resolve_range(self._git, range_text)
        with _pause_garbage_collection():
            commits = list_commits(self._git, wanted, MAX_COMMITS)
            return self.verify_commits(commits, is_required=is_required)

    def verify_commits(
        self, commits: Sequence[HistoryCommit], *, is_required: bool = False
    ) -> list[VerifiedCommit]:
        """Verify these commits, in their order."""
        claims = {commit.hash: found for commit in commits if (found := parse_claims(commit.message))}
        attempts = self._find_attempts(claims.values())

        def is_settled(commit: HistoryCommit, found: Collection[Found]) -> bool:
            own = claims.get(commit.hash)
            if own is None:
                return bool(found)
            return are_supported(own, [link for link, _ in found], attempts)

        judged = commits if is_required else [commit for commit in commits if commit.hash in claims]
        evidence, opened = EvidenceFinder(self._database, self._git).find(commits, judged, is_settled)
        unsettled = [found for hash, found in claims.items() if hash in opened]
        known = _NamedInTrailers(attempts, self._find_others(claims.values(), unsettled))
        return [
            _judge(commit, claims.get(key, ()), evidence.get(key, ()), known, is_settled=key not in opened)
            if (key := commit.hash) in claims or key in evidence
            else VerifiedCommit(key, commit.subject, _UNLINKED)
            for commit in commits
        ]

    def _find_attempts(self, claims: Collection[tuple[TrailerClaim, ...]]) -> dict[str, AttemptIdentity]:
        """Find the attempts that trailers name, with one query for all."""
        ids = {claim.attempt_id for own in claims for claim in own if claim.attempt_id}
        if not ids:
            return {}
        with self._database.reading() as tx:
            return self._directory.find_attempts(tx, ids)

    def _find_others(
        self, claims: Collection[tuple[TrailerClaim, ...]], unsettled: Collection[tuple[TrailerClaim, ...]]
    ) -> set[str]:
        """Find the tasks and landings that trailers name; a task that has links need not be looked up."""
        tasks = {claim.task_id for own in claims for claim in own if claim.task_id}
        doubtful = {claim.task_id for own in unsettled for claim in own if claim.task_id}
        landings = {claim.landing_id for own in claims for claim in own if claim.landing_id}
        if not (doubtful or landings):
            return tasks
        with self._database.reading() as tx:
            found = self._directory.find_tasks(tx, doubtful) | self._directory.find_landings(tx, landings)
        return tasks - doubtful | found


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Search for no unused cycles: what is built for thousands of commits has none, and is all in use."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _NamedInTrailers(NamedTuple):
    """What trailers name and what exists: attempts by id, and the ids of tasks and landings."""

    attempts: Mapping[str, AttemptIdentity]
    others: Collection[str]


def _judge(
    commit: HistoryCommit,
    claims: Sequence[TrailerClaim],
    found: Collection[Found],
    known: _NamedInTrailers,
    *,
    is_settled: bool,
) -> VerifiedCommit:
    """Judge a commit that has trailers or is known to be the work of a task."""
    if not claims:
        matches = build_matches(found)
        return VerifiedCommit(commit.hash, commit.subject, CommitVerdict.LINKED, (), matches)
    is_compared = _BY_PATCH_ID in [known_by for _, known_by in found]
    if is_settled and not is_compared and not _has_identity_problem(claims, known):
        return VerifiedCommit(commit.hash, commit.subject, _VERIFIED, tuple(claims), build_matches(found))
    wrong = _list_problems(claims, found, known, is_settled=is_settled)
    links = [link for link, _ in found] if is_compared else []
    matches = build_matches(found, find_supported(claims, links, known.attempts) if links else ())
    if not wrong:
        return VerifiedCommit(commit.hash, commit.subject, _VERIFIED, tuple(claims), matches)
    verdict = CommitVerdict.FORGED
    if commit.change is None and not _has_identity_problem(claims, known):
        verdict, wrong = CommitVerdict.UNVERIFIABLE, (_CUT_OFF,)
    matches += list_claimed_matches(claims, matches, *known)
    return VerifiedCommit(commit.hash, commit.subject, verdict, tuple(claims), matches, wrong)


def _has_identity_problem(claims: Sequence[TrailerClaim], known: _NamedInTrailers) -> bool:
    """Return whether a claim names something that does not exist."""
    attempts, others = known
    for claim in claims:  # noqa: SIM110 - it runs for every commit, and a generator takes twice as long
        if find_identity_problem(claim, attempts, others) is not None:
            return True
    return False


def _list_problems(
    claims: Sequence[TrailerClaim], found: Collection[Found], known: _NamedInTrailers, *, is_settled: bool
) -> tuple[str, ...]:
    """List what is wrong with claims; of a settled commit only what they name has to exist."""
    problems = [find_identity_problem(claim, *known) for claim in claims]
    if not is_settled:
        links = [link for link, _ in found]
        problems = [
            problem or _find_content_problem(claim, links, known)
            for claim, problem in zip(claims, problems, strict=True)
        ]
    return tuple([problem for problem in problems if problem])


def _find_content_problem(
    claim: TrailerClaim, links: Sequence[CommitLink], known: _NamedInTrailers
) -> str | None:
    if any(supports(link, claim, known.attempts) for link in links):
        return None
    claimed = find_claimed_task(claim, known.attempts)
    return describe_other_content(claim, {link.task_id for link in links} - {claimed or ""})
