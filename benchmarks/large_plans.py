"""Measures large plans in the server itself, without a transport, next to the same statements written by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.echo.commit import connect
from benchmarks.projects import build_plan
from benchmarks.timing import Effort, Samples, measure_ms

from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.config import load_settings

WRITTEN = (1_000, 10_000)

Ask = Callable[..., Any]
Rows = dict[str, list[tuple[Any, ...]]]
"""The rows of each table."""


def open_application(folder: Path, **overrides: Any) -> tuple[Application, Ask]:
    """Create a store; return it, and a function that calls a tool in this process."""
    app = Application(load_settings(folder, overrides, environment={}))

    def ask(tool: str, **arguments: Any) -> Any:
        return invoke(app.database, app.registry[tool], arguments, Call("bench", tool))

    return app, ask


def measure_set_plan(effort: Effort) -> Samples:
    """Measure storing a plan, in turns with inserting the same rows into tables without indexes."""
    took: Samples = {}
    for size in WRITTEN:
        folder = effort.make_folder(f"set-plan-{size}")
        app, ask = open_application(folder)
        store = folder / ".deepwork/deepwork.db"
        _set_plan(ask, 10)  # imports and prepares
        workflow = _create_workflow(ask)
        before = _read_last_rows(store)
        ask("workflow_set_plan", id=workflow, plan=build_plan(size))
        rows = _read_new_rows(store, before)
        for _ in range(max(1, effort.starts // 2)):
            took.setdefault(f"raw executemany ({size:,})", []).append(_insert_rows(folder / "floor.db", rows))
            took.setdefault(f"workflow_set_plan ({size:,})", []).append(_set_plan(ask, size))
        app.close()
    return took


def _create_workflow(ask: Ask) -> str:
    created = {"name": "large", "source_type": "prompt", "source_content": "x", "max_parallel_tasks": 8}
    id: str = ask("workflow_create", **created)["id"]
    return id


def _set_plan(ask: Ask, size: int) -> float:
    id, plan = _create_workflow(ask), build_plan(size)
    return measure_ms(lambda: ask("workflow_set_plan", id=id, plan=plan))


def _read_last_rows(store: Path) -> dict[str, int]:
    """Read the last row number of every table that stores rows itself."""
    connection = connect(str(store))
    found = connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'").fetchall()
    shadows = [f"{name}_" for name, sql in found if "VIRTUAL" in (sql or "")]
    tables = [name for name, _ in found if not name.startswith(("sqlite_", *shadows))]
    last = {name: connection.execute(f"SELECT max(rowid) FROM {name}").fetchone()[0] or 0 for name in tables}
    connection.close()
    return last


def _read_new_rows(store: Path, before: dict[str, int]) -> Rows:
    connection = connect(str(store))
    new = {
        table: connection.execute(f"SELECT * FROM {table} WHERE rowid > ?", (last,)).fetchall()
        for table, last in before.items()
    }
    connection.close()
    return {table: rows for table, rows in new.items() if rows}


def _insert_rows(path: Path, rows: Rows) -> float:
    """Insert the rows into a new file, in one transaction; return how long it took."""
    path.unlink(missing_ok=True)
    connection = connect(str(path))
    for table, values in rows.items():
        columns = ", ".join(f"c{number}" for number in range(len(values[0])))
        connection.execute(f"CREATE TABLE {table} ({columns})")

    def insert() -> None:
        connection.execute("BEGIN IMMEDIATE")
        for table, values in rows.items():
            places = ", ".join("?" * len(values[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({places})", values)
        connection.execute("COMMIT")

    took = measure_ms(insert)
    connection.close()
    return took
