"""Checks, the requests to prove them, and their proofs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from deepwork.kernel.call import current_call
from deepwork.kernel.git.snapshot_types import Snapshot
from deepwork.kernel.names import CaseInsensitiveEnum

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
