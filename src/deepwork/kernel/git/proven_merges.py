"""Merges commits, and proves that the results are what their contents say.

Git does not compare the hashes of objects that it reads: a program that replaces one meanwhile decides what
the result has. So each result is compared with both sides and their merge base, all read by their hashes.
Where both changed a file, the merge is made again from verified contents, in a repository of our own.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

from deepwork.kernel.errors import GitError
from deepwork.kernel.git.command import MAX_LISTING_BYTES, Git, check_hash, is_hash, require_version
from deepwork.kernel.git.empty_repository import EmptyRepository, open_empty_repository
from deepwork.kernel.git.exact_files import (
    list_commit_files,
    parse_tree,
    read_exactly,
    read_objects,
    require_exact,
)
from deepwork.kernel.git.merge_bases import CommitWalk
from deepwork.kernel.git.merge_rules import find_unexplained
from deepwork.kernel.git.refs import build_trees, compute_hash, compute_tree_hash, find_algorithm
from deepwork.kernel.git.safety import to_variables
from deepwork.kernel.git.snapshot_types import SUBMODULE_MODE, TreeFile
from deepwork.kernel.records import dataclass

_MERGE_COMMAND = ("merge-tree", "--write-tree", "--name-only", "--messages", "-z")
_CONFLICT = "CONFLICT"
_SETTINGS = {
    "core.attributesFile": os.devnull,
    "merge.default": "text",
    "merge.directoryRenames": "conflict",
    "merge.renameLimit": "7000",
    "merge.renames": "true",
    "merge.renormalize": "false",
}
"""What git does without settings: those of a repository would decide what lands."""


@dataclass(frozen=True)
class TreeMerge:
    """The tree of two merged commits; without one, they conflict."""

    tree: str | None
    files: tuple[str, ...] = ()
    """The files with conflicts, sorted."""
    messages: tuple[str, ...] = ()
    """What git says about each conflict."""


@dataclass(frozen=True)
class _MadeMerge:
    """A merge that git made: the commits, and the tree of the result."""

    bases: tuple[str, ...]
    ours: str
    theirs: str
    tree: str


class ProvenMerges:
    """Merges commits; nobody may use a result before `prove` has returned."""

    def __init__(self, git: Git) -> None:
        self._git = git.at(git.root, max_output=MAX_LISTING_BYTES)
        self._walk = CommitWalk(git)
        self._made: list[_MadeMerge] = []

    def contains(self, tip: str, commit: str) -> bool:
        """Return whether the commit is the tip or one of its ancestors."""
        return self._walk.contains(tip, commit)

    def merge(self, ours: str, theirs: str) -> TreeMerge:
        """Merge two commits; merge drivers of the repository do not run, the default one of git does."""
        bases = self._walk.find_merge_bases(check_hash(ours), check_hash(theirs))
        if not bases:
            return TreeMerge(None, messages=("The two histories have no commit in common.",))
        if (tree := self._choose_side(bases, ours, theirs)) is not None:
            return TreeMerge(tree)
        with require_version(self._git, "2.38", "Landing"):
            merge = _run_merge(self._git, ours, theirs, to_variables(_SETTINGS.items()))
        if merge.tree is not None:
            self._made.append(_MadeMerge(tuple(bases), ours, theirs, merge.tree))
        return merge

    def prove(self) -> None:
        """Raise GitError unless all results are what the contents of both sides say."""
        open_merges = [each for each in self._made if len(each.bases) > 1]
        plain = [each for each in self._made if len(each.bases) == 1]
        if plain:
            folders = self._find_changed_folders(plain)
            trees = [tree for each in plain for tree in self._list_trees(each)]
            known = _read_trees(self._git, list(dict.fromkeys(trees)), folders)
            open_merges += [
                each for each in plain if find_unexplained(*(known[tree] for tree in self._list_trees(each)))
            ]
        for each in open_merges:
            if self._merge_again(each) != each.tree:
                raise GitError(
                    f"Git merged {each.theirs[:12]} into {each.ours[:12]} otherwise than their contents say.",
                    suggestion="The repository is damaged, or attributes that are not committed count there."
                    " Look at it with `git fsck`, and at `.git/info/attributes`.",
                )
        self._made.clear()

    def _choose_side(self, bases: Sequence[str], ours: str, theirs: str) -> str | None:
        """Return the tree of one side if the other one changed nothing."""
        base, one, other = (self._walk.get(each).tree for each in (bases[0], ours, theirs))
        if one == other or (len(bases) == 1 and other == base):
            return one
        return other if len(bases) == 1 and one == base else None

    def _list_trees(self, merge: _MadeMerge) -> tuple[str, str, str, str]:
        base, ours, theirs = (
            self._walk.get(each).tree for each in (merge.bases[0], merge.ours, merge.theirs)
        )
        return base, ours, theirs, merge.tree

    def _find_changed_folders(self, merges: Iterable[_MadeMerge]) -> set[str]:
        """Return the folders in which git sees changes. If it sees too few, more is left to merge again."""
        pairs = []
        for each in merges:
            base, ours, theirs, merged = self._list_trees(each)
            pairs += [f"{base} {ours}", f"{base} {theirs}", f"{ours} {merged}"]
        lines = "".join(f"{pair}\n" for pair in dict.fromkeys(pairs))
        listed = os.fsdecode(
            self._git.run(
                "diff-tree", "--stdin", "-r", "-z", "--name-only", "--no-renames", input=lines.encode()
            )
        )
        for pair in pairs:
            listed = listed.replace(f"{pair}\n", "")
        found = {""}
        for path in listed.split("\0"):
            folder = path.rpartition("/")[0]
            while folder not in found:
                found.add(folder)
                folder = folder.rpartition("/")[0]
        return {folder for folder in found if "\n" not in folder}

    def _merge_again(self, merge: _MadeMerge) -> str | None:
        """Merge verified contents in a repository of our own; None if they conflict."""
        graph = self._build_graph(merge)
        trees = {commit: _list_exactly(self._git, self._walk.get(commit).tree) for commit in graph}
        algorithm = find_algorithm(merge.tree)
        with open_empty_repository(algorithm=algorithm) as empty:
            names = _write_objects(empty, self._git, graph, trees)
            for file, content in _read_attributes(self._git, trees[merge.ours].values()):
                empty.write(f"tree/{file.path}", content)
            merged = _list_exactly(self._git, merge.tree)
            # With several bases, git merges these first, and writes what that gives, too.
            is_plain = len(merge.bases) == 1
            objects = {_get_place(each) for each in _list_objects(merged, algorithm)}
            empty.renewed = objects if is_plain else set(empty.made)
            empty.seal()
            return _run_apart(self._git.at(empty.tree), empty, names[merge.ours], names[merge.theirs])

    def _build_graph(self, merge: _MadeMerge) -> dict[str, list[str]]:
        """Map commits to those they contain: both sides, their bases, the bases of these, and so on.

        That is all of a history that decides about a merge; the oldest come first.
        """
        contained: dict[str, set[str]] = {}
        left = [merge.ours, merge.theirs, *merge.bases]
        while left:
            commit = left.pop()
            if commit not in contained:
                contained[commit] = set()
                for other in contained.keys() - {commit}:
                    bases = self._walk.find_merge_bases(commit, other)
                    left += bases
        for one, other in combinations(contained, 2):
            bases = self._walk.find_merge_bases(one, other)
            if bases == [one]:
                contained[other].add(one)
            elif bases == [other]:
                contained[one].add(other)
        return {
            each: sorted(contained[each]) for each in sorted(contained, key=lambda each: len(contained[each]))
        }


def _run_merge(git: Git, ours: str, theirs: str, env: Mapping[str, str]) -> TreeMerge:
    answer = git.run(*_MERGE_COMMAND, ours, theirs, ok_codes=(0, 1), env=env)
    tree, *rest = os.fsdecode(answer).split("\0")
    if not is_hash(tree):
        raise GitError("git merge-tree wrote no tree.", suggestion="Look at the repository with `git fsck`.")
    files = tuple(sorted(set(_take_names(rest))))
    said = tuple(text.strip() for kind, text in _take_messages(rest[_count_names(rest) + 1 :]) if kind)
    # Some conflicts, such as those of renamed folders, concern no single file.
    return TreeMerge(None, files, said) if files or said else TreeMerge(tree)


def _count_names(parts: Sequence[str]) -> int:
    return parts.index("") if "" in parts else len(parts)


def _take_names(parts: Sequence[str]) -> Sequence[str]:
    return parts[: _count_names(parts)]


def _take_messages(parts: Sequence[str]) -> Iterator[tuple[bool, str]]:
    """Yield whether each message is about a conflict, and its text; a number of paths precedes it."""
    place = 0
    while place < len(parts) and parts[place].isdigit():
        kind = place + 1 + int(parts[place])
        if kind + 1 >= len(parts):
            return
        yield parts[kind].startswith(_CONFLICT), parts[kind + 1]
        place = kind + 2


def _read_trees(git: Git, trees: Sequence[str], folders: set[str]) -> dict[str, dict[str, str]]:
    """Map trees to what they have at each path in these folders; other folders count as one."""
    names = {f"{tree}:{folder}": (tree, folder) for tree in trees for folder in sorted(folders)}
    contents = dict(zip(names.values(), read_objects(git, list(names)), strict=True))
    return {tree: dict(_walk_tree(contents, tree, "", tree)) for tree in trees}


def _walk_tree(
    contents: Mapping[tuple[str, str], bytes | None], tree: str, folder: str, hash: str
) -> Iterator[tuple[str, str]]:
    content = require_exact("tree", hash, contents[tree, folder])
    for name, entry in parse_tree(content, len(hash) // 2):
        path = f"{folder}/{name}" if folder else name
        if entry.kind == "tree" and (tree, path) in contents:
            yield from _walk_tree(contents, tree, path, entry.hash)
        else:
            yield path, f"{entry.mode} {entry.hash}"


def _list_exactly(git: Git, tree: str) -> dict[str, TreeFile]:
    files = list_commit_files(git, tree)
    if compute_tree_hash(files.values(), find_algorithm(tree)) != tree:
        raise GitError(
            f"The repository is damaged: {tree[:12]} has other files than its hash says.",
            suggestion="Look at it with `git fsck`.",
        )
    return files


def _write_objects(
    empty: EmptyRepository,
    git: Git,
    graph: Mapping[str, Sequence[str]],
    trees: Mapping[str, Mapping[str, TreeFile]],
) -> dict[str, str]:
    """Write what a merge needs; map commits to those that stand for them there."""
    algorithm = find_algorithm(next(iter(graph)))
    for file, content in read_exactly(git, _list_differing(list(trees.values()))):
        _write_object(empty, "blob", content, file.blob)
    names: dict[str, str] = {}
    for time, (commit, contained) in enumerate(graph.items()):
        tree = ""
        for tree, content in build_trees(trees[commit].values(), algorithm):
            _write_object(empty, "tree", content, tree)
        parents = "".join(f"parent {names[each]}\n" for each in contained)
        who = f"deepwork <deepwork@localhost> {time} +0000"
        text = f"tree {tree}\n{parents}author {who}\ncommitter {who}\n\n{commit}\n".encode()
        names[commit] = compute_hash("commit", text, algorithm)
        _write_object(empty, "commit", text, names[commit])
    return names


def _list_differing(trees: Sequence[Mapping[str, TreeFile]]) -> list[TreeFile]:
    """List the files that are not the same everywhere: git opens no others."""
    found = {
        file.blob: file
        for tree in trees
        for path, file in tree.items()
        if file.mode != SUBMODULE_MODE and any(other.get(path) != file for other in trees)
    }
    return list(found.values())


def _read_attributes(git: Git, files: Iterable[TreeFile]) -> Iterator[tuple[TreeFile, bytes]]:
    named = [each for each in files if each.path.rpartition("/")[2] == ".gitattributes"]
    if any(".." in each.path.split("/") for each in named):
        raise GitError("The repository is damaged: a tree has a file outside of it.")
    yield from read_exactly(git, [each for each in named if each.mode.startswith("100")])


def _list_objects(files: Mapping[str, TreeFile], algorithm: str) -> Iterator[str]:
    yield from (file.blob for file in files.values())
    yield from (hash for hash, _ in build_trees(files.values(), algorithm))


def _get_place(hash: str) -> str:
    return f"git/objects/{hash[:2]}/{hash[2:]}"


def _write_object(empty: EmptyRepository, kind: str, content: bytes, hash: str) -> None:
    path = _get_place(hash)
    if path not in empty.made:
        empty.write(path, zlib.compress(b"%b %d\0%b" % (kind.encode(), len(content), content), 1))


def _run_apart(git: Git, empty: EmptyRepository, ours: str, theirs: str) -> str | None:
    """Merge two commits that are written there; what git writes goes to another folder."""
    settings = to_variables(_SETTINGS.items(), int(empty.environment["GIT_CONFIG_COUNT"]))
    with TemporaryDirectory(prefix="deepwork-objects-") as written:
        objects = f'"{empty.folder}/git/objects"'
        env = {"GIT_OBJECT_DIRECTORY": written, "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects}
        merge = _run_merge(git, ours, theirs, {**empty.environment, **settings, **env})
        found = {_get_place(path.parent.name + path.name) for path in Path(written).glob("??/*")}
        if found & empty.made.keys():  # git would have read these first
            raise GitError("Somebody changed temporary files of deepwork while git used them.")
    return merge.tree
