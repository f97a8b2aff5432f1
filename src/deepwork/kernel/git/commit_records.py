"""Reads many commits with one process: their trees and their parents.

A commit whose content has the hash that names it never changes. So each is read once for as long as this
process lives and the repository has it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from deepwork.kernel.errors import GitError
from deepwork.kernel.files.heads import BRANCH_PREFIX, RefsElsewhere, resolve_ref
from deepwork.kernel.files.stamps import FileStamp, find_stamp
from deepwork.kernel.git.command import Git, check_hash
from deepwork.kernel.git.tree_hashes import compute_hash, find_algorithm

_MAX_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A commit with its tree and its parents."""

    commit: str
    tree: str
    parents: tuple[str, ...]


class _Known(NamedTuple):
    """A commit that was read, and where its object was then."""

    record: CommitRecord
    is_loose: bool
    packs: FileStamp | None
    """The stamp of the folder with the packs."""


_known: dict[Path, _Known] = {}
"""By the path that the object has, or would have, if it is in a file of its own."""


def read_commits(git: Git, names: Iterable[str]) -> dict[str, CommitRecord]:
    """Map these hashes, refs and other revisions to their commits; what does not exist is left out."""
    wanted = {name: _find_hash(git, name) for name in names}
    objects = git.find_path("objects")
    found = {each: known for each in wanted.values() if each and (known := _find_known(objects, each))}
    unread = [each for each in dict.fromkeys(wanted.values()) if each and each not in found]
    found |= _read_unknown(git, unread)
    _remember(objects, (record for name, record in found.items() if record.commit == name))
    return {name: found[each] for name, each in wanted.items() if each in found}


def _find_known(objects: Path, hash: str) -> CommitRecord | None:
    """Return a commit that was read before, if the repository still has it."""
    known = _known.get(_get_place(objects, hash))
    if known is None:
        return None
    return known.record if _look(objects, hash) == (known.is_loose, known.packs) else None


def _remember(objects: Path, records: Iterable[CommitRecord]) -> None:
    for record in records:
        if len(_known) >= _MAX_REMEMBERED:
            _known.clear()
        _known[_get_place(objects, record.commit)] = _Known(record, *_look(objects, record.commit))


def _look(objects: Path, hash: str) -> tuple[bool, FileStamp | None]:
    """Return whether the object has a file of its own; if not, the stamp of the packs: one of them has it."""
    is_loose = _get_place(objects, hash).exists()
    return is_loose, None if is_loose else find_stamp(f"{objects}/pack")


def _get_place(objects: Path, hash: str) -> Path:
    return objects / hash[:2] / hash[2:]


def resolve_branch(git: Git, name: str) -> str | None:
    """Return the commit that `HEAD` or a ref such as `refs/heads/main` is at; None if there is none.

    Raises RefsElsewhere if git has to be asked: about other names, and where its refs are not in files.
    """
    if name != "HEAD" and not name.startswith(BRANCH_PREFIX):
        raise RefsElsewhere
    return resolve_ref(git.find_places().git_dir, name)[1]


def _find_hash(git: Git, name: str) -> str | None:
    try:
        return resolve_branch(git, name)
    except RefsElsewhere:
        return name


def find_trees(git: Git, commits: Iterable[str]) -> dict[str, str]:
    """Return the trees of these commits; those that are not in this repository are left out."""
    return {commit: record.tree for commit, record in read_commits(git, commits).items()}


def get_tree(git: Git, commit: str) -> str:
    """Return the tree of a commit."""
    found = find_trees(git, [check_hash(commit)])
    if not found:
        raise GitError(f"The repository has no commit {commit}.")
    return found[commit]


def _read_unknown(git: Git, wanted: Sequence[str]) -> dict[str, CommitRecord]:
    # Passed on stdin: as an argument, `-x` would be an option and `a..b` a range.
    question = "".join(f"{name}^{{commit}}\n" for name in wanted)
    answer = git.run("cat-file", "--batch", input=os.fsencode(question)) if wanted else b""
    found: dict[str, CommitRecord] = {}
    for name in wanted:
        head, _, answer = answer.partition(b"\n")
        words = head.split(b" ")
        if len(words) != 3 or words[1] != b"commit":  # missing, or something else
            continue
        size = int(words[2])
        found[name] = _parse_commit(words[0].decode(), answer[:size])
        answer = answer[size + 1 :]
    return found


def list_newer_commits(git: Git, start: str, end: str) -> list[CommitRecord]:
    """List the commits that one commit contains and an older one does not; `--all` is what any ref has."""
    listed = git.run("log", "--format=%H %T %P", end, f"^{start}", "--").decode().splitlines()
    lines = (line.split() for line in listed)
    return [CommitRecord(check_hash(hash), check_hash(tree), tuple(more)) for hash, tree, *more in lines]


def read_branch_tips(git: Git, branches: Iterable[str]) -> dict[str, CommitRecord]:
    """Map the local branches that exist to their tips."""
    found = read_commits(git, [BRANCH_PREFIX + branch for branch in branches])
    return {name.removeprefix(BRANCH_PREFIX): record for name, record in found.items()}


def _parse_commit(commit: str, content: bytes) -> CommitRecord:
    if compute_hash("commit", content, find_algorithm(commit)) != commit:  # git does not look
        raise GitError(
            f"The repository is damaged: the commit {commit[:12]} has another content than its hash says.",
            suggestion="Look at it with `git fsck`.",
        )
    header = content.partition(b"\n\n")[0].decode(errors="replace").splitlines()
    tree = header[0].removeprefix("tree ")
    parents = tuple(line.removeprefix("parent ") for line in header[1:] if line.startswith("parent "))
    return CommitRecord(check_hash(commit), check_hash(tree), parents)
