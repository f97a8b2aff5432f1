"""Stores as older programs left them: their schema, made by its migrations, and rows that were stored under it."""

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

from deepwork.database import schema

ROWS = Path(__file__).parent / "stores"
"""For each schema the rows of the tables that came with it."""
SCHEMAS = sorted(file.stem for file in ROWS.glob("*.sql"))


@contextlib.contextmanager
def empty_place(kind: str, folder: Path, postgres_url: str) -> Iterator[str]:
    """Where nobody has kept anything yet."""
    if kind == "sqlite":
        yield str(folder / "deepwork.db")
        return
    name = f"upgrade_{os.getpid()}_{random.SystemRandom().randrange(10**9)}"
    with psycopg.connect(postgres_url, autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        yield postgres_url.replace("/postgres?", f"/{name}?")
        server.execute(f"DROP DATABASE {name} WITH (FORCE)")


def make_old(version: str, location: str) -> None:
    """A store of this schema with something of everything that it could hold."""
    engine = _engine(location)
    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations"))
    with engine.begin() as transaction:
        config.attributes["connection"] = transaction
        command.upgrade(config, version)
        for file in sorted(ROWS.glob("*.sql")):
            if file.stem <= version:
                _store(transaction, file.read_text(encoding="utf-8"))
    engine.dispose()


def _store(transaction: sa.Connection, rows: str) -> None:
    """Each statement as it stands: a text may hold what would be a parameter elsewhere."""
    driver = transaction.connection.driver_connection
    assert driver is not None
    cursor = driver.cursor()
    for statement in _statements(rows):
        cursor.execute(statement)


def _statements(rows: str) -> Iterator[str]:
    """Statement by statement; a semicolon in a text does not end one."""
    begun = ""
    for line in rows.splitlines(keepends=True):
        if not begun and line.startswith("--"):
            continue
        begun += line
        if sqlite3.complete_statement(begun):
            yield begun
            begun = ""
    assert not begun.strip(), f"does not end: {begun[:200]}"


def _engine(location: str) -> sa.Engine:
    if "://" not in location:
        return sa.create_engine(f"sqlite:///{location}")
    return sa.create_engine(
        "postgresql+psycopg://", creator=lambda: psycopg.connect(location), poolclass=sa.pool.StaticPool
    )
