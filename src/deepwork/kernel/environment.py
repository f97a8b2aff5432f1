"""What this process reads from its environment, and what it passes on to the programs it starts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from deepwork.kernel.errors import DefinitionError

STORE_KEY_VARIABLE = "DEEPWORK_STORE_KEY"
"""Replaces the user's key file, for containers; a secret, so that no flag and no file sets it."""
BRIDGE_VARIABLE = "DEEPWORK_BRIDGE"
"""Names the file by which an agent under a run, its bridge and its hooks find the runner."""
_TEST_HOST = "DEEPWORK_TEST_HOST"
_GENERATE_SUGGESTION = "Generate one with: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
_EXAMPLE_PATTERN = re.compile(
    r"replace.?me|change.?me|example|placeholder|your.?(token|key|secret|password)", re.IGNORECASE
)


def build_child_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Build the environment of programs we start: a few harmless variables and no secrets."""
    kept = {"PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER", "SHELL"}
    return {key: value for key, value in environment.items() if key in kept or key.startswith("LC_")}


def build_reviewer_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Build the environment of an external reviewer: adds its settings, keys and proxy variables."""
    own = ("ANTHROPIC_", "CLAUDE_", "XDG_")
    ways = {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"}
    more = {key: value for key, value in environment.items() if key.startswith(own) or key.upper() in ways}
    return build_child_environment(environment) | more


def silence_fastmcp() -> None:
    """Keep FastMCP from reading the project's .env, checking for updates and printing its own logs."""
    os.environ["FASTMCP_ENV_FILE"] = os.devnull
    os.environ["FASTMCP_LOG_ENABLED"] = "false"
    os.environ["FASTMCP_CHECK_FOR_UPDATES"] = "off"


def get_runtime_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return this user's private folder for sockets, which need short paths."""
    base = environment.get("XDG_RUNTIME_DIR") or environment.get("TMPDIR") or "/tmp"  # noqa: S108 - then 0700
    return Path(base) / f"deepwork-{os.getuid()}"


def get_user_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of this user's own settings and keys, which no repository can write."""
    base = environment.get("XDG_CONFIG_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".config") / "deepwork"


def get_cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of this user for what can be made again.

    It is the one in the password database, so that no variable leads elsewhere, unless it cannot exist there.
    """
    home, named = _find_account_home(), Path(environment.get("XDG_CACHE_HOME", ""))
    if home is not None and os.access(home, os.W_OK):
        return (home / ".cache").resolve() / "deepwork"
    return (named if named.is_absolute() else Path.home() / ".cache").resolve() / "deepwork"


def list_user_folders(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """List the folders whose files may demand a proof: the user's folder, and the one that no variable moves.

    A program that runs as this user could name another `HOME`, where nothing is demanded.
    """
    folders = [get_user_folder(environment)]
    if (home := _find_account_home()) is not None:
        folders.append(home / ".config" / "deepwork")
    return list(dict.fromkeys(folders))


def choose_user_file(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the file of this user with this name: the one that no variable moves, if it exists.

    So a program that runs as this user cannot bring its own by naming another `HOME`.
    """
    own, *fixed = (folder / name for folder in list_user_folders(environment))
    return next((path for path in fixed if os.path.lexists(path)), own)


@cache
def _find_account_home() -> Path | None:
    """Find the home folder of this user in the password database; None if it has none that can be used."""
    import pwd  # noqa: PLC0415 - hardly ever needed

    try:
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # such as a user of a container
        return None
    return home if home.is_dir() and os.access(home, os.X_OK) else None


def get_host_name(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of this machine; tests play several machines by a variable."""
    return environment.get(_TEST_HOST) or os.uname().nodename


def get_user_name() -> str:
    """Return the name of the user who runs this process, whatever the environment says."""
    import pwd  # noqa: PLC0415 - hardly ever needed

    return pwd.getpwuid(os.getuid()).pw_name


def get_process_tree(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the supervised process tree that this process is part of; usually empty."""
    return environment.get("DEEPWORK_PROCESS_TREE", "")


def get_bridge_file(environment: Mapping[str, str] = os.environ) -> str:
    """Return the file by which the agent that this process belongs to finds its runner; usually empty."""
    return environment.get(BRIDGE_VARIABLE, "")


def get_connection_variables(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that the PostgreSQL driver reads, and the home of its password file."""
    return {key: value for key, value in sorted(environment.items()) if key.startswith("PG") or key == "HOME"}


def find_secret_problem(variable: str, value: str, min_length: int) -> DefinitionError | None:
    """Return the error of a secret that others can guess: a short one, or one that a page or a file shows."""
    if len(value) < min_length:
        problem = f"{variable} has fewer than {min_length} characters."
    elif _EXAMPLE_PATTERN.search(value):
        problem = f"{variable} is an example, which everybody can read."
    else:
        return None
    return DefinitionError(problem, suggestion=_GENERATE_SUGGESTION)
