"""Finds the recorded work that commits contain: by hash, then by trees, then by patch id."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from deepwork.delivery.provenance.models import CommitLink, KnownBy
from deepwork.delivery.provenance.rules import find_chain, group_by_task
from deepwork.delivery.provenance.store import LinkStore
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.git.command import MAX_LISTING_BYTES, Git
from deepwork.kernel.git.history import HistoryCommit
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
