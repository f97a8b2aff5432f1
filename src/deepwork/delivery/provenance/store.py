"""Which task made which commit: the rows, and recording them.

Git describes commits before the transaction that ends the work; that transaction stores the links.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from deepwork.delivery.provenance.rules import CommitLink, KnownBy, is_made_by_watched, parse_claims
from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.git.command import MAX_LISTING_BYTES, Git
from deepwork.kernel.git.history import HistoryCommit, list_commits_made_here, list_new_commits
from deepwork.kernel.git.patches import GitCall, TreePair, compute_patch_ids, list_changed_paths
from deepwork.kernel.git.refs import find_trees, get_commit, resolve_commit
from deepwork.kernel.records import dataclass
from deepwork.work.tracking.attribution import WatchedWork

_COLUMNS = ", ".join(CommitLink._fields)

_KNOWN_BY = {each.value: each for each in KnownBy}


class LinkStore:
    """Reads and writes commit links; lists have no order."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, links: Sequence[CommitLink]) -> None:
        """Insert links; one that is there already stays as it is."""
        values = ", ".join(f":{name}" for name in CommitLink._fields)
        sql = f"INSERT INTO commit_links ({_COLUMNS}) VALUES ({values}) ON CONFLICT DO NOTHING"
        self._tx.execute_many(sql, [self._to_row(link) for link in links])

    def list_by_commits(self, hashes: Collection[str]) -> list[CommitLink]:
        """List the links of these commits."""
        return self._list("commit_hash", hashes)

    def list_by_trees(self, trees: Collection[str]) -> list[CommitLink]:
        """List the links whose change ends with one of these trees."""
        return self._list("tree", trees)

    def list_by_patch_ids(self, patch_ids: Collection[str]) -> list[CommitLink]:
        """List the links that make one of these changes."""
        return self._list("patch_id", patch_ids)

    def list_by_tasks(self, task_ids: Collection[str]) -> list[CommitLink]:
        """List everything that these tasks made."""
        return self._list("task_id", task_ids)

    def _list(self, column: str, wanted: Collection[str]) -> list[CommitLink]:
        """List the links with one of these values; passed as one, because SQLite is slow to bind many."""
        given = self._tx.json_texts.given.format(name="wanted")
        sql = f"SELECT {_COLUMNS} FROM commit_links WHERE {column} IN ({given})"
        rows = self._tx.fetch_tuples(sql, wanted=json.dumps(list(wanted))) if wanted else ()
        return _from_rows(rows)

    def _to_row(self, link: CommitLink) -> Row:
        return link._asdict() | {
            "known_by": link.known_by.value,
            "is_likely": int(link.is_likely),
            "recorded_at": self._tx.now,
        }


@row_parser
def _from_rows(rows: Iterable[tuple[Any, ...]]) -> list[CommitLink]:
    """Build links from columns in the order of their fields."""
    return [
        CommitLink(task, hash, before, tree, _KNOWN_BY[how], patch, plan, attempt, agent, bool(likely), at)
        for task, hash, before, tree, how, patch, plan, attempt, agent, likely, at in rows
    ]


_MAX_COMMITS = 200
_MAX_REFLOG = 10_000
_CLOCK_SLACK_SECONDS = 2
"""Commits have whole seconds, and clocks of file systems are coarse."""


@dataclass(frozen=True)
class Maker:
    """Who made commits."""

    task_id: str
    workflow_id: str | None = None
    attempt_id: str | None = None
    agent_id: str | None = None


@dataclass(frozen=True)
class PreparedLinks:
    """Links that are stored with the end of the work."""

    links: tuple[CommitLink, ...] = ()
    is_exclusive: bool = False
    """Whether commits that another agent made are left out: those of earlier attempts in the same tree."""

    def store(self, tx: Transaction) -> None:
        """Store the links."""
        store = LinkStore(tx)
        hashes = {link.commit_hash for link in self.links if link.commit_hash} if self.is_exclusive else set()
        known = {
            link.commit_hash: link.agent_id for link in store.list_by_commits(hashes) if not link.is_likely
        }
        store.add(
            [link for link in self.links if known.get(link.commit_hash, link.agent_id) == link.agent_id]
        )


NO_LINKS = PreparedLinks()


class LinkRecorder:
    """Describes commits as links; `open_git` opens a working tree."""

    def __init__(self, open_git: Callable[[Path], Git]) -> None:
        self._open_git = open_git

    def prepare_watched(self, work: WatchedWork) -> PreparedLinks:
        """Describe what a task made in its tree while it was watched."""
        if work.ended.head == work.began.head and work.ended.tree == work.began.tree:
            return PreparedLinks()
        git = work.snapshots.git
        maker = Maker(work.task_id, work.workflow_id, None, work.agent_id)
        links = _list_watched_commits(git, maker, work)
        if not work.is_alone:
            links = _keep_own(git, work, links)
        links += _list_whole_work(git, work, maker)
        return PreparedLinks(_add_patch_ids(work.snapshots.run_with_objects, links))

    def prepare_attempt(self, tree: Path, maker: Maker, base: str | None) -> PreparedLinks:
        """Describe what an attempt made in a tree of its own; `base` is where the work on the task began."""
        git = self._open_git(tree)
        head = get_commit(git, "HEAD")
        start = resolve_commit(git, base) if base else None
        links = _list_attempt_commits(git, maker, start, head)
        if start is not None and start != head and links:
            trees = find_trees(git, (start, head))
            whole = _build_link(maker, "", (trees[start], trees[head]), KnownBy.RUNNER)
            links.append(whole)
        run = git.at(git.root, max_output=MAX_LISTING_BYTES).run
        return PreparedLinks(_add_patch_ids(run, links), is_exclusive=True)


def build_landing_link(maker: Maker, commit: str, trees: TreePair) -> CommitLink:
    """Describe the merge commit of a landing, with the trees of the branch before and after."""
    return _build_link(maker, commit, trees, KnownBy.LANDING)


def _list_watched_commits(git: Git, maker: Maker, work: WatchedWork) -> list[CommitLink]:
    """List the commits that were made since the watch began; fetched ones are only likely its own."""
    since = work.began_at // 10**9 - _CLOCK_SLACK_SECONDS
    recent = [commit for commit in reversed(work.commits) if commit.committed_at >= since]
    made_here = list_commits_made_here(git, _MAX_REFLOG) if recent else set()
    return [
        _build_link(maker, commit.hash, commit, KnownBy.WATCHED, is_likely=commit.hash not in made_here)
        for commit in recent
    ]


def _list_attempt_commits(git: Git, maker: Maker, start: str | None, end: str) -> list[CommitLink]:
    """List the commits that were made in the tree of an attempt.

    Times do not decide here: attempts have those of the database, commits those of this machine.
    """
    if start == end:
        return []
    commits, _ = list_new_commits(git, start, end, _MAX_COMMITS)
    made_here = list_commits_made_here(git, _MAX_REFLOG)
    by_us = {commit.hash for commit in commits if _names_attempt(commit, maker)}
    return [
        _build_link(maker, commit.hash, commit, KnownBy.RUNNER if commit.hash in by_us else KnownBy.WATCHED)
        for commit in commits
        if commit.hash in made_here or commit.hash in by_us
    ]


def _names_attempt(commit: HistoryCommit, maker: Maker) -> bool:
    return any(claim.attempt_id == maker.attempt_id for claim in parse_claims(commit.message))


def _keep_own(git: Git, work: WatchedWork, links: Sequence[CommitLink]) -> list[CommitLink]:
    """Keep the commits that have files of the task, of several that ran in the same tree."""
    paths = list_changed_paths(git.run, [(link.tree_before, link.tree) for link in links if link.tree_before])
    kept = []
    for link in links:
        is_own = is_made_by_watched(paths.get((link.tree_before, link.tree), set()), work.changed)
        if is_own is not None:
            kept.append(link._replace(is_likely=link.is_likely or not is_own))
    return kept


def _list_whole_work(git: Git, work: WatchedWork, maker: Maker) -> list[CommitLink]:
    """Describe the work as a whole, as a squash of it is, and what is not committed, as a person may do."""
    began, ended = work.began.head, work.ended.head
    trees = {commit.hash: commit.tree for commit in work.commits}
    trees |= find_trees(git, {hash for hash in (began, ended, *work.starts) if hash} - trees.keys())
    if ended is None or ended not in trees:
        return []
    committed = [(trees[start], trees[ended]) for start in work.starts if start in trees]
    rest = (trees[ended], work.ended.tree)
    was_clean = began is not None and trees.get(began) == work.began.tree
    links = [
        _build_link(maker, "", pair, KnownBy.WATCHED, is_likely=not work.is_alone)
        for pair in dict.fromkeys(committed)
    ]
    links.append(_build_link(maker, "", rest, KnownBy.WATCHED, is_likely=not (work.is_alone and was_clean)))
    return [link for link in links if link.tree_before != link.tree]


def _add_patch_ids(run: GitCall, links: Sequence[CommitLink]) -> tuple[CommitLink, ...]:
    ids = compute_patch_ids(run, [(link.tree_before, link.tree) for link in links if link.tree_before])
    return tuple(link._replace(patch_id=ids.get((link.tree_before, link.tree))) for link in links)


def _build_link(
    maker: Maker, commit: str, change: TreePair | HistoryCommit, known_by: KnownBy, *, is_likely: bool = False
) -> CommitLink:
    before, after = (change.before or "", change.tree) if isinstance(change, HistoryCommit) else change
    return CommitLink(
        task_id=maker.task_id,
        commit_hash=commit,
        tree_before=before,
        tree=after,
        known_by=known_by,
        workflow_id=maker.workflow_id,
        attempt_id=maker.attempt_id,
        agent_id=maker.agent_id,
        is_likely=is_likely,
    )
