"""Whatever a server is asked, and whatever runs beside it, it keeps its locks on the store and loses nothing."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from collections import Counter
from functools import reduce
from operator import and_
from pathlib import Path

import pytest

import quick
from http_tests.http_server import PATIENCE_SECONDS, HttpServer, McpSession

FOREIGN_READER = (
    "import sqlite3, sys; it = sqlite3.connect(sys.argv[1]);"
    "print(it.execute('SELECT count(*) FROM agents').fetchone()[0]); it.close()"
)
COMMANDS = [
    ["status"],
    ["doctor"],
    ["db", "info"],
    ["db", "backup", "saved.backup"],
    ["audit", "verify"],
    ["agents", "list"],
    ["plans", "list"],
    ["runs", "list"],
    ["events", "--since", "0", "--no-follow"],
    ["show", "ag_000000000000"],
    ["spend"],
    ["check"],
]
HOOKS = ["session-start", "tool-use", "stop"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc/locks is Linux's")


def list_locks(store: Path) -> list[str]:
    """List the locks on the files of the store: kind, mode, process and range."""
    numbers = {str(Path(f"{store}{suffix}").stat().st_ino) for suffix in ("", "-shm")}
    found = []
    for line in Path("/proc/locks").read_text().splitlines():
        _, kind, _, mode, process, file, *places = line.split()
        if file.rpartition(":")[2] in numbers and kind != "FLOCK":
            found.append(" ".join([kind, mode, process, *places]))
    return sorted(found)


def list_routes(server: HttpServer) -> list[str]:
    """List every path that can be read, with something in the place of its parameters."""
    described = server.get_json("/api/v1/openapi.json")["paths"]
    return [re.sub(r"\{\w+\}", "x", path) for path, methods in described.items() if "get" in methods]


def read_beginning(server: HttpServer, path: str) -> None:
    """Read the first bytes of an answer that may have no end."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
    connection.request("GET", path, headers=server.bearer)
    connection.getresponse().read(1)
    connection.close()


def register_agents(session: McpSession, numbers: range) -> int:
    answers = [
        session.call(number, "agent_register", {"name": f"agent {number}", "runtime": "claude_code"})
        for number in numbers
    ]
    return sum("agent_id" in json.dumps(answer) or "id" in answer for answer in answers)


def find_lost(before: list[str], store: Path) -> list[str]:
    """List the locks that are gone; once a minute the server compares with a second connection, which has more.

    The kernel's list may leave out an entry while other processes lock: a lock is gone if it stays away.
    """
    looks = [Counter(before) - Counter(list_locks(store)) for _ in range(5)]
    return sorted(reduce(and_, looks).elements())


def test_a_server_keeps_its_locks_and_every_acknowledged_call(tmp_path: Path):
    store = tmp_path / ".deepwork" / "deepwork.db"
    with HttpServer(tmp_path) as server:
        session = McpSession(server)
        before = register_agents(session, range(1, 3))
        read_beginning(server, "/api/v1/events?since=0")  # the hub listens from now on
        locks = list_locks(store)
        assert any(lock.startswith("POSIX READ") for lock in locks)

        for path in ["/", "/health", "/metrics", *list_routes(server)]:
            read_beginning(server, path)
            assert find_lost(locks, store) == [], path
        for command in COMMANDS:
            subprocess.run([*quick.build_command(), *command], cwd=tmp_path, check=False, capture_output=True)
            assert find_lost(locks, store) == [], command
        for hook in HOOKS:
            event = json.dumps({"session_id": "s", "cwd": str(tmp_path), "tool_name": "x", "tool_input": {}})
            subprocess.run(
                [*quick.build_command(), "hook", hook, "--client", "claude-code"],
                cwd=tmp_path, input=event.encode(), check=True, capture_output=True,
            )  # fmt: skip
            assert find_lost(locks, store) == [], hook
        reader = [sys.executable, "-c", FOREIGN_READER, str(store)]
        subprocess.run(reader, check=True, capture_output=True)
        acknowledged = before + register_agents(session, range(10, 30))
        server.process.kill()

    seen = subprocess.run(reader, check=True, capture_output=True, text=True)
    assert acknowledged == 22
    assert int(seen.stdout) == 22
