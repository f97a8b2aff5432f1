"""The socket at which agents of runs are answered: who may connect, what is refused, and what hooks get."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from deepwork.delivery.runner import bridge
from deepwork.delivery.runner.models import AttemptStage
from deepwork.edge.server import agent_socket
from deepwork.edge.server.agent_socket import AgentServer, open_new_socket, open_socket
from deepwork.edge.server.application import Application
from deepwork.kernel.environment import get_runtime_folder
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.supervision.supervisor import read_start_time
from hooks.make import build_event
from quick import PLAIN
from runner.endings import wait_until
from server.agent_world import AgentWorld

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.fixture
def folder() -> Iterator[Path]:
    """A private folder with a short path."""
    made = get_runtime_folder() / f"test-{os.urandom(3).hex()}"
    made.parent.mkdir(mode=0o700, exist_ok=True)
    made.mkdir(mode=0o700)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def server(app: Application, folder: Path) -> Iterator[AgentServer]:
    made = AgentServer(app, folder / "agents")
    yield made
    made.close()


def talk(path: Path, *lines: Any) -> list[Any]:
    """Send lines, and return all that is answered."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(path))
        connection.sendall(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        connection.shutdown(socket.SHUT_WR)
        return [json.loads(line) for line in connection.makefile("rb")]


def is_answered(path: Path) -> bool:
    """Whether somebody listens: a socket exists a moment before."""
    try:
        return bool(talk(path, {"token": "x"}))
    except (FileNotFoundError, ConnectionRefusedError):
        return False


def ask(tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def test_a_connection_with_a_token_carries_mcp_for_its_agent(app: Application, server: AgentServer):
    world = AgentWorld(app, server.open())

    answers = talk(server.open(), {"token": world.token}, INITIALIZE, ask("task_get"))

    by_id = {answer.get("id"): answer for answer in answers[1:]}
    assert answers[0] == {"attempt": world.attempt.id}
    assert world.ids["mine"] in by_id[0]["result"]["instructions"]
    assert by_id[1]["result"]["structuredContent"]["id"] == world.ids["mine"]


@pytest.mark.parametrize("first", [{"token": "x"}, {"token": None}, INITIALIZE, {}])
def test_a_connection_without_a_valid_token_gets_an_error_and_no_more(
    first: dict[str, Any], app: Application, server: AgentServer
):
    AgentWorld(app, server.open())

    [refused] = talk(server.open(), first, INITIALIZE)

    assert refused["error"]["code"] == "UNAUTHORIZED"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks the kernel who connects")
def test_the_token_of_another_agent_is_refused_to_a_process_that_this_one_did_not_start(
    app: Application, server: AgentServer
):
    world = AgentWorld(app, server.open())
    with subprocess.Popen(["sleep", "600"]) as other:
        world.change_attempt(pid=other.pid, start_time=read_start_time(other.pid))
        world.files.process.write_text(json.dumps({"pid": os.getpid(), "start_time": "1"}))  # anybody can

        try:
            [refused] = talk(server.open(), {"token": world.token}, INITIALIZE)
        finally:
            other.kill()
    assert refused["error"]["code"] == "UNAUTHORIZED"


# What one agent can do to others


@contextmanager
def hold(path: Path, first: Any = None) -> Iterator[tuple[socket.socket, Any]]:
    """Open a connection, and keep it; with a first line, also return what is answered to it."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(path))
        answer = None
        if first is not None:
            connection.sendall(json.dumps(first).encode() + b"\n")
            answer = json.loads(connection.recv(100_000))
        yield connection, answer


def is_served(world: AgentWorld, server: AgentServer) -> bool:
    return {0, 1} <= {
        each.get("id") for each in talk(server.open(), {"token": world.token}, INITIALIZE, ask("task_get"))
    }


def test_connections_that_say_nothing_keep_nobody_out(
    app: Application, server: AgentServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(agent_socket, "_MAX_SILENT", 3)
    monkeypatch.setattr(agent_socket, "FIRST_LINE_SECONDS", 600)  # that they say nothing does not end them
    world = AgentWorld(app, server.open())
    with ExitStack() as held:
        silent = [held.enter_context(hold(server.open()))[0] for _ in range(6)]

        assert is_served(world, server)
        assert [connection.recv(1) for connection in silent[:3]] == [b""] * 3


def test_one_agent_has_only_so_many_connections(
    app: Application, server: AgentServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(agent_socket, "_MAX_OF_ATTEMPT", 2)
    world = AgentWorld(app, server.open())
    with ExitStack() as held:
        token = {"token": world.token}
        answers = [held.enter_context(hold(server.open(), token))[1] for _ in range(3)]

    assert [list(answer) for answer in answers] == [["attempt"], ["attempt"], ["error"]]
    assert answers[2]["error"]["recoverable"]
    wait_until(lambda: is_served(world, server), "room for another connection")


def test_an_agent_that_asks_and_reads_nothing_is_cut_off(app: Application, server: AgentServer):
    world = AgentWorld(app, server.open())
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode() + b"\n"
    with hold(server.open(), {"token": world.token}) as (connection, _):
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            connection.sendall(line * 100_000)

        assert is_served(world, server)


def test_a_server_that_can_start_no_thread_answers_again_when_it_can(
    app: Application, server: AgentServer, monkeypatch: pytest.MonkeyPatch
):
    world, start = AgentWorld(app, server.open()), threading.Thread.start
    failures = iter([RuntimeError("can't start new thread")])

    def fail_once(thread: threading.Thread) -> None:
        if thread.name == "deepwork-agent" and (failure := next(failures, None)):
            raise failure
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail_once)
    with hold(server.open()) as (connection, _):
        assert connection.recv(1) == b""

    assert is_served(world, server)


def test_a_connection_that_was_kept_open_ends_with_the_attempt(app: Application, server: AgentServer):
    world = AgentWorld(app, server.open())
    with hold(server.open(), {"token": world.token}) as (connection, accepted):
        world.change_attempt(stage=AttemptStage.DONE.value, ended_at=1)
        connection.sendall(json.dumps(INITIALIZE).encode() + b"\n")

        assert accepted == {"attempt": world.attempt.id}
        assert connection.recv(1) == b""


def test_a_bridge_goes_on_with_the_token_of_the_next_claim(app: Application, server: AgentServer):
    world = AgentWorld(app, server.open())
    own = {"task_id": world.ids["mine"], "agent_id": world.ids["agent"]}
    command = [sys.executable, "-I", "-S", bridge.__file__, str(world.files.bridge)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        process.stdin.flush()
        begun = json.loads(process.stdout.readline())
        call_tool(app, "task_release", **own)
        again = call_tool(app, "task_claim", **own, start=True)
        world.change_attempt(claim_epoch=again["claim_epoch"])
        process.stdin.write(json.dumps(ask("checkpoint_add", type="progress", summary="x")).encode() + b"\n")
        process.stdin.flush()
        world.update_file(server.open())
        noted = json.loads(process.stdout.readline())
        process.stdin.close()

    assert begun["id"] == 0
    assert noted["result"]["structuredContent"]["sequence"] == 1


@pytest.mark.parametrize("line", ["null", "[]", "not JSON", "[" * 100_000])
def test_a_connection_that_begins_with_something_else_is_closed(line: str, server: AgentServer):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(server.open()))
        connection.sendall(line.encode() + b"\n")

        assert connection.recv(1) == b""


def test_a_server_that_an_agent_starts_is_its_bridge(app: Application, server: AgentServer):
    world = AgentWorld(app, server.open())
    lines = "".join(json.dumps(line) + "\n" for line in (INITIALIZE, ask("agent_list")))

    done = subprocess.run(
        [*PLAIN, "serve", "--path", str(app.settings.project_root)], input=lines, text=True, timeout=110,
        env={**os.environ, "DEEPWORK_BRIDGE": str(world.files.bridge)}, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip

    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}
    assert json.loads(answers[1]["result"]["content"][0]["text"])["code"] == "UNAUTHORIZED"


def test_a_bridge_in_a_process_of_its_own_reaches_the_server_again_after_it_was_closed(
    app: Application, server: AgentServer
):
    world = AgentWorld(app, server.open())
    command = [sys.executable, "-I", "-S", bridge.__file__, str(world.files.bridge)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        asking, answering = process.stdin, process.stdout

        def send(message: dict[str, Any]) -> Any:
            asking.write(json.dumps(message).encode() + b"\n")
            asking.flush()
            return json.loads(answering.readline())

        send(INITIALIZE)
        first = send(ask("checkpoint_add", type="progress", summary="one"))
        server.close()
        server.open()
        second = send(ask("checkpoint_add", type="progress", summary="two"))
        shown = Path(f"/proc/{process.pid}/environ").read_bytes()
        opened = [str(path.readlink()) for path in Path(f"/proc/{process.pid}/fd").iterdir()]
        process.stdin.close()

    assert [each["result"]["structuredContent"]["sequence"] for each in (first, second)] == [1, 2]
    assert world.token.encode() not in shown
    assert [name for name in opened if "deepwork.db" in name] == []
    assert process.returncode == 0


def run_hook(world: AgentWorld, kind: str, content: bytes) -> str:
    """Run a hook of the agent's client; it knows no store, only the file of its attempt."""
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "DEEPWORK_BRIDGE": str(world.files.bridge),
    }
    done = subprocess.run(
        [*PLAIN, "hook", kind, "--client", "claude-code"], input=content, env=variables, cwd="/",
        capture_output=True, text=False, timeout=110, check=True,
    )  # fmt: skip
    return done.stdout.decode()


def test_a_hook_under_a_run_tells_the_agent_its_messages_and_nothing_of_others(
    app: Application, server: AgentServer
):
    world = AgentWorld(app, server.open())
    urgent = {"message_type": "notification", "body": "Stop now.", "priority": "urgent"}
    for recipient in ("agent", "peer"):
        call_tool(
            app, "message_send", sender_id=world.ids["stranger"], recipient_id=world.ids[recipient],
            **{**urgent, "body": f"For {recipient}."},
        )  # fmt: skip
    forged: dict[str, Any] = {
        "tool_name": "mcp__deepwork__agent_heartbeat",
        "tool_input": {"agent_id": world.ids["peer"]},
        "tool_response": {"success": True},
    }

    told = run_hook(world, "tool-use", build_event(**forged))
    again = run_hook(world, "tool-use", build_event(**forged))
    compacted = run_hook(world, "session-start", build_event(source="compact"))

    assert "For agent." in told
    assert "For peer." not in told + again + compacted
    assert again == ""
    assert world.ids["mine"] in compacted
    assert "Theirs" not in compacted
    assert world.ids["secret"] not in compacted


def test_serve_with_a_socket_answers_agents_of_the_project(tmp_path: Path, app: Application, folder: Path):
    path = folder / "served"
    world = AgentWorld(app, path)
    location = app.settings.database
    with subprocess.Popen(
        [*PLAIN, "serve", "--socket", str(path), "--path", str(tmp_path)],
        env={**os.environ, "DEEPWORK_DATABASE_URL": location},
    ) as process:
        try:
            wait_until(lambda: is_answered(path), "the server")
            mode, closed = path.stat().st_mode, path.parent.stat().st_mode
            answers = talk(path, {"token": world.token}, INITIALIZE, ask("task_get"))
        finally:
            process.terminate()

    assert (stat.S_IMODE(mode), stat.S_IMODE(closed)) == (0o600, 0o700)
    assert {answer.get("id") for answer in answers} == {None, 0, 1}
    assert process.returncode == 0
    assert not path.exists()


# The path


def test_a_socket_that_a_killed_process_left_is_replaced(folder: Path):
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(folder / "s"))
    left.close()

    with open_socket(folder / "s") as opened:
        assert opened.getsockname() == str(folder / "s")


def test_sockets_of_killed_runners_are_removed_and_those_of_others_stay(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(agent_socket, "get_runtime_folder", lambda *_: folder)
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(folder / "agents-1-aaaaaa"))
    left.close()

    with open_socket(folder / "agents-2-bbbbbb"), open_new_socket()[0]:
        found = {path.name for path in folder.iterdir()}

    assert "agents-1-aaaaaa" not in found
    assert len(found) == 2


def make_open(folder: Path) -> Path:
    folder.chmod(0o755)
    return folder / "s"


def make_link(folder: Path) -> Path:
    (folder / "real").mkdir(mode=0o700)
    (folder / "link").symlink_to(folder / "real")
    return folder / "link" / "s"


def make_file(folder: Path) -> Path:
    (folder / "s").write_text("mine")
    return folder / "s"


def make_long(folder: Path) -> Path:
    return folder / ("x" * 100) / ("x" * 100)


@pytest.mark.parametrize("make", [make_open, make_link, make_file, make_long])
def test_a_path_that_is_not_private_or_taken_or_too_long_is_refused(make: Any, folder: Path):
    path = make(folder)

    with pytest.raises(NotAllowed) as refused:
        open_socket(path)

    assert refused.value.suggestion


def test_a_path_at_which_another_server_listens_is_refused(folder: Path):
    with open_socket(folder / "s"), pytest.raises(NotAllowed):
        open_socket(folder / "s")


@pytest.mark.parametrize("make", [make_open, make_link, make_long])
def test_a_runtime_folder_that_cannot_be_used_is_not_used(
    make: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        agent_socket, "get_runtime_folder", lambda *given: folder / "tmp" if given else make(folder).parent
    )
    (folder / "tmp").mkdir(mode=0o700)

    listening, path = open_new_socket()
    listening.close()

    assert path.parent == folder / "tmp"
