"""A database URL that came from a file gets no password of this user, even if the file is trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from psycopg import pq

from deepwork.kernel.config import FILE_URL_SCHEME, load_settings
from deepwork.kernel.database.existing_store import open_existing_store
from deepwork.kernel.database.opening import open_engine
from deepwork.kernel.database.postgres import build_parameters
from deepwork.kernel.environment import get_user_name
from deepwork.kernel.errors import StorageError
from trust.make import trust_settings, write_config
from trust.traps import FakePostgreSQL

SECRET = "the-users-own"


@pytest.fixture
def server() -> Iterator[FakePostgreSQL]:
    with FakePostgreSQL() as listening:
        yield listening


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def set_variable(_: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("PGPASSWORD", SECRET)


def write_password_file(home: Path, _: pytest.MonkeyPatch) -> None:
    (home / ".pgpass").write_text(f"*:*:*:*:{SECRET}\n")
    (home / ".pgpass").chmod(0o600)


def name_password_file(home: Path, patch: pytest.MonkeyPatch) -> None:
    write_password_file(home, patch)
    (home / ".pgpass").rename(home / "passwords")
    patch.setenv("PGPASSFILE", str(home / "passwords"))


def name_service(home: Path, patch: pytest.MonkeyPatch) -> None:
    (home / ".pg_service.conf").write_text(f"[mine]\npassword={SECRET}\n")
    patch.setenv("PGSERVICE", "mine")


def connect_as_server(location: str) -> None:
    list(open_engine(location).find_problems())


def connect_as_hook(location: str) -> None:
    with open_existing_store(location, 1.0):
        pass


@pytest.mark.parametrize("connect", [connect_as_server, connect_as_hook])
@pytest.mark.parametrize("keep", [set_variable, write_password_file, name_password_file, name_service])
def test_only_a_url_of_the_user_gets_the_users_password(
    server: FakePostgreSQL,
    tmp_path: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    keep: Callable[[Path, pytest.MonkeyPatch], None],
    connect: Callable[[str], None],
):
    keep(home, monkeypatch)
    url = f"postgresql://ada@127.0.0.1:{server.port}/work"
    root = trust_settings(write_config(tmp_path / "clone", f"database: {url}\n"))

    with suppress(StorageError):
        connect(load_settings(root).database_location)

    assert server.passwords == []

    with suppress(StorageError):
        connect(load_settings(root, {"database": url}).database_location)

    assert set(server.passwords) == {SECRET}


def test_the_password_in_the_url_is_used(
    server: FakePostgreSQL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PGPASSWORD", SECRET)
    root = write_config(tmp_path, f"database: postgresql://ada:in-the-url@127.0.0.1:{server.port}/work\n")

    connect_as_server(load_settings(trust_settings(root)).database_location)

    assert set(server.passwords) == {"in-the-url"}


@pytest.mark.parametrize("parameter", ["passfile=/home/ada/.pgpass", "service=mine", "pass%66ile=x"])
def test_a_url_in_a_file_cannot_name_where_passwords_are(parameter: str):
    with pytest.raises(StorageError, match=r"config\.yml has `(passfile|service)`") as refused:
        open_engine(f"{FILE_URL_SCHEME}://db.example/work?{parameter}")

    assert "DEEPWORK_DATABASE_URL" in refused.value.suggestion


def test_an_unreachable_server_of_a_file_says_where_the_password_belongs(server: FakePostgreSQL):
    engine = open_engine(f"{FILE_URL_SCHEME}://ada@127.0.0.1:{server.port}/work")

    [problem] = engine.find_problems()

    assert "a password must be in that URL" in problem


def test_no_variable_changes_where_a_url_of_a_file_leads(postgres_url: str, monkeypatch: pytest.MonkeyPatch):
    for option in pq.Conninfo.get_defaults():
        if option.envvar and option.keyword != b"service":
            monkeypatch.setenv(option.envvar.decode(), "7")
    location = f"{FILE_URL_SCHEME}://{postgres_url.partition('://')[2]}"

    assert list(open_engine(location).find_problems()) == []
    assert open_engine(location).address == open_engine(postgres_url).address
    assert build_parameters(f"{FILE_URL_SCHEME}://h/d")["user"] == get_user_name()
