"""Migrations are atomic: a crash leaves the old schema or the new one."""

from __future__ import annotations

import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from application import call_tool
from chaos import next_version
from chaos.effects import find_damage
from chaos.strace import count_changes, kill_at
from chaos.workers import Worker
from deepwork.edge.server.application import Application
from deepwork.kernel.database import schema
from deepwork.kernel.errors import StorageError

POINTS = 16
"""At how many of its system calls a migration is killed."""

Schema = frozenset[tuple[str, str]]


@pytest.fixture(scope="module")
def successor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """Starts a worker that runs the next version."""
    folder = tmp_path_factory.mktemp("tomorrow")
    worker = Worker(folder, next_version.build_next_version(folder))
    yield worker
    worker.close()


@pytest.fixture
def used(tmp_path: Path, open_app: Callable[[str], Application]) -> Path:
    """Creates a database of the current version, with agents."""
    path = tmp_path / "used" / "deepwork.db"
    app = open_app(str(path))
    for number in range(5):
        call_tool(app, "agent_register", name=f"agent {number}", runtime="custom")
    app.close()
    return path


@pytest.mark.needs("strace")
def test_a_crash_during_creation_leaves_no_database_or_a_complete_one(
    tmp_path: Path, worker: Worker, open_app: Callable[[str], Application], seed: int
):
    path, trace = tmp_path / "whole" / "deepwork.db", tmp_path / "trace"
    worker.order("prepare", location=str(path))
    points = choose_points(count_changes(worker, trace), seed)
    whole = read_schema(path)

    for call, number in points:
        path = tmp_path / f"{call}-{number}" / "deepwork.db"
        worker.order("prepare", location=str(path))
        assert kill_at(worker, trace, call, number).signal == signal.SIGKILL

        assert read_schema(path) in (frozenset(), whole), f"half a schema after a kill at {call} {number}"
        app = open_app(str(path))
        call_tool(app, "agent_register", name="after the crash", runtime="custom")
        assert find_damage(app) == []
        app.close()
        assert read_schema(path) == whole


@pytest.mark.needs("strace")
def test_a_crash_during_an_upgrade_leaves_the_old_schema_or_the_new(
    tmp_path: Path, used: Path, successor: Worker, seed: int
):
    trace = tmp_path / "trace"
    before, path = read_schema(used), copy(used, tmp_path / "whole")
    successor.order("prepare", location=str(path))
    points = choose_points(count_changes(successor, trace), seed)
    after = read_schema(path)

    for call, number in points:
        path = copy(used, tmp_path / f"{call}-{number}")
        successor.order("prepare", location=str(path))
        assert kill_at(successor, trace, call, number).signal == signal.SIGKILL

        assert read_schema(path) in (before, after), f"half a schema after a kill at {call} {number}"
        again = successor.do("prepare", location=str(path))
        assert again.is_well, f"after a kill at {call} {number}: {again}"
        assert read_schema(path) == after
        assert list_agents(path) == [f"agent {number}" for number in range(5)]


@pytest.mark.needs("strace")
def test_every_backup_file_is_complete_even_after_a_crash(
    tmp_path: Path, used: Path, successor: Worker, seed: int
):
    trace = tmp_path / "trace"
    successor.order("prepare", location=str(copy(used, tmp_path / "whole")))
    points = choose_points(count_changes(successor, trace), seed)

    for call, number in points:
        path = copy(used, tmp_path / f"{call}-{number}")
        successor.order("prepare", location=str(path))
        kill_at(successor, trace, call, number)

        for backup in path.parent.glob("*.backup"):
            assert read_schema(backup) == read_schema(used), f"a torn backup after a kill at {call} {number}"
            assert list_agents(backup) == list_agents(used)


def test_a_kill_during_a_postgresql_migration_leaves_all_of_it_or_none(
    new_database: Callable[[], str], worker: Worker, open_app: Callable[[str], Application], seed: int
):
    chance, whole = random.Random(seed), new_database()
    assert worker.do("prepare", location=whole).is_well

    for _ in range(6):
        url = new_database()
        worker.order("prepare", location=url)
        worker.go()
        time.sleep(chance.uniform(0, 0.15))
        worker.kill()
        worker.wait_for_outcome()

        assert tables(url) in ([], tables(whole))
        app = open_app(url)
        call_tool(app, "agent_register", name="after the crash", runtime="custom")
        app.close()
        assert tables(url) == tables(whole)


def test_an_old_database_is_backed_up_before_it_is_upgraded(
    used: Path, successor: Worker, open_app: Callable[[str], Application]
):
    before = read_schema(used)

    assert successor.do("prepare", location=str(used)).is_well

    [backup] = used.parent.glob("*.backup")
    assert ("version", next_version.HEAD) in read_schema(used)
    assert read_schema(backup) == before
    assert backup.stat().st_mode & 0o077 == 0
    restored = open_app(str(copy(backup, used.parent / "restored")))
    assert call_tool(restored, "agent_list")["total"] == 5


def test_a_new_database_has_nothing_to_back_up(tmp_path: Path, worker: Worker):
    assert worker.do("prepare", location=str(tmp_path / "deepwork.db")).is_well

    assert list(tmp_path.glob("*.backup")) == []


def test_a_file_of_a_newer_version_is_refused_and_left_untouched(
    used: Path, successor: Worker, open_app: Callable[[str], Application]
):
    successor.do("prepare", location=str(used))
    before = used.read_bytes()

    for tool, arguments in (("agent_list", {}), ("agent_register", {"name": "Ada", "runtime": "custom"})):
        with pytest.raises(StorageError, match=rf"deepwork\.db .*{next_version.HEAD}.*{schema.HEAD}"):
            call_tool(open_app(str(used)), tool, **arguments)

    assert used.read_bytes() == before


def test_a_database_server_of_a_newer_version_is_refused_and_left_untouched(
    new_database: Callable[[], str], successor: Worker, open_app: Callable[[str], Application]
):
    url = new_database()
    assert successor.do("register", location=url, name="Ada").is_well
    before = tables(url)

    with pytest.raises(StorageError, match=rf"{next_version.HEAD}.*{schema.HEAD}"):
        call_tool(open_app(url), "agent_register", name="Bob", runtime="custom")

    assert tables(url) == before
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT name FROM agents").fetchall() == [("Ada",)]


def choose_points(counts: dict[str, int], seed: int) -> list[tuple[str, int]]:
    """Choose some of the calls, evenly spread."""
    every = [(call, number) for call, count in counts.items() for number in range(1, count + 1)]
    assert len(every) > 10
    return every if len(every) <= POINTS else random.Random(seed).sample(every, POINTS)


def read_schema(path: Path) -> Schema:
    """Read the schema of a copy of the file, because opening the file could change it."""
    if not path.exists():
        return frozenset()
    seen = copy(path, path.parent / "seen")
    with closing(sqlite3.connect(seen)) as connection:
        rows = connection.execute("SELECT name, coalesce(sql, '') FROM sqlite_master").fetchall()
        if any(name == "alembic_version" for name, _ in rows):
            rows += [("version", each) for (each,) in connection.execute("SELECT * FROM alembic_version")]
    shutil.rmtree(seen.parent)
    return frozenset(rows)


def list_agents(path: Path) -> list[str]:
    seen = copy(path, path.parent / "seen")
    with closing(sqlite3.connect(seen)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM agents ORDER BY name")]
    shutil.rmtree(seen.parent)
    return names


def copy(path: Path, folder: Path) -> Path:
    """Copy the file and its log."""
    folder.mkdir()
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-journal")):
        if each.exists():
            shutil.copy(each, folder)
    return folder / path.name


def tables(url: str) -> list[tuple[str, str]]:
    """Return every table of a PostgreSQL database with its columns, and the schema version."""
    with psycopg.connect(url) as connection:
        columns: list[tuple[str, str]] = connection.execute(
            "SELECT table_name::text, column_name::text FROM information_schema.columns"
            " WHERE table_schema = 'public' ORDER BY 1, 2"
        ).fetchall()
        if columns:
            columns += connection.execute(
                "SELECT 'version', version_num::text FROM alembic_version"
            ).fetchall()
    return columns
