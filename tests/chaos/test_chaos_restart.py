"""The database fails at the worst moments: acknowledged calls have one effect, and clients continue."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from application import call_tool, skip_or_fail
from chaos.team import Team
from chaos.team_hosts import Network
from chaos.team_members import Follower, McpConnection, Refused
from chaos.team_postgres import TeamPostgres
from chaos.team_servers import TeamServer
from deepwork.edge.server.application import Application
from reliability.restarts import restart_often

pytestmark = pytest.mark.thorough

PATIENCE = 120
SILENCE = "tcp_user_timeout=1000&keepalives_idle=1&keepalives_interval=1&keepalives_count=2&connect_timeout=2"


def test_restarts_of_the_database_under_load_lose_and_duplicate_nothing(
    network: Network, team_postgres: TeamPostgres, tmp_path: Path, seed: int
):
    result = restart_often(network, team_postgres, tmp_path, restarts=5, writes=60, broadcasts=10, seed=seed)

    assert result.faults == []
    assert result.counts["restarts"] == 5
    assert result.counts["calls"] == 4 * 60 + 2 * 10


def test_a_server_started_before_its_database_works_once_that_is_up(
    network: Network, team_postgres: TeamPostgres, tmp_path: Path
):
    team_postgres.empty()
    url = team_postgres.url(network.left)
    with stop_database(team_postgres), TeamServer(network.left, tmp_path, url) as server:
        team = Team(network, team_postgres, server, server)
        with pytest.raises(Refused) as refused:
            team.call(server, "agent_register", name="Ada", runtime="custom")
        follower = Follower(server)
        team_postgres.start()

        registered = team.call(server, "agent_register", name="Ada", runtime="custom")
        follower.wait_for(1)
        follower.close()

    assert refused.value.error["code"] == "STORAGE_ERROR"
    assert refused.value.error["recoverable"]
    assert "cannot be reached" in refused.value.error["message"]
    assert "DEEPWORK_DATABASE_URL" in refused.value.error["suggestion"]
    assert [event["data"]["id"] for event in follower.seen] == [registered["id"]]


def test_a_tail_waits_until_the_database_is_back_and_misses_nothing(
    team_postgres: TeamPostgres, tmp_path: Path, open_app: Callable[[str], Application]
):
    team_postgres.empty()
    app = open_app(team_postgres.local_url)
    call_tool(app, "agent_register", name="before", runtime="custom")
    tail = subprocess.Popen(
        [sys.executable, "-P", "-m", "deepwork", "events", "tail", "--since", "0", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        env={**os.environ, "DEEPWORK_DATABASE_URL": team_postgres.local_url},
    )  # fmt: skip
    assert tail.stdout is not None
    assert tail.stderr is not None
    with tail:
        heard = [json.loads(tail.stdout.readline())]
        with stop_database(team_postgres):
            noted = [tail.stderr.readline()]
            team_postgres.start()
            call_tool(app, "agent_register", name="after", runtime="custom")
            heard.append(json.loads(tail.stdout.readline()))
            noted.append(tail.stderr.readline())
        tail.terminate()

    assert [(event["seq"], event["data"]["name"]) for event in heard] == [(1, "before"), (2, "after")]
    assert "cannot be reached" in noted[0]
    assert "continuing after event 1" in noted[1]


def test_a_call_to_an_unresponsive_database_fails_in_bounded_time(
    network: Network, team_postgres: TeamPostgres, tmp_path: Path
):
    if not network.is_real:
        skip_or_fail("network namespaces cannot be created")
    team_postgres.empty()
    url = f"{team_postgres.url(network.left)}?{SILENCE}"
    with TeamServer(network.left, tmp_path, url) as server:
        heard: list[dict[str, object]] = []

        def write_until_refused() -> None:
            client = McpConnection(server)
            try:
                while True:
                    client.call("agent_register", {"name": "Ada", "runtime": "custom"})
            except Refused as refused:
                heard.append(refused.error)
            finally:
                client.close()

        writer: threading.Thread = server.host.thread(write_until_refused)
        team = Team(network, team_postgres, server, server)
        while team.call(server, "agent_list")["total"] == 0:
            time.sleep(0.01)
        network.cut(network.left, is_cut=True)
        writer.join(timeout=PATIENCE)
        network.cut(network.left, is_cut=False)

        assert [error["code"] for error in heard] == ["STORAGE_ERROR"], "it hangs"
        assert heard[0]["recoverable"]
        assert team.call(server, "agent_register", name="Bob", runtime="custom")["name"] == "Bob"


@contextmanager
def stop_database(postgres: TeamPostgres) -> Iterator[None]:
    """Stop the database for the block; at its end the database is up again."""
    postgres.stop()
    try:
        yield
    finally:
        if not postgres.is_up():
            postgres.start()
