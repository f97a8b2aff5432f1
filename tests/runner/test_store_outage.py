"""The store cannot be used for a while: agents go on, and the runner goes on with them after it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from application import empty_database
from deepwork.delivery.runner.models import Run, RunRequest, RunStatus
from runner.endings import check_nothing_is_left, finish, plan, wait_until
from runner.run_invariants import list_attempts
from runner.run_project import RunProject


@contextmanager
def break_store(url: str) -> Iterator[None]:
    """Let nobody connect to the database, and end all connections to it."""
    name = str(conninfo_to_dict(url)["dbname"])
    with psycopg.connect(make_conninfo(url, dbname="template1"), autocommit=True) as other:
        other.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false'.encode())
        try:
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
            yield
        finally:
            other.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true'.encode())


@pytest.fixture
def project(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunProject]:
    empty_database(postgres_url)
    made = RunProject(tmp_path, postgres_url)
    for name in ("PATH", "HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, made.variables[name])
    yield made
    check_nothing_is_left(made)
    made.close()


def test_agents_go_on_while_the_store_cannot_be_used(
    project: RunProject, postgres_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    begun, opened, ended = tmp_path / "begun", tmp_path / "opened", tmp_path / "ended"
    steps = [
        {"do": "touch", "file": str(begun)},
        {"do": "wait_for", "file": str(opened)},
        *finish("alpha")[:-1],
        {"do": "touch", "file": str(ended)},
    ]
    plan(project, "alpha", [*steps, finish("alpha")[-1]])
    runner, results = project.app.runner, list[Run]()
    started = runner.start_plan(project.plan, RunRequest(agents=("claude",)))
    thread = threading.Thread(target=lambda: results.append(runner.drive(started.id, threading.Event())))

    thread.start()
    wait_until(begun.exists, "the agent")
    with break_store(postgres_url):
        opened.touch()
        wait_until(ended.exists, "the end of the work")
        wait_until(lambda: "The store cannot be used" in caplog.text, "the runner to notice")
    thread.join(120)

    assert [each.status for each in results] == [RunStatus.DONE]
    assert [each["stage"] for each in list_attempts(project)] == ["done"]
    assert len(project.agents.read_ledger()) == 1
