"""Options and environment that keep git from running programs named by a repository."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

_INHERITED_VARIABLES = frozenset({"PATH", "HOME", "LANG", "TMPDIR", "USER"})

_EMPTY_VARIABLE, _FALSE_VARIABLE, _MERGE_VARIABLE = "DEEPWORK_NOTHING", "DEEPWORK_NO", "DEEPWORK_MERGE"
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
    _EMPTY_VARIABLE: "",
    _FALSE_VARIABLE: "false",
    _MERGE_VARIABLE: "git merge-file -q --marker-size=%L %A %O %B",  # the default of git without a driver
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

# Config sections that run programs under arbitrary names: the variables that disable each name.
_DISABLING_VARIABLES = {
    "filter": {
        "clean": _EMPTY_VARIABLE,
        "smudge": _EMPTY_VARIABLE,
        "process": _EMPTY_VARIABLE,
        "required": _FALSE_VARIABLE,
    },
    "merge": {"driver": _MERGE_VARIABLE},
    "hook": {"enabled": _FALSE_VARIABLE},
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


def build_safe_environment(inherited: Mapping[str, str], extra: Mapping[str, str]) -> dict[str, str]:
    """Merge a few inherited variables, the caller's extras and, last, the ones that restrict git."""
    kept = {
        name: value
        for name, value in inherited.items()
        if name in _INHERITED_VARIABLES or name.startswith("LC_")
    }
    return {**kept, **extra, **_ENVIRONMENT}


def build_safe_options(root: Path, command: str, drivers: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the options between `git` and the command."""
    # An alias cannot override a built-in command, but it can define one that this git version lacks.
    settings = {**_SETTINGS, "safe.directory": str(root), f"alias.{command}": ""}
    for name, value in settings.items():
        yield from ("-c", f"{name}={value}")
    for section, name in drivers:
        for variable, value_name in _DISABLING_VARIABLES[section].items():
            # Not -c, which would split a name that contains "=".
            yield f"--config-env={section}.{name}.{variable}={value_name}"


def get_safe_flags(command: str) -> tuple[str, ...]:
    """Return the flags to put right after the command."""
    return _FLAGS_BY_COMMAND.get(command, ())
