"""Puts files of a working tree back to other versions, without losing what somebody wrote meanwhile.

Nothing is overwritten: a file that goes away is renamed into a folder of ours first, and deleted there only
if it has exactly the bytes that were stored before. Everything here can be repeated after a crash.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.git.exact_files import find_mode, hash_exactly
from deepwork.kernel.git.snapshot_types import TreeFile
from deepwork.kernel.records import dataclass

_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.EXDEV})
MAX_NAMED = 10


@dataclass(frozen=True, slots=True)
class Placing:
    """What to do with the files of a tree: those that go away, and where the others are ready."""

    top: Path
    removed: Sequence[str]
    """Files that are deleted or replaced."""
    written: Mapping[str, Path]
    """Where the new version of each file is."""


def find_obstacles(top: Path, removed: Collection[str], written: Collection[str]) -> list[str]:
    """List what is in the way of files to be written and would be lost: files that no snapshot has."""
    gone = set(removed)
    found = {obstacle for path in written for obstacle in _find_obstacles(top, path, gone)}
    return sorted(found)


def place_files(placing: Placing, stored: Mapping[str, TreeFile], kept: Path) -> list[str]:
    """Put the files in place; return those that somebody changed meanwhile, whose content is kept in `kept`.

    `stored` are the files as they were stored before. A file that is already as wanted stays.
    """
    strange = [
        path
        for path in sorted(placing.removed, reverse=True)
        if not _is_placed(placing, path) and _take_away(placing.top, path, stored.get(path), kept)
    ]
    for path in placing.removed:
        if path not in placing.written:
            _remove_empty_folders(placing.top, path)
    for path, ready in sorted(placing.written.items()):
        _put(placing.top, path, ready)
    return sorted(strange)


def _is_placed(placing: Placing, path: str) -> bool:
    ready = placing.written.get(path)
    return ready is not None and _is_inside(placing.top, path) and _is_same(placing.top / path, ready)


def _find_obstacles(top: Path, path: str, gone: set[str]) -> list[str]:
    parts = path.split("/")
    for count in range(1, len(parts)):
        above = "/".join(parts[:count])
        if above not in gone and os.path.lexists(top / above) and not _is_folder(top / above):
            return [above]
    here = top / path
    if path in gone or not os.path.lexists(here):
        return []
    if not _is_folder(here):
        return [path]
    inside = [
        os.path.relpath(os.path.join(folder, name), top)  # noqa: PTH118 - os.walk has strings
        for folder, folders, names in os.walk(here)
        for name in [*names, *(each for each in folders if os.path.islink(os.path.join(folder, each)))]  # noqa: PTH114, PTH118
    ]
    return [name for name in inside if name not in gone]


def _take_away(top: Path, path: str, stored: TreeFile | None, kept: Path) -> bool:
    """Move a file out of the tree; return whether it is kept, because it is not what was stored."""
    here = top / path
    if find_mode(here) is None or not _is_inside(top, path):
        return False
    aside = kept / path
    number = 1
    while os.path.lexists(aside):
        aside = kept / f"{path}.{number}"
        number += 1
    aside.parent.mkdir(parents=True, exist_ok=True)
    os.rename(here, aside)  # noqa: PTH104 - the name may be any bytes
    if stored is not None and hash_exactly(aside, stored.blob) == stored.blob:
        aside.unlink()
        _remove_empty_folders(kept, os.fspath(aside.relative_to(kept)))
        return False
    return True


def _put(top: Path, path: str, ready: Path) -> None:
    here = top / path
    _make_folders(top, path)
    if _is_same(here, ready):
        return
    if _is_folder(here):
        with suppress(OSError):
            here.rmdir()
    if os.path.lexists(here):
        raise build_obstacle_error(top, [path])
    if ready.is_symlink():
        here.symlink_to(os.readlink(ready))  # noqa: PTH115 - Path would normalize the target
        return
    try:
        os.link(ready, here)  # fails if somebody has just written a file there
    except FileExistsError:
        raise build_obstacle_error(top, [path]) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        shutil.copy2(ready, here)


def _make_folders(top: Path, path: str) -> None:
    """Create the folders of a file, and follow no link on the way."""
    parts = path.split("/")
    for count in range(1, len(parts)):
        folder = top / "/".join(parts[:count])
        if not _is_folder(folder):
            if os.path.lexists(folder):
                raise build_obstacle_error(top, ["/".join(parts[:count])])
            folder.mkdir()


def _remove_empty_folders(top: Path, path: str) -> None:
    folder = (top / path).parent
    while folder != top and folder.is_relative_to(top):
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def _is_inside(top: Path, path: str) -> bool:
    """Return whether no folder above the file is a link."""
    parts = path.split("/")
    return all(_is_folder(top / "/".join(parts[:count])) for count in range(1, len(parts)))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _is_same(here: Path, ready: Path) -> bool:
    mode = find_mode(here)
    if mode is None or mode != find_mode(ready):
        return False
    return hash_exactly(here, _ANY_HASH) == hash_exactly(ready, _ANY_HASH)


_ANY_HASH = "0" * 40


def build_obstacle_error(top: Path, paths: Sequence[str]) -> NotAllowed:
    """Build the error for files that would be lost."""
    named = ", ".join(os.fsencode(path).decode(errors="backslashreplace") for path in paths[:MAX_NAMED])
    more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
    return NotAllowed(
        f"In {top}, these files are in the way: {named}{more}.",
        suggestion="Move them elsewhere or commit them, then call again.",
        recoverable=True,
    )
