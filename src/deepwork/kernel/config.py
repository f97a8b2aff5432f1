"""Settings from flags, then the environment, then `.deepwork/config.yml`, then defaults.

Keys of the file that can act count only if this user trusted them. It imports little, because every command
loads it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from deepwork.kernel.config_options import OPTIONS, Option
from deepwork.kernel.environment import get_host_name
from deepwork.kernel.errors import DefinitionError
from deepwork.kernel.files.config_file import load_config_file
from deepwork.kernel.files.repositories import find_main_tree, find_tree_root
from deepwork.kernel.records import dataclass

STATE_FOLDER = ".deepwork"
TMP_FOLDER = f"{STATE_FOLDER}/tmp"  # noqa: S108 - a folder of the project
FILE_URL_SCHEME: Final = "postgresql-from-file"
"""The scheme of a database URL that came from a file, so that it gets no passwords of this user."""


@dataclass(frozen=True)
class Settings:
    """The settings of one deepwork process."""

    project_root: Path
    toolsets: tuple[str, ...] = ("all",)
    tools: tuple[str, ...] = ()
    exclude_tools: tuple[str, ...] = ()
    read_only: bool = False
    output_schemas: bool = False
    transport: str = "stdio"
    host: str = "127.0.0.1"
    port: int = 8000
    socket: str = ""
    token: str = field(default="", repr=False)
    allowed_hosts: tuple[str, ...] = ()
    rate_limit: int = 50
    database: str = ""
    global_store: bool = False
    platform: str = "claude"
    lease_seconds: int = 90
    agent_id: str = ""
    additional_jobs_folders: tuple[str, ...] = ()
    git_branch: str = "switch"
    file_conflicts: str = "warn"
    quality_gate: bool = True
    external_runner: str = ""
    quality_gate_timeout: int = 120
    quality_gate_max_attempts: int = 3
    quality_gate_override: str = "agent"
    max_parallel_reviews: int = 4
    run_chain: str = "default"
    run_agents: int = 1
    run_minutes: float = 240.0
    run_stall_minutes: float = 15.0
    run_wait_at_limit: float = 720.0
    run_resumes: int = 10
    run_land: bool = False
    run_max_unreviewed: int = 0
    do_planner: str = ""
    do_reviewer: str = ""
    do_agents: int = 2
    do_max_usd: float = 20.0
    workspace_setup: tuple[tuple[str, ...], ...] = ()
    workspace_copy: tuple[str, ...] = ()
    workspace_ports: int = 0
    log_level: str = "info"
    untrusted_keys: tuple[str, ...] = ()
    """Keys of config.yml that are ignored until a person runs `deepwork trust`."""
    is_database_from_file: bool = False

    @property
    def state_folder(self) -> Path:
        """The folder of this project's state."""
        return self.project_root / STATE_FOLDER

    @cached_property
    def machine(self) -> str:
        """The machine that paths refer to: "local" for a file database, even if the host is renamed."""
        return get_host_name() if "://" in self.database else "local"

    @cached_property
    def repository_root(self) -> Path:
        """The root of the repository; for a git worktree, that of its main tree."""
        root = self.project_root
        tree = find_tree_root(root) or root
        main = find_main_tree(tree)
        if main is None:
            return root
        same = main / root.relative_to(tree)  # the same folder in the main tree
        return same if same.is_dir() else main

    @property
    def store_folder(self) -> Path:
        """The folder of the store; all worktrees of a repository share one."""
        return (Path.home() if self.global_store else self.repository_root) / STATE_FOLDER

    @property
    def token_file(self) -> Path:
        """The file of the token that is generated when none is set."""
        return (Path.home() / STATE_FOLDER if self.global_store else self.state_folder) / "token"

    @property
    def database_location(self) -> str:
        """A PostgreSQL URL, or the path of the SQLite file."""
        scheme, found, rest = self.database.partition("://")
        if found:
            return f"{FILE_URL_SCHEME if self.is_database_from_file else scheme}://{rest}"
        if self.database:
            return str(self.project_root / Path(self.database).expanduser())
        return str(self.store_folder / "deepwork.db")


def load_settings(
    project_root: Path | str,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """Load the settings of a project; raises DefinitionError for an invalid value."""
    root = _resolve_folder(project_root)
    file = load_config_file(root)
    chosen, acting = {}, {}
    for option in OPTIONS:
        given = _find_override(option, flags or {}, environment)
        if given is not None:
            chosen[option.name] = _parse_value(option, *given)
        elif (given := _find_in_file(option, file)) is not None:
            value = chosen[option.name] = _parse_value(option, *given)
            if option.needs_trust and value != getattr(_DEFAULTS, option.name):
                acting[option] = value
    return _drop_untrusted(root, chosen, acting, environment) if acting else Settings(root, **chosen)


_DEFAULTS: Final = Settings(Path())


def list_acting_settings(root: Path) -> dict[str, Any]:
    """List the settings of config.yml that count only if they are trusted, by their keys."""
    file = load_config_file(root)
    found = {
        option: _parse_value(option, *given)
        for option in OPTIONS
        if option.needs_trust and (given := _find_in_file(option, file)) is not None
    }
    return {option.key: value for option, value in found.items() if value != getattr(_DEFAULTS, option.name)}


def _drop_untrusted(
    root: Path, chosen: dict[str, Any], acting: Mapping[Option, Any], environment: Mapping[str, str]
) -> Settings:
    """Build the settings without those of the file that can act and that this user did not trust."""
    # Every hook would wait for these imports.
    from deepwork.kernel.user_settings import Kind, list_untrusted

    definitions = {option.key: value for option, value in acting.items()}
    untrusted = list_untrusted(Settings(root).repository_root, Kind.CONFIG, definitions, environment)
    kept = {option.name for option in acting if option.key not in untrusted}
    dropped = {option.name for option in acting} - kept
    return Settings(
        root,
        **{name: value for name, value in chosen.items() if name not in dropped},
        untrusted_keys=untrusted,
        is_database_from_file="database" in kept,
    )


def _resolve_folder(project_root: Path | str) -> Path:
    try:
        root = Path(project_root).expanduser().resolve()
    except RuntimeError:  # `~nobody`
        root = Path(project_root)
    if not root.is_dir():
        problem = "is not a folder" if root.exists() else "does not exist"
        raise DefinitionError(
            f"The project folder {root} {problem}.", suggestion="Pass an existing folder with --path."
        )
    return root


def find_project(folder: Path) -> Path:
    """Find the project that contains a folder, because commands are often run in subfolders.

    It is the nearest folder with a state folder, within the repository; otherwise the folder itself.
    """
    here = folder.resolve()
    tree = find_tree_root(here)
    for each in (here, *here.parents):
        if each == Path.home():  # ~/.deepwork is for all projects
            break
        if (each / STATE_FOLDER).is_dir():
            return each
        if each == tree:
            break
    return here


RETIRED_KEYS = frozenset({"run.orphan"})
"""Keys of earlier versions that have no effect any more, and do no harm."""


def find_unknown_keys(root: Path) -> list[str]:
    """List keys of config.yml that are not settings, most likely misspelt."""
    known = {option.key for option in OPTIONS if option.in_file} | {"version"}
    groups = {key.partition(".")[0] for key in known if "." in key}
    found: list[str] = []
    for key, value in load_config_file(root).items():
        is_group = key in groups and isinstance(value, dict)
        found += [f"{key}.{each}" for each in value] if is_group else [key]
    return sorted(set(found) - known - groups)


def require_known_keys(root: Path) -> None:
    """Raise if config.yml has a key that is no setting: what it was meant to limit would not be limited."""
    unknown = [key for key in find_unknown_keys(root) if key not in RETIRED_KEYS]
    if not unknown:
        return
    from difflib import get_close_matches

    known = [option.key for option in OPTIONS if option.in_file]
    near = get_close_matches(unknown[0], known, 1)
    raise DefinitionError(
        f"{STATE_FOLDER}/config.yml has unknown keys: {', '.join(repr(key[:60]) for key in unknown[:5])}.",
        suggestion=f"Did you mean `{near[0]}`?" if near else "Remove them, or correct their spelling.",
    )


def _find_override(
    option: Option, flags: Mapping[str, Any], environment: Mapping[str, str]
) -> tuple[Any, str] | None:
    if (flag := flags.get(option.name)) not in (None, ()) and not option.is_secret:
        return flag, f"--{option.name.replace('_', '-')}"
    if variable := environment.get(option.environment_variable):
        return variable, option.environment_variable
    return None


def _find_in_file(option: Option, file: Mapping[str, Any]) -> tuple[Any, str] | None:
    value: Any = file if option.in_file else {}
    for part in option.file_key or (option.name,):
        value = value.get(part) if isinstance(value, dict) else None
    return None if value is None else (value, f"`{option.key}` in {STATE_FOLDER}/config.yml")


def _parse_value(option: Option, value: Any, origin: str) -> Any:
    try:
        return option.parse(value)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        # A database URL may hold a password: name the place, not the value.
        shown = "…" if option.is_secret or option.name == "database" else repr(value)
        raise DefinitionError(
            f"{origin} is {shown}; it must be {option.allowed}.",
            suggestion=f"Correct {origin} and start again.",
        ) from None
