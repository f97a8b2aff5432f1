"""Programs that only look at a store while others write it: they must not be able to cost a write."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chaos.team_servers import BEARER, TeamServer

_READER = """
import itertools, sqlite3, sys

for number in itertools.count():
    try:
        connection = sqlite3.connect(sys.argv[1], timeout=60)
        connection.execute("SELECT count(*) FROM agents").fetchone()
        connection.close()
    except sqlite3.OperationalError:  # not created yet, or just being created
        continue
    print(number, flush=True)
"""
_PAGES = ("/", "/api/v1/status", "/metrics", "/api/v1/runs", "/api/v1/agents", "/api/v1/inbox")


@contextmanager
def read_store_in_a_loop(store: Path) -> Iterator[None]:
    """Open, read and close the store again and again with another SQLite program, as backup tools do."""
    with subprocess.Popen([sys.executable, "-c", _READER, str(store)], stdout=subprocess.PIPE) as reader:
        try:
            yield
            assert reader.stdout is not None
            assert reader.stdout.readline()  # it could read at least once
        finally:
            reader.kill()


@contextmanager
def visit_pages_in_a_loop(server: TeamServer) -> Iterator[None]:
    """Open the pages of a server again and again, also while it is killed and starts again."""
    is_over = threading.Event()

    def visit() -> None:
        while not is_over.wait(0.01):
            for page in _PAGES:
                with suppress(OSError, http.client.HTTPException):
                    connection = http.client.HTTPConnection(server.host.address, server.port, timeout=30)
                    connection.request("GET", page, headers=BEARER)
                    connection.getresponse().read()
                    connection.close()

    visitor = threading.Thread(target=visit, daemon=True)
    visitor.start()
    try:
        yield
    finally:
        is_over.set()
        visitor.join()
