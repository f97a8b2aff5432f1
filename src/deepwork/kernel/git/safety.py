"""Settings and environment that keep git from running programs named by a repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

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
