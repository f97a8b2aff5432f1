"""Prepares the tree of an attempt: its ports, copies of ignored files, and the set-up of the project.

Copies and commands happen once per tree. What says so is written last, into the tree's own git folder, so a
process that was killed in the middle leaves a tree that is prepared again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from deepwork.delivery.runner.ports import PortBlocks
from deepwork.delivery.runner.profiles import COMMAND_KIND, AgentProfile, build_agent_environment
from deepwork.delivery.runner.tree_copies import copy_ignored
from deepwork.gates.checks.command import CommandRun, run_command
from deepwork.gates.checks.models import Check
from deepwork.gates.checks.run_files import hold_run_lock
from deepwork.kernel.config import Settings
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.files.private import to_storage_error, write_atomically
from deepwork.kernel.files.repositories import find_git_folder, find_tree_root
from deepwork.kernel.foreign_text import quote, quote_line
from deepwork.kernel.git.command import Git
from deepwork.kernel.trust import render_untrusted_line

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
        tree = _find_project_folder(main_tree, tree)
        if tree.resolve() == main_tree.resolve() or not (settings.setup or settings.copy):
            return PreparedTree(port)
        environment = build_setup_environment(port) if environment is None else environment
        return PreparedTree(port, self._prepare_once(main_tree, tree, settings, environment))

    def release(self, tree: Path) -> None:
        """Let other trees have the ports of this one."""
        self._ports.release(tree)

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


def _find_project_folder(main_tree: Path, tree: Path) -> Path:
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
