"""kill -9 at any moment: acknowledged calls are stored, and a repeated call has one effect.

These are small versions of what `make chaos` runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.workers import Worker
from reliability.kills import kill_http_server, kill_stdio_server, kill_threads, kill_writers


def test_thirty_kills_during_writes_lose_no_acknowledged_write(tmp_path: Path, crew: list[Worker], seed: int):
    result = kill_writers(tmp_path, crew[:2], 30, seed)

    assert result.faults == []
    assert result.counts["kills"] == 30
    assert result.counts["lost"] == result.counts["doubled"] == 0


def test_kills_while_threads_share_commits_lose_no_acknowledged_write(
    tmp_path: Path, worker: Worker, seed: int
):
    result = kill_threads(tmp_path, worker, 8, 10, seed)

    assert result.faults == []
    assert result.counts["kills"] == 10
    assert result.counts["lost"] == result.counts["doubled"] == 0


def test_a_call_repeated_after_the_server_was_killed_has_one_effect(tmp_path: Path, seed: int):
    result = kill_stdio_server(tmp_path, 3, seed)

    assert result.faults == []
    assert result.counts["acknowledged"] == result.counts["calls"] == result.counts["first_try"] + 3


@pytest.mark.thorough
def test_clients_of_a_killed_http_server_lose_and_duplicate_nothing(tmp_path: Path, seed: int):
    result = kill_http_server(tmp_path, 1, seed)

    assert result.faults == []
    assert result.counts["kills"] == 1
