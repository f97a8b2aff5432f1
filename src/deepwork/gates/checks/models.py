"""Checks, proofs, and what decides whether one counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from hashlib import sha256
from os import fsencode
from pathlib import Path
from typing import Any, NamedTuple

from deepwork.gates.checks.junit import TestCounts
from deepwork.kernel.call import current_call
from deepwork.kernel.files.globs import Globs
from deepwork.kernel.git.snapshot_types import Snapshot
from deepwork.kernel.records import dataclass
from deepwork.kernel.user_settings import compute_digest
from deepwork.kernel.values import CaseInsensitiveEnum

CHECKS_FILE = ".deepwork/checks.yml"
LANDING = "landing"
"""The kind of subject that a landing is: it trusts no proof that another subject made."""
ALWAYS_GUARDED = (CHECKS_FILE, ".deepwork/config.yml")
DEFAULT_TIMEOUT_SECONDS = 600


class CheckEvent(CaseInsensitiveEnum):
    """Event types of checks."""

    STARTED = "check:started"
    FINISHED = "check:finished"
    WAIVED = "check:waived"


class CheckVerdict(StrEnum):
    """What a check says about its inputs."""

    PASSED = "passed"
    FAILED = "failed"
    FLAKY = "flaky"
    """Passed, but not the first time."""
    GUARDED = "guarded"
    """Passed, but the work changed what decides about that: a person has to look."""
    TIMED_OUT = "timed_out"
    WAIVED = "waived"
    """Did not pass, and a person lets it count. Never stored: a proof keeps what the check said."""


PROVING_VERDICTS = (CheckVerdict.PASSED, CheckVerdict.FLAKY)
"""The verdicts that count as passed, and that another call with the same inputs need not repeat."""


@dataclass(frozen=True)
class Check:
    """The definition of one check, as committed in the repository."""

    name: str
    run: tuple[str, ...]
    timeout_seconds: int = DEFAULT_TIMEOUT_SECONDS
    needs: tuple[str, ...] = ()
    """Patterns of the files it depends on; empty: the whole tree."""
    junit: str | None = None
    not_fewer: bool = False
    retries: int = 0
    clean: bool = False
    guarded: tuple[str, ...] = ()
    """Patterns of the files that decide whether it passes: it depends on them, too."""

    def to_dict(self) -> dict[str, Any]:
        """Return everything that changes what a proof of it means."""
        return {key: list(each) if isinstance(each, tuple) else each for key, each in vars(self).items()}


@dataclass(frozen=True)
class CheckFile:
    """A parsed `.deepwork/checks.yml`."""

    checks: Mapping[str, Check] = field(default_factory=dict)
    guarded: tuple[str, ...] = ALWAYS_GUARDED


@dataclass(frozen=True)
class ProofSubject:
    """What counts as done with a proof: a `task`, a `tracked_task` or a `step`."""

    kind: str
    id: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


@dataclass(frozen=True)
class ProofRequest:
    """A question whether these checks pass for a tree.

    `changed_paths` are the files that the subject's work changed, relative to the root of the working tree;
    None: everything counts that differs from the base, and `touched_paths` besides, except content that a
    person approved for other work of this workflow. `attempt` is shown as n of m;
    without n, the red runs for this subject are counted.
    With `wait_seconds` None, the call waits until every check has ended; else at most this long.
    """

    subject: ProofSubject
    tree: Path
    base: str
    names: tuple[str, ...]
    changed_paths: tuple[str, ...] | None = None
    attempt: tuple[int | None, int] | None = None
    wait_seconds: float | None = field(default_factory=lambda: current_call().patience)
    workflow_id: str | None = None
    touched_paths: tuple[str, ...] = ()
    guarded_since: str | None = None
    """The commit since which changes count, if that is not the base."""


@dataclass(frozen=True)
class CommitProofRequest:
    """A question whether these checks, as defined at the base, pass in a clean tree of a commit.

    With `wait_seconds` None, the call waits until every check has ended; else at most this long.
    """

    subject: ProofSubject
    commit: str
    base: str
    names: tuple[str, ...]
    wait_seconds: float | None = field(default_factory=lambda: current_call().patience)
    attempt: tuple[int | None, int] | None = None


@dataclass(frozen=True)
class GuardedStart:
    """The guarded files of a tree that differ from the base before work begins: others changed them."""

    host: str
    tree: Path
    files: Mapping[str, str | None]


@dataclass(frozen=True)
class GuardedChange:
    """Changes of a subject that a person has to approve, exactly as they are shown."""

    subject_id: str
    workflow_id: str | None
    shown: Mapping[str, Any]


@dataclass(frozen=True)
class ProofKey:
    """What a proof is about; only one with the same key can take the place of a run."""

    project: str
    host: str
    inputs_digest: str
    definition_digest: str
    guarded_digest: str | None
    asked_by: str | None
    is_of_landing: bool = False
    """A landing takes only what a landing proved, in a clean tree of its own."""


@dataclass(frozen=True)
class Proof:
    """The stored result of one run of a check."""

    id: str
    check_name: str
    verdict: CheckVerdict
    inputs_digest: str
    definition_digest: str
    exit_code: int | None
    tests_run: int | None
    tests_skipped: int | None
    duration_ms: int
    host: str
    project: str
    tree: str
    head: str | None
    output_file: str | None
    output_digest: str | None
    created_at: int
    waived_by: str | None = None
    waived_at: int | None = None
    waive_reason: str | None = None
    asked_by: str | None = None
    """The subject that it was run for first, as `kind:id`; that of a landing begins with `landing:`."""
    is_clean: bool = False
    """Whether it was made in a fresh tree, which has only the files of `tree`."""
    pins_digest: str | None = None
    """The program and the environment that it was made with; None: by an older version, with any."""
    guarded_digest: str | None = None
    """How guarded files differed from the base, if they did: then it is good for its own subject only."""
    guarded: GuardedChange | None = field(default=None, compare=False)
    """What a person has to approve before this subject may use it; not stored."""
    proved: Snapshot | None = field(default=None, compare=False)
    """The whole tree that it counts for now, which need not be that of the run; not stored."""

    @property
    def is_proving(self) -> bool:
        """Whether it counts as passed: it did, or a person waived it."""
        return self.verdict in PROVING_VERDICTS or self.waived_by is not None

    @property
    def shown_verdict(self) -> CheckVerdict:
        """The verdict that every interface shows."""
        return self.verdict if self.waived_by is None else CheckVerdict.WAIVED

    @property
    def is_green(self) -> bool:
        """Whether its command passed, even if a person has to approve what decided about that."""
        return self.is_proving or self.verdict is CheckVerdict.GUARDED

    @property
    def is_of_landing(self) -> bool:
        """Whether a landing made it, in a clean tree of its own."""
        return (self.asked_by or "").startswith(f"{LANDING}:")


MAX_NAMED_PATHS = 5


class InputFile(NamedTuple):
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
