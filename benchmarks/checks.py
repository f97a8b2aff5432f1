"""Measures deciding whether a check has to run: a snapshot of many files, their digest, and a proof that exists."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.large_plans import open_application
from benchmarks.timing import Effort, Samples, Work, take_turns
from benchmarks.tracking import create_repository

from deepwork.gates.checks.definitions import parse_checks
from deepwork.gates.checks.models import CHECKS_FILE, ProofRequest, ProofSubject
from deepwork.gates.checks.trusting import pin_checks
from deepwork.kernel.git.snapshot import open_snapshot_store

FILES = 10_000
SNAPSHOT, DECISION = f"snapshot ({FILES:,} files)", f"decision by a proof ({FILES:,} files)"
_DEFINITION = (
    "checks:\n  whole: {run: ['true']}\n  part: {run: ['true'], needs: ['src/part_1/**', '*.toml']}\n"
)


def measure_decisions(effort: Effort) -> Samples:
    """Measure both in turns, on files of which none changed since."""
    folder = effort.make_folder("checks")
    root = folder / "tree"
    before = os.environ.get("XDG_CONFIG_HOME")
    os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
    try:
        return _measure(root, min(FILES, 500 * effort.calls), effort.rounds)
    finally:
        if before is None:
            del os.environ["XDG_CONFIG_HOME"]
        else:
            os.environ["XDG_CONFIG_HOME"] = before


def _measure(root: Path, files: int, rounds: int) -> Samples:
    (root / ".deepwork").mkdir(parents=True)
    (root / CHECKS_FILE).write_text(_DEFINITION)
    base = create_repository(root, files, with_checks=True)
    pin_checks(root, parse_checks(_DEFINITION.encode()), proof="token", trusted_at="now")
    app, _ = open_application(root)
    names = ("whole", "part")
    request = ProofRequest(ProofSubject("task", "t"), root, base, names, (), wait_seconds=None)
    app.checks.prove(request)
    snapshots = open_snapshot_store(root, root)  # the store that the checks use
    work: dict[str, Work] = {SNAPSHOT: snapshots.take, DECISION: lambda: app.checks.prove(request)}
    took = take_turns(work, max(3, rounds))
    app.close()
    return took
