"""The settings that exist: where each can be set, and which values it accepts."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import isfinite
from typing import Any, Final

from deepwork.kernel.records import dataclass
from deepwork.kernel.vendors import PLATFORM_BY_NAME

_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
PLATFORMS: Final = (*sorted(set(PLATFORM_BY_NAME.values())), "generic")


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
    names = [PLATFORM_BY_NAME.get(name, name) for name in _parse_words(value)]
    if not set(names) <= set(PLATFORMS):
        raise ValueError
    return names[0] if names else "claude"


def _build_choice_parser(*words: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return read


def _parse_agent_name(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,99})?", value):
        raise ValueError
    return value


def _build_integer_parser(lowest: int, highest: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = int(value) if not isinstance(value, bool | float) else None
        if number is None or not lowest <= number <= highest:
            raise ValueError
        return number

    return read


def _build_number_parser(lowest: float, highest: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        number = float(value) if not isinstance(value, bool) else None
        if number is None or not isfinite(number) or not lowest <= number <= highest:
            raise ValueError
        return number

    return read


def _parse_name(value: Any) -> str:
    """Return the name of something that the user defined; never a command."""
    if not _NAME_PATTERN.fullmatch(value):
        raise ValueError
    return str(value)


def _parse_optional_name(value: Any) -> str:
    """Return the name of something that the user defined, or nothing."""
    return _parse_name(value) if value else ""


def _parse_commands(value: Any) -> tuple[tuple[str, ...], ...]:
    """Return commands as lists of words; in a variable they are lines, split as a shell would."""
    if isinstance(value, str):
        import shlex  # noqa: PLC0415 - hardly ever needed

        value = [words for line in value.splitlines() if (words := shlex.split(line, comments=True))]
    if not isinstance(value, list | tuple):
        raise TypeError
    return tuple(_parse_command(command) for command in value)


def _parse_command(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value or not all(isinstance(word, str) for word in value):
        raise ValueError
    if not value[0].strip() or any("\0" in word for word in value):
        raise ValueError
    return tuple(value)


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
        "socket",
        _parse_text,
        "a path of at most 103 bytes, in a folder that is yours alone",
        "Where `serve --socket` answers the agents of runs, each with the token of its attempt. `run` sends "
        "its agents there; by default it answers them itself.",
        in_file=False,
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
        "agent_id",
        _parse_text,
        "the id of a registered agent",
        "The agent as which calls act that name none; `deepwork run` sets it for the agents that it starts.",
        in_file=False,
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
        _parse_agent_name,
        "claude, the name of another agent of yours, or empty for self-review",
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
        "run_chain",
        _parse_name,
        "the name of a chain in your agents.yml, or default",
        "Which agents `deepwork run` starts, and who takes over.",
        ("run", "chain"),
    ),
    Option(
        "run_agents",
        _build_integer_parser(1, 64),
        "a whole number from 1 to 64",
        "How many agents work at the same time.",
        ("run", "agents"),
    ),
    Option(
        "run_minutes",
        _build_number_parser(0.01, 100_000),
        "minutes, from 0.01 to 100000",
        "How long one process of an agent may run; an attempt may start several.",
        ("run", "minutes"),
    ),
    Option(
        "run_stall_minutes",
        _build_number_parser(0.01, 100_000),
        "minutes, from 0.01 to 100000",
        "An agent without output, CPU time and open tool for this long has stalled.",
        ("run", "stall_minutes"),
    ),
    Option(
        "run_wait_at_limit",
        _build_number_parser(0, 100_000),
        "minutes, from 0 to 100000",
        "How long an attempt waits for a limit at most; then the next agent of the chain takes over.",
        ("run", "wait_at_limit"),
    ),
    Option(
        "run_resumes",
        _build_integer_parser(0, 1000),
        "a whole number from 0 to 1000",
        "How often one attempt is resumed after a limit, a crash or a reboot.",
        ("run", "resumes"),
    ),
    Option(
        "run_land",
        _parse_bool,
        "true or false",
        "Land each task when it is done: merge it into the branch that its plan started from, and test that.",
        ("run", "land"),
    ),
    Option(
        "run_max_unreviewed",
        _build_integer_parser(0, 100_000),
        "a whole number, 0 for no limit",
        "How many finished tasks may wait for a person before no new task is started.",
        ("run", "max_unreviewed"),
    ),
    Option(
        "do_planner",
        _parse_optional_name,
        "the name of an agent of yours, or empty for the first of the chain",
        "Who plans what `deepwork do` is asked for.",
        ("do", "planner"),
    ),
    Option(
        "do_reviewer",
        _parse_optional_name,
        "the name of an agent of yours, or empty for the chain that works",
        "Who reviews the whole before `deepwork do` shows it; best from another vendor.",
        ("do", "reviewer"),
    ),
    Option(
        "do_agents",
        _build_integer_parser(1, 64),
        "a whole number from 1 to 64",
        "How many agents of `deepwork do` work at the same time.",
        ("do", "agents"),
    ),
    Option(
        "do_max_usd",
        _build_number_parser(0, 1_000_000),
        "dollars, 0 for no limit",
        "What one run of `deepwork do` may cost.",
        ("do", "max_usd"),
    ),
    Option(
        "workspace_setup",
        _parse_commands,
        "a list of commands, each a list of words",
        "Commands that prepare each new worktree of `deepwork run`, such as [[uv, sync, --frozen]].",
        ("workspace", "setup"),
        needs_trust=True,
    ),
    Option(
        "workspace_copy",
        _parse_words,
        "paths of ignored files and folders",
        "What each new worktree gets from the main one, such as [.env, .venv].",
        ("workspace", "copy"),
    ),
    Option(
        "workspace_ports",
        _build_integer_parser(0, 32),
        "a whole number from 0 to 32",
        "How many ports each worktree has of its own, from $DEEPWORK_WORKSPACE_PORT on.",
        ("workspace", "ports"),
    ),
    Option(
        "log_level",
        _build_choice_parser("debug", "info", "warning", "error"),
        "debug, info, warning or error",
        "The lowest level that servers log to standard error; `info` has a line for each tool call.",
    ),
)
