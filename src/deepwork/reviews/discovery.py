"""Where the rules are: looked for again only when a folder of the project has changed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from deepwork.config import STATE_FOLDER, TMP_FOLDER
from deepwork.errors import NotARepository
from deepwork.files.stamps import Stamp, stamp
from deepwork.git.changes import list_files
from deepwork.git.command import Git
from deepwork.git.folders import bare_folders
from deepwork.reviews.models import RULES_FILE
from deepwork.reviews.settling import is_settled

_SKIPPED = frozenset(
    {
        ".git", "node_modules", "__pycache__", ".venv", "venv", ".tox",
        ".mypy_cache", ".pytest_cache", ".ruff_cache", ".eggs", STATE_FOLDER,
    }
)  # fmt: skip
_IGNORE_FILE = ".gitignore"
_OURS = {STATE_FOLDER, TMP_FOLDER}  # they change with every call, and hold no rules
_KEPT_NS = 10_000_000_000


@dataclass(frozen=True)
class _Look:
    """What one look around has found, and how the folders stood after it."""

    files: tuple[str, ...]
    folders: dict[str, Stamp | None]
    began: int

    def holds(self) -> bool:
        if time.time_ns() - self.began > _KEPT_NS:
            return False  # git has settings outside of the project that can change what it ignores
        return all(stamp(folder) == was for folder, was in self.folders.items())

    def can_be_kept(self) -> bool:
        return is_settled(self.folders.values(), self.began)


class RuleFinder:
    """Finds the `.deepreview` files of a project."""

    def __init__(self, git: Git) -> None:
        self._git = git
        self._last: _Look | None = None

    def files(self) -> tuple[str, ...]:
        """Every file of rules, relative to the project."""
        last = self._last
        if last is None or not last.holds():
            last = self._look()
            self._last = last if last.can_be_kept() else None
        return last.files

    def _look(self) -> _Look:
        began = time.time_ns()
        known = project_files(self._git)
        watched = {*_folders(known), *self._bare_folders()} - _OURS
        watched |= {file for file in known if _is_called(file, _IGNORE_FILE)}
        stamps = {path: stamp(path) for path in (str(self._git.root / each) for each in watched)}
        return _Look(tuple(rule_files(known)), stamps, began)

    def _bare_folders(self) -> list[str]:
        """Folders without a file that counts, yet: the first one may be a file of rules."""
        try:
            return bare_folders(self._git)
        except NotARepository:
            return [folder for folder, _ in _walk(self._git.root)]


def project_files(git: Git) -> tuple[str, ...]:
    """Every file of the project: what git would keep, or without git what is there."""
    try:
        return list_files(git).files
    except NotARepository:
        return tuple(sorted(walked(git.root)))


def rule_files(files: Iterable[str]) -> Iterator[str]:
    """The files of rules among these."""
    return (file for file in files if _is_called(file, RULES_FILE))


def walked(root: Path) -> Iterator[str]:
    """Every file below, without going through links or into what tools keep for themselves."""
    for folder, names in _walk(root):
        yield from (os.path.join(folder, name) for name in names)  # noqa: PTH118 - as fast as can be


def _walk(root: Path) -> Iterator[tuple[str, list[str]]]:
    """Every folder, relative to the root, and the names of the files in it."""
    for path, inner, names in os.walk(root):
        inner[:] = [name for name in inner if name not in _SKIPPED and not name.endswith(".egg-info")]
        folder = os.path.relpath(path, root)
        yield "" if folder == os.curdir else folder, names


def _is_called(file: str, name: str) -> bool:
    return file.endswith(name) and (len(file) == len(name) or file[-len(name) - 1] == "/")


def _folders(files: Iterable[str]) -> set[str]:
    """Every folder that holds one of the files, or a folder that does."""
    folders = {""}
    for file in files:
        while (file := file.rpartition("/")[0]) not in folders:
            folders.add(file)
    return folders
