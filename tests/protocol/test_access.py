"""Tokens, scopes and the audit log, tested with real requests to a real server."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastmcp import Client
from fastmcp.client.transports import SSETransport, StreamableHttpTransport

from access.make import call_token_tool, list_entries, make_token
from application import make_app
from deepwork.edge.server.application import Application
from deepwork.gates.access.models import Scope, get_required_scope, parse_token
from deepwork.gates.access.token_cache import CACHE_SECONDS
from http_tests.http_server import PATIENCE_SECONDS, HttpServer
from protocol.token_session import TokenSession

OWNER = "the-owners-own-token-for-these-tests"
SCOPES = [scope.value for scope in Scope]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server that wants a token of everybody."""
    folder = Path(tmp_path_factory.mktemp("project"))
    with HttpServer(folder, "--log-level", "debug", token=OWNER) as server:
        yield server


@pytest.fixture(scope="module")
def app(served: HttpServer) -> Iterator[Application]:
    """The same store from another process, as the command line has it."""
    made = make_app(served.project, str(served.project / ".deepwork" / "deepwork.db"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def tokens(app: Application) -> dict[str, str]:
    return {scope: make_token(app, f"the-{scope}", scope)[0] for scope in SCOPES}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def get_secret(token: str) -> str:
    """Return the secret part of a token, which may contain letters and `_`."""
    parts = parse_token(token)
    assert parts is not None
    return parts[1]


def is_unauthorized(answer: Any) -> bool:
    return isinstance(answer, dict) and answer.get("code") == "UNAUTHORIZED"


# Scopes


@pytest.mark.parametrize("scope", SCOPES)
def test_every_tool_requires_its_scope(
    served: HttpServer, app: Application, tokens: dict[str, str], scope: str
):
    """Each scope against every tool of the registry, called with nothing: the scope is asked for first."""
    holder = TokenSession(served, tokens[scope])

    for name, spec in app.registry.items():
        wanted = get_required_scope(spec.declaration, {})
        answer = holder.call(name)
        assert is_unauthorized(answer) is not Scope(scope).covers(wanted), (name, answer)
        if is_unauthorized(answer):
            assert answer["message"] == f"This call needs the scope {wanted}."
            assert holder.result(name)["isError"] is True


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_only_callable_tools_are_listed(
    served: HttpServer, app: Application, tokens: dict[str, str], scope: str, era: Any
):
    async def listed() -> list[str]:
        way = StreamableHttpTransport(f"{served.url}/mcp", headers=bearer(tokens[scope]))
        async with Client(way, mode=era) as client:
            return [tool.name for tool in await client.list_tools()]

    forms: list[dict[str, Any]] = [{}, {"mark_read": False}, {"force": True}]
    callable_ = [
        name
        for name, spec in app.registry.items()
        if any(Scope(scope).covers(get_required_scope(spec.declaration, form)) for form in forms)
    ]
    assert anyio.run(listed) == callable_


def test_the_owner_and_a_local_caller_see_everything(served: HttpServer, app: Application, tmp_path: Path):
    assert TokenSession(served, OWNER).list_tools() == list(app.registry)
    with HttpServer(tmp_path) as open_server:
        assert TokenSession(open_server, None).list_tools() == list(app.registry)


@pytest.mark.parametrize("force", [True, "true", 1, "yes"])
def test_every_spelling_of_force_needs_admin(served: HttpServer, tokens: dict[str, str], force: Any):
    given = {"id": "wf_none00000000", "status": "failed", "force": force}

    refused = TokenSession(served, tokens["work"]).call("workflow_update_status", given)

    assert refused["message"] == "This call needs the scope admin."
    assert (
        TokenSession(served, tokens["admin"]).call("workflow_update_status", given)["code"]
        == "WORKFLOW_NOT_FOUND"
    )


def test_a_read_token_can_get_a_message_only_without_marking_it_read(
    served: HttpServer, tokens: dict[str, str]
):
    worker, reader = TokenSession(served, tokens["work"]), TokenSession(served, tokens["read"])
    id = worker.call("agent_register", {"name": "Ada", "runtime": "codex"})["id"]
    sent = worker.call(
        "message_send", {"sender_id": id, "recipient_id": id, "message_type": "query", "body": "hi"}
    )

    assert is_unauthorized(reader.call("message_get", {"id": sent["id"]}))
    assert reader.call("message_get", {"id": sent["id"], "mark_read": False})["status"] == "unread"


def test_over_rest_every_scope_can_read_and_the_read_scope_cannot_write(
    served: HttpServer, tokens: dict[str, str]
):
    for scope in SCOPES:
        assert served.request("GET", "/api/v1/agents", bearer(tokens[scope])).status == 200
    refused = served.request("POST", "/api/v1/agents", bearer(tokens["read"]), b"{}")
    assert (refused.status, refused.json["code"]) == (403, "UNAUTHORIZED")
    assert 'error="insufficient_scope", scope="work"' in refused.headers["www-authenticate"]
    assert served.request("POST", "/api/v1/agents", bearer(tokens["work"]), b"{}").status == 405


# Agents belong to the token that registered them


ACTS = [
    ("agent_heartbeat", lambda agent: {"agent_id": agent}),
    ("agent_heartbeat", lambda agent: {"agent_id": f"  {agent} "}),
    ("agent_update", lambda agent: {"id": agent, "status": "busy"}),
    ("agent_unregister", lambda agent: {"id": agent}),
    ("task_claim", lambda agent: {"task_id": "tk_none00000000", "agent_id": agent}),
    ("task_release", lambda agent: {"task_id": "tk_none00000000", "agent_id": agent}),
    ("task_update_status", lambda agent: {"id": "tk_none00000000", "status": "in_progress", "agent_id": agent}),
    ("checkpoint_add", lambda agent: {"task_id": "tk_1", "type": "progress", "summary": "s", "agent_id": agent}),
    ("message_send", lambda agent: {"sender_id": agent, "recipient_id": agent, "message_type": "query", "body": "b"}),
    ("message_broadcast", lambda agent: {"sender_id": agent, "message_type": "notification", "body": "b"}),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "arguments"), ACTS)
def test_acting_for_an_agent_of_another_token_is_refused(
    served: HttpServer, app: Application, tokens: dict[str, str], tool: str, arguments: Any
):
    mine = TokenSession(served, tokens["work"])
    id = mine.call("agent_register", {"name": "Ada", "runtime": "codex"})["id"]
    name = f"other-{len(list_entries(app))}"
    other = TokenSession(served, make_token(app, name)[0])

    refused = other.call(tool, arguments(id))

    assert is_unauthorized(refused)
    assert "the-work" not in str(refused)
    assert other.call("agent_get", {"id": id})["status"] == "online"
    assert not is_unauthorized(mine.call(tool, arguments(id)))
    assert not is_unauthorized(TokenSession(served, tokens["admin"]).call(tool, arguments(id)))


def test_an_unregistered_agent_is_reported_as_unknown(served: HttpServer, tokens: dict[str, str]):
    refused = TokenSession(served, tokens["work"]).call("agent_heartbeat", {"agent_id": "ag_none00000000"})

    assert refused["code"] == "AGENT_NOT_FOUND"


def test_a_new_token_of_the_same_name_keeps_its_agents(served: HttpServer, app: Application):
    first = TokenSession(served, make_token(app, "rotated")[0])
    id = first.call("agent_register", {"name": "Ada", "runtime": "codex"})["id"]
    call_token_tool(app, "token_revoke", name="rotated")

    again = TokenSession(served, make_token(app, "rotated")[0])

    assert "next_heartbeat_ms" in again.call("agent_heartbeat", {"agent_id": id})


def test_without_tokens_any_client_can_act_for_any_agent(tmp_path: Path):
    with HttpServer(tmp_path) as server:
        id = TokenSession(server, None).call("agent_register", {"name": "Ada", "runtime": "codex"})["id"]

        assert "next_heartbeat_ms" in TokenSession(server, None).call("agent_heartbeat", {"agent_id": id})


# Sessions belong to the token that opened them


def test_a_session_cannot_be_used_with_another_token(
    served: HttpServer, app: Application, tokens: dict[str, str]
):
    opened = TokenSession(served, tokens["work"])
    ask = {"id": 1, "method": "tools/call", "params": {"name": "agent_list", "arguments": {}}}

    for token in (tokens["admin"], tokens["read"], OWNER, make_token(app, "thief")[0]):
        assert TokenSession(served, token, opened.session).post(ask).status == 404
    assert TokenSession(served, None, opened.session).post(ask).status == 401
    assert opened.post(ask).status == 200


def test_a_session_opened_with_a_token_cannot_be_used_without_it_or_vice_versa(tmp_path: Path):
    with HttpServer(tmp_path) as server:
        app = make_app(tmp_path, str(tmp_path / ".deepwork" / "deepwork.db"))
        token = make_token(app, "ci")[0]
        app.close()
        ask = {"id": 1, "method": "tools/list", "params": {}}

        assert TokenSession(server, None, TokenSession(server, token).session).post(ask).status == 404
        assert TokenSession(server, token, TokenSession(server, None).session).post(ask).status == 404


def test_an_sse_session_cannot_be_used_with_another_token(tmp_path: Path):
    body = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {}}).encode()
    kind = {"Content-Type": "application/json"}
    with HttpServer(tmp_path, transport="sse", token=OWNER) as server:
        app = make_app(tmp_path, str(tmp_path / ".deepwork" / "deepwork.db"))
        mine, other = make_token(app, "mine")[0], make_token(app, "other")[0]
        app.close()
        with open_request(server, "/sse", mine) as stream:
            heard = read_until(stream, b"session_id=")
            heard += b"" if heard.endswith(b"\n") else read_until(stream, b"\n")
            [found] = re.findall(rb"data: (\S+session_id=[0-9a-f]+)", heard)
            path = found.decode()

            assert server.request("POST", path, bearer(other) | kind, body).status in {403, 404}
            assert server.request("POST", path, bearer(OWNER) | kind, body).status in {403, 404}
            assert server.request("POST", path, bearer(mine) | kind, body).status == 202


def test_a_real_client_works_over_sse_with_a_named_token(tmp_path: Path):
    async def work(url: str, token: str) -> None:
        async with Client(SSETransport(f"{url}/sse", headers=bearer(token))) as client:
            assert (await client.call_tool("agent_list", {})).structured_content == {"agents": [], "total": 0}

    with HttpServer(tmp_path, transport="sse", token=OWNER) as server:
        app = make_app(tmp_path, str(tmp_path / ".deepwork" / "deepwork.db"))
        token = make_token(app, "ci", "read")[0]
        app.close()
        anyio.run(work, server.url, token)


# Hostile


def test_invalid_tokens_are_refused(tmp_path: Path):
    """At a server of its own, where it uses up the guesses."""
    app = make_app(tmp_path, str(tmp_path / ".deepwork" / "deepwork.db"))
    with HttpServer(tmp_path, token=OWNER) as server:
        _try_what_is_no_valid_token(server, app)
    app.close()


def _try_what_is_no_valid_token(served: HttpServer, app: Application) -> None:
    text, id, secret = make_token(app, "victim")
    expired, _, _ = make_token(app, "expired", expires_days=1)
    with app.database.transaction() as tx:
        tx.execute("UPDATE tokens SET expires_at = 1 WHERE name = 'expired'")
    wrong = [
        expired, f"dw_{id}_{'x' * 43}", f"dw_{'0' * 12}_{secret}", f"dw_%_{secret}", f"dw_{id[:-1]}%_{secret}",
        f"dw_{id}", id, secret, text + "x", text[:-1], text.upper(), f"dw_{id}_{secret} x",
    ]  # fmt: skip

    for number, token in enumerate(wrong):
        refused = served.request("GET", "/api/v1/agents", bearer(token))
        # After ten the limit on guesses speaks first; some may be given back while we try.
        assert refused.status in ({401} if number < 10 else {401, 429}), token
        assert secret not in refused.body.decode()
    assert served.request("GET", "/api/v1/agents", bearer(text)).status == 200


def test_a_token_with_a_nul_is_refused(served: HttpServer, app: Application):
    _, _, secret = make_token(app, "nul")
    with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_SECONDS) as wire:
        wire.sendall(
            b"GET /api/v1/agents HTTP/1.1\r\nHost: " + served.host.encode()
            + b"\r\nAuthorization: Bearer dw_\0_" + secret.encode() + b"\r\nConnection: close\r\n\r\n"
        )  # fmt: skip
        status = wire.recv(4096).split(b" ")[1]

    assert status in {b"400", b"401", b"429"}


def test_a_token_in_the_query_is_accepted_only_for_logging_in(served: HttpServer, tokens: dict[str, str]):
    token = tokens["read"]
    for path in ("/api/v1/agents", "/mcp", "/ws", "/api/v1/events", "/x"):
        assert served.get(f"{path}?token={token}").status == 401

    logged_in = served.get(f"/?token={token}")

    assert (logged_in.status, logged_in.headers["location"]) == (303, "/")
    cookie = logged_in.headers["set-cookie"].partition(";")[0]
    assert token not in str(logged_in)
    assert get_secret(token) not in cookie
    assert served.get("/api/v1/agents", Cookie=cookie).status == 200
    assert served.get("/api/v1/agents", Cookie=cookie[:-1] + "x").status == 401
    own = {"Cookie": cookie, "Origin": served.url}
    assert served.request("POST", "/api/v1/agents", own, b"{}").status == 403


def test_a_cookie_is_refused_after_its_token_is_revoked(served: HttpServer, app: Application):
    text = make_token(app, "browser", "read")[0]
    cookie = served.get(f"/?token={text}").headers["set-cookie"].partition(";")[0]
    assert served.get("/api/v1/agents", Cookie=cookie).status == 200

    call_token_tool(app, "token_revoke", name="browser")
    time.sleep(CACHE_SECONDS + 0.1)

    assert served.get("/api/v1/agents", Cookie=cookie).status == 401


def test_a_token_revoked_by_another_process_is_refused_without_a_restart(
    served: HttpServer, app: Application
):
    text = make_token(app, "short")[0]
    holder = TokenSession(served, text)
    assert holder.call("agent_list")

    call_token_tool(app, "token_revoke", name="short")
    time.sleep(CACHE_SECONDS + 0.1)

    assert holder.post({"id": 1, "method": "tools/list", "params": {}}).status == 401


def open_request(served: HttpServer, path: str, token: str, **headers: str) -> socket.socket:
    """An open connection on which this was asked for."""
    connection = socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_SECONDS)
    lines = {"Host": served.host, "Authorization": f"Bearer {token}", **headers}
    told = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    connection.sendall(f"GET {path} HTTP/1.1\r\n{told}\r\n".encode())
    return connection


def read_until(connection: socket.socket, end: bytes) -> bytes:
    heard = b""
    while end not in heard:
        more = connection.recv(4096)
        assert more, heard
        heard += more
    return heard


def read_frame(ws: socket.socket) -> bytes:
    """The next frame that is no ping: a server that has waited for a while sends those."""
    heard = b""
    while True:
        while len(heard) < 2 or len(heard) < 2 + heard[1]:
            more = ws.recv(4096)
            assert more, heard
            heard += more
        if heard[0] != 0x89:
            return heard
        heard = heard[2 + heard[1] :]


def test_silent_streams_end_when_their_token_is_revoked(served: HttpServer, app: Application):
    text = make_token(app, "listener", "read")[0]
    upgrade = {
        "Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Version": "13",
        "Sec_WebSocket_Key": base64.b64encode(os.urandom(16)).decode(),
    }  # fmt: skip
    # From a number on: whenever the server begins to listen, what comes after it is sent.
    since = f"since={app.feed.get_last_seq()}"
    session = {"Mcp_Session_Id": TokenSession(served, text).session, "Accept": "text/event-stream"}
    with (
        open_request(served, f"/ws?{since}", text, **upgrade) as ws,
        open_request(served, f"/api/v1/events?{since}", text) as events,
        open_request(served, "/mcp", text, **session) as answers,
    ):
        assert b" 101 " in read_until(ws, b"\r\n\r\n")
        read_until(events, b": deepwork\n\n")
        read_until(answers, b"\r\n\r\n")

        call_token_tool(app, "token_revoke", name="listener")

        # Nothing happens meanwhile: the streams end although there is nothing to send.
        frame = read_frame(ws)
        assert (frame[0], frame[2:4]) == (0x88, (1008).to_bytes(2, "big"))
        read_until(events, b"0\r\n\r\n")
        read_until(answers, b"0\r\n\r\n")
    assert not served.read_log().count("Traceback")


def test_requests_without_a_named_token_do_not_open_the_database(tmp_path: Path):
    with HttpServer(tmp_path, token=OWNER) as server:
        for headers in (
            {},
            bearer(OWNER),
            bearer("wrong"),
            bearer("dw_x"),
            {"Cookie": f"deepwork_{server.port}=a.b"},
        ):
            server.request("GET", "/", headers)

        assert not (tmp_path / ".deepwork" / "deepwork.db").exists()
        server.request("GET", "/", bearer(f"dw_{'0' * 12}_{'x' * 43}"))
        assert (tmp_path / ".deepwork" / "deepwork.db").exists()


# The record


def test_the_audit_log_names_the_token(served: HttpServer, app: Application, tokens: dict[str, str]):
    before = len(list_entries(app))
    TokenSession(served, tokens["work"]).call("agent_register", {"name": "Ada", "runtime": "codex"})
    TokenSession(served, tokens["read"]).call("agent_register", {"name": "Ada", "runtime": "codex"})
    TokenSession(served, OWNER).call("agent_register", {"name": "Ada"})

    entries = [link.entry for link in list_entries(app)[before:]]

    assert [(each.account, each.caller, each.tool, each.outcome) for each in entries] == [
        ("the-work", "the-work", "agent_register", "done"),
        ("the-read", "the-read", "agent_register", "UNAUTHORIZED"),
        ("owner", "owner", "agent_register", "INVALID_INPUT"),
    ]


def test_no_token_is_in_the_log_the_audit_log_or_the_process_list(
    served: HttpServer, app: Application, tokens: dict[str, str]
):
    holder = TokenSession(served, tokens["work"])
    holder.call("agent_register", {"name": tokens["work"], "runtime": tokens["admin"]})
    served.get(f"/?token={tokens['read']}")
    served.get(f"/api/v1/agents?token={tokens['read']}")
    served.request("GET", "/api/v1/nowhere", bearer(tokens["admin"]))
    command = Path(f"/proc/{served.process.pid}/cmdline").read_bytes().decode()
    told = served.read_log() + str(list_entries(app)) + command

    for secret in (*map(get_secret, tokens.values()), OWNER):
        assert secret not in told
    assert "tool=agent_register" in served.read_log()
