"""What a person trusts about checks: their definitions, and the programs and environment they run with."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from deepwork.gates.checks.models import Check, CheckFile
from deepwork.gates.checks.rules import build_trusted_definitions, name_version
from deepwork.kernel.programs import find_problem, resolve_pins
from deepwork.kernel.trust import find_untrusted, open_trust_store
from deepwork.kernel.user_settings import Kind, Pins

_NOBODY = "Nobody trusted the command of check {name} yet, so it does not run."
_OLDER = (
    "Check {name} was trusted by an older version of deepwork, which did not pin the program, so it does not"
    " run."
)
_CHANGED = "Check {name} would not run as it was trusted: {problem}"


def find_pins(
    project: Path, checks: Iterable[Check], environment: Mapping[str, str] = os.environ
) -> tuple[dict[str, Pins], dict[str, str]]:
    """Return what trusted checks run with, and why others must not run, both by their names."""
    trusted = open_trust_store(environment).find(project)
    pins: dict[str, Pins] = {}
    problems: dict[str, str] = {}
    for check in checks:
        version = name_version(check)
        found = trusted.pins.get(version) if trusted else None
        digests = trusted.digests.get(Kind.CHECKS, {}) if trusted else {}
        if find_untrusted({version: check.to_dict()}, digests):
            problems[check.name] = _NOBODY.format(name=check.name)
        elif found is None:
            problems[check.name] = _OLDER.format(name=check.name)
        elif problem := find_problem(found):
            problems[check.name] = _CHANGED.format(name=check.name, problem=problem)
        else:
            pins[check.name] = found
    return pins, problems


def find_untrusted_versions(
    project: Path, file: CheckFile, environment: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """List the versions of checks that nobody trusted, or not with the programs that are found now."""
    trusted = open_trust_store(environment).find(project)
    definitions = build_trusted_definitions(file)
    unknown = find_untrusted(definitions, trusted.digests.get(Kind.CHECKS, {}) if trusted else {})
    known = trusted.pins if trusted else {}
    others = {
        version
        for version, pins in resolve_all_pins(file, environment).items()
        if version not in known or not known[version].is_like(pins)
    }
    return tuple(version for version in definitions if version in unknown or version in others)


def pin_checks(
    project: Path,
    file: CheckFile,
    *,
    proof: str,
    trusted_at: str,
    environment: Mapping[str, str] = os.environ,
) -> None:
    """Trust these checks, with the programs that this environment finds.

    Work that started from an older commit needs the versions there, so those that were trusted stay.
    """
    open_trust_store(environment).pin(
        project,
        Kind.CHECKS,
        build_trusted_definitions(file),
        proof=proof,
        trusted_at=trusted_at,
        keeps_others=True,
        pins=resolve_all_pins(file, environment),
    )


def resolve_all_pins(file: CheckFile, environment: Mapping[str, str] = os.environ) -> dict[str, Pins]:
    """Find what each check would run with, by its version."""
    return {name_version(check): resolve_pins(check.run, environment) for check in file.checks.values()}
