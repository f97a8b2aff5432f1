"""Settings from flags, then the environment, then `.deepwork/config.yml`, then defaults.

Keys of the file that can act count only if this user trusted them. It imports little, because every command
loads it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from deepwork.errors import DefinitionError
from deepwork.files.config_file import load_config_file
from deepwork.files.repositories import find_main_tree, find_tree_root

STATE_FOLDER = ".deepwork"
TMP_FOLDER = f"{STATE_FOLDER}/tmp"  # noqa: S108 - a folder of the project
_CLAUDE_NAMES = {"claude-code", "claude_code", "claude-desktop"}
"""The names of `setup` and of agents, where the platform is called `claude`."""
FILE_URL_SCHEME: Final = "postgresql-from-file"
"""The scheme of a database URL that came from a file, so that it gets no passwords of this user."""
PLATFORMS: Final = ("claude", "codex", "cursor", "gemini", "opencode", "vscode", "windsurf", "zed", "generic")


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
    token: str = field(default="", repr=False)
    allowed_hosts: tuple[str, ...] = ()
    rate_limit: int = 50
    database: str = ""
    global_store: bool = False
    platform: str = "claude"
    lease_seconds: int = 90
    additional_jobs_folders: tuple[str, ...] = ()
    git_branch: str = "switch"
    file_conflicts: str = "warn"
    quality_gate: bool = True
    external_runner: str = ""
    quality_gate_timeout: int = 120
    quality_gate_max_attempts: int = 3
    quality_gate_override: str = "agent"
    max_parallel_reviews: int = 4
    log_level: str = "info"
    untrusted_keys: tuple[str, ...] = ()
    """Keys of config.yml that are ignored until a person runs `deepwork trust`."""
    is_database_from_file: bool = False

    @property
    def state_folder(self) -> Path:
        """The folder of this project's state."""
        return self.project_root / STATE_FOLDER

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


@dataclass(frozen=True)
class Option:
    """One setting: where it can be set and which values it accepts."""

    name: str
    parse: Callable[[Any], Any]
    allowed: str
    help: str
    file_key: tuple[str, ...] = ()
    variable: str = ""
    is_secret: bool = False
    """Read only from the environment: command lines are visible to other users."""
    in_file: bool = True
    """Whether config.yml may set it: a file from a cloned repository must not expose this machine."""
    needs_trust: bool = False
    """Whether it can open a port, name a server or a folder, or start a program."""

    @property
    def environment_variable(self) -> str:
        return self.variable or f"DEEPWORK_{self.name.upper()}"

    @property
    def key(self) -> str:
        """Its key in config.yml, with dots."""
        return ".".join(self.file_key or (self.name,))


def _parse_words(value: Any) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise ValueError
    return tuple(item.strip() for item in items if item.strip())


def _parse_folders(value: Any) -> tuple[str, ...]:
    return _parse_words(value.replace(":", ",") if isinstance(value, str) else value)


def _parse_bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[value.lower()]


def _parse_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _parse_database(value: Any) -> str:
    text = _parse_text(value).strip()
    scheme, found, rest = text.partition("://")
    if found:
        if scheme.lower() not in {"postgresql", "postgres"}:
            raise ValueError
        return f"postgresql://{rest}"
    if text.startswith(":"):  # `:memory:` would not be persistent
        raise ValueError
    return text


def _parse_platforms(value: Any) -> str:
    """Return the first platform, the only one that a server writes for."""
    names = ["claude" if name in _CLAUDE_NAMES else name for name in _parse_words(value)]
    if not set(names) <= set(PLATFORMS):
        raise ValueError
    return names[0] if names else "claude"


def _build_choice_parser(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return read


def _build_integer_parser(lowest: int, highest: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = int(value) if not isinstance(value, bool | float) else None
        if number is None or not lowest <= number <= highest:
            raise ValueError
        return number

    return read


OPTIONS: Final = (
    Option("toolsets", _parse_words, "names of toolsets, or `all`", "Which toolsets the server offers."),
    Option("tools", _parse_words, "names of tools", "Offer only these tools."),
    Option("exclude_tools", _parse_words, "names of tools", "Leave these tools out."),
    Option("read_only", _parse_bool, "true or false", "Offer only tools that change nothing."),
    Option(
        "output_schemas", _parse_bool, "true or false", "Send each tool's output schema too; costs tokens."
    ),
    Option(
        "transport",
        _build_choice_parser("stdio", "sse", "http"),
        "stdio, sse or http",
        "How clients connect to the server.",
        needs_trust=True,
    ),
    Option(
        "host",
        _parse_text,
        "an address or a name",
        "The address to listen on, with transport sse or http.",
        in_file=False,
    ),
    Option(
        "port",
        _build_integer_parser(0, 65_535),
        "a whole number from 0 to 65535",
        "The port to listen on; 0 chooses a free one.",
        needs_trust=True,
    ),
    Option(
        "token",
        _parse_text,
        "at least 16 characters",
        "The token that every request must carry; required to listen beyond this machine.",
        is_secret=True,
        in_file=False,
    ),
    Option(
        "allowed_hosts",
        _parse_words,
        "host names, with their port unless it is the default one",
        "Additional host names that requests may use, such as a proxy's.",
        in_file=False,
    ),
    Option(
        "rate_limit",
        _build_integer_parser(0, 1_000_000),
        "a whole number, 0 for no limit",
        "How many requests per second a caller may send, with bursts of four times that.",
        in_file=False,
    ),
    Option(
        "database",
        _parse_database,
        "a file path or a postgresql:// URL",
        "Where the store is; default is a file in the project.",
        variable="DEEPWORK_DATABASE_URL",
        needs_trust=True,
    ),
    Option(
        "global_store",
        _parse_bool,
        "true or false",
        "Use one store for all projects, in ~/.deepwork.",
        ("global",),
        "DEEPWORK_GLOBAL",
        needs_trust=True,
    ),
    Option(
        "platform",
        _parse_platforms,
        f"{', '.join(PLATFORMS[:-1])} or {PLATFORMS[-1]}",
        "Which client to write review tasks for.",
        ("platforms",),
    ),
    Option(
        "lease_seconds",
        _build_integer_parser(1, 86_400),
        "a whole number from 1 to 86400",
        "After this long without a call, an agent is offline and its claims expire.",
    ),
    Option(
        "additional_jobs_folders",
        _parse_folders,
        "folders, separated by colons",
        "Additional folders to search for jobs, after the project's and the built-in ones.",
        needs_trust=True,
    ),
    Option(
        "git_branch",
        _build_choice_parser("switch", "create", "off"),
        "switch, create or off",
        "What a job session does with its git branch.",
    ),
    Option(
        "file_conflicts",
        _build_choice_parser("warn", "refuse", "ignore"),
        "warn, refuse or ignore",
        "What claiming a task does about files of running tasks; applies to new plans.",
    ),
    Option(
        "quality_gate",
        _parse_bool,
        "true or false",
        "Review the outputs of each step.",
        ("quality_gate", "enabled"),
    ),
    Option(
        "external_runner",
        _build_choice_parser("", "claude"),
        "claude, or empty for self-review",
        "Who reviews a step.",
        ("quality_gate", "external_runner"),
        needs_trust=True,
    ),
    Option(
        "quality_gate_timeout",
        _build_integer_parser(1, 86_400),
        "seconds, from 1 to 86400",
        "How long one review may take.",
        ("quality_gate", "timeout"),
    ),
    Option(
        "quality_gate_max_attempts",
        _build_integer_parser(1, 100),
        "a whole number from 1 to 100",
        "How often a step may fail its review.",
        ("quality_gate", "max_attempts"),
    ),
    Option(
        "quality_gate_override",
        _build_choice_parser("agent", "person"),
        "agent or person",
        "Who may let a step pass without its review: its agent, with a reason, or only a person.",
        ("quality_gate", "override"),
    ),
    Option(
        "max_parallel_reviews",
        _build_integer_parser(1, 64),
        "a whole number from 1 to 64",
        "How many external reviewers run at the same time.",
        ("quality_gate", "max_parallel_reviews"),
    ),
    Option(
        "log_level",
        _build_choice_parser("debug", "info", "warning", "error"),
        "debug, info, warning or error",
        "The lowest level that servers log to standard error; `info` has a line for each tool call.",
    ),
)


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
    from deepwork.trust.models import Kind  # noqa: PLC0415
    from deepwork.trust.policy import list_untrusted  # noqa: PLC0415

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


def find_unknown_keys(root: Path) -> list[str]:
    """List keys of config.yml that are not settings, most likely misspelt."""
    known = {option.file_key[0] if option.file_key else option.name for option in OPTIONS if option.in_file}
    return sorted(set(load_config_file(root)) - known - {"version"})


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
