"""Decides about checks and proofs, as pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from os import fsencode
from typing import Any

from deepwork.gates.checks.junit import TestCounts
from deepwork.gates.checks.models import Check, CheckFile, CheckVerdict
from deepwork.kernel.files.globs import Globs
from deepwork.kernel.trust import compute_digest

MAX_NAMED_PATHS = 5


@dataclass(frozen=True, order=True)
class InputFile:
    """A file that a check depends on: its path in the working tree, and what identifies its content."""

    path: str
    version: str


def compute_definition_digest(check: Check, pins_digest: str | None, compared_with: str = "") -> str:
    """Compute the digest of a definition, what it runs with, and the base its tests are compared with."""
    more = {"compared_with": compared_with} if compared_with else {}
    pinned = {"pins": pins_digest} if pins_digest else {}
    return compute_digest({**check.to_dict(), **pinned, **more})


def build_trusted_definitions(file: CheckFile) -> dict[str, dict[str, Any]]:
    """Return what a person trusts, by a name that is new for each version of a check.

    Work that started from an older commit still needs the version there. So versions that were trusted stay.
    """
    return {name_version(check): check.to_dict() for check in file.checks.values()}


def name_version(check: Check) -> str:
    """Return the name under which exactly this definition is trusted."""
    return f"{check.name}@{compute_digest(check.to_dict())[:16]}"


def compute_inputs_digest(files: Iterable[InputFile]) -> str:
    """Compute the digest of paths and contents; their order does not matter."""
    digest = sha256()
    for file in sorted(files):
        # Neither a path nor a version contains NUL, so no two lists give the same bytes.
        digest.update(fsencode(f"{file.path}\0{file.version}\0"))
    return digest.hexdigest()


def select_inputs(check: Check, prefix: str, paths: Iterable[str]) -> list[str]:
    """Return the paths that a check depends on; its patterns are relative to the project's folder.

    Guarded files are, too: they decide whether it passes. Its report is not: it is removed before each run.
    """
    report = None if check.junit is None else f"{prefix}{check.junit}"
    if not check.needs:
        return [path for path in paths if path != report]
    matches = Globs((*check.needs, *check.guarded)).matches
    skipped = len(prefix)
    return [path for path in paths if path.startswith(prefix) and path != report and matches(path[skipped:])]


def select_guarded(guarded: tuple[str, ...], prefix: str, paths: Iterable[str]) -> list[str]:
    """Return the paths whose changes only a person may pass."""
    matches, skipped = Globs(guarded).matches, len(prefix)
    return sorted({path for path in paths if path.startswith(prefix) and matches(path[skipped:])})


def decide_verdict(codes: Sequence[int | None], *, is_timeout: bool) -> CheckVerdict:
    """Return the verdict of all attempts of a run, from their exit codes."""
    if is_timeout:
        return CheckVerdict.TIMED_OUT
    if codes[-1] != 0:
        return CheckVerdict.FAILED
    return CheckVerdict.PASSED if len(codes) == 1 else CheckVerdict.FLAKY


def find_count_problem(counts: TestCounts, base: TestCounts | None) -> str | None:
    """Say why a run with these tests does not pass; None if it has not fewer than the base."""
    if base is None:
        return "not_fewer: the base has no report to compare with, so nobody knows how many tests there were."
    if counts.run >= base.run:
        return None
    return (
        f"not_fewer: {counts.run} tests ran and {counts.skipped} were skipped; "
        f"at the base {base.run} ran and {base.skipped} were skipped."
    )


def find_unexpected(
    check: Check, prefix: str, paths: Iterable[str], *, are_folders: bool = False
) -> set[str]:
    """Return the new paths that a check would depend on; of folders, those that could have such files."""
    if not are_folders:
        return set(select_inputs(check, prefix, paths))
    if not check.needs:
        return set(paths)
    globs, skipped = Globs((*check.needs, *check.guarded)), len(prefix)
    return {path for path in paths if path.startswith(prefix) and globs.may_match_below(path[skipped:])}


def find_changed_paths(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the paths whose stamps differ."""
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def name_paths(paths: Sequence[str]) -> str:
    """Name some paths in a sentence."""
    more = len(paths) - MAX_NAMED_PATHS
    shown = ", ".join(ascii(path)[1:-1][:200] for path in paths[:MAX_NAMED_PATHS])
    return f"{shown} and {more:,} more" if more > 0 else shown
