"""Snapshots as trees of git's, made with an index and a store of objects of our own."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from deepwork.errors import GitError
from deepwork.files.atomic import write_atomically
from deepwork.files.lock import alone
from deepwork.files.stamps import stamp
from deepwork.git.command import Git, check_hash
from deepwork.git.moments import (
    LARGEST_UNTRACKED,
    Commit,
    Difference,
    FileChange,
    Listed,
    Patch,
    Progress,
    Snapshot,
    SnapshotKind,
    listed_changes,
)
from deepwork.git.objects import stored_in, sweep
from deepwork.git.private_index import FOR_DIFFS, LONGEST_LISTING, PrivateIndex, path_in_git, users_index
from deepwork.git.raw_diff import read_raw_diff
from deepwork.git.refs import current_branch, is_within, resolve_commit

_DIFF = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev")
_PATCH = ("diff-tree", "-r", "-p", "-M", "-l200", "--no-color", "--full-index")
_MOST_COMMITS = 200
_STATES = "*.state.json"


@dataclass(frozen=True)
class _State:
    """What the private index was like when it was last left, and how it differs from the user's.

    `added` are files that git does not know, `gone` those that it knows but that were not there.
    """

    seeded_from: list[int] | None
    excludes: list[int] | None
    index: list[int] | None = None
    tree: str = ""
    added: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


class TreeSnapshots:
    """The snapshots of one working tree."""

    def __init__(self, git: Git, top: Path, folder: Path) -> None:
        self.top = top
        self._folder = folder
        self._git = git.at(top, max_output=LONGEST_LISTING)
        self._users_index = os.fspath(users_index(self._git))
        self._excludes = os.fspath(path_in_git(self._git, "info/exclude"))
        key = hashlib.sha256(os.fsencode(top)).hexdigest()[:16]  # each working tree has an index of its own
        self._file = folder / f"{key}.index"
        self._state = folder / f"{key}.state.json"
        self._lock = folder / "lock"
        self._index = PrivateIndex(self._git, self._file, env=stored_in(folder / "objects", self._git))

    def take(self) -> Snapshot:
        _make_private(self._folder)  # somebody may have deleted it since
        with alone(self._lock):
            return self._take()

    def diff(self, before: Snapshot, after: Snapshot, *, counted: bool) -> Difference:
        if before.tree == after.tree:
            found = Difference()
        else:
            flags = ("--numstat",) if counted else ()
            trees = check_hash(before.tree), check_hash(after.tree)
            try:
                output = self._index.run(*_DIFF, "-M", "-l200", *flags, *trees, env=FOR_DIFFS)
            except GitError:  # too much to compare, or contents are missing, as in a partial clone
                output = self._index.run(*_DIFF, "--no-renames", *trees)
            found = read_raw_diff(output)
        return listed_changes(before, after, found)

    def patch(self, before: Snapshot, after: Snapshot, path: str, max_bytes: int) -> Patch:
        trees = check_hash(before.tree), check_hash(after.tree)
        output = self._index.run(*_PATCH, *trees, "--", path, env={**FOR_DIFFS, "GIT_LITERAL_PATHSPECS": "1"})
        cut = output if len(output) <= max_bytes else output[: output.rfind(b"\n", 0, max_bytes) + 1]
        is_binary = b"\nBinary files " in output[:8192]
        return Patch(cut.decode(errors="replace"), is_binary, is_truncated=len(cut) < len(output))

    def progress(self, before: Snapshot, after: Snapshot) -> Progress:
        is_switched = before.branch != after.branch
        if after.head is None or before.head == after.head:
            return Progress((), is_switched, is_rewritten=after.head is None and before.head is not None)
        start = resolve_commit(self._git, before.head) if before.head else None
        known = [f"^{start}"] if start else []
        end = check_hash(after.head)
        is_rewritten = before.head is not None and (start is None or not is_within(self._git, start, end))
        flags = ("-z", "--format=%H %s", f"--max-count={_MOST_COMMITS}")
        listed = self._git.run("log", *flags, end, *known, "--").decode(errors="replace").split("\0")
        commits = tuple(Commit(*line.split(" ", 1)) for line in reversed(listed) if line)
        return Progress(commits, is_switched, is_rewritten)

    def uncommitted(self, snapshot: Snapshot) -> tuple[FileChange, ...]:
        if snapshot.head is None:
            base = self._index.run("mktree", input=b"")
        else:
            base = self._index.run("rev-parse", "--verify", f"{check_hash(snapshot.head)}^{{tree}}")
        committed = Snapshot(SnapshotKind.GIT, check_hash(base.decode().strip()))
        return self.diff(committed, snapshot, counted=False).files

    def prune(self, keep: set[str]) -> int:
        with alone(self._lock):
            # Every index of ours counts on what its last tree needs.
            last = {state.tree for path in self._folder.glob(_STATES) if (state := _read(path))}
            trees = "".join(f"{tree}\n" for tree in sorted(self._present(keep | last)))
            flags = ("--objects", "--no-object-names", "--missing=allow-any", "--stdin")
            needed = self._index.run("rev-list", *flags, input=trees.encode()) if trees else b""
            return sweep(self._folder / "objects", set(needed.decode().split()))

    # --- taking one

    def _take(self) -> Snapshot:
        state = self._begin()
        known = set(state.added)
        with ThreadPoolExecutor(2) as aside:
            differing = aside.submit(self._index.differing)  # looks at every file: longest of all
            head = aside.submit(self._head)
            untracked = self._index.untracked()
            changed = differing.result()
        new, listed = self._sorted(untracked, [path for path in changed if path in known])
        drop = {path for path, letter in changed.items() if letter == "D"}
        drop |= {each.path for each in listed if each.path in known}
        excludes = _stamp(self._excludes)
        if _has_ignore_file((*changed, *new)) or state.excludes != excludes:
            drop.update(self._index.ignored([path for path in state.added if self._is_file(path)]))
            state = replace(state, excludes=excludes, tree="")
        back = [path for path in state.gone if self._is_file(path)]  # be it ignored: git knows it
        take = [path for path in dict.fromkeys((*changed, *new, *back)) if path not in drop]
        unreadable: list[str] = []
        if drop or take or not state.tree:
            unreadable = self._update(sorted(drop), take, changed)
            lost = (set(state.gone) | drop - known) - set(back)
            own = (known | set(new)) - drop - lost - set(back) - set(unreadable)
            state = self._end(replace(state, added=sorted(own), gone=sorted(lost)))
        commit, branch = head.result()
        return Snapshot(
            SnapshotKind.GIT, state.tree, commit, branch, tuple(listed), tuple(sorted(unreadable))
        )

    def _begin(self) -> _State:
        """Go on with the index of last time, unless the user's has changed since, or we did not finish."""
        self._file.with_name(f"{self._file.name}.lock").unlink(missing_ok=True)  # of one that was ended
        users = _stamp(self._users_index)
        state = _read(self._state)
        if state and state.seeded_from == users and state.index == _stamp(os.fspath(self._file)):
            return state
        self._state.unlink(missing_ok=True)
        self._index.seed()
        return _State(users, _stamp(self._excludes))

    def _end(self, state: _State) -> _State:
        tree = self._index.write_tree()
        state = replace(state, index=_stamp(os.fspath(self._file)), tree=tree)
        write_atomically(self._state, json.dumps(asdict(state)).encode(), is_durable=False)
        return state

    def _update(self, drop: Sequence[str], take: Sequence[str], changed: dict[str, str]) -> list[str]:
        self._index.drop(drop)
        unreadable = self._index.take(take)
        self._index.drop([path for path in unreadable if changed.get(path) == "U"])  # no tree can hold these
        return unreadable

    def _sorted(self, untracked: list[str], grown: list[str]) -> tuple[list[str], list[Listed]]:
        """What is to be kept of the new files, and what is only listed: too large, or a repository."""
        new: list[str] = []
        listed: list[Listed] = []
        for path in untracked:
            if path.endswith("/"):
                listed.append(Listed(path.rstrip("/"), 0, 0))
            elif (large := self._if_large(path)) is not None:
                listed.append(large)
            else:
                new.append(path)
        listed += [large for path in grown if (large := self._if_large(path)) is not None]
        return new, sorted(listed, key=lambda each: each.path)

    def _if_large(self, path: str) -> Listed | None:
        with suppress(OSError):
            status = os.lstat(f"{self.top}/{path}")
            if status.st_size > LARGEST_UNTRACKED:
                return Listed(path, status.st_size, status.st_mtime_ns)
        return None

    def _is_file(self, path: str) -> bool:
        """Whether a file or a link is there, and not only behind a link."""
        full = self.top / path
        is_there = full.is_symlink() or full.is_file()
        return is_there and full.parent.resolve() == full.parent

    def _head(self) -> tuple[str | None, str | None]:
        try:
            answer = self._index.run("rev-parse", "HEAD", "--symbolic-full-name", "HEAD")
        except GitError:  # before the first commit
            return resolve_commit(self._git, "HEAD"), current_branch(self._git)
        commit, ref = os.fsdecode(answer).splitlines()
        if not _is_hash(commit):  # before the first commit, with a file called HEAD
            return None, current_branch(self._git)
        return check_hash(commit), None if ref == "HEAD" else ref.removeprefix("refs/heads/")

    def _present(self, trees: set[str]) -> set[str]:
        question = "".join(f"{tree}\n" for tree in sorted(trees) if _is_hash(tree)).encode()
        answer = self._index.run("cat-file", "--batch-check=%(objectname) %(objecttype)", input=question)
        return {line.split(" ")[0] for line in answer.decode().splitlines() if line.endswith(" tree")}


def _make_private(folder: Path) -> None:
    (folder / "objects").mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")  # no snapshot shows the snapshots


def _stamp(path: str) -> list[int] | None:
    found = stamp(path)
    return None if found is None else list(found)


def _read(path: Path) -> _State | None:
    try:
        return _State(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _has_ignore_file(paths: Iterable[str]) -> bool:
    return any(path.endswith(".gitignore") for path in paths)


def _is_hash(value: str) -> bool:
    return len(value) in (40, 64) and set(value) <= set("0123456789abcdef")
