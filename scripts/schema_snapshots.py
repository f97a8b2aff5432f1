"""Generates the schema snapshots that new stores are created from; a test compares them with the migrations."""

from __future__ import annotations

import io
import sqlite3
from contextlib import closing

from alembic import command
from alembic.config import Config

from deepwork.kernel.database import schema

HEAD = "-- Written from the migrations by `make schema`; do not edit.\n"
TABLES_WITH_FIRST_ROWS = ("alembic_version", "event_sequence", "audit_head")
"""The only tables that are not empty in a new store."""


def dump_sqlite() -> str:
    """Return the statements that create the same SQLite store as all migrations do."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        schema.migrate("sqlite+pysqlite://", connection, sqlite3)
        # SQLite creates shadow tables with their full-text index, and internal indexes with their tables.
        statements = connection.execute(
            "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'plan!_words!_%' ESCAPE '!'"
            " ORDER BY rowid"
        )
        created = [f"{sql};\n" for (sql,) in statements]
        inserted = [f"{line}\n" for line in connection.iterdump() if _is_row(line)]
    return HEAD + "".join([*created, *inserted])


def _is_row(line: str) -> bool:
    return line.startswith(tuple(f'INSERT INTO "{name}"' for name in TABLES_WITH_FIRST_ROWS))


def dump_postgresql() -> str:
    """Return the statements that all migrations run on an empty PostgreSQL database."""
    output = io.StringIO()
    config = Config(output_buffer=output)
    config.set_main_option("script_location", str(schema.MIGRATIONS).replace("%", "%%"))
    config.attributes["dialect_name"] = "postgresql"
    command.upgrade(config, "head", sql=True)
    # Undo the driver's escaping of "%": these statements run without parameters.
    text = output.getvalue().replace("%%", "%")
    lines = (line.rstrip() for line in text.splitlines())
    kept = (
        line for line in lines if line and not line.startswith("--") and line not in ("BEGIN;", "COMMIT;")
    )
    return HEAD + "\n".join(kept) + "\n"


def main() -> None:
    for dialect, dump in (("sqlite", dump_sqlite), ("postgresql", dump_postgresql)):
        schema.get_snapshot_path(dialect).write_text(dump(), encoding="utf-8")


if __name__ == "__main__":
    main()
