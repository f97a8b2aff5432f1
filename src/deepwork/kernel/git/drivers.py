"""Finds the filters and merge drivers that a repository's git config defines, in order to disable them."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from deepwork.kernel.errors import GitError
from deepwork.kernel.git.safety import RUNS_A_PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Driver = tuple[str, str]  # ("filter", "lfs")
_Stamp = tuple[int, int, int] | None

_INCLUDE_KEY_PATTERN = re.compile(r"include\.path|includeif\..*\.path", re.DOTALL)
_MISSING_PATH = Path("/dev/null/nowhere")
_GITLINK = "160000"
_TRUE = ("", "true", "yes", "on", "1")
_GITLINK_IN_INDEX = bytes.fromhex("0000e000")
_SHARED_INDEX = b"link"


class GitQuery(Protocol):
    """Runs a git command without disabling drivers: only for commands that never run one."""

    def __call__(self, command: str, /, *args: str, env: Mapping[str, str]) -> bytes:
        """Return the command's output, empty outside a repository; raises on any other failure."""


class DriverFinder:
    """Finds the drivers of one repository; re-reads its config only after one of its files has changed.

    Conditional includes always count, whether or not the condition holds: it may hold in the worktree that a
    command is about to create. Nested repositories count too, because git looks into them.
    """

    def __init__(self, ask: GitQuery, root: Path, home: str, git_dir: Path | None = None) -> None:
        self._query = ask
        self._root = root
        self._home = home
        self._env = {} if git_dir is None else {"GIT_DIR": str(git_dir)}
        self._lock = threading.Lock()
        self.is_bare = False
        """Whether the settings say so; a linked worktree ignores it."""
        self._own: set[Driver] = set()
        self._nested: list[DriverFinder] = []
        self._seen_settings: dict[Path, _Stamp] = {}
        self._seen_index: tuple[Path, _Stamp] | None = None

    def find(self, env: Mapping[str, str]) -> list[Driver]:
        """List every driver that a command with this environment could run."""
        with self._lock:
            if not self._is_current():
                self._read_settings()
            self._read_index(self._root / (env.get("GIT_INDEX_FILE") or self._index))
            nested = (repository.find({}) for repository in self._nested if repository.is_present())
            return sorted(self._own.union(*nested))

    def is_present(self) -> bool:
        """Return whether the repository exists; a submodule may be registered but not fetched."""
        return (self._root / ".git").exists()

    def _is_current(self) -> bool:
        seen = self._seen_settings
        return any(seen.values()) and all(_read_stamp(path) == stamp for path, stamp in seen.items())

    def _read_settings(self) -> None:
        self._own, self._seen_settings, self._seen_index = set(), {}, None
        self.is_bare = False
        self._git_dir, self._index = (
            self._query_path("--absolute-git-dir"),
            self._query_path("--git-path", "index"),
        )
        self._top = self._root if self._env else self._query_path("--show-toplevel")
        unread = [self._query_path("--git-path", "config"), self._query_path("--git-path", "config.worktree")]
        seen: dict[Path, _Stamp] = {}
        while unread:
            path = unread.pop()
            if path not in seen:
                seen[path] = _read_stamp(path)
                unread += self._read_file(path)
        self._seen_settings = seen  # only now: after an error everything is read again

    def _read_index(self, index: Path) -> None:
        if self._seen_index != (index, stamp := _read_stamp(index)):
            self._nested = [self._create_nested(path) for path in self._list_gitlinks(index)]
            self._seen_index = index, stamp

    def _query_path(self, *question: str) -> Path:
        # One query per call: a path may contain the character that separates two answers.
        answer = self._query("rev-parse", "--path-format=absolute", *question, env=self._env)
        return Path(os.fsdecode(answer.removesuffix(b"\n"))) if answer else _MISSING_PATH

    def _read_file(self, path: Path) -> Iterator[Path]:
        """Collect the drivers that a config file defines; yield the files it includes."""
        if not path.exists():
            return
        _require_regular_file(path)
        listing = self._query("config", "-z", "--no-includes", "--list", "--file", str(path), env={})
        for setting in os.fsdecode(listing).split("\0"):
            key, _, value = setting.partition("\n")
            section, name, variable = _split_key(key)
            if name is not None and (section, variable) in RUNS_A_PROGRAM:
                self._own.add((section, name))
            elif key == "core.bare":
                self.is_bare = value.lower() in _TRUE
            elif _INCLUDE_KEY_PATTERN.fullmatch(key):
                yield path.parent / self._expand_home(value)

    def _expand_home(self, included: str) -> str:
        if included.startswith("~/"):
            return self._home + included[1:]
        return os.path.expanduser(included)  # noqa: PTH111 (Path fails where there is no such user)

    def _list_gitlinks(self, index: Path) -> Iterator[Path]:
        if not _may_hold_gitlinks(index):
            return
        # With GIT_DIR set, git lists the whole index and not only the part below our root.
        env = {"GIT_DIR": str(self._git_dir), "GIT_INDEX_FILE": str(index)}
        for entry in os.fsdecode(self._query("ls-files", "--stage", "-z", env=env)).split("\0"):
            if entry.startswith(_GITLINK):
                yield self._top / entry.partition("\t")[2]

    def _create_nested(self, repository: Path) -> DriverFinder:
        return DriverFinder(self._query, repository, self._home, git_dir=repository / ".git")


def _require_regular_file(path: Path) -> None:
    # Not /dev/stdin or /proc/self/cmdline: their content differs between us and the next git process.
    real = Path(os.path.realpath(path))
    if not real.is_file() or real.is_relative_to("/dev") or real.is_relative_to("/proc"):
        raise GitError(
            f"The repository's git config includes {path}, which is not a regular file.",
            suggestion="Check include.path in .git/config and remove entries that do not belong there.",
        )


def _split_key(key: str) -> tuple[str, str | None, str]:
    """Split `section.name.variable`; the name may contain dots."""
    section, _, rest = key.partition(".")
    name, dot, variable = rest.rpartition(".")
    return section, name if dot else None, variable


def _may_hold_gitlinks(index: Path) -> bool:
    # Avoids listing every file through git: almost no project has submodules.
    try:
        content = index.read_bytes()
    except OSError:
        return False
    return _GITLINK_IN_INDEX in content or _SHARED_INDEX in content


def _read_stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ctime_ns, status.st_size, status.st_ino
