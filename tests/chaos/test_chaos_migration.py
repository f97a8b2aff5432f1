"""A migration happens, or it does not: a crash in its middle leaves the old schema or the new one."""

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

from application import ask
from chaos import tomorrow
from chaos.crew import Worker
from chaos.effects import damage
from chaos.strace import changes, killed_at
from deepwork.database import schema
from deepwork.errors import StorageError
from deepwork.server.application import Application

POINTS = 16
"""At how many of its system calls a migration is killed."""

Schema = frozenset[tuple[str, str]]


@pytest.fixture(scope="module")
def successor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A process of tomorrow's program."""
    folder = tmp_path_factory.mktemp("tomorrow")
    worker = Worker(folder, tomorrow.tomorrows_program(folder))
    yield worker
    worker.close()


@pytest.fixture
def used(tmp_path: Path, open_app: Callable[[str], Application]) -> Path:
    """A database of today's program, with agents in it."""
    path = tmp_path / "used" / "deepwork.db"
    app = open_app(str(path))
    for number in range(5):
        ask(app, "agent_register", name=f"agent {number}", runtime="custom")
    app.close()
    return path


@pytest.mark.needs("strace")
def test_a_crash_while_a_new_database_is_made_leaves_none_or_all_of_it(
    tmp_path: Path, worker: Worker, open_app: Callable[[str], Application], seed: int
):
    path, trace = tmp_path / "whole" / "deepwork.db", tmp_path / "trace"
    worker.order("prepare", location=str(path))
    points = chosen(changes(worker, trace), seed)
    whole = stored(path)

    for call, number in points:
        path = tmp_path / f"{call}-{number}" / "deepwork.db"
        worker.order("prepare", location=str(path))
        assert killed_at(worker, trace, call, number).signal == signal.SIGKILL

        assert stored(path) in (frozenset(), whole), f"half a schema after a kill at {call} {number}"
        app = open_app(str(path))
        ask(app, "agent_register", name="after the crash", runtime="custom")
        assert damage(app) == []
        app.close()
        assert stored(path) == whole


@pytest.mark.needs("strace")
def test_a_crash_while_an_old_database_is_brought_forward_leaves_the_old_schema_or_the_new(
    tmp_path: Path, used: Path, successor: Worker, seed: int
):
    trace = tmp_path / "trace"
    before, path = stored(used), copy(used, tmp_path / "whole")
    successor.order("prepare", location=str(path))
    points = chosen(changes(successor, trace), seed)
    after = stored(path)

    for call, number in points:
        path = copy(used, tmp_path / f"{call}-{number}")
        successor.order("prepare", location=str(path))
        assert killed_at(successor, trace, call, number).signal == signal.SIGKILL

        assert stored(path) in (before, after), f"half a schema after a kill at {call} {number}"
        again = successor.do("prepare", location=str(path))
        assert again.is_well, f"after a kill at {call} {number}: {again}"
        assert stored(path) == after
        assert agents(path) == [f"agent {number}" for number in range(5)]


@pytest.mark.needs("strace")
def test_whatever_is_named_a_backup_is_whole_even_after_a_crash(
    tmp_path: Path, used: Path, successor: Worker, seed: int
):
    trace = tmp_path / "trace"
    successor.order("prepare", location=str(copy(used, tmp_path / "whole")))
    points = chosen(changes(successor, trace), seed)

    for call, number in points:
        path = copy(used, tmp_path / f"{call}-{number}")
        successor.order("prepare", location=str(path))
        killed_at(successor, trace, call, number)

        for backup in path.parent.glob("*.backup"):
            assert stored(backup) == stored(used), f"a torn backup after a kill at {call} {number}"
            assert agents(backup) == agents(used)


def test_a_process_killed_while_it_migrates_a_server_leaves_none_or_all_of_it(
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
        worker.outcome()

        assert tables(url) in ([], tables(whole))
        app = open_app(url)
        ask(app, "agent_register", name="after the crash", runtime="custom")
        app.close()
        assert tables(url) == tables(whole)


def test_an_old_database_is_backed_up_before_it_is_brought_forward(
    used: Path, successor: Worker, open_app: Callable[[str], Application]
):
    before = stored(used)

    assert successor.do("prepare", location=str(used)).is_well

    [backup] = used.parent.glob("*.backup")
    assert ("version", tomorrow.HEAD) in stored(used)
    assert stored(backup) == before
    assert backup.stat().st_mode & 0o077 == 0
    restored = open_app(str(copy(backup, used.parent / "restored")))
    assert ask(restored, "agent_list")["total"] == 5


def test_a_new_database_has_nothing_to_back_up(tmp_path: Path, worker: Worker):
    assert worker.do("prepare", location=str(tmp_path / "deepwork.db")).is_well

    assert list(tmp_path.glob("*.backup")) == []


def test_a_file_of_tomorrows_program_is_refused_with_both_versions_and_left_alone(
    used: Path, successor: Worker, open_app: Callable[[str], Application]
):
    successor.do("prepare", location=str(used))
    before = used.read_bytes()

    for tool, arguments in (("agent_list", {}), ("agent_register", {"name": "Ada", "runtime": "custom"})):
        with pytest.raises(StorageError, match=rf"deepwork\.db .*{tomorrow.HEAD}.*{schema.HEAD}"):
            ask(open_app(str(used)), tool, **arguments)

    assert used.read_bytes() == before


def test_a_server_of_tomorrows_program_is_refused_with_both_versions_and_left_alone(
    new_database: Callable[[], str], successor: Worker, open_app: Callable[[str], Application]
):
    url = new_database()
    assert successor.do("register", location=url, name="Ada").is_well
    before = tables(url)

    with pytest.raises(StorageError, match=rf"{tomorrow.HEAD}.*{schema.HEAD}"):
        ask(open_app(url), "agent_register", name="Bob", runtime="custom")

    assert tables(url) == before
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT name FROM agents").fetchall() == [("Ada",)]


def chosen(counts: dict[str, int], seed: int) -> list[tuple[str, int]]:
    """Some of the calls, evenly spread over all there were."""
    every = [(call, number) for call, count in counts.items() for number in range(1, count + 1)]
    assert len(every) > 10
    return every if len(every) <= POINTS else random.Random(seed).sample(every, POINTS)


def stored(path: Path) -> Schema:
    """The schema in a file as its next user will find it, without touching the file."""
    if not path.exists():
        return frozenset()
    seen = copy(path, path.parent / "seen")
    with closing(sqlite3.connect(seen)) as connection:
        rows = connection.execute("SELECT name, coalesce(sql, '') FROM sqlite_master").fetchall()
        if any(name == "alembic_version" for name, _ in rows):
            rows += [("version", each) for (each,) in connection.execute("SELECT * FROM alembic_version")]
    shutil.rmtree(seen.parent)
    return frozenset(rows)


def agents(path: Path) -> list[str]:
    seen = copy(path, path.parent / "seen")
    with closing(sqlite3.connect(seen)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM agents ORDER BY name")]
    shutil.rmtree(seen.parent)
    return names


def copy(path: Path, folder: Path) -> Path:
    """The file and its log, in another place."""
    folder.mkdir()
    for each in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-journal")):
        if each.exists():
            shutil.copy(each, folder)
    return folder / path.name


def tables(url: str) -> list[tuple[str, str]]:
    """Every table of a server's database with its columns, and the version."""
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
