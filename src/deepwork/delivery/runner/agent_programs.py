"""The programs of agents on this machine: where they are, and their versions, without starting one."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from shutil import which

from deepwork.delivery.runner.profiles import AgentProfile
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.vendors import AgentKind

_MAX_PACKAGE_BYTES = 2**20
_VERSION_PATTERN = re.compile(r"v?(\d+\.\d+\.\d+[\w.+-]*)")


def find_program(profile: AgentProfile, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the program that a profile starts, None if it is not installed."""
    name = profile.run[0] if profile.run else profile.kind
    found = which(name, path=environment.get("PATH", os.defpath))
    return Path(found) if found else None


def require_program(profile: AgentProfile, environment: Mapping[str, str] = os.environ) -> None:
    """Raise NotAllowed if the program of a profile is not installed."""
    name = profile.run[0] if profile.run else profile.kind
    if "/" in name and not Path(name).is_absolute():  # in the tree, which may not exist yet
        return
    if find_program(profile, environment) is None:
        raise NotAllowed(
            f"The agent {profile.name!r} cannot be started: there is no program {name!r} on the PATH.",
            suggestion="Install it, or choose another agent; `deepwork doctor` lists those on this machine.",
        )


def read_version(kind: AgentKind, program: Path) -> str | None:
    """Return the version of a vendor's program as its installation says; None if it does not."""
    real = program.resolve()
    for folder in real.parents[:6]:
        if version := _read_package(folder / "package.json", kind.package):
            return version
    # Native installers and Homebrew keep each version under its number.
    numbers = [match[1] for part in real.parts if (match := _VERSION_PATTERN.fullmatch(part))]
    return numbers[-1] if numbers else None


def _read_package(path: Path, name: str) -> str | None:
    """Return the version in a package.json, if it is that of the package with this name."""
    try:
        with path.open("rb") as file:
            data = json.loads(file.read(_MAX_PACKAGE_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("name") != name or not isinstance(data.get("version"), str):
        return None
    return data["version"] if _VERSION_PATTERN.fullmatch(data["version"]) else None
