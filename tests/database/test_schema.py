"""A new store is created from a snapshot of the schema, which equals the result of the migrations."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from scripts import schema_snapshots

from deepwork.kernel.database import schema
from deepwork.kernel.database.opening import open_engine
from package.old_stores import create_empty_location, create_old_store

_SQLITE_CATALOG = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
_POSTGRES_CATALOG = """
    SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
     WHERE table_schema = 'public'
    UNION ALL
    SELECT tablename, indexname, indexdef, NULL, NULL FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), NULL, NULL FROM pg_constraint
     WHERE connamespace = 'public'::regnamespace
     ORDER BY 1, 2, 3
"""


@pytest.fixture
def places(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Two stores that do not exist yet."""
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else ""
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    with (
        create_empty_location(kind, tmp_path / "one", url) as one,
        create_empty_location(kind, tmp_path / "other", url) as other,
    ):
        yield one, other


@pytest.mark.parametrize(
    ("dialect", "dump"),
    [("sqlite", schema_snapshots.dump_sqlite), ("postgresql", schema_snapshots.dump_postgresql)],
)
def test_the_snapshots_are_current(dialect: str, dump: Any):
    assert schema.read_snapshot(dialect) == dump(), "run `make schema` and commit what it writes"


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_new_store_has_the_schema_of_a_migrated_one(places: tuple[str, str]):
    new, migrated = places
    create_old_store(schema.HEAD, migrated)

    engine = open_engine(new)
    engine.prepare()
    engine.close()

    assert _catalog(new) == _catalog(migrated)
    assert len(_catalog(new)) > 100


def _catalog(location: str) -> list[Any]:
    if "://" in location:
        with psycopg.connect(location) as server:
            return server.execute(_POSTGRES_CATALOG).fetchall()
    with closing(sqlite3.connect(location)) as file:
        return file.execute(_SQLITE_CATALOG).fetchall()
