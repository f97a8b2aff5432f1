"""Reads files of a commit, and compares every object on the way there with its hash.

Git does not compare them: somebody who writes to the repository can store another file under the same hash.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple

from deepwork.kernel.errors import GitError, InvalidInput
from deepwork.kernel.git.command import Git, check_hash
from deepwork.kernel.git.snapshot_types import SUBMODULE_MODE
from deepwork.kernel.git.tree_hashes import FOLDER_MODE, compute_hash, find_algorithm

_MAX_BYTES = 2**20


class _Entry(NamedTuple):
    mode: str
    hash: str

    @property
    def kind(self) -> str:
        return "tree" if self.mode == FOLDER_MODE else "blob"


def read_committed_file(git: Git, commit: str, path: str) -> bytes | None:
    """Return the content of a regular file in a commit; None if there is none.

    Raises GitError if the repository has other objects than their hashes say.
    """
    found = _find(git, commit, path)
    if found is None:
        return None
    entry, content = found
    if not entry.mode.startswith("100"):
        raise InvalidInput(
            f"{path} at {commit[:12]} is not a regular file.", suggestion="Commit it as a file."
        )
    if len(content) > _MAX_BYTES:
        raise InvalidInput(f"{path} at {commit[:12]} is larger than {_MAX_BYTES:,} bytes.")
    return content


def list_committed_folders(git: Git, commit: str, path: str) -> list[str]:
    """List the paths of the folders in a folder of a commit."""
    found = _find(git, commit, path)
    if found is None or found[0].kind != "tree":
        return []
    entries = _parse_tree(found[1], len(commit) // 2)
    return [f"{path}/{name}" for name, entry in entries if entry.kind == "tree"]


def _find(git: Git, commit: str, path: str) -> tuple[_Entry, bytes] | None:
    """Walk from the commit to a path; return what is there, None if there is nothing."""
    names = PurePosixPath(path).parts
    objects = _read_objects(git, check_hash(commit), names)
    about = _require_exact("commit", commit, next(objects)).partition(b"\n")[0]
    entry = _Entry(FOLDER_MODE, about.removeprefix(b"tree ").decode())
    content = _require_exact(entry.kind, entry.hash, next(objects))
    for name in names:
        below = dict(_parse_tree(content, len(commit) // 2)).get(name) if entry.kind == "tree" else None
        if below is None or below.mode == SUBMODULE_MODE:
            return None
        entry, content = below, _require_exact(below.kind, below.hash, next(objects))
    return entry, content


def _read_objects(git: Git, commit: str, names: tuple[str, ...]) -> Iterator[bytes | None]:
    """Yield the commit, its tree, and what is at each part of the path; None for what git does not find."""
    places = ["/".join(names[:depth]) for depth in range(len(names) + 1)]
    questions = "".join(f"{each}\n" for each in (commit, *(f"{commit}:{place}" for place in places)))
    if questions.count("\n") != len(places) + 1:
        raise GitError(f"A path with a line break cannot be read from a commit: {'/'.join(names)!a}.")
    answer, start = git.run("cat-file", "--batch", input=os.fsencode(questions)), 0
    while start < len(answer):
        end = answer.index(b"\n", start)
        words = answer[start:end].split(b" ")
        size = int(words[2]) if len(words) == 3 and words[2].isdigit() else None
        start = end + 1 if size is None else end + size + 2
        yield None if size is None else answer[end + 1 : end + 1 + size]


def _parse_tree(content: bytes, hash_bytes: int) -> Iterator[tuple[str, _Entry]]:
    start = 0
    while start < len(content):
        end = content.index(b"\0", start)
        mode, _, name = content[start:end].partition(b" ")
        start = end + 1 + hash_bytes
        yield os.fsdecode(name), _Entry(mode.decode(), content[end + 1 : start].hex())


def _require_exact(kind: str, hash: str, content: bytes | None) -> bytes:
    if content is None or compute_hash(kind, content, find_algorithm(hash)) != hash:
        raise GitError(
            f"The repository is damaged: {kind} {hash[:12]} has another content than its hash says.",
            suggestion="Look at it with `git fsck`.",
        )
    return content
