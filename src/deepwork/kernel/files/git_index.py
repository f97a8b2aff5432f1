"""Finding out from an index, without running git, whether it tracks a file or hides changes."""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import TYPE_CHECKING

from deepwork.kernel.files.repositories import find_git_folder, find_tree_root

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEADER_BYTES = 12
_SEARCHABLE_VERSIONS = (2, 3)
_LENGTH_MASK = 0xFFF
_IS_EXTENDED, _IS_ASSUMED_UNCHANGED = 0x4000, 0x8000
_STATUS_BYTES = 40
_HARMLESS_EXTENSIONS = frozenset({b"TREE", b"REUC", b"UNTR", b"FSMN", b"EOIE"})
"""Not `link` or `sdir`, with which entries are elsewhere, nor `IEOT`, which says where entries begin."""


def is_tracked(path: Path, suffixes: Sequence[str] = ("",)) -> bool | None:
    """Return whether git tracks the path with one of these suffixes; None if only git can tell."""
    folder = path.parent.resolve()
    tree = find_tree_root(folder)
    if tree is None:
        return False
    git = find_git_folder(tree)
    name = os.fsencode((folder / path.name).relative_to(tree))
    try:
        with (
            (git / "index").open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as index,
        ):
            found = find_in_index(index, name, [suffix.encode() for suffix in suffixes])
    except (FileNotFoundError, NotADirectoryError, ValueError):  # no index yet, or an empty one
        return False
    except OSError:
        return None
    # Parts of a split index are in other files.
    return found or (None if found is None or any(git.glob("sharedindex.*")) else False)


def find_in_index(index: bytes | mmap.mmap, name: bytes, suffixes: Sequence[bytes]) -> bool | None:
    """Return whether the index lists the name with one of the suffixes; None if its format is another."""
    if index[:4] != b"DIRC" or int.from_bytes(index[4:8]) not in _SEARCHABLE_VERSIONS:
        return None
    place = index.find(name, _HEADER_BYTES)
    while place >= 0:
        end = index.find(b"\0", place)
        path = index[place:end]
        if path.removeprefix(name) in suffixes and _begins_path(index, place, len(path)):
            return True
        place = index.find(name, place + 1)
    return False


def may_hide_changes(index: bytes, hash_bytes: int) -> bool:
    """Return whether the index marks a file as unchanged or as not checked out, or may do so.

    Follows the entries as git does, and is certain only of what it follows to the end: `hash_bytes` is the
    length of a hash in this repository.
    """
    version, count = int.from_bytes(index[4:8]), int.from_bytes(index[8:12])
    if index[:4] != b"DIRC" or version not in _SEARCHABLE_VERSIONS:
        return True
    place, end, fixed = _HEADER_BYTES, len(index) - hash_bytes, _STATUS_BYTES + hash_bytes + 2
    for _ in range(count):
        name = place + fixed
        flags = int.from_bytes(index[name - 2 : name])
        if name > end or flags & (_IS_ASSUMED_UNCHANGED | _IS_EXTENDED):
            return True
        length = flags & _LENGTH_MASK
        if length == _LENGTH_MASK:
            length = max(index.find(b"\0", name) - name, 0)
        place += (fixed + length + 8) & ~7
    return not _has_only_known_extensions(index, place, end)


def _has_only_known_extensions(index: bytes, place: int, end: int) -> bool:
    """Return whether the rest has only parts that say nothing about the entries before it."""
    while place + 8 <= end and index[place : place + 4] in _HARMLESS_EXTENSIONS:
        place += 8 + int.from_bytes(index[place + 4 : place + 8])
    return place == end


def _begins_path(index: bytes | mmap.mmap, place: int, length: int) -> bool:
    """Whether a path of this length begins here: the flags before it contain its length."""
    flags = int.from_bytes(index[place - 2 : place])
    extended = int.from_bytes(index[place - 4 : place - 2])
    shown = min(length, _LENGTH_MASK)
    return flags & _LENGTH_MASK == shown or (
        extended & _IS_EXTENDED != 0 and extended & _LENGTH_MASK == shown
    )
