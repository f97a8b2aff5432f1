"""The lower bound of a write: the raw echo, which also commits one row to the SQLite file that it is given.

The pragmas and the driver are those of deepwork. They are repeated here: the program must not change its own floor.
"""

from __future__ import annotations

import json
import sys

try:
    from pysqlite3 import dbapi2 as sqlite3
except ImportError:  # no wheel for this platform
    import sqlite3

PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "fullfsync = ON",
    "checkpoint_fullfsync = ON",
    "foreign_keys = ON",
    "trusted_schema = OFF",
    "cell_size_check = ON",
    "mmap_size = 0",
    f"journal_size_limit = {64 * 1024 * 1024}",
)

COMMITS_BEFORE = 1500
"""The file of the WAL grows for the first thousand pages, which makes these commits slower than all later ones."""


def main() -> None:
    connection = connect(sys.argv[1])
    connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)")
    for _ in range(COMMITS_BEFORE):
        commit_row(connection, "before")
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        result: dict[str, object] = {}
        if request["method"] == "tools/call":
            text = json.dumps(request["params"]["arguments"])
            commit_row(connection, text)
            result = {"content": [{"type": "text", "text": text}], "isError": False}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}) + "\n")
        sys.stdout.flush()


def connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    return connection


def commit_row(connection: sqlite3.Connection, text: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO notes (text) VALUES (?)", (text,))
    connection.execute("COMMIT")


if __name__ == "__main__":
    main()
