"""kill -9 at some system calls that write; `make chaos` kills at each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.workers import Worker
from reliability.write_calls import Claim, FinishedStep, Scene, kill_at_some_writes


@pytest.mark.needs("strace")
@pytest.mark.parametrize(
    ("scene", "every"), [(Claim, 12), pytest.param(FinishedStep, 8, marks=pytest.mark.thorough)]
)
def test_a_call_killed_at_a_write_happens_once_when_it_is_repeated(
    tmp_path: Path, worker: Worker, scene: type[Scene], every: int
):
    result = kill_at_some_writes(tmp_path, worker, scene(), every)

    assert result.faults == []
    assert result.counts["kills"] >= 4
    assert result.counts["lost"] == result.counts["doubled"] == result.counts["damaged"] == 0
