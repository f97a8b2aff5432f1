"""Lists commits with their trees, parents and messages: one process for many commits."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from deepwork.kernel.errors import MAX_ECHOED, Code, InvalidInput
from deepwork.kernel.git.command import MAX_LISTING_BYTES, Git
from deepwork.kernel.git.patches import EMPTY_TREES, TreePair
from deepwork.kernel.git.refs import find_trees, is_ancestor, read_loose, resolve_commit
from deepwork.kernel.records import dataclass

_FORMAT = "--format=%m%n%H%n%T%n%P%n%ct%n%an%n%B"
# No replaced objects, and no write for every commit: git would flush its output after each.
_LOG_ENVIRONMENT = {"GIT_NO_REPLACE_OBJECTS": "1", "GIT_FLUSH": "0"}
_FIELDS = 7
_BOUNDARY = "-"
"""The mark of a commit that is not in the range, but a parent of one that is."""
_MAX_MESSAGE = 65_536
_Entry = list[str]


class HistoryCommit(NamedTuple):
    """A commit; `before` is the tree of its first parent, None if that is not in this repository."""

    hash: str
    tree: str
    parents: tuple[str, ...]
    committed_at: int
    """Unix seconds."""
    author: str
    message: str
    before: str | None = None

    @property
    def subject(self) -> str:
        """The first paragraph, on one line, as git shows it."""
        return " ".join(self.message.strip("\n").partition("\n\n")[0].split("\n"))

    @property
    def change(self) -> TreePair | None:
        """The trees that the commit lies between."""
        return None if self.before is None else (self.before, self.tree)


@dataclass(frozen=True, slots=True)
class HeadProgress:
    """How HEAD moved between two snapshots.

    `is_switched`: it is on another branch. `is_rewritten`: its earlier commit is no longer in its history
    (a switch, a rebase, a reset), so some of the commits may be older than the first snapshot.
    """

    commits: tuple[HistoryCommit, ...] = ()
    """The oldest first."""
    is_switched: bool = False
    is_rewritten: bool = False


@dataclass(frozen=True)
class CommitRange:
    """The commits that `end` contains and `start` does not; only `end` if there is no start."""

    end: str
    start: str | None = None


def resolve_range(git: Git, text: str) -> CommitRange:
    """Resolve `A..B`, or one commit; raises InvalidInput if a name is not a commit."""
    start, dots, end = text.partition("..")
    if end.startswith("."):
        raise InvalidInput(
            f"{text[:MAX_ECHOED]!r} has three dots.",
            suggestion="Use two: `A..B` are the commits of B that A does not contain.",
        )
    if not dots:
        return CommitRange(_resolve(git, text, text))
    return CommitRange(_resolve(git, end or "HEAD", text), _resolve(git, start or "HEAD", text))


def list_commits(git: Git, wanted: CommitRange, limit: int) -> list[HistoryCommit]:
    """List the commits of a range, newest first; raises InvalidInput if there are more."""
    known = [f"^{wanted.start}"] if wanted.start else ["--no-walk"]
    found = _read_log(git, f"--max-count={limit + 1}", "--boundary", wanted.end, *known)
    if sum(entry[0] != _BOUNDARY for entry in found) > limit:
        raise InvalidInput(
            f"The range has more than {limit:,} commits.",
            code=Code.TOO_LARGE,
            suggestion="Name a shorter one, as A..B.",
        )
    return _build_commits(git, found)


class NewCommits(NamedTuple):
    """Commits since a start, newest first, and whether the end still contains that start."""

    commits: list[HistoryCommit]
    contains_start: bool


def list_new_commits(git: Git, start: str | None, end: str, limit: int) -> NewCommits:
    """List up to `limit` commits that the end contains and the start does not.

    All of them, if the repository has lost the start.
    """
    if start and (line := _read_line(git, start, end, limit)):
        return NewCommits(_build_commits(git, line), contains_start=True)
    known = ("--ignore-missing", f"^{start}") if start else ()
    found = _read_log(git, f"--max-count={limit}", "--boundary", end, *known)
    commits = _build_commits(git, found)
    # An ancestor is the parent of a new commit; but where the list ends early, its parents are others.
    is_near = start is None or any(entry[:2] == [_BOUNDARY, start] for entry in found)
    is_cut = len(commits) == limit and not is_near
    return NewCommits(commits, is_near or (is_cut and is_ancestor(git, str(start), end)))


def find_commits(git: Git, hashes: Collection[str]) -> dict[str, HistoryCommit]:
    """Find commits by their full hashes; all of them must be in this repository."""
    return {commit.hash: commit for commit in _build_commits(git, _read_exact(git, hashes))}


def read_shallow_boundary(git: Git) -> frozenset[str]:
    """Return the commits whose parents are cut off, because this is a shallow clone."""
    path = git.find_path("shallow")
    return frozenset(path.read_text("ascii").split()) if path.is_file() else frozenset()


def list_commits_made_here(git: Git, limit: int) -> set[str]:
    """Return the commits that were made in this working tree, not those that were fetched: see its reflog."""
    places = git.find_places()
    if (places.common_dir / "reftable").exists():
        flags = ("-g", "-z", "--format=%H %gs", f"--max-count={limit}")
        output = git.at(git.root, max_output=MAX_LISTING_BYTES).run("log", *flags, "HEAD", "--")
        entries = (os.fsdecode(entry).partition(" ") for entry in output.split(b"\0") if entry)
        made = [(hash, action) for hash, _, action in entries]
    else:
        made = _read_reflog(places.find("logs/HEAD"), limit)
    return {hash for hash, action in made if action.startswith(_MAKING) and _COPIED not in action}


def _read_reflog(file: Path, limit: int) -> list[tuple[str, str]]:
    """Return the newest entries: the commit that each led to, and what was done."""
    try:
        lines = file.read_bytes().splitlines()[-limit:]
    except FileNotFoundError:  # git keeps none, if its settings say so
        return []
    entries = (line.decode(errors="replace").partition("\t") for line in lines)
    return [(who.split(" ")[1], action) for who, _, action in entries if " " in who]


_MAKING = ("commit", "cherry-pick", "revert", "rebase", "am", "merge", "pull")
_COPIED = "Fast-forward"


def _resolve(git: Git, name: str, text: str) -> str:
    found = resolve_commit(git, name)
    if found is None:
        raise InvalidInput(
            f"{name[:MAX_ECHOED]!r} is not a commit of this repository"
            + (f", in {text[:MAX_ECHOED]!r}." if name != text else "."),
            suggestion="Name a commit, a branch or a tag that `git log` shows, or a range A..B.",
        )
    return found


def _read_exact(git: Git, hashes: Collection[str]) -> list[_Entry]:
    if not hashes:
        return []
    listed = "".join(f"{hash}\n" for hash in sorted(hashes)).encode()
    return _read_log(git, "--no-walk=unsorted", "--stdin", input=listed)


_PLAIN_COMMIT = re.compile(
    r"tree (\w+)\nparent (\w+)\nauthor ([^\n<>]*?)[ \t]*<[^\n<>]*> [^\n]*\n"
    r"committer [^\n<>]* <[^\n<>]*> (\d+) [-+]\d+\n\n([^\0]*)"
)
"""A commit with one parent that is neither signed nor written in another encoding."""


def _read_line(git: Git, start: str, end: str, limit: int) -> list[_Entry] | None:
    """Return the commits from the end back to the start, as git lists them; None if only git can tell.

    That is the work of most tasks: a few commits in a row, whose objects are not packed yet.
    """
    objects, entries, commit = git.find_path("objects"), list[_Entry](), end
    while commit != start and len(entries) < limit:
        content = read_loose(objects, commit, "commit")
        plain = _PLAIN_COMMIT.fullmatch(content.decode(errors="replace")) if content else None
        if plain is None:
            return None
        tree, parent, author, at, message = plain.groups()
        entries.append(["", commit, tree, parent, at, author, message])
        commit = parent
    return entries if commit == start and not read_shallow_boundary(git) else None


def _read_log(git: Git, *arguments: str, input: bytes | None = None) -> list[_Entry]:
    large = git.at(git.root, max_output=MAX_LISTING_BYTES)
    flags = ("-z", _FORMAT, "--no-show-signature", "--encoding=UTF-8")
    end = () if "--stdin" in arguments else ("--",)
    output = large.run("log", *flags, *arguments, *end, input=input, env=_LOG_ENVIRONMENT)
    entries = output.decode(errors="replace").split("\0")
    return [entry.split("\n", _FIELDS - 1) for entry in entries if entry]


def _build_commits(git: Git, entries: Sequence[_Entry]) -> list[HistoryCommit]:
    """Build commits with the trees of their first parents; asks git only for parents outside the list."""
    trees = {entry[1]: entry[2] for entry in entries}
    inside = [entry for entry in entries if entry[0] != _BOUNDARY]
    missing = {entry[3].partition(" ")[0] for entry in inside} - trees.keys() - {""}
    trees |= find_trees(git, missing)
    cut_off = read_shallow_boundary(git) if any(not entry[3] for entry in inside) else frozenset()
    return [_build_commit(entry, trees, cut_off) for entry in inside]


def _build_commit(entry: _Entry, trees: dict[str, str], cut_off: Collection[str]) -> HistoryCommit:
    _, hash, tree, listed, at, author, message = entry
    parents = tuple(listed.split(" ")) if listed else ()
    start = None if hash in cut_off else EMPTY_TREES[len(hash)]
    before = trees.get(parents[0]) if parents else start
    return HistoryCommit(hash, tree, parents, int(at), author, message[:_MAX_MESSAGE], before)
