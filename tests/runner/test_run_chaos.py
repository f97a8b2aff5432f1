"""Runs go on after kill -9 of the runner, of shims, of agents and of everything: a small version of `make chaos`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from application import empty_database
from runner.run_chaos import start_chaos

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def survive(folder: Path, database: str, vendor: str, kills: int, seed: int) -> dict[str, int]:
    """Play it; fail with everything that was noticed."""
    chaos = start_chaos(folder, database, vendor, kills, seed)
    assert not chaos.faults, "\n".join(chaos.faults)
    return chaos.counts


def draw_seed(default: int) -> int:
    return int(os.environ.get("DEEPWORK_CHAOS_SEED") or default)


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.thorough)])
def test_a_run_survives_kills(tmp_path: Path, kills: int):
    counts = survive(tmp_path, "sqlite", "claude", kills, draw_seed(1))

    assert counts["kills"] == kills


@pytest.mark.thorough
def test_a_run_on_postgres_survives_kills(tmp_path: Path, postgres_url: str):
    empty_database(postgres_url)

    counts = survive(tmp_path, postgres_url, "codex", 3, draw_seed(3))

    assert counts["kills"] == 3
