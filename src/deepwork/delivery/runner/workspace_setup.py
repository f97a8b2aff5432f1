"""Prepares the working trees of attempts.

When files are copied into a tree, nothing is read or written outside of the two trees, nothing that exists
is replaced, and a copy appears as a whole or not at all. Where the file system can, copies share their
blocks with the original.

Copies and commands happen once per tree. What says so is written last, into the tree's own git folder, so
a process that was killed in the middle leaves a tree that is prepared again.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from deepwork.delivery.runner.ports import PortBlocks
from deepwork.delivery.runner.profiles import COMMAND_KIND, AgentProfile, build_agent_environment
from deepwork.gates.checks.command import CommandRun, run_command
from deepwork.gates.checks.models import Check
from deepwork.gates.checks.run_files import hold_run_lock
from deepwork.kernel.config import Settings
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.errors import DeepworkError, InvalidInput, NotAllowed
from deepwork.kernel.files.lock import open_unlocked
from deepwork.kernel.files.paths import confine
from deepwork.kernel.files.private import to_storage_error, write_atomically
from deepwork.kernel.files.repositories import find_git_folder, find_tree_root
from deepwork.kernel.foreign_text import quote, quote_line
from deepwork.kernel.git.command import Git
from deepwork.kernel.records import dataclass
from deepwork.kernel.user_settings import render_untrusted_line

_FICLONE = 0x40049409  # ioctl of Linux: let a file share the blocks of another
_OWN_FOLDERS = {".git", ".deepwork"}


@dataclass(frozen=True)
class _Copy:
    """One path to copy."""

    name: str
    source: Path
    target: Path


def copy_ignored(git: Git, main: Path, tree: Path, names: Sequence[str], staging: Path) -> list[str]:
    """Copy these files and folders; return a note for each that could not be copied.

    `git` is that of the tree. `staging` is a folder for unfinished copies, which this function removes.
    """
    notes: list[str] = []
    found = []
    for name in names:
        try:
            found += _find_copies(main, tree, name)
        except DeepworkError as error:
            notes.append(f"{name!a} was not copied: {error.message}")
    ignored = _filter_ignored(git, [_name_for_git(copy, tree) for copy in found])
    _remove(staging)  # left by a killed process
    try:
        for copy in found:
            if _name_for_git(copy, tree) in ignored:
                _copy_whole(copy, staging)
            else:
                notes.append(
                    f"{copy.name!a} was not copied: git does not ignore it, so it would be committed."
                )
    finally:
        _remove(staging)
    return notes


def _find_copies(main: Path, tree: Path, name: str) -> list[_Copy]:
    """Return what to copy, nothing if the tree has it; raises InvalidInput for what may not be copied."""
    source, target = confine(main, name), confine(tree, name, must_exist=False)
    parts = {*source.relative_to(main.resolve()).parts, *target.relative_to(tree.resolve()).parts}
    if parts & _OWN_FOLDERS:
        raise InvalidInput("It belongs to git or to deepwork.")
    return [] if os.path.lexists(target) else [_Copy(name, source, target)]


def _name_for_git(copy: _Copy, tree: Path) -> str:
    """Name the target as `git check-ignore` needs it: a pattern may be only for folders."""
    return f"{copy.target.relative_to(tree.resolve()).as_posix()}{'/' if copy.source.is_dir() else ''}"


def _filter_ignored(git: Git, paths: Collection[str]) -> set[str]:
    if not paths:
        return set()
    listed = b"".join(os.fsencode(path) + b"\0" for path in paths)
    answer = git.run("check-ignore", "-z", "--stdin", input=listed, ok_codes=(0, 1))
    return {os.fsdecode(path) for path in answer.split(b"\0") if path}


def _copy_whole(copy: _Copy, staging: Path) -> None:
    """Copy to the staging folder, then move into place."""
    try:
        copy.target.parent.mkdir(parents=True, exist_ok=True)
        place = _choose_staging(staging, copy.target)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _copy_content(copy.source, place)
        place.rename(copy.target)
        shutil.copystat(copy.source, copy.target)  # now, because a read-only folder cannot be moved
    except OSError as error:
        raise to_storage_error("copy", copy.source, error) from error


def _choose_staging(staging: Path, target: Path) -> Path:
    """Return where to build the copy: on the target's file system, so that it can be moved into place."""
    if staging.parent.stat().st_dev == target.parent.stat().st_dev:
        return staging / target.name
    beside = target.with_name(f"{target.name}.deepwork-copy")
    _remove(beside)  # left by a killed process
    return beside


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        for folder, _, _ in os.walk(path):
            os.chmod(folder, 0o700)  # noqa: PTH101 - what is in a read-only folder cannot be removed
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _copy_content(source: Path, target: Path) -> None:
    """Copy a file or a folder; links stay links, and sockets, pipes and devices are left out."""
    if not source.is_dir():
        _copy_file(source, target)
        return
    target.mkdir(mode=0o700)
    for entry in os.scandir(source):
        _copy_entry(Path(entry.path), target / entry.name)


def _copy_entry(source: Path, target: Path) -> None:
    mode = source.lstat().st_mode
    if stat.S_ISLNK(mode):
        target.symlink_to(source.readlink())
    elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        _copy_content(source, target)
        shutil.copystat(source, target)


def _copy_file(source: Path, target: Path) -> None:
    with (
        os.fdopen(open_unlocked(source, os.O_RDONLY | os.O_NOFOLLOW), "rb") as reading,
        target.open("xb") as writing,
    ):
        if not _try_to_clone(reading.fileno(), writing.fileno()):
            shutil.copyfileobj(reading, writing, 1024 * 1024)


def _try_to_clone(source: int, target: int) -> bool:
    if sys.platform != "linux":
        return False
    with suppress(OSError):  # most file systems cannot
        fcntl.ioctl(target, _FICLONE, source)
        return True
    return False


_SETUP_KEY = "workspace.setup"
PORT_VARIABLE: Final = "DEEPWORK_WORKSPACE_PORT"
MAX_SETUP_SECONDS: Final = 1800
"""How long one set-up command may run."""
_MARKER_NAME = "deepwork-prepared"
_LOCK_NAME = "deepwork-prepare.lock"
_STAGING_NAME = "deepwork-copies"
_LOG_NAME = "deepwork-setup.log"
_SHOWN_OUTPUT = 2000
_NO_PROFILE = AgentProfile("setup", COMMAND_KIND)


@dataclass(frozen=True)
class WorkspaceSettings:
    """How each tree is prepared."""

    setup: tuple[tuple[str, ...], ...] = ()
    copy: tuple[str, ...] = ()
    ports: int = 0


def build_workspace_settings(settings: Settings) -> WorkspaceSettings:
    """Select the settings of trees; commands that nobody trusted are not among them."""
    return WorkspaceSettings(settings.workspace_setup, settings.workspace_copy, settings.workspace_ports)


def list_untrusted_setup(settings: Settings) -> tuple[str, ...]:
    """List the keys of config.yml whose commands would prepare a tree, and that nobody trusted."""
    return tuple(key for key in settings.untrusted_keys if key == _SETUP_KEY)


def require_trusted_setup(settings: Settings) -> None:
    """Raise NotAllowed if the project has set-up commands that nobody trusted: trees would not be ready."""
    if untrusted := list_untrusted_setup(settings):
        raise NotAllowed(
            f"The run was not started. {render_untrusted_line(untrusted)}",
            suggestion="Read the commands, then run `deepwork trust`; or remove them from config.yml.",
        )


@dataclass(frozen=True)
class PreparedTree:
    """A tree in which an agent can work."""

    port: int | None = None
    """The first port of its own."""
    notes: tuple[str, ...] = ()
    """What was not copied, and why; only when the tree was prepared just now."""


class WorkspacePreparer:
    """Prepares trees on this machine."""

    def __init__(self, database: Database, host: str, *, setup_seconds: int = MAX_SETUP_SECONDS) -> None:
        self._ports = PortBlocks(database, host)
        self._setup_seconds = setup_seconds

    def prepare(
        self,
        main_tree: Path,
        tree: Path,
        settings: WorkspaceSettings,
        environment: Mapping[str, str] | None = None,
    ) -> PreparedTree:
        """Prepare a tree unless it is prepared, for the project whose folder in the main tree is given.

        The main tree itself only gets ports: nothing in a person's checkout is changed. Raises NotAllowed if
        a command fails, StorageError if a file cannot be copied; then the next call tries again.
        """
        if not tree.is_dir():
            raise NotAllowed(
                f"The tree {str(tree)!r} does not exist any more.",
                suggestion="End its workspace with {tool:workspace_update}; the next claim makes a new one.",
            )
        port = self._ports.take(tree, settings.ports, main_tree) if settings.ports else None
        tree = find_project_folder(main_tree, tree)
        if tree.resolve() == main_tree.resolve() or not (settings.setup or settings.copy):
            return PreparedTree(port)
        environment = build_setup_environment(port) if environment is None else environment
        return PreparedTree(port, self._prepare_once(main_tree, tree, settings, environment))

    def _prepare_once(
        self, main_tree: Path, tree: Path, settings: WorkspaceSettings, environment: Mapping[str, str]
    ) -> tuple[str, ...]:
        folder = find_git_folder(find_tree_root(tree) or tree)
        marker, digest = folder / _MARKER_NAME, compute_digest(settings)
        try:
            with hold_run_lock(folder / _LOCK_NAME) as lock:
                if _read_marker(marker) == digest:
                    return ()
                git = Git(tree, environment=build_child_environment())
                notes = copy_ignored(git, main_tree, tree, settings.copy, folder / _STAGING_NAME)
                for number, words in enumerate(settings.setup):
                    attempt = self._run(words, tree, environment, lock)
                    _write_log(folder / _LOG_NAME, words, attempt, is_first=number == 0)
                    _require_success(words, tree, attempt, folder / _LOG_NAME)
                write_atomically(marker, digest.encode())
                return tuple(notes)
        except OSError as error:
            raise to_storage_error("prepare", tree, error) from error

    def _run(
        self, words: tuple[str, ...], tree: Path, environment: Mapping[str, str], lock: int
    ) -> CommandRun:
        # The supervisor holds the lock too: if this process is killed, nobody starts before all has ended.
        return run_command(Check("setup", words, self._setup_seconds), tree, environment, (lock,))


def build_setup_environment(port: int | None) -> dict[str, str]:
    """Build the environment of set-up commands: a few harmless variables, and the tree's first port."""
    more = {} if port is None else {PORT_VARIABLE: str(port)}
    return build_agent_environment(_NO_PROFILE) | more


def find_project_folder(main_tree: Path, tree: Path) -> Path:
    """Return the project's folder in a tree: a project may be a subfolder of its repository."""
    top = find_tree_root(main_tree)
    inside = tree / main_tree.relative_to(top) if top else tree
    return inside if find_tree_root(tree) == tree and inside.is_dir() else tree


def compute_digest(settings: WorkspaceSettings) -> str:
    """Compute what a prepared tree remembers: it is prepared again if commands or copies have changed."""
    return sha256(json.dumps([settings.setup, settings.copy]).encode()).hexdigest()


def _read_marker(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (FileNotFoundError, UnicodeDecodeError):
        return ""


def _write_log(path: Path, words: tuple[str, ...], attempt: CommandRun, *, is_first: bool) -> None:
    """Keep what the commands wrote, for people."""
    with path.open("wb" if is_first else "ab") as file:
        file.write(f"$ {' '.join(words)}\n".encode(errors="replace") + attempt.output + b"\n")


def _require_success(words: tuple[str, ...], tree: Path, attempt: CommandRun, log: Path) -> None:
    if attempt.is_green:
        return
    ended = f"ended with exit code {attempt.exit_code}"
    if attempt.is_timeout:
        ended = "took too long"
    elif attempt.problem:
        ended = f"failed: {attempt.problem}"
    said = attempt.output.decode(errors="replace").strip()[-_SHOWN_OUTPUT:]
    raise NotAllowed(
        f"{str(tree)!r} could not be prepared: {quote_line(' '.join(words))} {ended.removesuffix('.')}."
        + (f" It wrote: {quote(said, _SHOWN_OUTPUT)}" if said else ""),
        suggestion=f"Its whole output is in {log}. Correct workspace.setup, or what it needs, and run again.",
    )
