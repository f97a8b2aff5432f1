"""Finds merge bases by commits whose hashes are computed again.

Git believes its commit-graph, its `shallow` file and whatever is stored under the hash of a commit. With a
wrong merge base, work of one side vanishes, or comes back after it was undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from heapq import heappop, heappush

from deepwork.kernel.errors import GitError
from deepwork.kernel.git.command import MAX_LISTING_BYTES, Git, is_hash
from deepwork.kernel.git.refs import (
    CommitRecord,
    find_branch_tip,
    find_head,
    find_known_commits,
    read_commits,
)

_ONE, _OTHER, _STALE = 1, 2, 4
_BOTH = _ONE | _OTHER
_FEW_READS = 2
"""After so many, git is asked which commits will be needed: each read is a program."""


class CommitWalk:
    """Walks through the history of a repository; every commit is read once."""

    def __init__(self, git: Git) -> None:
        self._git = git.at(git.root, max_output=MAX_LISTING_BYTES)
        self._records: dict[str, CommitRecord] = {}
        self._cut: frozenset[str] | None = None
        self._reads = 0

    def contains(self, tip: str, commit: str) -> bool:
        """Return whether the commit is the tip or one of its ancestors."""
        self._read([tip, commit])
        return tip == commit or commit in self._paint(tip, commit)

    def get(self, commit: str) -> CommitRecord:
        """Return a commit; raises GitError if the repository does not have it."""
        self._read([commit])
        if commit not in self._records:
            raise GitError(
                f"The repository has no commit {commit[:12]} that its hash stands for.",
                suggestion="Look at it with `git fsck`; in a shallow clone, run `git fetch --unshallow`.",
            )
        return self._records[commit]

    def find_merge_bases(self, one: str, other: str) -> list[str]:
        """Return the best common ancestors of two commits, sorted; none if their histories are unrelated."""
        if one == other:
            return [one]
        self._read([one, other])
        found = self._paint(one, other)
        # Times that are wrong can hide that one is an ancestor of another.
        return sorted(
            each
            for each in found
            if not any(each in self._paint(each, newer) for newer in found if newer != each)
        )

    def _paint(self, one: str, other: str) -> list[str]:
        """Mark the ancestors of both, the newest first, until only those of common ancestors are left."""
        marks: dict[str, int] = {}
        queue: list[tuple[int, str]] = []
        open_commits: set[str] = set()
        found: list[str] = []
        self._reads = 0

        def mark(commits: Iterable[str], flags: int) -> None:
            for commit in commits:
                if marks.get(commit, 0) & flags != flags:
                    marks[commit] = marks.get(commit, 0) | flags
                    known = self._records.get(commit)
                    heappush(queue, (-known.time if known else 1, commit))
                    (open_commits.discard if marks[commit] & _STALE else open_commits.add)(commit)

        mark([one], _ONE)
        mark([other], _OTHER)
        while open_commits:
            commit = heappop(queue)[1]
            open_commits.discard(commit)
            flags = marks[commit]
            if flags & _STALE and commit not in self._records:
                continue  # nothing depends on whether the repository has it
            if flags == _BOTH:
                found.append(commit)
                flags |= _STALE
            if not open_commits and flags & _STALE:
                break
            parents = self._list_parents(commit)
            if not all(each in self._records for each in parents):
                self._read_more(parents, one, other)
            mark(parents, flags)
        return [commit for commit in dict.fromkeys(found) if not marks[commit] & _STALE]

    def _list_parents(self, commit: str) -> Sequence[str]:
        parents = self.get(commit).parents
        if parents and commit in self._read_cut():
            self._read(parents)
            return [each for each in parents if each in self._records]
        return parents

    def _read_cut(self) -> frozenset[str]:
        """Return the commits whose parents a shallow clone need not have."""
        if self._cut is None:
            self._cut = frozenset()
            with suppress(OSError):
                text = self._git.find_path("shallow").read_text(errors="replace")
                self._cut = frozenset(filter(is_hash, text.split()))
        return self._cut

    def _read_more(self, commits: Sequence[str], one: str, other: str) -> None:
        """Read these commits; when that took a few programs, also all those that git says will be needed."""
        self._records |= find_known_commits(self._git, commits)
        if all(each in self._records for each in commits):
            return
        self._reads += 1
        named: list[str] = []
        if self._reads == _FEW_READS:
            # Only a hint, so that it does not matter if git finds an object damaged.
            flags = ("--boundary", f"{one}...{other}", "--")
            listed = self._git.run("rev-list", *flags, ok_codes=(0, 128)).decode()
            named = [line.removeprefix("-") for line in listed.splitlines()]
        self._read([*commits, *named])

    def _read(self, commits: Iterable[str]) -> None:
        missing = [each for each in commits if each not in self._records]
        if missing:
            self._records |= read_commits(self._git, missing)


def find_base(git: Git, start: str, branch: str | None) -> str:
    """Return the base of a tree on a branch of its own: its merge base with the branch where work started.

    It is never older than the commit `start` at which the work started: a tree on an older commit would
    otherwise choose the definitions of its checks. Nor do false objects or a forged commit-graph choose it.
    """
    head, tip = find_head(git), find_branch_tip(git, branch) if branch else None
    if head is None or tip is None or head.branch == branch:
        return start
    walk = CommitWalk(git)
    found = [base for base in walk.find_merge_bases(head.commit, tip) if walk.contains(base, start)]
    return max(found, key=lambda base: walk.get(base).time, default=start)
