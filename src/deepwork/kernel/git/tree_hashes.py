"""Computes the hashes of git trees, because git does not compare those of all objects that it reads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import new as new_hash

from deepwork.kernel.git.snapshot_types import TreeFile

FOLDER_MODE = "40000"
_SHA1_LENGTH = 40


def compute_tree_hash(files: Iterable[TreeFile], algorithm: str) -> str:
    """Return the hash of the tree that has exactly these files."""
    folders: dict[str, list[tuple[bytes, bytes]]] = {"": []}
    for file in files:
        folder, _, name = file.path.rpartition("/")
        _open_folder(folders, folder).append(_build_entry(file.mode, name, file.blob))
    # The deepest first: a folder needs the hashes of those in it.
    for path in sorted(folders, key=_count_levels, reverse=True):
        hash = compute_hash("tree", b"".join(entry for _, entry in sorted(folders[path])), algorithm)
        if not path:
            break
        folder, _, name = path.rpartition("/")
        folders[folder].append(_build_entry(FOLDER_MODE, name, hash))
    return hash


def _open_folder(folders: dict[str, list[tuple[bytes, bytes]]], path: str) -> list[tuple[bytes, bytes]]:
    """Return the entries of a folder; it and those above are added if they are new."""
    if path not in folders:
        folders[path] = []
        _open_folder(folders, path.rpartition("/")[0])
    return folders[path]


def _count_levels(path: str) -> int:
    return path.count("/") + 1 if path else 0


def find_algorithm(hash: str) -> str:
    """Return the algorithm of the repository that has an object with this hash."""
    return "sha1" if len(hash) == _SHA1_LENGTH else "sha256"


def _build_entry(mode: str, name: str, hash: str) -> tuple[bytes, bytes]:
    """Build the entry of a tree, and what git sorts it by: a folder as if its name ended with a slash."""
    encoded = os.fsencode(name)
    order = encoded + b"/" if mode == FOLDER_MODE else encoded
    return order, mode.encode() + b" " + encoded + b"\0" + bytes.fromhex(hash)


def compute_hash(kind: str, content: bytes, algorithm: str) -> str:
    """Return the hash of a git object of this kind."""
    return new_hash(algorithm, b"%b %d\0%b" % (kind.encode(), len(content), content)).hexdigest()
