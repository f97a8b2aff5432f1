"""What keeps git from running programs that a repository names: settings, environment, and its drivers."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from deepwork.kernel.errors import GitError
from deepwork.kernel.files.private import FileStamp, are_reliable, find_stamp
from deepwork.kernel.files.repositories import Places, read_places
from deepwork.kernel.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_COUNT = "GIT_CONFIG_COUNT"
_INHERITED_VARIABLES = frozenset({"PATH", "HOME", "LANG", "TMPDIR", "USER"})

_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "",  # no transports; unlike protocol.allow, a repository cannot override it
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",  # `git replace` could make a commit look like another one
    "GIT_GRAFT_FILE": "/dev/null",  # and grafts could give it other parents
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "false",
    "LC_ALL": "C",
}
_SETTINGS = {
    "core.commitGraph": "false",  # it could give commits other parents, too
    "core.fsmonitor": "false",
    "core.hooksPath": "/dev/null",
    "core.pager": "cat",
    "core.editor": "false",
    "sequence.editor": "false",
    "core.sshCommand": "false",
    "core.askPass": "false",
    "core.gitProxy": "false",
    "core.alternateRefsCommand": "false",
    "credential.helper": "",
    "gpg.program": "false",
    "gpg.openpgp.program": "false",
    "gpg.x509.program": "false",
    "gpg.ssh.program": "false",
    "gpg.ssh.defaultKeyCommand": "false",
    "commit.gpgSign": "false",
    "tag.gpgSign": "false",
    "log.showSignature": "false",
    "gc.auto": "0",
    "i18n.logOutputEncoding": "UTF-8",  # in others, what git lists of commits could not be read
    "gc.recentObjectsHook": "",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",
    "submodule.recurse": "false",
    "status.submoduleSummary": "false",
    "diff.submodule": "short",
    "diff.ignoreSubmodules": "dirty",
}

_SKIP_SUBMODULE_CONTENT_FLAG = "--ignore-submodules=dirty"
_DIFF_FLAGS = ("--no-ext-diff", "--no-textconv", _SKIP_SUBMODULE_CONTENT_FLAG)
_FLAGS_BY_COMMAND = {
    **dict.fromkeys(("diff", "diff-tree", "diff-index", "diff-files", "log", "show"), _DIFF_FLAGS),
    "status": (_SKIP_SUBMODULE_CONTENT_FLAG,),
    "blame": ("--no-textconv",),
}

# Config sections that run programs under arbitrary names: the values that disable each name.
_DISABLING_VALUES = {
    "filter": {"clean": "", "smudge": "", "process": "", "required": "false"},
    # The default of git without a driver.
    "merge": {"driver": "git merge-file -q --marker-size=%L %A %O %B"},
    "hook": {"enabled": "false"},
}
RUNS_A_PROGRAM = frozenset(
    {
        ("filter", "clean"),
        ("filter", "smudge"),
        ("filter", "process"),
        ("merge", "driver"),
        ("hook", "command"),
    }
)


def build_safe_environment(
    inherited: Mapping[str, str],
    extra: Mapping[str, str],
    root: Path,
    command: str,
    drivers: Iterable[tuple[str, str]],
) -> dict[str, str]:
    """Merge a few inherited variables, the caller's extras and, last, what restricts git."""
    kept = {
        name: value
        for name, value in inherited.items()
        if name in _INHERITED_VARIABLES or name.startswith("LC_")
    }
    # The last setting of a name counts, so the caller's come first.
    restricting = _list_settings(root, command, drivers)
    return {**kept, **extra, **_ENVIRONMENT, **to_variables(restricting, int(extra.get(_COUNT, 0)))}


def to_variables(settings: Iterable[tuple[str, str]], first: int = 0) -> dict[str, str]:
    """Return settings of git as variables, which git reads after the files of the repository.

    Not as `-c`, which would split a name that contains "="; `first` is how many there are before these.
    """
    variables = {}
    number = first
    for number, (name, value) in enumerate(settings, first + 1):
        variables[f"GIT_CONFIG_KEY_{number - 1}"] = name
        variables[f"GIT_CONFIG_VALUE_{number - 1}"] = value
    return {_COUNT: str(number), **variables}


def _list_settings(root: Path, command: str, drivers: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    yield from _SETTINGS.items()
    yield "safe.directory", str(root)
    # An alias cannot override a built-in command, but it can define one that this git version lacks.
    yield f"alias.{command}", ""
    for section, name in drivers:
        for variable, value in _DISABLING_VALUES[section].items():
            yield f"{section}.{name}.{variable}", value


def get_safe_flags(command: str) -> tuple[str, ...]:
    """Return the flags to put right after the command."""
    return _FLAGS_BY_COMMAND.get(command, ())


Driver = tuple[str, str]  # ("filter", "lfs")

_INCLUDE_KEY_PATTERN = re.compile(r"include\.path|includeif\..*\.path", re.DOTALL)
_GITLINK = "160000"
_TRUE = ("", "true", "yes", "on", "1")
_GITLINK_IN_INDEX = bytes.fromhex("0000e000")
_SHARED_INDEX = b"link"
_MAX_REMEMBERED = 256
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class GitQuery(Protocol):
    """Runs a git command without disabling drivers: only for commands that never run one."""

    def __call__(self, command: str, /, *args: str, env: Mapping[str, str], input: bytes | None) -> bytes:
        """Return the command's output; raises if it fails."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """What one file of settings says that matters here."""

    drivers: frozenset[Driver] = frozenset()
    includes: tuple[str, ...] = ()
    is_bare: bool | None = None


@dataclass(frozen=True, slots=True)
class RepositorySettings:
    """What all files of settings of a repository say together."""

    drivers: frozenset[Driver] = frozenset()
    is_bare: bool = False
    """Whether the settings say so; a linked worktree ignores it."""


_parsed: dict[bytes, ConfigFile] = {}
"""Files of settings by their content, so that what git said about one holds as long as this process lives."""
_gitlinks: dict[Path, tuple[FileStamp, tuple[Path, ...]]] = {}
"""The nested repositories that an index lists, as long as it has the same stamp."""


class DriverFinder:
    """Finds the drivers of a repository; each time, it reads the files that name them.

    Conditional includes always count, whether or not the condition holds: it may hold in the worktree that a
    command is about to create. Nested repositories count too, because git looks into them.
    """

    def __init__(self, query: GitQuery, home: str) -> None:
        self._query = query
        self._home = home

    def read_settings(self, places: Places) -> RepositorySettings:
        """Read the settings of a repository, without those of nested ones."""
        drivers: set[Driver] = set()
        is_bare = False
        unread, seen = [places.find("config"), places.find("config.worktree")], set[Path]()
        while unread:
            path = unread.pop()
            if path not in seen:
                seen.add(path)
                file = self._read_file(path)
                drivers |= file.drivers
                is_bare = is_bare if file.is_bare is None else file.is_bare
                unread += [path.parent / self._expand_home(name) for name in file.includes]
        return RepositorySettings(frozenset(drivers), is_bare)

    def list_nested(self, places: Places, index: Path) -> frozenset[Driver]:
        """List the drivers of the repositories that an index lists, and of those within them."""
        found: set[Driver] = set()
        for path in self._find_gitlinks(places, index):
            if (path / ".git").exists():  # a submodule may be registered but not fetched
                nested = read_places(path)
                found |= self.read_settings(nested).drivers | self.list_nested(nested, nested.find("index"))
        return frozenset(found)

    def _read_file(self, path: Path) -> ConfigFile:
        if not path.exists():
            return ConfigFile()
        content = _read_regular_file(path)
        known = _parsed.get(content)
        if known is None:
            known = self._parse(path, content)
            _remember(_parsed, content, known)
        return known

    def _parse(self, path: Path, content: bytes) -> ConfigFile:
        flags = ("-z", "--no-includes", "--list", "--file")
        elsewhere = {"GIT_DIR": os.devnull}  # the repository itself has no say in how a file is read
        try:
            listing = self._query("config", *flags, "-", env=elsewhere, input=content)
        except GitError:
            self._query("config", *flags, str(path), env=elsewhere, input=None)  # its error names the file
            raise
        return _sort_settings(os.fsdecode(listing).split("\0"))

    def _expand_home(self, included: str) -> str:
        if included.startswith("~/"):
            return self._home + included[1:]
        return os.path.expanduser(included)  # noqa: PTH111 (Path fails where there is no such user)

    def _find_gitlinks(self, places: Places, index: Path) -> tuple[Path, ...]:
        began, stamp = time.time_ns(), find_stamp(os.fspath(index))
        known = _gitlinks.get(index)
        if known is not None and known[0] == stamp:
            return known[1]
        found = tuple(self._list_gitlinks(places, index))
        if stamp is not None and are_reliable([stamp], began):
            _remember(_gitlinks, index, (stamp, found))
        return found

    def _list_gitlinks(self, places: Places, index: Path) -> Iterator[Path]:
        if not _may_hold_gitlinks(index):
            return
        # With GIT_DIR set, git lists the whole index and not only the part below our root.
        env = {"GIT_DIR": str(places.git_dir), "GIT_INDEX_FILE": str(index)}
        listed = self._query("ls-files", "--stage", "-z", env=env, input=None)
        for entry in os.fsdecode(listed).split("\0"):
            if entry.startswith(_GITLINK):
                yield places.top / entry.partition("\t")[2]


def _remember(known: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    if len(known) >= _MAX_REMEMBERED:
        known.clear()
    known[key] = value


def _sort_settings(listed: list[str]) -> ConfigFile:
    drivers: set[Driver] = set()
    includes: list[str] = []
    is_bare = None
    for setting in listed:
        key, _, value = setting.partition("\n")
        section, name, variable = _split_key(key)
        if name is not None and (section, variable) in RUNS_A_PROGRAM:
            drivers.add((section, name))
        elif key == "core.bare":
            is_bare = value.lower() in _TRUE
        elif _INCLUDE_KEY_PATTERN.fullmatch(key):
            includes.append(value)
    return ConfigFile(frozenset(drivers), tuple(includes), is_bare)


def _read_regular_file(path: Path) -> bytes:
    _require_regular_file(path)
    with open(path, "rb", opener=_open_without_waiting) as file:
        return file.read()


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)  # a pipe may have taken the place of the file


def _require_regular_file(path: Path) -> None:
    # Not /dev/stdin or /proc/self/cmdline: their content differs between us and the next git process.
    # The files of a memory file system are like any others.
    real = Path(os.path.realpath(path))
    is_special = real.is_relative_to("/proc") or (
        real.is_relative_to("/dev") and not real.is_relative_to("/dev/shm")  # noqa: S108 - it is no temporary name
    )
    if not real.is_file() or is_special:
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
