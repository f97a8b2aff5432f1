"""`deepwork dashboard` in its own process, next to a server that a client started over stdio."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import websockets
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

import quick
from http_tests.http_server import PATIENCE_SECONDS, TOKEN, HttpServer, reserve_port


class Dashboard(HttpServer):
    """`deepwork dashboard` on a free port."""

    def __init__(self, project: Path, *flags: str, token: str = "", **environment: str) -> None:
        self.project, self.port, self._token = project, reserve_port(), token
        self._log = (project / f"server-{self.port}.log").open("wb")
        self.process = subprocess.Popen(
            [
                *quick.build_command(), "dashboard", "--path", str(project),
                "--port", str(self.port), *flags,
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._log,
            env={**os.environ, "DEEPWORK_TOKEN": token, **environment},
        )  # fmt: skip


def stdio(project: Path) -> StdioTransport:
    """A server as a client starts it, on the same project."""
    return quick.build_transport(project)


async def call(client: Client[Any], tool: str, **arguments: Any) -> Any:
    return (await client.call_tool(tool, arguments)).structured_content


async def until(listener: Any, wanted: str) -> dict[str, Any]:
    """The next event of this type."""
    while True:
        event: dict[str, Any] = json.loads(await asyncio.wait_for(listener.recv(), PATIENCE_SECONDS))
        if event["type"] == wanted:
            return event


def test_the_dashboard_shows_live_work_of_a_stdio_server_and_can_act_on_it(tmp_path: Path):
    async def work(dashboard: Dashboard) -> None:
        listening = websockets.connect(
            f"ws://{dashboard.host}/ws?since=0", additional_headers=dashboard.bearer, proxy=None
        )
        async with Client(stdio(tmp_path)) as client, listening as listener:
            run = await call(client, "start_workflow", name="Live", objective="Be seen.")
            begun = await until(listener, "workflow:created")
            assert begun["workflow_id"] == run["workflow_id"]
            assert dashboard.get_json("/api/v1/home")["running"][0]["name"] == "Live"
            phase = await call(
                client, "start_phase", workflow_id=run["workflow_id"], number=1, name="One", is_parallel=False
            )
            task = await call(
                client, "start_task", workflow_id=run["workflow_id"], phase_id=phase["phase_id"], name="see",
                goal="x", caller_type="orchestrator",
            )  # fmt: skip
            issue = await call(
                client, "log_issue", task_id=task["task_id"], type="other", description="Which?",
                resolution="Asked.", requires_human_review=True,
            )  # fmt: skip
            await until(listener, "issue:created")
            [need] = dashboard.get_json("/api/v1/home")["needs_you"]
            assert need["actions"][0]["arguments"] == {"issue_id": issue["issue_id"]}

            body = json.dumps({"issue_id": issue["issue_id"], "note": "This one."}).encode()
            headers = {**dashboard.bearer, "Content-Type": "application/json", "Idempotency-Key": "k"}
            done = dashboard.request("POST", "/api/v1/actions/resolve_issue", headers, body)

            assert done.status == 200
            resolved = await until(listener, "issue:resolved")
            assert resolved["data"]["resolved_by"] == "human:owner"
            context = await call(client, "get_context", workflow_id=run["workflow_id"], include=["blockers"])
            assert context["blockers_count"] == 0

    with Dashboard(tmp_path) as dashboard:
        asyncio.run(work(dashboard))
        assert dashboard.stop() == 0


def test_the_dashboard_prints_a_link_that_logs_a_browser_in(tmp_path: Path):
    with Dashboard(tmp_path) as dashboard:
        [link] = re.findall(r"http://\S+", dashboard.read_log())
        assert link == f"{dashboard.url}/?token={dashboard.token}"

        answer = dashboard.get(link.removeprefix(dashboard.url))

        assert (answer.status, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"].partition(";")[0]
        me = dashboard.get("/api/v1/me", Cookie=cookie).json
        assert (me["name"], me["scope"], me["is_person"]) == ("owner", "admin", True)
        assert dashboard.get("/runs", Cookie=cookie, Accept="text/html").status == 200


def test_the_dashboard_does_not_serve_mcp(tmp_path: Path):
    with Dashboard(tmp_path) as dashboard:
        assert dashboard.request("POST", "/mcp", {}, b"{}").status == 401
        assert dashboard.request("POST", "/mcp", dashboard.bearer, b"{}").status == 405


def test_an_http_server_also_serves_the_dashboard(served: HttpServer):
    assert served.get_json("/api/v1/home")["counts"]["total"] == 0
    assert served.request("GET", "/", served.bearer | {"Accept": "text/html"}).status == 200


def dashboard(project: Path, *flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "deepwork", "dashboard", "--path", str(project), *flags],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip


def test_a_taken_port_is_an_error_that_names_a_free_one(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()

        done = dashboard(tmp_path, "--port", str(taken.getsockname()[1]))

    assert done.returncode == 2
    assert re.search(r"Port \d+ is taken\.\nUse --port \d+\.", done.stderr)


def test_the_dashboard_listens_only_on_loopback_without_a_token(tmp_path: Path):
    done = dashboard(tmp_path, "--host", "0.0.0.0", "--port", str(reserve_port()), DEEPWORK_TOKEN="")

    assert done.returncode == 2
    assert "no token is set" in done.stderr


def test_the_default_port_of_the_dashboard_is_8765():
    help = subprocess.run(
        [sys.executable, "-P", "-m", "deepwork", "dashboard", "--help"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip

    assert "8765" in help


def test_open_starts_a_browser_with_a_link_that_works_once_and_has_no_token(tmp_path: Path):
    """The browser of this test is a program that writes down what it was asked for."""
    opened = tmp_path / "opened.txt"
    program = tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > "{opened}.part" && mv "{opened}.part" "{opened}"\n')
    program.chmod(0o755)
    project = tmp_path / "project"
    project.mkdir()

    with Dashboard(project, "--open", BROWSER=str(program)) as dashboard:
        assert _is_there(opened)
        link = opened.read_text()
        assert link.startswith(f"{dashboard.url}/?code=")
        assert dashboard.token not in link
        first, again = (dashboard.get(link.removeprefix(dashboard.url)) for _ in range(2))

        assert (first.status, again.status) == (303, 401)
        cookie = first.headers["set-cookie"].partition(";")[0]
        assert dashboard.get("/api/v1/me", Cookie=cookie).json["name"] == "owner"


def _is_there(file: Path) -> bool:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not file.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return file.exists()


@pytest.mark.parametrize("token", ["", TOKEN])
def test_a_configured_token_is_not_printed(tmp_path: Path, token: str):
    with Dashboard(tmp_path, token=token) as dashboard:
        assert (dashboard.token in dashboard.read_log()) is (not token)


def test_port_0_chooses_a_free_port_and_prints_it(tmp_path: Path):
    command = [*quick.build_command(), "dashboard", "--path", str(tmp_path), "--port", "0"]
    environment = {**os.environ, "DEEPWORK_TOKEN": ""}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        printed = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)(/\?token=\S+)", printed)
        assert found, printed
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=PATIENCE_SECONDS)
        connection.request("GET", found[2])
        answer = connection.getresponse()
        connection.close()
        process.terminate()

    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert answer.headers["set-cookie"].startswith(f"deepwork_{found[1]}=")
