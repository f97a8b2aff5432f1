"""The HTTP server, used by real clients."""

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
from deepwork.edge.server.http.guard import HEADERS
from http_tests.http_server import PATIENCE_SECONDS, TOKEN, HttpServer, McpSession, reserve_port
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
    with HttpServer(tmp_path, transport=transport) as server:
        anyio.run(work, server.url)
        assert server.stop() == 0


def send_request(server: HttpServer, method: str, path: str, headers: dict[str, str]) -> Any:
    if method != "WS":
        return server.request(method, path, headers, b"{}" if method == "POST" else None)
    upgrade = {
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }  # fmt: skip
    return server.request("GET", path, {**upgrade, **headers})


def test_the_right_token_is_accepted_on_every_route(tmp_path: Path):
    with HttpServer(tmp_path, token=TOKEN) as server:
        assert server.request("GET", "/api/v1/agents", server.bearer).status == 200
        assert server.request("GET", "/", server.bearer).status == 200
        assert server.request("GET", "/api/v1/agents/ag_x", server.bearer).status == 404
        assert send_request(server, "WS", "/ws", server.bearer).status == 101


def test_repeated_wrong_tokens_are_rate_limited(tmp_path: Path):
    with HttpServer(tmp_path, token=TOKEN) as server:
        statuses = [server.get("/api/v1/agents", Authorization="Bearer x").status for _ in range(10)]

        assert statuses == [401] * 10
        # A guess is given back every six seconds: on a slow machine the limit comes later.
        while (status := server.get("/api/v1/agents", Authorization="Bearer x").status) == 401:
            pass
        assert status == 429


def test_wrong_guesses_do_not_lock_out_other_callers(tmp_path: Path):
    with HttpServer(tmp_path) as server:
        for _ in range(12):
            server.get("/api/v1/agents", Authorization="Bearer x")
            server.get("/", Cookie=f"deepwork_{server.port}=of-another-day")

        assert server.get("/health").status == 200
        assert server.request("GET", "/api/v1/agents", server.bearer).status == 200
        assert McpSession(server).call(1, "agent_list", {})["total"] == 0


def test_every_response_has_the_security_headers(served: HttpServer):
    for path in ("/health", "/", "/api/v1/agents", "/nowhere", "/mcp"):
        for headers in ({}, served.bearer, {"Host": "evil.example"}):
            assert {name.lower() for name in HEADERS} <= set(served.request("GET", path, headers).headers)


def test_the_token_is_ignored_by_git_wherever_the_database_is(tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    with HttpServer(project, "--db", str(tmp_path / "elsewhere.db")) as server:
        assert server.token
    seen = subprocess.run(
        ["git", "status", "--porcelain", "-uall"], cwd=project, check=True, capture_output=True, text=True
    )

    assert "token" not in seen.stdout


def test_a_configured_token_is_not_printed(tmp_path: Path):
    with HttpServer(tmp_path, token=TOKEN) as server:
        assert TOKEN not in server.read_log()


def test_the_project_config_file_cannot_add_allowed_hosts(tmp_path: Path):
    (tmp_path / ".deepwork").mkdir()
    (tmp_path / ".deepwork" / "config.yml").write_text("allowed_hosts: [evil.example]\nhost: 0.0.0.0\n")

    with HttpServer(tmp_path) as server:
        assert server.get("/health", Host="evil.example").status == 421


def test_a_browser_logs_in_with_the_link_and_then_uses_its_cookie(served: HttpServer):
    answer = served.get(f"/?token={served.token}")
    cookie = answer.headers["set-cookie"]

    assert (answer.status, answer.headers["location"]) == (303, "/")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert served.token not in cookie
    assert b'<html lang="en">' in served.get("/", Cookie=cookie.partition(";")[0]).body
    assert served.get("/").status == 401


def test_the_token_is_generated_and_printed_once(served: HttpServer):
    assert served.read_log().count(served.token) == 1
    assert f"{served.url}/mcp" in served.read_log()


@pytest.mark.parametrize("host", ["0.0.0.0", "0", "::", ""])
def test_listening_on_all_interfaces_without_a_token_is_refused(tmp_path: Path, host: str):
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "deepwork", "serve", "--transport", "http", f"--host={host or ' '}", "--port", str(reserve_port())],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env={**os.environ, "DEEPWORK_TOKEN": ""},
    )  # fmt: skip

    assert ran.returncode == 2
    assert "DEEPWORK_TOKEN" in ran.stderr


def test_unreadable_requests_get_the_usual_error_format(served: HttpServer):
    session = McpSession(served)
    call = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"agent_list","arguments":%s}}'

    for arguments in (b'{"x":"\\ud800"}', b'{"x":NaN}', b"[1]"):
        answer = session.post(call % arguments).json
        assert answer["id"] == 7
        assert json.loads(answer["result"]["content"][0]["text"])["code"] == "INVALID_INPUT"
    assert session.post(b"garbage").json["error"]["code"] == -32700
    assert "agents" in session.call(8, "agent_list", {})


def test_an_oversized_request_is_refused_and_the_server_keeps_running(served: HttpServer):
    large = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"x": "y" * 5_000_000}}).encode()

    try:
        status = served.request("POST", "/mcp", {"Content-Type": "application/json"}, large).status
    except (ConnectionError, BrokenPipeError):  # it may hang up before it has heard everything
        status = 413

    assert status == 413
    assert served.get("/health").status == 200


def test_the_size_limit_applies_to_chunked_requests(served: HttpServer):
    head = f"POST /mcp HTTP/1.1\r\nHost: {served.host}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", served.port)) as raw:
        raw.sendall(head.encode())
        with suppress(ConnectionError):  # it may hang up before it has heard everything
            for _ in range(6):
                raw.sendall(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")

        assert raw.recv(64).startswith(b"HTTP/1.1 413")


def test_an_unknown_session_is_404_so_that_clients_start_a_new_one(served: HttpServer):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
    headers = {
        "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": "gone",
    }  # fmt: skip

    assert served.request("POST", "/mcp", headers, body).status == 404


def test_an_idempotency_key_header_applies_across_sessions(served: HttpServer):
    arguments, key = {"name": "Ada", "runtime": "codex"}, {"Idempotency-Key": "header-key"}

    ids = {McpSession(served).call(1, "agent_register", arguments, **key)["id"] for _ in range(3)}

    assert len(ids) == 1


@pytest.mark.timeout(600)
def test_sixteen_clients_with_the_same_ids_get_their_own_answers(served: HttpServer):
    def work(number: int) -> int:
        session = McpSession(served)
        agent = session.call(1, "agent_register", {"name": f"client {number}", "runtime": "custom"})["id"]
        for id in range(2, 314):
            answer = session.call(id, "agent_get", {"id": agent})
            assert answer["name"] == f"client {number}"
        return 312

    with ThreadPoolExecutor(16) as clients:
        assert sum(clients.map(work, range(16))) + 16 >= 5000


def test_a_call_is_complete_or_undone_if_the_client_disconnects(served: HttpServer):
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
    kept, told = compare_agents(served)

    assert told == kept
    assert 0 < len(kept) <= 60


def compare_agents(served: HttpServer) -> tuple[set[str], set[str]]:
    """Agents in the store and agents in the events, at a moment between two calls."""
    session = McpSession(served)
    while True:
        before, told, after = (
            list_stored_agents(session),
            list_emitted_agents(served),
            list_stored_agents(session),
        )
        if before == after:
            return after, told


def list_stored_agents(session: McpSession) -> set[str]:
    return filter_gone(session.call(1, "agent_list", {"limit": 1000})["agents"])


def list_emitted_agents(served: HttpServer) -> set[str]:
    return filter_gone(
        [event["data"] for event in list_events(served) if event["type"] == "agent:registered"]
    )


def filter_gone(agents: list[dict[str, Any]]) -> set[str]:
    return {agent["id"] for agent in agents if agent["name"].startswith("gone")}


def list_events(served: HttpServer) -> list[dict[str, Any]]:
    """All events so far, from the command line."""
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "deepwork", "events", "tail", "--since", "0", "--no-follow", "--json", "--path", str(served.project)],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True,
    )  # fmt: skip
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.timeout(600)
def test_a_thousand_sessions_leak_no_memory(tmp_path: Path):
    with HttpServer(tmp_path, command=PLAIN) as server, ThreadPoolExecutor(4) as clients:
        # Warm up with as many concurrent sessions as later: threads and their memory stay.
        list(clients.map(lambda _: open_and_close(server), range(200)))
        before = server.measure_memory()
        list(clients.map(lambda _: open_and_close(server), range(1000)))

        assert server.measure_memory() - before < 20 * 1024 * 1024


def open_and_close(server: HttpServer) -> None:
    session = McpSession(server)
    session.call(1, "agent_list", {})
    assert session.close() == 200


def test_a_caller_over_the_rate_limit_gets_429(tmp_path: Path):
    with HttpServer(tmp_path, "--rate-limit", "2") as server:
        statuses = [server.request("GET", "/api/v1/agents", server.bearer).status for _ in range(8)]

        assert statuses == [200] * 8, "a burst of four seconds"
        # Two more are allowed each second: on a slow machine the limit comes later.
        while (status := server.request("GET", "/api/v1/agents", server.bearer).status) == 200:
            pass
        assert status == 429


def test_pages_of_a_list_have_no_gaps_or_duplicates(served: HttpServer):
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
        page = served.get_json(f"/api/v1/agents?limit=3{cursor}")
        seen += [agent["id"] for agent in page["agents"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"
    first = served.get_json(f"/api/v1/messages?agent_id={ids[1]}&limit=3")
    second = served.get_json(f"/api/v1/messages?agent_id={ids[1]}&limit=3&cursor={first['cursor']}")

    assert len(seen) == len(set(seen)) == page["total"]
    assert set(ids) <= set(seen)
    assert [m["body"] for m in first["messages"] + second["messages"]] == ["m0", "m1", "m2", "m3", "m4"]
    one = served.get_json(f"/api/v1/messages/{first['messages'][0]['id']}")
    assert (one["body"], one["status"]) == ("m0", "unread")


def test_rest_errors_match_tool_errors(served: HttpServer):
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
        answer = served.request("GET", path, served.bearer)
        assert (answer.status, answer.json["code"]) == (status, code)
    assert served.request("POST", "/api/v1/agents", served.bearer, b"{}").status == 405


def test_the_openapi_document_is_consistent(served: HttpServer):
    described = served.get_json("/api/v1/openapi.json")

    text = json.dumps(described)
    for reference in re.findall(r'"\$ref": "#/components/schemas/(\w+)"', text):
        assert reference in described["components"]["schemas"]
    assert "$defs" not in text
    assert described["openapi"].startswith("3.1")
    assert {"/api/v1/agents", "/api/v1/agents/{id}", "/api/v1/messages", "/api/v1/events"} <= set(
        described["paths"]
    )


def test_a_server_stops_while_listeners_are_connected(tmp_path: Path):
    with HttpServer(tmp_path) as server:
        attached = threading.Event()
        following = threading.Thread(target=follow_until_cut, args=(server, attached), daemon=True)
        following.start()
        assert attached.wait(PATIENCE_SECONDS)
        assert server.stop() == 0
        following.join(timeout=PATIENCE_SECONDS)
        assert not following.is_alive()


def test_a_stream_that_an_mcp_client_holds_open_does_not_delay_the_end(tmp_path: Path):
    with HttpServer(tmp_path) as server:
        session = McpSession(server)
        head = f"GET /mcp HTTP/1.1\r\nHost: {server.host}\r\nAccept: text/event-stream\r\n"
        with socket.create_connection(("127.0.0.1", server.port)) as raw:
            raw.sendall(f"{head}Mcp-Session-Id: {session._headers['Mcp-Session-Id']}\r\n\r\n".encode())
            assert b"text/event-stream" in raw.recv(65536)

            assert server.stop() == 0

    assert "graceful shutdown exceeded" not in server.read_log()


def follow_until_cut(server: HttpServer, attached: threading.Event) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        raw.sendall(
            f"GET /api/v1/events?since=0 HTTP/1.1\r\nHost: {server.host}\r\nAuthorization: Bearer {server.token}\r\n\r\n".encode()
        )
        with suppress(ConnectionResetError):
            while raw.recv(65536):
                attached.set()


def test_a_token_that_came_in_an_archive_does_not_open_the_server(tmp_path: Path):
    known = f"dw_{'a' * 43}"
    (tmp_path / ".deepwork").mkdir(mode=0o700)
    (tmp_path / ".deepwork" / "token").write_text(f"{known}\n")
    (tmp_path / ".deepwork" / "token").chmod(0o600)

    with HttpServer(tmp_path) as server:
        refused = server.get("/api/v1/runs", Authorization=f"Bearer {known}")

        assert (refused.status, server.token != known) == (401, True)
        assert server.get("/api/v1/runs", **server.bearer).status == 200
        assert "not marked as yours" in server.read_log()
