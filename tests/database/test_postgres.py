from __future__ import annotations

from pathlib import Path

import pytest

from deepwork.database.postgres import PostgreSQL
from deepwork.errors import StorageError
from house import ask, clean, house_at


def test_a_password_is_shown_nowhere():
    engine = PostgreSQL("postgresql://ada:geheim@db.example/work")

    assert "geheim" not in engine.name
    assert engine.name == "PostgreSQL database 'work' on db.example"


def test_a_url_that_is_none_is_one_sentence():
    with pytest.raises(StorageError, match="cannot be read") as refused:
        PostgreSQL("postgresql://host:not-a-port:5/x?y")

    assert "postgresql://user@host" in refused.value.suggestion


def test_a_server_that_is_not_there_is_named_without_secrets(tmp_path: Path):
    house = house_at(tmp_path, "postgresql://ada:geheim@127.0.0.1:1/work")

    with pytest.raises(StorageError, match="cannot be reached") as refused:
        ask(house, "agent_list")

    assert refused.value.recoverable
    assert "geheim" not in refused.value.message + refused.value.suggestion


def test_calls_go_on_after_the_server_cut_every_connection(tmp_path: Path, postgres_url: str):
    import psycopg

    clean(postgres_url)
    house = house_at(tmp_path, postgres_url)
    ask(house, "agent_register", name="Ada", runtime="custom")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'deepwork' AND pid <> pg_backend_pid()"
        )

    assert ask(house, "agent_list")["total"] == 1
    house.close()


def test_the_doctor_knows_the_server(postgres_url: str):
    clean(postgres_url)
    engine = PostgreSQL(postgres_url)

    assert dict(engine.describe())["engine"].startswith("PostgreSQL ")
    assert list(engine.problems()) == []
