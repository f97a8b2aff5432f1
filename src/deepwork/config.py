"""Settings: flags win over the environment, that over `.deepwork/config.yml`, that over the defaults.

The only reader of the environment. Plain on purpose: every command starts here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from deepwork.errors import DefinitionError

STATE_FOLDER = ".deepwork"
TMP_FOLDER = f"{STATE_FOLDER}/tmp"  # noqa: S108 - a folder of the project


@dataclass(frozen=True)
class Settings:
    """How one deepwork process behaves."""

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
    quality_gate: bool = True
    external_runner: str = ""
    quality_gate_timeout: int = 120
    quality_gate_max_attempts: int = 3
    max_parallel_reviews: int = 4
    log_level: str = "warning"

    @property
    def state_folder(self) -> Path:
        """Where this project keeps what deepwork remembers."""
        return self.project_root / STATE_FOLDER

    @cached_property
    def repository_root(self) -> Path:
        """The folder of the repository itself: that of a git worktree is its main tree."""
        root = self.project_root
        tree = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
        main = main_tree(tree)
        if main is None:
            return root
        same = main / root.relative_to(tree)  # a folder of a worktree stands for that of the main tree
        return same if same.is_dir() else main

    @property
    def store_folder(self) -> Path:
        """Where plans, agents and messages are kept: all trees of a repository share one store."""
        return (Path.home() if self.global_store else self.repository_root) / STATE_FOLDER

    @property
    def token_file(self) -> Path:
        """Where the token is kept that was made because none was set."""
        return (Path.home() / STATE_FOLDER if self.global_store else self.state_folder) / "token"

    @property
    def database_location(self) -> str:
        """A PostgreSQL URL, or the path of the SQLite file."""
        if "://" in self.database:
            return self.database
        if self.database:
            return str(self.project_root / Path(self.database).expanduser())
        return str(self.store_folder / "deepwork.db")


@dataclass(frozen=True)
class Option:
    """One setting: where it may be given and what it may be."""

    name: str
    read: Callable[[Any], Any]
    allowed: str
    help: str
    file_key: tuple[str, ...] = ()
    variable: str = ""
    is_secret: bool = False
    """Read from the environment alone: a command line is seen by others."""
    in_file: bool = True
    """Whether config.yml may set it: a file that came with a repository must not open this machine."""

    @property
    def environment_variable(self) -> str:
        return self.variable or f"DEEPWORK_{self.name.upper()}"

    @property
    def key(self) -> str:
        """Its place in config.yml, as one writes it in a sentence."""
        return ".".join(self.file_key or (self.name,))


def _words(value: Any) -> tuple[str, ...]:
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(item, str) for item in items):
        raise ValueError
    return tuple(item.strip() for item in items if item.strip())


def _folders(value: Any) -> tuple[str, ...]:
    return _words(value.replace(":", ",") if isinstance(value, str) else value)


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}[value.lower()]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _database(value: Any) -> str:
    text = _text(value).strip()
    scheme, found, rest = text.partition("://")
    if found:
        if scheme.lower() not in {"postgresql", "postgres"}:
            raise ValueError
        return f"postgresql://{rest}"
    if text.startswith(":"):  # `:memory:` would be forgotten at once
        raise ValueError
    return text


def _first(value: Any) -> str:
    return _words(value)[0] if value else "claude"


def _one_of(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return read


def _whole_number(lowest: int, highest: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = int(value) if not isinstance(value, bool | float) else None
        if number is None or not lowest <= number <= highest:
            raise ValueError
        return number

    return read


OPTIONS: Final = (
    Option("toolsets", _words, "names of toolsets, or `all`", "Which groups of tools the server offers."),
    Option("tools", _words, "names of tools", "Offer only these tools."),
    Option("exclude_tools", _words, "names of tools", "Leave these tools out."),
    Option("read_only", _truth, "true or false", "Offer only tools that change nothing."),
    Option("output_schemas", _truth, "true or false", "Send each tool's output schema too; costs tokens."),
    Option(
        "transport", _one_of("stdio", "sse", "http"), "stdio, sse or http", "How clients reach the server.",
    ),
    Option(
        "host", _text, "an address or a name", "Where to listen, with transport sse or http.", in_file=False,
    ),
    Option("port", _whole_number(1, 65_535), "a whole number from 1 to 65535", "The port to listen on."),
    Option(
        "token", _text, "at least 16 characters",
        "What every request must show; needed to listen beyond this machine.", is_secret=True, in_file=False,
    ),
    Option(
        "allowed_hosts", _words, "host names, with their port unless it is the usual one",
        "Further names this server answers to, such as that of a proxy.", in_file=False,
    ),
    Option(
        "rate_limit", _whole_number(0, 1_000_000), "a whole number, 0 for none",
        "How many requests a second one caller may send, with bursts of four times that.", in_file=False,
    ),
    Option(
        "database", _database, "a file path or a postgresql:// URL",
        "Where everything is kept; default is a file in the project.", variable="DEEPWORK_DATABASE_URL",
    ),
    Option(
        "global_store", _truth, "true or false",
        "Keep everything in ~/.deepwork, one store for all projects.", ("global",), "DEEPWORK_GLOBAL",
    ),
    Option(
        "platform", _first, "a name such as claude",
        "Which client to write review tasks for.", ("platforms",),
    ),
    Option(
        "lease_seconds", _whole_number(1, 86_400), "a whole number from 1 to 86400",
        "An agent silent for this long is offline, and its claims are free.",
    ),
    Option(
        "additional_jobs_folders", _folders, "folders, separated by colons",
        "Further places to look for jobs, after the project's and the shipped ones.",
    ),
    Option(
        "git_branch", _one_of("switch", "create", "off"), "switch, create or off",
        "What a job session does with its git branch.",
    ),
    Option("quality_gate", _truth, "true or false", "Review a step's outputs.", ("quality_gate", "enabled")),
    Option(
        "external_runner", _one_of("", "claude"), "claude, or nothing for self-review",
        "Who reviews a step.", ("quality_gate", "external_runner"),
    ),
    Option(
        "quality_gate_timeout", _whole_number(1, 86_400), "seconds, from 1 to 86400",
        "How long one review may take.", ("quality_gate", "timeout"),
    ),
    Option(
        "quality_gate_max_attempts", _whole_number(1, 100), "a whole number from 1 to 100",
        "How often a step may fail its review.", ("quality_gate", "max_attempts"),
    ),
    Option(
        "max_parallel_reviews", _whole_number(1, 64), "a whole number from 1 to 64",
        "How many external reviewers run at once.", ("quality_gate", "max_parallel_reviews"),
    ),
    Option(
        "log_level", _one_of("debug", "info", "warning", "error"), "debug, info, warning or error",
        "How much is written to standard error.",
    ),
)  # fmt: skip


def load_settings(
    project_root: Path | str,
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Settings:
    """The settings of a project; a value that cannot be used is one clear sentence."""
    root = _folder(project_root)
    file = _config_file(root)
    chosen = {}
    for option in OPTIONS:
        given = _first_given(option, flags or {}, environment, file)
        if given is not None:
            chosen[option.name] = _usable(option, *given)
    return Settings(project_root=root, **chosen)


def _folder(project_root: Path | str) -> Path:
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


def project_around(folder: Path) -> Path:
    """The project that a folder is in: people and agents wander into folders below it.

    That is the nearest in which deepwork keeps something, within the repository; else the folder itself.
    """
    here = folder.resolve()
    for each in (here, *here.parents):
        if each == Path.home():  # ~/.deepwork is for all projects
            break
        if (each / STATE_FOLDER).is_dir():
            return each
        if (each / ".git").exists():
            break
    return here


def main_tree(root: Path) -> Path | None:
    """The main tree of the repository that this folder is a linked worktree of.

    Read from git's own notes, which must point at each other: whoever unpacked a `.git` file into the
    project does not choose our store by it.
    """
    try:
        gitdir = root / _noted(root / ".git", "gitdir: ")
        points_back = (gitdir / _noted(gitdir / "gitdir")).resolve() == (root / ".git").resolve()
    except (OSError, ValueError):
        return None
    main = gitdir.resolve().parents[2:3]
    is_worktree = gitdir.parent.name == "worktrees" and gitdir.parent.parent.name == ".git"
    return main[0] if is_worktree and points_back and main else None


def _noted(file: Path, before: str = "") -> str:
    if file.is_dir():
        raise ValueError
    text = file.read_text(encoding="utf-8", errors="surrogateescape").removesuffix("\n")
    if not text.startswith(before):
        raise ValueError
    return text.removeprefix(before)


def unknown_keys(root: Path) -> list[str]:
    """Keys of config.yml that mean nothing to us, most likely misspelt."""
    known = {option.file_key[0] if option.file_key else option.name for option in OPTIONS if option.in_file}
    return sorted(set(_config_file(root)) - known - {"version", "file_conflicts"})


def child_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What programs we start may see: enough to find themselves, none of our secrets."""
    kept = {"PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "SHELL"}
    return {key: value for key, value in environment.items() if key in kept or key.startswith("LC_")}


def reviewer_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What a reviewer may see beyond that: its own settings and keys, and how to reach the network."""
    own = ("ANTHROPIC_", "CLAUDE_", "XDG_")
    ways = {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"}
    more = {key: value for key, value in environment.items() if key.startswith(own) or key.upper() in ways}
    return child_environment(environment) | more


def keep_fastmcp_quiet() -> None:
    """Keep FastMCP from reading the project's .env, asking for updates and printing logs of its own."""
    os.environ["FASTMCP_ENV_FILE"] = os.devnull
    os.environ["FASTMCP_LOG_ENABLED"] = "false"
    os.environ["FASTMCP_CHECK_FOR_UPDATES"] = "off"


def runtime_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """A folder of this user's own for sockets, which must have short paths."""
    base = environment.get("XDG_RUNTIME_DIR") or environment.get("TMPDIR") or "/tmp"  # noqa: S108 - then 0700
    return Path(base) / f"deepwork-{os.getuid()}"


def _first_given(
    option: Option, flags: Mapping[str, Any], environment: Mapping[str, str], file: Mapping[str, Any]
) -> tuple[Any, str] | None:
    if (flag := flags.get(option.name)) not in (None, ()) and not option.is_secret:
        return flag, f"--{option.name.replace('_', '-')}"
    if variable := environment.get(option.environment_variable):
        return variable, option.environment_variable
    value: Any = file if option.in_file else {}
    for part in option.file_key or (option.name,):
        value = value.get(part) if isinstance(value, dict) else None
    return None if value is None else (value, f"`{option.key}` in {STATE_FOLDER}/config.yml")


def _usable(option: Option, value: Any, origin: str) -> Any:
    try:
        return option.read(value)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError):
        # A database URL may hold a password: name the place, not the value.
        shown = "…" if option.is_secret or option.name == "database" else repr(value)
        raise DefinitionError(
            f"{origin} is {shown}; it must be {option.allowed}.",
            suggestion=f"Correct {origin} and start again.",
        ) from None


def _config_file(root: Path) -> dict[str, Any]:
    path = root / STATE_FOLDER / "config.yml"
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except NotADirectoryError:
        raise DefinitionError(
            f"{path.parent} is no folder.", suggestion="Move it away, then call again."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"{STATE_FOLDER}/config.yml cannot be read: {error}.") from error
    # YAML costs as much to import as the rest of a small command: only where there is a file.
    from deepwork.files.yaml import load_yaml  # noqa: PLC0415

    data = load_yaml(text, source=f"{STATE_FOLDER}/config.yml").data
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise DefinitionError(f"{STATE_FOLDER}/config.yml must be a mapping of settings.")
    return data
