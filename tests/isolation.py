"""Sets the same environment for every test run: home, locale and time zone do not depend on the user.

Programs that tests start inherit it, and so do the workers of pytest-xdist. `make flaky` varies home, locale,
time zone and umask on purpose, so they are left unchanged then.
"""

from __future__ import annotations

import importlib
import locale
import os
import pwd
import sys
import tempfile
import time
from pathlib import Path

from run_guard import start_guard

DROPPED_PREFIXES = (
    "_DEEPWORK_", "DEEPWORK_", "GIT_", "XDG_", "PG", "OTEL_", "FASTMCP_", "MCP_", "PYTHON",
    "ANTHROPIC_", "CLAUDE", "CODEX_", "GEMINI_", "OPENCODE",
)  # fmt: skip
"""Personal settings of deepwork, git, PostgreSQL, Python and the clients."""

DROPPED = {
    "ALL_PROXY", "all_proxy", "BROWSER", "CLICOLOR", "CLICOLOR_FORCE", "COLORTERM", "COLUMNS", "EDITOR", "FORCE_COLOR",
    "LANGUAGE", "LINES", "NO_COLOR", "PAGER", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "VISUAL",
}  # fmt: skip

KEPT_PREFIXES = (
    "DEEPWORK_CHAOS", "DEEPWORK_CLIENT_TESTS", "DEEPWORK_TESTS_",
    "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONPYCACHEPREFIX", "PYTHONUNBUFFERED", "XDG_CACHE_HOME",
)  # fmt: skip
"""Switches of the tests themselves, and variables that do not affect results."""

GIT_CONFIG = """\
[user]
	name = Ada
	email = ada@example.org
[init]
	defaultBranch = main
[commit]
	gpgsign = false
[maintenance]
	auto = false
[core]
	excludesFile = /dev/null
	attributesFile = /dev/null
"""


def isolate() -> Path:
    """Set the environment of this process; return the folder that holds its home.

    After the process has ended, however that was, a guard ends what has this environment and removes its folders.
    """
    folder = Path(tempfile.mkdtemp(prefix="deepwork-tests-"))
    # PostgreSQL drops root privileges and must still reach the folder for its sockets.
    folder.chmod(0o755)
    runtime = folder / "run"
    runtime.mkdir(mode=0o700)
    # A lock of our own for starting PostgreSQL: otherwise every run on this machine waits for all others.
    (runtime / "python_PostgresServer").mkdir()

    # Keep using the existing download cache.
    os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    for name in list(os.environ):
        is_dropped = name in DROPPED or name.startswith(DROPPED_PREFIXES)
        if is_dropped and not name.startswith(KEPT_PREFIXES):
            del os.environ[name]
    local = _joined(os.environ.get("NO_PROXY") or os.environ.get("no_proxy"), "127.0.0.1", "localhost", "::1")
    os.environ |= {"XDG_RUNTIME_DIR": str(runtime), "TERM": "xterm", "NO_PROXY": local, "no_proxy": local}
    if "DEEPWORK_TESTS_SHUFFLE" not in os.environ:
        _set_home_and_locale(folder / "home")
    start_guard(folder, _set_account())
    return folder


def _set_account() -> Path:
    """Let the password database name another home, here and in the processes that tests start.

    It is not in the temporary folder: clean trees of checks are below it, and only where nobody else can write.
    """
    parent = Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache"
    parent.mkdir(mode=0o700, exist_ok=True)
    home = tempfile.mkdtemp(prefix="deepwork-tests-", dir=parent)
    account = str(Path(__file__).parent / "account")
    os.environ |= {"DEEPWORK_TESTS_ACCOUNT_HOME": home, "PYTHONPATH": account}
    sys.path.insert(0, account)
    sys.modules.pop("sitecustomize", None)
    importlib.import_module("sitecustomize")
    sys.path.remove(account)
    return Path(home)


def _set_home_and_locale(home: Path) -> None:
    home.mkdir()
    (home / ".gitconfig").write_text(GIT_CONFIG)
    for name in list(os.environ):
        if name.startswith("LC_"):
            del os.environ[name]
    os.environ |= {"HOME": str(home), "LANG": _utf8_locale(), "LC_ALL": _utf8_locale(), "TZ": "UTC"}
    time.tzset()
    os.umask(0o022)


def _joined(*names: str | None) -> str:
    return ",".join(name for name in names if name)


def _utf8_locale() -> str:
    """Return a UTF-8 locale with the same sorting and messages everywhere; Python treats C as UTF-8 too."""
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    except locale.Error:
        return "C"
    locale.setlocale(locale.LC_CTYPE, before)
    return "C.UTF-8"
