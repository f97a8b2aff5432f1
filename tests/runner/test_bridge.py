"""The bridge of an agent: it repeats what was not answered, and says clearly why nobody answers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deepwork.delivery.runner import bridge

KEY = "deepwork/idempotency-key"
INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CALL: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "task_get", "arguments": {}},
}
PING = {"jsonrpc": "2.0", "id": "p", "method": "ping"}


class Runner:
    """The other end of a bridge, under the control of a test."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "s"
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.settimeout(60)
        self.listening.bind(str(self.path))
        self.listening.listen()
        self.accepted: list[Connection] = []
        self.file = folder / "bridge.json"
        self.file.write_text(json.dumps({"socket": str(self.path), "token": "t"}))

    def accept(self, answer: dict[str, Any] | None = None) -> Connection:
        connection = Connection(self.listening.accept()[0])
        self.accepted.append(connection)
        assert connection.read() == {"token": "t"}
        connection.send(answer or {"attempt": "at_1"})
        return connection

    def close(self) -> None:
        self.listening.close()
        for connection in self.accepted:
            connection.close()


class Connection:
    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(60)
        self._connection, self._lines = connection, connection.makefile("rb")

    def read(self) -> Any:
        return json.loads(self._lines.readline())

    def send(self, message: dict[str, Any]) -> None:
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def close(self) -> None:
        self._lines.close()
        self._connection.close()


class Client:
    """A client that has the bridge as its server, in a thread of this process."""

    def __init__(self, file: Path) -> None:
        reading, self._input = os.pipe()
        output, writing = os.pipe()
        self._lines, self._ends = os.fdopen(output, "rb"), (reading, writing)
        self.thread = threading.Thread(target=bridge.Bridge(str(file), reading, writing).run, daemon=True)
        self.thread.start()

    def send(self, *messages: dict[str, Any]) -> None:
        os.write(self._input, b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def read(self) -> Any:
        return json.loads(self._lines.readline())

    def leave(self) -> None:
        os.close(self._input)
        self.thread.join(60)
        self._lines.close()
        for end in self._ends:
            os.close(end)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    made = Runner(tmp_path)
    yield made
    made.close()


@contextmanager
def connect(runner: Runner) -> Iterator[tuple[Client, Connection]]:
    """A client that has begun a session."""
    client = Client(runner.file)
    client.send(INITIALIZE)
    connection = runner.accept()
    connection.send({"jsonrpc": "2.0", "id": connection.read()["id"], "result": {}})
    client.send(INITIALIZED)
    assert client.read()["id"] == 0
    assert connection.read() == INITIALIZED
    yield client, connection
    client.leave()
    assert not client.thread.is_alive()


def answer(message: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": message["id"], "result": {"content": []}}


def test_a_call_whose_runner_was_killed_is_repeated_with_the_same_key_and_answered_once(runner: Runner):
    with connect(runner) as (client, connection):
        client.send(CALL)
        first = connection.read()
        connection.close()

        second = runner.accept()
        begun = second.read(), second.read()
        repeated = second.read()
        second.send(answer(begun[0]))
        second.send(answer(repeated))
        answered = client.read()

    assert [each["method"] for each in begun] == ["initialize", "notifications/initialized"]
    assert first == repeated
    assert first["params"]["_meta"][KEY]
    assert answered == answer(CALL)  # and not the answer to the repeated `initialize`


def test_two_calls_have_two_keys_and_a_key_of_the_client_stays(runner: Runner):
    with connect(runner) as (client, connection):
        own = {**CALL, "id": 3, "params": {**CALL["params"], "_meta": {KEY: "mine"}}}
        client.send(CALL, {**CALL, "id": 2}, own)
        keys = [connection.read()["params"]["_meta"][KEY] for _ in range(3)]
        for id in (1, 2, 3):
            connection.send(answer({"id": id}))

    assert len(set(keys)) == 3
    assert keys[2] == "mine"


def test_a_runner_at_another_socket_is_found_by_the_file(runner: Runner, tmp_path: Path):
    (tmp_path / "next").mkdir()
    with connect(runner) as (client, connection):
        other = Runner(tmp_path / "next")
        runner.file.write_text(other.file.read_text())
        runner.listening.close()
        connection.close()
        client.send(PING)
        second = other.accept()
        messages = [second.read()["method"] for _ in range(3)]
        second.send(answer(PING))

        assert client.read() == answer(PING)
        other.close()

    assert messages == ["initialize", "notifications/initialized", "ping"]


def test_a_refused_token_is_the_answer_to_every_request(runner: Runner):
    error = {"code": "UNAUTHORIZED", "message": "Over.", "recoverable": False, "suggestion": "End."}
    client = Client(runner.file)
    client.send(INITIALIZE)
    runner.accept({"error": error}).close()
    refused = client.read()
    client.send(CALL)
    runner.accept({"error": error}).close()
    called = client.read()
    client.leave()

    assert refused["error"]["data"] == error
    assert called["result"]["isError"]
    assert json.loads(called["result"]["content"][0]["text"]) == error


def test_while_no_runner_is_there_a_call_gets_a_clear_error_and_the_next_one_tries_again(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bridge, "WAIT_SECONDS", 0.05)
    with connect(runner) as (client, connection):
        runner.listening.close()
        connection.close()
        client.send(CALL)
        error = json.loads(client.read()["result"]["content"][0]["text"])

        runner.path.unlink()
        monkeypatch.setattr(bridge, "WAIT_SECONDS", 60.0)
        again = Runner(runner.path.parent)
        client.send({**CALL, "id": 2})
        second = again.accept()
        asked = [second.read() for _ in range(3)][-1]
        second.send(answer(asked))

        assert client.read()["id"] == 2
        again.close()

    assert (error["code"], error["recoverable"]) == ("STORAGE_ERROR", True)


def test_a_client_that_waits_for_too_many_answers_gets_an_error_at_once(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bridge, "MAX_PENDING", 1)
    with connect(runner) as (client, connection):
        client.send(CALL, {**CALL, "id": 2})
        refused = client.read()
        connection.send(answer(connection.read()))
        answered = client.read()

    assert (refused["id"], refused["result"]["isError"]) == (2, True)
    assert json.loads(refused["result"]["content"][0]["text"])["recoverable"]
    assert answered == answer(CALL)


def test_a_token_that_is_refused_for_the_moment_is_presented_again(runner: Runner):
    error = {"code": "UNAUTHORIZED", "message": "Soon.", "recoverable": True, "suggestion": "Wait."}
    client = Client(runner.file)
    client.send(INITIALIZE)
    runner.accept({"error": error}).close()
    connection = runner.accept()
    connection.send(answer(connection.read()))

    assert client.read() == answer(INITIALIZE)
    client.leave()


def test_a_cancelled_call_is_forgotten(runner: Runner):
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    with connect(runner) as (client, connection):
        client.send(CALL, cancelled)

        assert [connection.read()["method"] for _ in range(2)] == ["tools/call", "notifications/cancelled"]


def test_the_bridge_imports_nothing_of_deepwork_and_says_how_it_is_used():
    script = Path(bridge.__file__)
    code = f"import runpy, sys; sys.argv = ['x']; print(__name__)\ntry: runpy.run_path({str(script)!r}, run_name='__main__')\nexcept SystemExit as end: print(end.code, sorted(m for m in sys.modules if 'deepwork' in m or m in ('asyncio', 'logging')))"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.splitlines()[-1] == "2 []"
    assert "DEEPWORK_BRIDGE" in done.stderr
