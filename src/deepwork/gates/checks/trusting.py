"""Whether a check is the one that a person trusted, and a proof what its run said."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from hashlib import sha256
from pathlib import Path

from deepwork.gates.checks.input_files import select_committed_inputs
from deepwork.gates.checks.models import (
    Check,
    CheckFile,
    InputFile,
    Proof,
    build_trusted_definitions,
    compute_definition_digest,
    name_version,
)
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.git.exact_files import to_versions
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.programs import find_problem, resolve_pins
from deepwork.kernel.records import dataclass
from deepwork.kernel.user_settings import Kind, Pins, find_untrusted, open_trust_store

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


@dataclass
class Comparison:
    """What differs, and what could not be compared."""

    problems: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


def compare_proof(
    proof: Proof,
    output: bytes | None,
    load_definitions: Callable[[str], CheckFile],
    store: SnapshotStore,
    prefix: str,
) -> Comparison:
    """Compare one proof; `load_definitions` returns the checks of a commit."""
    found = Comparison()
    _compare_output(proof, output, found)
    check = _find_definition(proof, load_definitions)
    if check is None:
        found.unknown.append("Its definition is not in the commits that are known here.")
    else:
        _compare_inputs(proof, check, store, prefix, found)
    return found


def _compare_output(proof: Proof, output: bytes | None, found: Comparison) -> None:
    if output is None:
        found.unknown.append("Its output was removed.")
    elif sha256(output).hexdigest() != proof.output_digest:
        found.problems.append("Its output was changed.")


def _find_definition(proof: Proof, load_definitions: Callable[[str], CheckFile]) -> Check | None:
    for commit in (proof.head, "HEAD"):
        try:
            check = load_definitions(commit).checks.get(proof.check_name) if commit else None
        except DeepworkError:  # the commit is gone, or its file is wrong
            continue
        if check and (found := _match(check, proof)):
            return found
    return None


def _match(check: Check, proof: Proof) -> Check | None:
    """Return the variant of the check with this digest: as defined, in a clean tree, or at the base."""
    clean = replace(check, clean=True)
    variants = (check, clean, replace(clean, not_fewer=False))
    digest, pins = proof.definition_digest, proof.pins_digest
    return next((each for each in variants if compute_definition_digest(each, pins) == digest), None)


def _compare_inputs(proof: Proof, check: Check, store: SnapshotStore, prefix: str, found: Comparison) -> None:
    try:
        stored = select_committed_inputs(to_versions(store.list_exactly(proof.tree)), check, prefix)
    except DeepworkError:
        found.unknown.append("Its tree is not stored here any more.")
        return
    if stored.digest == proof.inputs_digest:
        return
    if any(_is_more_than_stored(file) for file in stored.files):
        found.unknown.append("Its tree has submodules or converts files, so its inputs cannot be compared.")
    else:
        found.problems.append("Its inputs are not those of its tree, or include large untracked files.")


def _is_more_than_stored(file: InputFile) -> bool:
    return file.version.startswith("160000 ") or file.path.endswith(".gitattributes")
