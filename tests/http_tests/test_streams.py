"""Events over a WebSocket and as server-sent events: each once, in order, from every process."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from cli.run import run_deepwork
from deepwork.edge.server.http.connections import STALL_SECONDS
from http_tests.http_server import PATIENCE_SECONDS, HttpServer, McpSession
from protocol.stdio_server import StdioServer


def listen(served: HttpServer, query: str = "", **more: Any) -> ClientConnection:
    # No pings of our own: a server on a busy machine may be late with its answer.
    made: ClientConnection = connect(
        f"ws://{served.host}/ws{query}",
        additional_headers=served.bearer,
        proxy=None,
        ping_interval=None,
        **more,
    )
    return made


def take(socket: ClientConnection, count: int) -> list[dict[str, Any]]:
    return [json.loads(socket.recv(timeout=PATIENCE_SECONDS)) for _ in range(count)]


def emit(session: McpSession, count: int, name: str = "x") -> None:
    """Each registration is one event."""
    for number in range(count):
        session.call(number, "agent_register", {"name": f"{name} {number}", "runtime": "custom"})


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[HttpServer]:
    with HttpServer(tmp_path) as server:
        yield server


def test_events_arrive_as_they_happen(fresh: HttpServer):
    session = McpSession(fresh)
    with listen(fresh) as socket:
        first, emitted = emit_until_heard(session, socket)
        emit(session, 3)

        events = [first, *take(socket, emitted + 3 - first["seq"])]

    assert [event["seq"] for event in events] == list(range(first["seq"], emitted + 4))
    assert set(events[0]) == {"seq", "type", "ts", "workflow_id", "data"}
    assert events[0]["type"] == "agent:registered"


def emit_until_heard(session: McpSession, socket: ClientConnection) -> tuple[dict[str, Any], int]:
    """The first event that arrives and how many were emitted: the server may begin to listen a moment later."""
    for emitted in range(1, 1000):
        emit(session, 1)
        try:
            return json.loads(socket.recv(timeout=0.5)), emitted
        except TimeoutError:
            continue
    pytest.fail("Nothing arrives.")


def test_missed_events_are_sent_first(fresh: HttpServer):
    emit(McpSession(fresh), 5)

    with listen(fresh, "?since=2") as socket:
        emit(McpSession(fresh), 1)

        assert [event["seq"] for event in take(socket, 4)] == [3, 4, 5, 6]


def test_a_subscription_can_be_limited_to_one_workflow_and_changed(fresh: HttpServer):
    session = McpSession(fresh)
    ids = [session.call(n, "agent_register", {"name": f"a{n}", "runtime": "custom"})["id"] for n in range(2)]
    for number in range(4):
        session.call(
            number, "message_send",
            {
                "sender_id": ids[0], "recipient_id": ids[1], "message_type": "query", "body": str(number),
                "workflow_id": f"tw_{number % 2}",
            },
        )  # fmt: skip

    with listen(fresh, "?since=0&workflow_id=tw_0") as socket:
        assert [event["data"]["body"] for event in take(socket, 2)] == ["0", "2"]
        socket.send(json.dumps({"type": "subscribe", "workflow_id": "tw_1", "since": 0}))
        assert [event["data"]["body"] for event in take(socket, 2)] == ["1", "3"]


def test_events_of_a_stdio_server_and_of_the_command_line_arrive_too(fresh: HttpServer):
    with listen(fresh, "?since=0") as socket, StdioServer(fresh.project) as wire:
        wire.call("agent_register", {"name": "over stdio", "runtime": "custom"})
        run_deepwork(fresh.project, "agents", "register", "by hand", "custom")

        assert [event["data"]["name"] for event in take(socket, 2)] == ["over stdio", "by hand"]


def test_a_start_in_the_future_requires_a_resync(fresh: HttpServer):
    emit(McpSession(fresh), 2)

    with listen(fresh, "?since=99") as socket:
        assert take(socket, 1) == [{"type": "resync_required", "since": 99, "resume_at": 2}]
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("said", ["hello", "{}", '{"type": "subscribe", "since": "soon"}', "[1]"])
def test_an_invalid_message_closes_the_connection_with_a_reason(fresh: HttpServer, said: str):
    with listen(fresh) as socket:
        socket.send(said)
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=PATIENCE_SECONDS)

    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008
    assert closed.value.rcvd.reason


def test_pages_of_other_sites_get_no_websocket(fresh: HttpServer):
    for headers, status in [({"Origin": "http://evil.example", **fresh.bearer}, 403), ({}, 401)]:
        with pytest.raises(InvalidStatus) as refused:
            connect(f"ws://{fresh.host}/ws", additional_headers=headers, proxy=None)
        assert refused.value.response.status_code == status


def test_the_dashboards_own_page_gets_a_websocket_with_its_cookie(fresh: HttpServer):
    cookie = fresh.get(f"/?token={fresh.token}").headers["set-cookie"].partition(";")[0]

    with connect(
        f"ws://{fresh.host}/ws?since=0",
        additional_headers={"Cookie": cookie, "Origin": fresh.url},
        proxy=None,
    ) as socket:
        emit(McpSession(fresh), 1)
        assert take(socket, 1)[0]["seq"] == 1


@pytest.mark.timeout(600)
def test_slow_and_reconnecting_listeners_of_two_servers_get_every_event_once(tmp_path: Path):
    total = 1600
    with HttpServer(tmp_path) as one, HttpServer(tmp_path) as other:
        seen: dict[str, list[int]] = {"steady": [], "slow": [], "reconnecting": []}

        def steady() -> None:
            with listen(one, "?since=0") as socket:
                seen["steady"] = [event["seq"] for event in take(socket, total)]

        def slow() -> None:
            # Reads little and late: far more waits for it than the server keeps in memory for anybody.
            with listen(other, "?since=0", max_queue=1) as socket:
                time.sleep(STALL_SECONDS / 5)
                for _ in range(total):
                    seen["slow"].append(json.loads(socket.recv(timeout=PATIENCE_SECONDS))["seq"])

        def reconnecting() -> None:
            while len(seen["reconnecting"]) < total:
                last = seen["reconnecting"][-1] if seen["reconnecting"] else 0
                # It leaves while more is on its way: one that stopped reading would not read the answer to its goodbye.
                with listen(one, f"?since={last}", max_queue=None) as socket:
                    count = min(97, total - len(seen["reconnecting"]))
                    seen["reconnecting"] += [event["seq"] for event in take(socket, count)]

        threads = [threading.Thread(target=target) for target in (steady, slow, reconnecting)]
        threads += [
            threading.Thread(target=emit, args=(McpSession(server), total // 4, "busy"))
            for server in (one, other, one, other)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=500)

    expected = list(range(1, total + 1))
    assert seen["steady"] == expected
    assert seen["slow"] == expected
    assert seen["reconnecting"] == expected


def is_connected(server_port: int, client_port: int) -> bool:
    """Return whether the server has not ended its side of this connection."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ends = f":{server_port:04X}", f":{client_port:04X}"
    return any(row[1].endswith(ends[0]) and row[2].endswith(ends[1]) and row[3] == "01" for row in rows)


@pytest.mark.thorough
def test_an_unresponsive_listener_is_disconnected_without_delaying_others(fresh: HttpServer):
    import socket as sockets

    raw = sockets.socket()
    raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 2048)
    raw.connect(("127.0.0.1", fresh.port))
    raw.sendall(
        f"GET /ws?since=0 HTTP/1.1\r\nHost: {fresh.host}\r\nAuthorization: Bearer {fresh.token}\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
    )
    session = McpSession(fresh)
    for number in range(150):
        arguments = {
            "name": f"n{number}",
            "runtime": "custom",
            "metadata": {f"k{n}": "v" * 2000 for n in range(30)},
        }
        session.call(number, "agent_register", arguments)

    raw.settimeout(PATIENCE_SECONDS)
    with raw:
        while is_connected(fresh.port, raw.getsockname()[1]):
            time.sleep(0.1)
        while raw.recv(1 << 16):
            pass
    assert McpSession(fresh).call(1, "agent_list", {"limit": 1})["total"] == 150


def test_server_sent_events_resume_after_the_last_event_id(fresh: HttpServer):
    import http.client

    emit(McpSession(fresh), 4)
    connection = http.client.HTTPConnection("127.0.0.1", fresh.port, timeout=PATIENCE_SECONDS)
    connection.request("GET", "/api/v1/events?since=0", headers={**fresh.bearer, "Last-Event-ID": "2"})
    answer = connection.getresponse()

    assert answer.getheader("content-type", "").startswith("text/event-stream")
    lines = [answer.readline().decode().strip() for _ in range(8)]
    connection.close()
    answer.close()

    assert [line for line in lines if line.startswith("id:")] == ["id: 3", "id: 4"]
    assert all(
        json.loads(line[6:])["type"] == "agent:registered" for line in lines if line.startswith("data:")
    )
