"""Creates stores with every kind of data, through the tools, and reads all their rows."""

from __future__ import annotations

import contextlib
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg

from application import call_tool, make_app
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.database.opening import open_engine
from deepwork.kernel.database.store_key import TABLE as KEY_TABLE
from jobs.project import make_step, write_files, write_job

ODD = "ünï©ødé 日本語 \u202e \x01\x1b[31m \\N \\. \t\r\n '\"%s :name {} \U0001f600 e\u0301 ½ ²"
"""Text that a copy could corrupt: escapes, quotes, end-of-file markers, multi-byte characters."""
BIG = "long " * 20_000
A_DAY = 86_400
PATIENCE = 100
"""Seconds; only a hanging process takes longer, even on a busy machine."""
KEY = "the-same-call"


def fill_store(app: Application, folder: Path) -> dict[str, str]:
    """Create every kind of data; return the ids of some of it."""
    ada, bob = (
        call_tool(app, "agent_register", name=name, runtime="custom", metadata={"odd": ODD})["id"]
        for name in "AB"
    )
    call_tool(app, "agent_register", KEY, name="once", runtime="custom")
    send_messages(app, ada, bob)
    made = create_plan(
        app,
        [
            {"name": "a", "description": ODD},
            {"name": "b", "depends_on": ["a"], "required_capabilities": ["sql", "日本語"]},
            {"name": "c"},
        ],
    )
    first = made["tasks"]["a"]
    assert call_tool(app, "task_claim", task_id=first, agent_id=ada)["success"]
    call_tool(
        app,
        "checkpoint_add",
        task_id=first,
        type="progress",
        summary=f"checkpoint {ODD}",
        detail={"n": -1, "big": 2**53},
    )
    call_tool(app, "checkpoint_add", task_id=first, type="progress", summary="echo " * 400)
    call_tool(app, "task_update_status", id=made["tasks"]["c"], status="skipped")
    call_tool(app, "template_create", name="ours", from_workflow_id=made["id"])
    run_job(app, folder)
    insert_odd_rows(app)
    return {"ada": ada, "bob": bob, "plan": made["id"], "claimed": first}


def send_messages(app: Application, one: str, other: str) -> None:
    """Send messages that reply to each other, so that each refers to an earlier one."""
    before = None
    for number in range(30):
        sent = call_tool(
            app, "message_send", sender_id=one, recipient_id=other, message_type="query", body=BIG if number == 3 else ODD,
            **({"reply_to_id": before} if before else {}),
        )  # fmt: skip
        before, one, other = sent["id"], other, one


def create_plan(app: Application, tasks: list[dict[str, Any]]) -> dict[str, Any]:
    id = call_tool(
        app, "workflow_create", name="W", source_type="prompt", source_content=BIG, max_parallel_tasks=100
    )["id"]
    call_tool(app, "workflow_set_plan", id=id, plan={"summary": "In steps.", "tasks": tasks})
    with app.database.reading() as tx:
        rows = tx.fetch_all("SELECT id, name FROM plan_tasks WHERE workflow_id = :id", id=id)
    return {"id": id, "tasks": {row["name"]: row["id"] for row in rows}}


def create_large_plan(app: Application, size: int) -> str:
    """Create a plan with this many tasks, most of which depend on another."""
    tasks = [
        {"name": f"task {number}", "description": f"do {number}", "sequence": number // 100 + 1}
        | ({"depends_on": [f"task {number - 100}"]} if number >= 100 else {})
        for number in range(size)
    ]
    id: str = create_plan(app, tasks)["id"]
    return id


def run_job(app: Application, folder: Path) -> None:
    write_files(folder, "a.md")
    write_job(folder, "chain", [make_step("a"), make_step("b")])
    invoke(
        app.database,
        app.registry["start_workflow"],
        {"goal": "try", "job_name": "chain", "workflow_name": "main"},
        Call("local", "start_workflow"),
    )


def insert_odd_rows(app: Application) -> None:
    """Insert rows that no tool creates, at the limits of their columns."""
    with app.database.transaction() as tx:
        for number in (-(2**63), -1, 0, 2**63 - 1):
            tx.insert(
                "leases", {"what": f"odd {number} {ODD}", "who": None, "epoch": number, "until": number}
            )
        tx.insert("passed_reviews", {"mark": "", "passed_at": 0})


def create_older_store(version: str, path: Path) -> Path:
    """Create a store with an older schema and one agent."""
    import sqlalchemy as sa
    from alembic import command
    from alembic.config import Config

    from deepwork.kernel.database import schema

    engine = sa.create_engine(
        "sqlite://", creator=lambda: sqlite3.connect(path), poolclass=sa.pool.StaticPool
    )
    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).parent / "migrations"))
    with engine.begin() as transaction:
        config.attributes["connection"] = transaction
        command.upgrade(config, version)
        transaction.exec_driver_sql(
            "INSERT INTO agents VALUES ('ag_old', 'Old', 'custom', 'worker', 'online', '[]', NULL, NULL, '{}', 'x', 1, NULL, NULL, 1, 1)"
        )
    engine.dispose()
    return path


def run_sql(location: str, *statements: str) -> None:
    """Execute statements directly on the database."""
    if "://" in location:
        with psycopg.connect(location, autocommit=True) as server:
            for statement in statements:
                server.execute(statement)
        return
    with contextlib.closing(sqlite3.connect(location, isolation_level=None)) as file:
        for statement in statements:
            file.execute(statement)


def corrupt_page(path: Path, name: str) -> None:
    """Overwrite the page on which a table or an index begins, as a failing disk does."""
    with contextlib.closing(sqlite3.connect(path)) as file:
        [(page,)] = file.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", [name])
        [(size,)] = file.execute("PRAGMA page_size")
    with path.open("r+b") as raw:
        raw.seek((page - 1) * size)
        raw.write(b"\xff" * size)


def read_all_rows(location: str) -> dict[str, list[Any]]:
    """Read every row of every table without the code under test; words as a sorted set.

    Not the key, which every database stores in its own form.
    """
    if "://" in location:
        return _read_all_server_rows(location)
    with contextlib.closing(sqlite3.connect(location)) as file:
        file.row_factory = sqlite3.Row
        names = [
            name
            for (name, kind) in file.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
            if not name.startswith(("plan_words_", "sqlite_")) and name != KEY_TABLE
        ]
        return {
            name: _normalise_rows([dict(row) for row in file.execute(f"SELECT * FROM {name}")])
            for name in sorted(names)
        }


def _read_all_server_rows(url: str) -> dict[str, list[Any]]:
    with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as server:
        names = [
            row["t"]
            for row in server.execute(
                "SELECT tablename::text AS t FROM pg_tables WHERE schemaname = 'public'"
            )
            if row["t"] != KEY_TABLE
        ]
        found = {}
        for name in sorted(names):
            words = (
                ", array_to_string(tsvector_to_array(words), ' ') AS words" if name == "plan_words" else ""
            )
            found[name] = _normalise_rows(server.execute(f"SELECT *{words} FROM {name}").fetchall())
        return found


def _normalise_rows(rows: list[dict[str, Any]]) -> list[Any]:
    for row in rows:
        if "words" in row:
            row["words"] = sorted(set(row["words"].split()))
    # A boolean of one database is an integer in the other.
    plain = [
        {name: int(value) if isinstance(value, bool) else value for name, value in row.items()}
        for row in rows
    ]
    return sorted(plain, key=lambda row: repr(sorted(row.items())))


def is_empty(location: str) -> bool:
    """Return whether the store is new or does not exist."""
    if "://" not in location and not Path(location).exists():
        return True
    found = read_all_rows(location)
    counters = {"alembic_version", "event_sequence", "audit_head", "sealed_lists"}
    return all(not rows for name, rows in found.items() if name not in counters) and all(
        row["last_seq"] == 0 for row in found.get("event_sequence", ())
    )


def open_store(folder: Path, location: str) -> Application:
    return make_app(folder, location, lease_seconds=A_DAY)


def wait_until_closed(location: str) -> None:
    """Wait until no other process has the store open; a server takes a moment to end a connection."""
    deadline = time.monotonic() + PATIENCE
    store = open_engine(location)
    while others := store.list_other_processes():
        assert time.monotonic() < deadline, others
        time.sleep(0.01)
    store.close()


_KILLED_AT = """
import os, signal, sys
from deepwork.edge.cli.main import main
from deepwork.edge.cli.framework.progress import ProgressBar
stage, rows = sys.argv[1], int(sys.argv[2])

def report(self, what, done=0, total=0):
    if what == stage and done >= rows:
        os.kill(os.getpid(), signal.SIGKILL)

ProgressBar.report = report
sys.argv[:3] = ["deepwork"]
main()
"""
_KILLED_BY_SIZE = """
import resource, signal, sys
from deepwork.edge.cli.main import main
size = int(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
sys.argv[:2] = ["deepwork"]
main()
"""


def run_until_killed_at(stage: str, rows: int, *words: str) -> None:
    """Run a command that is killed when it reports this many rows of a stage."""
    done = subprocess.run([sys.executable, "-P", "-c", _KILLED_AT, stage, str(rows), *words], check=False)
    assert done.returncode == -signal.SIGKILL, "the command was over before it was killed"


def run_until_killed_at_size(size: int, *words: str) -> None:
    """Run a command that the kernel kills when a file it writes exceeds this size."""
    done = subprocess.run([sys.executable, "-P", "-c", _KILLED_BY_SIZE, str(size), *words], check=False)
    assert done.returncode == -signal.SIGXFSZ, "the command was over before it was killed"
