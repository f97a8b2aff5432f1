"""The programs that a repository's settings define under names of their choosing: filters, merge drivers."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from deepwork.errors import GitError
from deepwork.git.safety import RUNS_A_PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Driver = tuple[str, str]  # ("filter", "lfs")
_Stamp = tuple[int, int, int] | None

_INCLUDES = re.compile(r"include\.path|includeif\..*\.path", re.DOTALL)
_NOWHERE = Path("/dev/null/nowhere")
_GITLINK = "160000"
_GITLINK_IN_INDEX = bytes.fromhex("0000e000")
_SHARED_INDEX = b"link"


class Ask(Protocol):
    """Runs git without looking for drivers: only for commands that never run one."""

    def __call__(self, command: str, /, *args: str, env: Mapping[str, str]) -> bytes:
        """The command's output, nothing where there is no repository; any other failure is an error."""


class Drivers:
    """What one repository defines; its settings are read again only when a file of theirs has changed.

    Every included file counts, whether its condition holds or not: it may hold in the worktree that a
    command is about to make. Repositories inside this one count too, because git looks into them.
    """

    def __init__(self, ask: Ask, root: Path, home: str, git_dir: Path | None = None) -> None:
        self._ask = ask
        self._root = root
        self._home = home
        self._env = {} if git_dir is None else {"GIT_DIR": str(git_dir)}
        self._one_at_a_time = threading.Lock()
        self._own: set[Driver] = set()
        self._nested: list[Drivers] = []
        self._seen_settings: dict[Path, _Stamp] = {}
        self._seen_index: tuple[Path, _Stamp] | None = None

    def find(self, env: Mapping[str, str]) -> list[Driver]:
        """Every driver that a command with this environment could meet."""
        with self._one_at_a_time:
            if not self._is_current():
                self._read_settings()
            self._read_index(self._root / (env.get("GIT_INDEX_FILE") or self._index))
            nested = (repository.find({}) for repository in self._nested if repository.is_present())
            return sorted(self._own.union(*nested))

    def is_present(self) -> bool:
        """Whether the repository is there; a submodule may be known but not fetched."""
        return (self._root / ".git").exists()

    def _is_current(self) -> bool:
        seen = self._seen_settings
        return any(seen.values()) and all(_stamp(path) == stamp for path, stamp in seen.items())

    def _read_settings(self) -> None:
        self._own, self._seen_settings, self._seen_index = set(), {}, None
        self._git_dir, self._index = self._path("--absolute-git-dir"), self._path("--git-path", "index")
        self._top = self._root if self._env else self._path("--show-toplevel")
        unread = [self._path("--git-path", "config"), self._path("--git-path", "config.worktree")]
        seen: dict[Path, _Stamp] = {}
        while unread:
            path = unread.pop()
            if path not in seen:
                seen[path] = _stamp(path)
                unread += self._read_file(path)
        self._seen_settings = seen  # only now: after an error nothing counts as seen

    def _read_index(self, index: Path) -> None:
        if self._seen_index != (index, stamp := _stamp(index)):
            self._nested = [self._inside(path) for path in self._gitlinks(index)]
            self._seen_index = index, stamp

    def _path(self, *question: str) -> Path:
        # One question at a time: a path may contain what would separate two answers.
        answer = self._ask("rev-parse", "--path-format=absolute", *question, env=self._env)
        return Path(os.fsdecode(answer.removesuffix(b"\n"))) if answer else _NOWHERE

    def _read_file(self, path: Path) -> Iterator[Path]:
        """Note the drivers that a settings file defines; tell which files it includes."""
        if not path.exists():
            return
        _check_ordinary(path)
        listing = self._ask("config", "-z", "--no-includes", "--list", "--file", str(path), env={})
        for setting in os.fsdecode(listing).split("\0"):
            key, _, value = setting.partition("\n")
            section, name, variable = _split(key)
            if name is not None and (section, variable) in RUNS_A_PROGRAM:
                self._own.add((section, name))
            elif _INCLUDES.fullmatch(key):
                yield path.parent / self._expanded(value)

    def _expanded(self, included: str) -> str:
        if included.startswith("~/"):
            return self._home + included[1:]
        return os.path.expanduser(included)  # noqa: PTH111 (Path fails where there is no such user)

    def _gitlinks(self, index: Path) -> Iterator[Path]:
        if not _may_hold_gitlinks(index):
            return
        # With its directory named, git lists the whole index and not only what is below our root.
        env = {"GIT_DIR": str(self._git_dir), "GIT_INDEX_FILE": str(index)}
        for entry in os.fsdecode(self._ask("ls-files", "--stage", "-z", env=env)).split("\0"):
            if entry.startswith(_GITLINK):
                yield self._top / entry.partition("\t")[2]

    def _inside(self, repository: Path) -> Drivers:
        return Drivers(self._ask, repository, self._home, git_dir=repository / ".git")


def _check_ordinary(path: Path) -> None:
    # Not /dev/stdin or /proc/self/cmdline: those would say one thing to us and another to the next git.
    real = Path(os.path.realpath(path))
    if not real.is_file() or real.is_relative_to("/dev") or real.is_relative_to("/proc"):
        raise GitError(
            f"The settings of the repository are in {path}, which is not an ordinary file.",
            suggestion="Look at include.path in .git/config, and remove what does not belong there.",
        )


def _split(key: str) -> tuple[str, str | None, str]:
    """The section, the name and the variable of `section.name.variable`; the name may contain dots itself."""
    section, _, rest = key.partition(".")
    name, dot, variable = rest.rpartition(".")
    return section, name if dot else None, variable


def _may_hold_gitlinks(index: Path) -> bool:
    # Asking git lists every file; one look at the bytes spares that to almost every project.
    try:
        content = index.read_bytes()
    except OSError:
        return False
    return _GITLINK_IN_INDEX in content or _SHARED_INDEX in content


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ctime_ns, status.st_size, status.st_ino
