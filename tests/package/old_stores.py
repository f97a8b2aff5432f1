"""Creates stores as older versions left them: an old schema, and rows stored under it."""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import psycopg
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from deepwork.kernel.database import schema

ROWS = Path(__file__).parent / "stores"
"""For each schema, rows of the tables that it introduced."""
SCHEMAS = sorted(file.stem for file in ROWS.glob("*.sql"))


@contextlib.contextmanager
def create_empty_location(kind: str, folder: Path, postgres_url: str) -> Iterator[str]:
    """Yield the location of a store that does not exist yet."""
    if kind == "sqlite":
        yield str(folder / "deepwork.db")
        return
    name = f"upgrade_{os.getpid()}_{random.SystemRandom().randrange(10**9)}"
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        yield postgres_url.replace("/postgres?", f"/{name}?")
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def create_old_store(version: str, location: str) -> None:
    """Create a store of this schema with rows in every table."""
    engine = _create_engine(location)
    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations"))
    with engine.begin() as transaction:
        config.attributes["connection"] = transaction
        command.upgrade(config, version)
        for file in sorted(ROWS.glob("*.sql")):
            if file.stem <= version:
                _insert_rows(transaction, file.read_text(encoding="utf-8"))
    engine.dispose()


def _insert_rows(transaction: sa.Connection, rows: str) -> None:
    """Execute each statement through the driver: SQLAlchemy would treat `:name` in strings as parameters."""
    driver = transaction.connection.driver_connection
    assert driver is not None
    cursor = driver.cursor()
    for statement in _split_statements(rows):
        cursor.execute(statement)


def _split_statements(rows: str) -> Iterator[str]:
    """Split SQL into statements; a semicolon in a string does not end one."""
    begun = ""
    for line in rows.splitlines(keepends=True):
        if not begun and line.startswith("--"):
            continue
        begun += line
        if sqlite3.complete_statement(begun):
            yield begun
            begun = ""
    assert not begun.strip(), f"does not end: {begun[:200]}"


def _create_engine(location: str) -> sa.Engine:
    if "://" not in location:
        return sa.create_engine(f"sqlite:///{location}")
    return sa.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(location), poolclass=sa.pool.StaticPool
    )
