"""Snapshots as git trees, written with a private index and a private object store."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from deepwork.kernel.errors import GitError
from deepwork.kernel.files.lock import hold_file_lock, is_locked
from deepwork.kernel.files.private import find_stamp, write_atomically
from deepwork.kernel.files.repositories import RefsElsewhere, read_head
from deepwork.kernel.git.command import MAX_LISTING_BYTES, Git, check_hash, is_hash
from deepwork.kernel.git.empty_repository import find_misconverted, open_empty_repository, walk_untracked
from deepwork.kernel.git.exact_files import find_mode, hash_exactly, hash_files
from deepwork.kernel.git.history import HeadProgress, list_new_commits
from deepwork.kernel.git.patches import EMPTY_TREES
from deepwork.kernel.git.private_index import (
    DIFF_ENVIRONMENT,
    PrivateIndex,
    build_object_environment,
    remove_unneeded_objects,
)
from deepwork.kernel.git.refs import (
    compute_hash,
    compute_tree_hash,
    find_algorithm,
    find_current_branch,
    find_head,
    find_trees,
    get_tree,
    resolve_commit,
)
from deepwork.kernel.git.snapshot_types import (
    LARGEST_UNTRACKED,
    LINK_MODE,
    SUBMODULE_MODE,
    FileChange,
    ListedFile,
    Patch,
    Snapshot,
    SnapshotDiff,
    SnapshotKind,
    TreeFile,
    add_listed_changes,
    parse_raw_diff,
)
from deepwork.kernel.records import dataclass

_DIFF_COMMAND = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev")
_PATCH_COMMAND = ("diff-tree", "-r", "-p", "-M", "-l200", "--no-color", "--full-index")
_MAX_COMMITS = 200
_USER_EXCLUDES = ".config/git/ignore"
_MAX_PROVEN = 4
_STATE_FILE_GLOB = "*.state.json"


@dataclass(frozen=True)
class _State:
    """The private index after the last snapshot, and how it differs from the user's index.

    `added` are untracked files, `gone` are tracked files that did not exist.
    """

    seeded_from: list[int] | None
    excludes: list[int] | None
    index: list[int] | None = None
    tree: str = ""
    added: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


IsUnchanged = Callable[[str], bool]
"""Tells whether the files of a tree are in the working tree exactly as they are in it."""


class TreeSnapshotStore:
    """The snapshots of one working tree."""

    def __init__(self, git: Git, top: Path, folder: Path) -> None:
        self.top = top
        self._folder = folder
        self._git = git.at(top, max_output=MAX_LISTING_BYTES)
        places = self._git.find_places()
        self._user_index = os.fspath(places.find("index"))
        self._excludes = os.fspath(places.find("info/exclude"))
        key = hashlib.sha256(os.fsencode(top)).hexdigest()[:16]  # each working tree has its own index
        self._file = folder / f"{key}.index"
        self._state = folder / f"{key}.state.json"
        self._lock = folder / "lock"
        self._proven: dict[str, tuple[TreeFile, ...]] = {}
        """The files of the last trees and commits whose hashes stand for exactly these files."""
        env = build_object_environment(folder / "objects", places)
        # The repository must not name another file of ignore rules: only these two count beside the tree's.
        self._index = PrivateIndex(
            self._git, self._file, env=env, settings={"core.excludesFile": f"~/{_USER_EXCLUDES}"}
        )

    def take(self, is_unchanged: IsUnchanged | None = None) -> Snapshot:
        _create_folder(self._folder)  # it may have been deleted since
        with hold_file_lock(self._lock):
            return self._take_locked(is_unchanged)

    def take_new(self) -> Snapshot:
        _create_folder(self._folder)
        head, branch = self._find_head()
        return Snapshot(SnapshotKind.GIT, get_tree(self._git, head or ""), head, branch)

    def diff(self, before: Snapshot, after: Snapshot, *, counted: bool) -> SnapshotDiff:
        if before.tree == after.tree:
            found = SnapshotDiff()
        else:
            trees = check_hash(before.tree), check_hash(after.tree)
            try:
                found = self._diff_contents(trees, counted=counted)
            except GitError:  # too large to compare, or contents are missing in a partial clone
                found = parse_raw_diff(self._index.run(*_DIFF_COMMAND, "--no-renames", *trees))
        return add_listed_changes(before, after, found)

    def _diff_contents(self, trees: tuple[str, str], *, counted: bool) -> SnapshotDiff:
        flags = ("--numstat",) if counted else ()
        output = self._index.run(*_DIFF_COMMAND, "-M", "-l200", *flags, *trees, env=DIFF_ENVIRONMENT)
        found = parse_raw_diff(output)
        if not counted or not found.renamed:
            return found
        # Git counts the lines that differ between the two names; we list a deletion and an addition.
        output = self._index.run(*_DIFF_COMMAND, "--no-renames", *flags, *trees, env=DIFF_ENVIRONMENT)
        return replace(found, files=parse_raw_diff(output).files)

    def get_patch(self, before: Snapshot, after: Snapshot, paths: Sequence[str], max_bytes: int) -> Patch:
        trees = check_hash(before.tree), check_hash(after.tree)
        output = self._index.run(
            *_PATCH_COMMAND, *trees, "--", *paths, env={**DIFF_ENVIRONMENT, "GIT_LITERAL_PATHSPECS": "1"}
        )
        cut = output if len(output) <= max_bytes else output[: output.rfind(b"\n", 0, max_bytes) + 1]
        is_binary = b"\nBinary files " in output[:8192]
        return Patch(cut.decode(errors="replace"), is_binary, is_truncated=len(cut) < len(output))

    def get_progress(self, before: Snapshot, after: Snapshot) -> HeadProgress:
        is_switched = before.branch != after.branch
        if after.head is None or before.head == after.head:
            return HeadProgress((), is_switched, is_rewritten=after.head is None and before.head is not None)
        commits, contains_start = list_new_commits(self._git, before.head, after.head, _MAX_COMMITS)
        return HeadProgress(tuple(reversed(commits)), is_switched, not contains_start)

    def run(self, *args: str, input: bytes | None = None) -> bytes:
        return self._index.run(*args, input=input)

    def list_exactly(self, name: str) -> list[TreeFile]:
        if name in self._proven:
            return list(self._proven[name])
        files = self.list_files(name)
        tree = compute_tree_hash(files, find_algorithm(name))
        if tree != name and find_trees(self._git, [name]).get(name) != tree:
            raise GitError(
                f"The repository is damaged: {name[:12]} has other files than its hash says.",
                suggestion="Look at it with `git fsck`.",
            )
        if len(self._proven) >= _MAX_PROVEN:
            del self._proven[next(iter(self._proven))]
        self._proven[name] = tuple(files)
        return files

    def list_files(self, tree: str) -> list[TreeFile]:
        _create_folder(self._folder)  # a commit can be listed before the first snapshot is taken
        output = self._index.run("ls-tree", "-r", "-z", "--full-tree", check_hash(tree))
        found = []
        for entry in os.fsdecode(output).split("\0")[:-1]:
            about, _, path = entry.partition("\t")
            mode, _, blob = about.split(" ")
            found.append(TreeFile(mode, blob, path))
        return found

    def read_blob(self, blob: str, max_bytes: int) -> bytes | None:
        if int(self._index.run("cat-file", "-s", check_hash(blob))) > max_bytes:
            return None
        content = self._index.run("cat-file", "blob", blob)
        return content if compute_hash("blob", content, find_algorithm(blob)) == blob else None

    def hash_files(self, paths: Sequence[str], *, raw: bool) -> list[str]:
        like = resolve_commit(self._git, "HEAD") if raw else None
        hashes = {path: hash_exactly(self.top / path, like) if like else None for path in paths}
        left = [path for path, hash in hashes.items() if hash is None]
        asked = hash_files(self._index, left, flags=("--no-filters",) if raw else ())
        return [hashes[path] or asked[path] for path in paths]

    def has_own_excludes(self) -> bool:
        home = self._git.home
        files = [self._excludes, *([f"{home}/{_USER_EXCLUDES}"] if home else [])]
        return any(map(_has_rules, files))

    def list_left_out(self, excludes: Sequence[str], paths: Sequence[str], *, by_tree: bool) -> list[str]:
        listed = os.fsdecode(self._list_others((), excludes, paths, by_tree=by_tree))
        return [path for path in listed.split("\0")[:-1] if not path.endswith("/")]

    def list_untracked_folders(
        self, excludes: Sequence[str], paths: Sequence[str], *, by_tree: bool
    ) -> list[str]:
        return walk_untracked(self.top, self._list_others(("--directory",), excludes, paths, by_tree=by_tree))

    def _list_others(
        self, flags: Sequence[str], excludes: Sequence[str], paths: Sequence[str], *, by_tree: bool
    ) -> bytes:
        rules = [flag for rule in excludes for flag in ("--exclude", rule)]
        if by_tree:
            rules.append("--exclude-per-directory=.gitignore")
        env = {"GIT_LITERAL_PATHSPECS": "1"}
        return self._index.run("ls-files", "-z", "--others", *flags, *rules, "--", *paths, env=env)

    def read_again(self, snapshot: Snapshot, paths: Sequence[str]) -> Snapshot:
        with hold_file_lock(self._lock):
            state = self._load_index_state()
            self._index.remove(paths)
            refused = self._index.add([path for path in paths if self._is_file(path)])
            unreadable = tuple(sorted({*snapshot.unreadable, *refused}))
            tree = self._index.write_tree()
            self._save_state(state, tree)
            return replace(snapshot, tree=tree, unreadable=unreadable)

    def check_out(self, tree: str, folder: Path) -> None:
        with open_empty_repository(algorithm=find_algorithm(tree)) as empty:
            self._index.run("read-tree", check_hash(tree), env=empty.environment)
            self._index.run("checkout-index", "--all", f"--prefix={folder}/", env=empty.environment)

    def find_wrong_checkout(self, files: Sequence[TreeFile], folder: Path) -> list[str]:
        modes = {file.path: find_mode(folder / file.path) for file in files}
        there = [file for file in files if file.mode == modes[file.path]]
        wrong = [file.path for file in files if file.mode not in (modes[file.path], SUBMODULE_MODE)]
        hashes = {file.path: hash_exactly(folder / file.path, file.blob) for file in there}
        other = [file for file in there if hashes[file.path] != file.blob]
        converted = [file for file in other if file.mode != LINK_MODE and hashes[file.path]]
        wrong += [file.path for file in other if file not in converted]
        return [*wrong, *find_misconverted(self._git, folder, converted, files)]

    def find_misconverted(self, files: Sequence[TreeFile], tree: Iterable[TreeFile]) -> list[str]:
        return find_misconverted(self._git, self.top, files, tree)

    def check_out_files(self, tree: str, paths: Sequence[str], folder: Path) -> None:
        listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
        with TemporaryDirectory(prefix="deepwork-index-") as temporary:
            own_index = {"GIT_INDEX_FILE": f"{temporary}/index"}
            self._index.run("read-tree", check_hash(tree), env=own_index)
            flags = ("-z", "--stdin", f"--prefix={folder}/")
            self._index.run("checkout-index", *flags, env=own_index, input=listed)

    def has_tree(self, tree: str) -> bool:
        if not is_hash(tree):
            return False
        question = f"{tree}\n".encode()
        return self._index.run("cat-file", "--batch-check=%(objecttype)", input=question) == b"tree\n"

    def list_uncommitted(self, snapshot: Snapshot) -> tuple[FileChange, ...]:
        base = get_tree(self._git, snapshot.head) if snapshot.head else EMPTY_TREES[len(snapshot.tree)]
        committed = Snapshot(SnapshotKind.GIT, base)
        return self.diff(committed, snapshot, counted=False).files

    def prune(self, keep: set[str]) -> int:
        with hold_file_lock(self._lock):
            # Every private index relies on the objects of its last tree.
            last = {
                state.tree for path in self._folder.glob(_STATE_FILE_GLOB) if (state := _load_state(path))
            }
            trees = "".join(f"{tree}\n" for tree in sorted(keep | last) if is_hash(tree))
            flags = ("--objects", "--no-object-names", "--missing=allow-any", "--ignore-missing", "--stdin")
            needed = self._index.run("rev-list", *flags, input=trees.encode()) if trees else b""
            return remove_unneeded_objects(self._folder / "objects", set(needed.decode().split()))

    # --- taking one

    def _take_locked(self, is_unchanged: IsUnchanged | None) -> Snapshot:
        state = self._load_index_state()
        known = set(state.added)
        head, branch = self._find_head()
        with ThreadPoolExecutor(1) as aside:
            differing = aside.submit(self._list_differing, state.tree, is_unchanged)  # the slowest step
            untracked = self._index.list_untracked()
            changed = differing.result()
        new, listed = self._sort_untracked(untracked, [path for path in changed if path in known])
        drop = {path for path, letter in changed.items() if letter == "D"}
        drop |= {each.path for each in listed if each.path in known}
        excludes = _read_stamp(self._excludes)
        if _has_ignore_file((*changed, *new)) or state.excludes != excludes:
            drop.update(self._index.filter_ignored([path for path in state.added if self._is_file(path)]))
            state = replace(state, excludes=excludes, tree="")
        back = [path for path in state.gone if self._is_file(path)]  # tracked, even if ignored
        take = [path for path in dict.fromkeys((*changed, *new, *back)) if path not in drop]
        unreadable: list[str] = []
        if drop or take or not state.tree:
            unreadable = self._update_index(sorted(drop), take, changed)
            lost = (set(state.gone) | drop - known) - set(back)
            own = (known | set(new)) - drop - lost - set(back) - set(unreadable)
            state = replace(state, added=sorted(own), gone=sorted(lost))
            state = self._save_state(state, self._index.write_tree())
        return Snapshot(SnapshotKind.GIT, state.tree, head, branch, tuple(listed), tuple(sorted(unreadable)))

    def _find_head(self) -> tuple[str | None, str | None]:
        """Return the commit and branch that the tree is on; git is asked only if they are not in files."""
        with suppress(RefsElsewhere):
            if head := read_head(self.top):
                return head
        return find_head(self._git) or (None, find_current_branch(self._git))

    def _list_differing(self, tree: str, is_unchanged: IsUnchanged | None) -> dict[str, str]:
        if tree and is_unchanged and is_unchanged(tree):
            return {}
        return self._index.list_differing()

    def _load_index_state(self) -> _State:
        """Reuse the last private index, unless the user's changed since or the last run did not finish."""
        self._file.with_name(f"{self._file.name}.lock").unlink(missing_ok=True)  # left by a killed process
        users = _read_stamp(self._user_index)
        state = _load_state(self._state)
        if state and state.seeded_from == users and state.index == _read_stamp(os.fspath(self._file)):
            return state
        self._state.unlink(missing_ok=True)
        seeded = _State(users, _read_stamp(self._excludes), tree=self._index.seed() or "")
        return self._save_state(seeded, seeded.tree) if seeded.tree else seeded

    def _save_state(self, state: _State, tree: str) -> _State:
        state = replace(state, index=_read_stamp(os.fspath(self._file)), tree=tree)
        write_atomically(self._state, json.dumps(asdict(state)).encode(), is_durable=False)
        return state

    def _update_index(self, drop: Sequence[str], take: Sequence[str], changed: dict[str, str]) -> list[str]:
        self._index.remove(drop)
        unreadable = self._index.add(take)
        self._index.remove([path for path in unreadable if changed.get(path) == "U"])  # unmerged
        return unreadable

    def _sort_untracked(self, untracked: list[str], grown: list[str]) -> tuple[list[str], list[ListedFile]]:
        """Split new files into those to store and those to list only: large files and nested repositories."""
        new: list[str] = []
        listed: list[ListedFile] = []
        for path in untracked:
            if path.endswith("/"):
                listed.append(ListedFile(path.rstrip("/"), 0, 0))
            elif self._is_of_store(path):
                continue
            elif (large := self._find_if_large(path)) is not None:
                listed.append(large)
            else:
                new.append(path)
        listed += [large for path in grown if (large := self._find_if_large(path)) is not None]
        return new, sorted(listed, key=lambda each: each.path)

    def _is_of_store(self, path: str) -> bool:
        """Return whether the file belongs to a store in the tree, which is nobody's work."""
        try:
            return is_locked(os.lstat(f"{self.top}/{path}"))
        except OSError:
            return False

    def _find_if_large(self, path: str) -> ListedFile | None:
        with suppress(OSError):
            status = os.lstat(f"{self.top}/{path}")
            if status.st_size > LARGEST_UNTRACKED:
                return ListedFile(path, status.st_size, status.st_mtime_ns)
        return None

    def _is_file(self, path: str) -> bool:
        """Return whether a file or link exists at the path and no parent folder is a link."""
        full = self.top / path
        is_there = full.is_symlink() or full.is_file()
        return is_there and full.parent.resolve() == full.parent


def _create_folder(folder: Path) -> None:
    (folder / "objects").mkdir(mode=0o700, parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")  # keeps snapshots out of snapshots


def _read_stamp(path: str) -> list[int] | None:
    found = find_stamp(path)
    return None if found is None else list(found)


def _load_state(path: Path) -> _State | None:
    try:
        return _State(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def _has_rules(path: str) -> bool:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return any(line.strip() and not line.startswith(b"#") for line in file)
    except OSError:
        return False


def _has_ignore_file(paths: Iterable[str]) -> bool:
    return any(path.endswith(".gitignore") for path in paths)
