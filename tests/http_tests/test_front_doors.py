"""The server on the network, asked by real clients."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StreamableHttpTransport

from application import make_app
from deepwork.server.http.guard import HEADERS
from http_tests.served import PATIENCE_SECONDS, TOKEN, McpSession, Served, free_port
from quick import PLAIN


@pytest.mark.parametrize(("transport", "era"), [("http", "legacy"), ("http", "auto"), ("sse", "legacy")])
def test_a_real_client_works_over_each_transport_and_era(tmp_path: Path, transport: str, era: Any):
    async def work(url: str) -> None:
        way = SSETransport(f"{url}/sse") if transport == "sse" else StreamableHttpTransport(f"{url}/mcp")
        async with Client(way, mode=era) as client:
            assert (client.protocol_version == "2026-07-28") is (era == "auto")
            assert [tool.name for tool in await client.list_tools()] == list(registry)
            meta = {"deepwork/idempotency-key": "once"}
            arguments = {"name": "Ada", "runtime": "codex"}
            first = await client.call_tool("agent_register", arguments, meta=meta)
            again = await client.call_tool("agent_register", arguments, meta=meta)
            refused = await client.call_tool("agent_get", {"id": "ag_x"}, raise_on_error=False)
            assert first.structured_content == again.structured_content
            assert json.loads(refused.content[0].text)["code"] == "AGENT_NOT_FOUND"

    registry = make_app(tmp_path, "unused.db").registry
    with Served(tmp_path, transport=transport) as server:
        anyio.run(work, server.url)
        assert server.stop() == 0


def asked(server: Served, method: str, path: str, headers: dict[str, str]) -> Any:
    if method != "WS":
        return server.ask(method, path, headers, b"{}" if method == "POST" else None)
    upgrade = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    return server.ask("GET", path, {**upgrade, **headers})


def test_the_right_token_opens_every_route(tmp_path: Path):
    with Served(tmp_path, token=TOKEN) as server:
        assert server.ask("GET", "/api/v1/agents", server.bearer).status == 200
        assert server.ask("GET", "/", server.bearer).status == 200
        assert server.ask("GET", "/api/v1/agents/ag_x", server.bearer).status == 404
        assert asked(server, "WS", "/ws", server.bearer).status == 101


def test_wrong_tokens_are_soon_not_even_looked_at(tmp_path: Path):
    with Served(tmp_path, token=TOKEN) as server:
        statuses = [server.get("/api/v1/agents", Authorization="Bearer x").status for _ in range(10)]

        assert statuses == [401] * 10
        # A guess is given back every six seconds: on a slow machine the limit comes later.
        while (status := server.get("/api/v1/agents", Authorization="Bearer x").status) == 401:
            pass
        assert status == 429


def test_guesses_lock_out_nobody_else(tmp_path: Path):
    with Served(tmp_path) as server:
        for _ in range(12):
            server.get("/api/v1/agents", Authorization="Bearer x")
            server.get("/", Cookie=f"deepwork_{server.port}=of-another-day")

        assert server.get("/health").status == 200
        assert server.ask("GET", "/api/v1/agents", server.bearer).status == 200
        assert McpSession(server).call(1, "agent_list", {})["total"] == 0


def test_every_answer_carries_the_headers(served: Served):
    for path in ("/health", "/", "/api/v1/agents", "/nowhere", "/mcp"):
        for headers in ({}, served.bearer, {"Host": "evil.example"}):
            assert {name.lower() for name in HEADERS} <= set(served.ask("GET", path, headers).headers)


def test_the_token_stays_out_of_git_wherever_the_database_is(tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    with Served(project, "--db", str(tmp_path / "elsewhere.db")) as server:
        assert server.token
    seen = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], cwd=project, check=True, capture_output=True, text=True
    )

    assert "token" not in seen.stdout


def test_a_token_that_was_set_is_not_printed(tmp_path: Path):
    with Served(tmp_path, token=TOKEN) as server:
        assert TOKEN not in server.log()


def test_a_repository_cannot_open_the_guard(tmp_path: Path):
    (tmp_path / ".deepwork").mkdir()
    (tmp_path / ".deepwork" / "config.yml").write_text("allowed_hosts: [evil.example]\nhost: 0.0.0.0\n")

    with Served(tmp_path) as server:
        assert server.get("/health", Host="evil.example").status == 421


def test_a_browser_logs_in_by_the_link_and_then_by_its_cookie(served: Served):
    answer = served.get(f"/?token={served.token}")
    cookie = answer.headers["set-cookie"]

    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert served.token not in cookie
    assert b'<html lang="en">' in served.get("/", Cookie=cookie.partition(";")[0]).body
    assert served.get("/").status == 401


def test_the_token_is_made_and_printed_once(served: Served):
    assert served.log().count(served.token) == 1
    assert f"{served.url}/mcp" in served.log()


@pytest.mark.parametrize("host", ["0.0.0.0", "0", "::", ""])
def test_listening_to_everybody_without_a_token_is_refused(tmp_path: Path, host: str):
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "deepwork", "serve", "--transport", "http", f"--host={host or ' '}", "--port", str(free_port())],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env={**os.environ, "DEEPWORK_TOKEN": ""},
    )  # fmt: skip

    assert ran.returncode == 2
    assert "DEEPWORK_TOKEN" in ran.stderr


def test_unreadable_requests_are_answered_in_our_form(served: Served):
    session = McpSession(served)
    call = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"agent_list","arguments":%s}}'

    for arguments in (b'{"x":"\\ud800"}', b'{"x":NaN}', b"[1]"):
        answer = session.post(call % arguments).json
        assert answer["id"] == 7
        assert json.loads(answer["result"]["content"][0]["text"])["code"] == "INVALID_INPUT"
    assert session.post(b"garbage").json["error"]["code"] == -32700
    assert "agents" in session.call(8, "agent_list", {})


def test_a_request_over_the_limit_is_refused_and_the_server_goes_on(served: Served):
    large = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"x": "y" * 5_000_000}}).encode()

    try:
        status = served.ask("POST", "/mcp", {"Content-Type": "application/json"}, large).status
    except (ConnectionError, BrokenPipeError):  # it may hang up before it has heard everything
        status = 413

    assert status == 413
    assert served.get("/health").status == 200


def test_a_request_that_does_not_say_how_large_it_is_meets_the_limit_too(served: Served):
    head = f"POST /mcp HTTP/1.1\r\nHost: {served.host}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port)) as raw:
        raw.sendall(head.encode())
        with suppress(ConnectionError):  # it may hang up before it has heard everything
            for _ in range(6):
                raw.sendall(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")

        assert raw.recv(64).startswith(b"HTTP/1.1 413")


def test_an_unknown_session_is_404_so_that_clients_begin_anew(served: Served):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    headers = {
        "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": "gone",
    }  # fmt: skip

    assert served.ask("POST", "/mcp", headers, body).status == 404


def test_a_key_in_the_header_counts_across_sessions(served: Served):
    arguments, key = {"name": "Ada", "runtime": "codex"}, {"Idempotency-Key": "header-key"}

    ids = {McpSession(served).call(1, "agent_register", arguments, **key)["id"] for _ in range(3)}

    assert len(ids) == 1


@pytest.mark.timeout(600)
def test_sixteen_clients_with_the_same_ids_get_their_own_answers(served: Served):
    def work(number: int) -> int:
        session = McpSession(served)
        agent = session.call(1, "agent_register", {"name": f"client {number}", "runtime": "custom"})["id"]
        for id in range(2, 314):
            answer = session.call(id, "agent_get", {"id": agent})
            assert answer["name"] == f"client {number}"
        return 312

    with ThreadPoolExecutor(16) as clients:
        assert sum(clients.map(work, range(16))) + 16 >= 5000


def test_a_client_that_hangs_up_leaves_a_call_whole_or_undone(served: Served):
    session = McpSession(served)
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: {served.host}\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\n"
        f"Mcp-Session-Id: {session._headers['Mcp-Session-Id']}\r\n"
    )
    for number in range(60):
        params = {"name": "agent_register", "arguments": {"name": f"gone {number}", "runtime": "custom"}}
        body = json.dumps({"jsonrpc": "2.0", "id": 100 + number, "method": "tools/call", "params": params})
        with socket.create_connection(("127.0.0.1", served.port)) as raw:
            raw.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            time.sleep(0.001 * (number % 8))
            if number == 59:
                raw.recv(1)  # at least one call is done, however busy the machine is
    kept, told = seen_alike(served)

    assert told == kept
    assert 0 < len(kept) <= 60


def seen_alike(served: Served) -> tuple[set[str], set[str]]:
    """Agents that are kept and those that events tell of, at a moment between two calls."""
    session = McpSession(served)
    while True:
        before, told, after = kept_agents(session), told_agents(served), kept_agents(session)
        if before == after:
            return after, told


def kept_agents(session: McpSession) -> set[str]:
    return named_gone(session.call(1, "agent_list", {"limit": 1000})["agents"])


def told_agents(served: Served) -> set[str]:
    return named_gone([event["data"] for event in everything(served) if event["type"] == "agent:registered"])


def named_gone(agents: list[dict[str, Any]]) -> set[str]:
    return {agent["id"] for agent in agents if agent["name"].startswith("gone")}


def everything(served: Served) -> list[dict[str, Any]]:
    """All events so far, from the command line."""
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "deepwork", "events", "tail", "--since", "0", "--no-follow", "--json", "--path", str(served.project)],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.timeout(600)
def test_a_thousand_sessions_leave_nothing_behind(tmp_path: Path):
    with Served(tmp_path, command=PLAIN) as server, ThreadPoolExecutor(4) as clients:
        # First as many at once as later: threads and their memory stay.
        list(clients.map(lambda _: open_and_close(server), range(200)))
        before = server.memory()
        list(clients.map(lambda _: open_and_close(server), range(1000)))

        assert server.memory() - before < 20 * 1024 * 1024


def open_and_close(server: Served) -> None:
    session = McpSession(server)
    session.call(1, "agent_list", {})
    assert session.close() == 200


def test_a_busy_caller_is_asked_to_wait(tmp_path: Path):
    with Served(tmp_path, "--rate-limit", "2") as server:
        statuses = [server.ask("GET", "/api/v1/agents", server.bearer).status for _ in range(8)]

        assert statuses == [200] * 8, "a burst of four seconds"
        # Two more are allowed each second: on a slow machine the limit comes later.
        while (status := server.ask("GET", "/api/v1/agents", server.bearer).status) == 200:
            pass
        assert status == 429


def test_pages_of_a_list_join_without_gap_or_double(served: Served):
    session = McpSession(served)
    ids = [
        session.call(n, "agent_register", {"name": f"page {n}", "runtime": "custom"})["id"] for n in range(7)
    ]
    for number in range(5):
        session.call(
            number, "message_send",
            {"sender_id": ids[0], "recipient_id": ids[1], "message_type": "query", "body": f"m{number}"},
        )  # fmt: skip

    seen, cursor = [], ""
    while True:
        page = served.read(f"/api/v1/agents?limit=3{cursor}")
        seen += [agent["id"] for agent in page["agents"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"
    first = served.read(f"/api/v1/messages?agent_id={ids[1]}&limit=3")
    second = served.read(f"/api/v1/messages?agent_id={ids[1]}&limit=3&cursor={first['cursor']}")

    assert len(seen) == len(set(seen)) == page["total"]
    assert set(ids) <= set(seen)
    assert [m["body"] for m in first["messages"] + second["messages"]] == ["m0", "m1", "m2", "m3", "m4"]
    one = served.read(f"/api/v1/messages/{first['messages'][0]['id']}")
    assert (one["body"], one["status"]) == ("m0", "unread")


def test_rest_errors_are_the_errors_of_the_tools(served: Served):
    for path, status, code in [
        ("/api/v1/agents/ag_x", 404, "AGENT_NOT_FOUND"),
        ("/api/v1/messages", 400, "INVALID_INPUT"),
        ("/api/v1/messages?agent_id=ag_x", 404, "AGENT_NOT_FOUND"),
        ("/api/v1/agents?limit=0", 400, "INVALID_INPUT"),
        ("/api/v1/agents?colour=red", 400, "INVALID_INPUT"),
        ("/api/v1/events?since=soon", 400, "INVALID_INPUT"),
        ("/api/v1/events?since=" + "9" * 5000, 400, "INVALID_INPUT"),
        ("/api/v1/events?sinc=5", 400, "INVALID_INPUT"),
        ("/api/v1/agents?runtime=%00", 400, "INVALID_INPUT"),
    ]:
        answer = served.ask("GET", path, served.bearer)
        assert (answer.status, answer.json["code"]) == (status, code)
    assert served.ask("POST", "/api/v1/agents", served.bearer, b"{}").status == 405


def test_the_interface_is_described(served: Served):
    described = served.read("/api/v1/openapi.json")

    text = json.dumps(described)
    for reference in re.findall(r'"\$ref": "#/components/schemas/(\w+)"', text):
        assert reference in described["components"]["schemas"]
    assert "$defs" not in text
    assert described["openapi"].startswith("3.1")
    assert {"/api/v1/agents", "/api/v1/agents/{id}", "/api/v1/messages", "/api/v1/events"} <= set(
        described["paths"]
    )


def test_a_server_that_is_told_to_stop_does_so_with_listeners_attached(tmp_path: Path):
    with Served(tmp_path) as server:
        attached = threading.Event()
        following = threading.Thread(target=follow_until_cut, args=(server, attached), daemon=True)
        following.start()
        assert attached.wait(PATIENCE_SECONDS)
        assert server.stop() == 0
        following.join(timeout=PATIENCE_SECONDS)
        assert not following.is_alive()


def follow_until_cut(server: Served, attached: threading.Event) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(
            f"GET /api/v1/events?since=0 HTTP/1.1\r\nHost: {server.host}\r\nAuthorization: Bearer {server.token}\r\n\r\n".encode()
        )
        with suppress(ConnectionResetError):
            while raw.recv(65536):
                attached.set()
