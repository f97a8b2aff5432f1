"""Runs of agents in which the runner, shims, agents and the whole machine are killed."""

from __future__ import annotations

from pathlib import Path

from reliability.result import Result
from runner.run_chaos import start_chaos

VENDORS = ("claude", "codex", "gemini", "opencode", "command")
KINDS = {"lost": "lost", "doubled": "doubled", "internal error": "internal_errors"}
"""Which count a fault belongs to, by its first word; everything else is damage."""


def kill_runs(folder: Path, database: str, kills: int, seed: int) -> Result:
    """Let agents of one vendor work on a plan, and kill at random moments."""
    found = start_chaos(folder / "run", database, VENDORS[seed % len(VENDORS)], kills, seed)
    result = Result()
    result.count(lost=0, doubled=0, damaged=0, internal_errors=0, **found.counts)
    for fault in found.faults:
        result.report(KINDS.get(fault.partition(":")[0], "damaged"), [fault])
    return result
