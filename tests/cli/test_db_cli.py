"""`deepwork db`: inspect, copy, back up and restore the store."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from cli.run import run_deepwork
from deepwork.kernel.database.schema import HEAD


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def server(postgres_url: str) -> Iterator[Callable[[], str]]:
    """Returns a function that creates databases on a server."""
    made: list[str] = []

    def make() -> str:
        made.append(f"db_cli_{os.getpid()}_{random.SystemRandom().randrange(10**9)}")
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {made[-1]}")
        return postgres_url.replace("/postgres?", f"/{made[-1]}?")

    yield make
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for name in made:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def register(project: Path, name: str, *place: str) -> None:
    assert run_deepwork(project, "agents", "register", name, "custom", *place).code == 0


def list_names(project: Path, *place: str) -> list[str]:
    return [
        agent["name"] for agent in run_deepwork(project, "agents", "list", "--json", *place).json["agents"]
    ]


def test_info_does_not_create_a_missing_store(tmp_path: Path):
    ran = run_deepwork(tmp_path, "db", "info", "--json")

    assert ran.json == {
        "kind": "sqlite",
        "location": str(tmp_path / ".deepwork" / "deepwork.db"),
        "mode": "project",
        "exists": False,
    }
    assert list(tmp_path.iterdir()) == []


def test_info_describes_a_store(tmp_path: Path):
    register(tmp_path, "Ada")
    register(tmp_path, "Bob")

    seen = run_deepwork(tmp_path, "db", "info", "--json").json

    file = tmp_path / ".deepwork" / "deepwork.db"
    rows = {table["table"]: table["rows"] for table in seen["tables"]}
    assert (seen["kind"], seen["mode"], seen["exists"]) == ("sqlite", "project", True)
    assert (seen["schema"], seen["last_event"], seen["bytes"]) == (HEAD, 2, file.stat().st_size)
    assert (rows["agents"], rows["events"], rows["plans"]) == (2, 2, 0)
    assert "alembic_version" not in rows
    assert re.search(r"^ *agents +2$", run_deepwork(tmp_path, "db", "info").out, re.MULTILINE)


def test_info_shows_how_the_store_was_chosen(tmp_path: Path, home: Path, server: Callable[[], str]):
    url = server()
    register(tmp_path, "Ada", "--global")
    register(tmp_path, "Ada", "--db", "own.db")

    everywhere = run_deepwork(tmp_path, "db", "info", "--global", "--json").json
    given = run_deepwork(tmp_path, "db", "info", "--db", "own.db", "--json").json
    new = run_deepwork(
        tmp_path, "db", "info", "--json",
        environment={"DEEPWORK_DATABASE_URL": url.replace("postgres@", "postgres:geheim@")},
    )  # fmt: skip

    assert (everywhere["mode"], everywhere["location"]) == ("global", str(home / ".deepwork" / "deepwork.db"))
    assert (given["mode"], given["location"]) == ("given", str(tmp_path / "own.db"))
    assert (new.json["kind"], new.json["mode"], new.json["schema"]) == ("postgresql", "given", None)
    assert "geheim" not in new.out + new.err
    assert new.json["location"] == url


def test_info_lists_other_processes_that_have_the_store_open(tmp_path: Path, server: Callable[[], str]):
    for location in (str(tmp_path / "own.db"), server()):
        register(tmp_path, "Ada", "--db", location)
        other = subprocess.Popen(
            [sys.executable, "-m", "deepwork", "events", "tail", "--since", "0", "--db", location],
            cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert other.stdout is not None
        assert "Ada" in other.stdout.readline()

        during = run_deepwork(tmp_path, "db", "info", "--db", location, "--json").json["open_elsewhere"]
        other.kill()
        other.communicate()

        assert during
        assert "://" in location or during == [f"pid {other.pid}"]


def test_info_on_a_current_store_imports_no_migration(tmp_path: Path):
    register(tmp_path, "Ada")
    code = (
        f"import sys; from deepwork.edge.cli.main import main; sys.argv = ['deepwork', 'db', 'info', '--path', {str(tmp_path)!r}]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print(sorted({'sqlalchemy', 'alembic', 'fastmcp', 'psycopg', 'pydantic'} & set(sys.modules)))"
    )

    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_project_moves_to_a_server_and_back(tmp_path: Path, server: Callable[[], str]):
    url, project, back = server(), tmp_path / "project", tmp_path / "back"
    project.mkdir()
    back.mkdir()
    register(project, "Ada")

    there = run_deepwork(project, "db", "copy", "project", url, "--json")
    register(project, "Bob", "--db", url)
    again = run_deepwork(back, "db", "copy", url, "project")

    assert (there.json["verified"], there.json["tables"]["agents"], there.json["to"]) == (True, 1, url)
    assert again.code == 0, again.err
    assert list_names(back) == ["Ada", "Bob"]
    assert (back / ".deepwork" / ".gitignore").exists()
    assert run_deepwork(back, "db", "info", "--json").json["last_event"] == 2


def test_file_paths_are_relative_and_keywords_mean_default_locations(tmp_path: Path, home: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    register(tmp_path, "Ada")
    other = {"DEEPWORK_DATABASE_URL": str(tmp_path / "unused.db")}

    for words in (("project", "global"), ("global", "copy.db")):
        ran = run_deepwork(elsewhere, "db", "copy", *words, "--path", "..", environment=other)
        assert ran.code == 0, ran.err

    assert (home / ".deepwork" / "deepwork.db").exists()
    assert list_names(elsewhere, "--db", str(elsewhere / "copy.db")) == ["Ada"]


def test_an_impossible_copy_is_refused_with_an_error(tmp_path: Path, server: Callable[[], str]):
    register(tmp_path, "Ada")
    secret = server().replace("postgres@", "postgres:geheim@")

    full = run_deepwork(tmp_path, "db", "copy", "project", "project")
    password = run_deepwork(tmp_path, "db", "copy", "project", secret)
    other = run_deepwork(tmp_path, "db", "copy", "project", "mysql://host/db")
    wrong = run_deepwork(
        tmp_path,
        "db",
        "copy",
        "project",
        "postgresql://host:port/db",
        environment={"DEEPWORK_DATABASE_URL": secret},
    )
    missing = run_deepwork(tmp_path, "db", "copy", "none.db", "new.db", "--json")

    assert (full.code, "FROM and TO are both" in full.err) == (1, True)
    assert (password.code, "take no password" in password.err) == (2, True)
    assert "geheim" not in password.err
    assert (other.code, "neither a file nor" in other.err) == (2, True)
    assert (wrong.code, "Traceback" in wrong.err) == (1, False)
    assert (missing.code, json.loads(missing.err)["code"]) == (1, "STORAGE_ERROR")
    assert not (tmp_path / "new.db").exists()


def test_the_password_of_a_url_is_taken_from_the_settings():
    from deepwork.edge.cli.database import _is_configured_url

    known = "postgresql://ada:geheim@db.example/work"

    assert _is_configured_url("postgresql://ada@db.example/work", known)
    assert _is_configured_url("postgresql://db.example:5432/work", known)
    assert not _is_configured_url("postgresql://bob@db.example/work", known)
    assert not _is_configured_url("postgresql://ada@db.example/other", known)
    assert not _is_configured_url("postgresql://ada@other.example/work", known)
    assert not _is_configured_url("postgresql://ada@db.example/work", "own.db")


def test_a_store_is_backed_up_and_restored(tmp_path: Path, server: Callable[[], str]):
    for number, place in enumerate(([], ["--db", server()])):
        file = f"{number}.backup"
        register(tmp_path, "Ada", *place)
        made = run_deepwork(tmp_path, "db", "backup", file, "--json", *place)
        register(tmp_path, "Bob", *place)

        refused = run_deepwork(tmp_path, "db", "restore", file, *place)
        done = run_deepwork(tmp_path, "db", "restore", file, "--replace", "--json", *place)

        assert (made.json["backup"], made.json["tables"]["agents"]) == (str(tmp_path / file), 1)
        assert (refused.code, "--replace" in refused.err) == (1, True)
        assert list_names(tmp_path, *place) == ["Ada"]
        assert list_names(tmp_path, "--db", done.json["kept"]) == ["Ada", "Bob"]


def test_a_lost_store_is_restored_to_its_place(tmp_path: Path):
    lost, new = tmp_path / "lost", tmp_path / "new"
    lost.mkdir()
    new.mkdir()
    register(lost, "Ada")
    run_deepwork(lost, "db", "backup", "../safe.backup")

    ran = run_deepwork(new, "db", "restore", "../safe.backup")

    assert ran.code == 0, ran.err
    assert list_names(new) == ["Ada"]
    assert (new / ".deepwork" / ".gitignore").exists()


def test_a_wrong_file_creates_nothing(tmp_path: Path):
    (tmp_path / "notes").write_text("notes")

    ran = run_deepwork(tmp_path, "db", "restore", "notes")

    assert (ran.code, "is not a SQLite file" in ran.err) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_a_backup_goes_to_the_given_file_and_errors_show_full_paths(tmp_path: Path):
    register(tmp_path, "Ada")
    nowhere, taken = tmp_path / "typo" / "x.backup", tmp_path / "x.backup"
    taken.touch()

    missing = run_deepwork(tmp_path, "db", "backup", str(nowhere))
    exists = run_deepwork(tmp_path, "db", "backup", "x.backup")
    absent = run_deepwork(tmp_path, "db", "copy", "none.db", "new.db")

    assert (missing.code, exists.code, absent.code) == (1, 1, 1)
    assert f"The folder {tmp_path / 'typo'} does not exist." in missing.err
    assert not nowhere.parent.exists()
    assert f"Error: {taken} already exists" in exists.err
    assert f"There is no store at {tmp_path / 'none.db'}." in absent.err
