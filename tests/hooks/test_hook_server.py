"""Hooks on PostgreSQL ask a running server of their store; without one they answer in the same way."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from application import call_tool, empty_database, make_app
from deepwork.kernel.config import Settings
from deepwork.kernel.environment import get_runtime_folder
from deepwork.views.hooks.listener import HookListener
from deepwork.views.hooks.protocol import HookEvent
from deepwork.views.hooks.server_socket import (
    ask_server,
    compute_store_identity,
    get_socket_path,
    require_own_peer,
    require_private_socket,
)
from hooks.make import Project, build_event, build_tool_event
from http_tests.http_server import HttpServer
from protocol.stdio_server import StdioServer

PATIENCE_SECONDS = 110
# Runs the hook with other time limits, and writes to standard error whether it used the driver.
RECORDING = """
import os, sys
from deepwork.views.hooks import entrypoint, server_socket
def end(code):
    os.write(2, b"itself" if "psycopg" in sys.modules else b"server")
    os.kill(os.getpid(), 9)
os._exit = end
entrypoint.TIMEOUT_SECONDS = 100
server_socket.GREETING_SECONDS = float(sys.argv[1])
entrypoint.main(sys.argv[2:])
"""


@pytest.fixture
def project(tmp_path: Path, postgres_url: str) -> Iterator[Project]:
    empty_database(postgres_url)
    made = Project(make_app(tmp_path, postgres_url))
    made.app.settings.store_folder.mkdir()
    yield made
    made.app.close()
    get_path(made).unlink(missing_ok=True)


def get_path(project: Project) -> Path:
    return get_socket_path(compute_store_identity(project.app.settings))


def run_hook(project: Project, kind: str, content: bytes, patience: float = 100) -> tuple[str, str]:
    """Run a hook in its own process; return who answered and what it printed.

    `patience` is how many seconds it waits for a greeting: long, because this machine may be busy.
    """
    settings = project.app.settings
    words = [kind, "--client", "claude-code", "--db", settings.database]
    done = subprocess.run(
        [sys.executable, "-P", "-c", RECORDING, str(patience), *words], input=content, cwd=settings.project_root,
        capture_output=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    return done.stderr.decode(), done.stdout.decode()


def run_compacted(project: Project, patience: float = 100) -> tuple[str, str]:
    """Run the hook that reports the current work of the session, and changes nothing."""
    root = str(project.app.settings.project_root)
    return run_hook(project, "session-start", build_event(cwd=root, source="compact"), patience)


def serve_stdio(project: Project) -> StdioServer:
    settings = project.app.settings
    # Not through the fork server of the tests: signals must reach the server itself.
    command = (sys.executable, "-P", "-m", "deepwork")
    return StdioServer(settings.project_root, "--db", settings.database, command=command)


def serve_http(project: Project) -> HttpServer:
    settings = project.app.settings
    return HttpServer(settings.project_root, "--db", settings.database)


@pytest.mark.parametrize("serve", [serve_stdio, serve_http])
def test_a_server_answers_what_the_hook_itself_would(
    project: Project, serve: Callable[[Project], AbstractContextManager[object]]
):
    agent, task = project.start_task()
    alone = run_compacted(project)
    with serve(project):
        together = run_compacted(project)

    assert alone[0] == "itself"
    assert together == ("server", alone[1])
    assert agent in alone[1]
    assert task in alone[1]


def test_a_notice_is_delivered_once_whoever_answers(project: Project):
    root = str(project.app.settings.project_root)
    ada, eve = project.register_agent(), project.register_agent("Eve")
    heartbeat = build_tool_event("agent_heartbeat", {"agent_id": ada}, {"success": True}, cwd=root)
    work = build_event(cwd=root, tool_name="Bash")
    with serve_stdio(project):
        learned = run_hook(project, "tool-use", heartbeat)
        call_tool(project.app, "message_send", sender_id=eve, recipient_id=ada, message_type="notification",
                  subject="Stop now", body="The plan is wrong.", priority="urgent")  # fmt: skip
        first = run_hook(project, "tool-use", work)
        again = run_hook(project, "tool-use", work)
    alone = run_hook(project, "tool-use", work)

    assert learned == ("server", "")
    assert first[0] == "server"
    assert "Stop now" in first[1]
    assert again == ("server", "")
    assert alone == ("itself", "")


def test_claims_are_renewed_through_the_server(project: Project):
    root = str(project.app.settings.project_root)
    agent, _ = project.start_task()
    project.execute("UPDATE agents SET last_heartbeat = last_heartbeat - 40000 WHERE id = :id", id=agent)
    before = project.fetch_value("SELECT last_heartbeat FROM agents WHERE id = :id", id=agent)
    with serve_stdio(project):
        done = run_hook(project, "tool-use", build_event(cwd=root, tool_name="Bash"))

    assert done == ("server", "")
    assert project.fetch_value("SELECT last_heartbeat FROM agents WHERE id = :id", id=agent) > before


def test_a_hook_answers_itself_after_its_server_was_killed(project: Project):
    project.start_task()
    server = serve_stdio(project).__enter__()
    before = run_compacted(project)
    server.stop(signal.SIGKILL)
    after = run_compacted(project)

    assert get_path(project).is_socket()  # nobody removed it
    assert before[0] == "server"
    assert after == ("itself", before[1])
    with serve_stdio(project):
        assert run_compacted(project) == before


def test_a_server_that_ends_removes_its_socket(project: Project):
    with serve_stdio(project):
        assert get_path(project).is_socket()

    assert not get_path(project).exists()


def test_a_hook_does_not_wait_for_a_server_that_hangs(project: Project):
    project.start_task()
    with serve_stdio(project) as server:
        server.process.send_signal(signal.SIGSTOP)
        stopped = run_compacted(project, patience=0.1)
        server.process.send_signal(signal.SIGCONT)
        resumed = run_compacted(project)

    assert stopped[0] == "itself"
    assert resumed == ("server", stopped[1])


def test_an_event_is_not_sent_to_a_server_that_greets_too_late(project: Project):
    project.start_task()
    with listen(get_path(project)) as late:
        who, _ = run_compacted(project, patience=0.1)
        connection, _ = late.accept()
        with connection:
            received = connection.recv(100)

    assert who == "itself"
    assert received == b""


def test_an_event_is_not_sent_to_the_server_of_another_store(project: Project, tmp_path: Path):
    other = Settings(tmp_path, database="postgresql://localhost/another")
    listener = HookListener(other)
    listener.start()
    get_socket_path(compute_store_identity(other)).rename(get_path(project))
    try:
        who, _ = run_compacted(project)
    finally:
        listener.close()

    assert who == "itself"


def test_a_hook_answers_itself_if_the_server_cannot(project: Project, monkeypatch: pytest.MonkeyPatch):
    project.start_task()
    listener = HookListener(project.app.settings)
    listener.start()
    asked = []

    def fail(request: object) -> str:
        asked.append(request)
        raise RuntimeError

    monkeypatch.setattr("deepwork.views.hooks.listener.answer_request", fail)
    who, printed = run_compacted(project)
    listener.close()

    assert len(asked) == 1
    assert who == "itself"
    assert "You hold task" in printed


def test_the_newest_server_answers_and_an_older_one_leaves_its_socket_alone(tmp_path: Path):
    settings = Settings(tmp_path, database="postgresql://localhost/none")
    path = get_socket_path(compute_store_identity(settings))
    older, newer = HookListener(settings), HookListener(settings)
    older.start()
    newer.start()
    inode = path.lstat().st_ino
    older.close()

    assert path.lstat().st_ino == inode
    newer.close()
    assert not path.exists()


def test_a_silent_peer_does_not_keep_the_server_from_answering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("deepwork.views.hooks.listener.REQUEST_SECONDS", 0.05)
    monkeypatch.setattr("deepwork.views.hooks.listener.answer_request", lambda _: "Hello")
    monkeypatch.setattr("deepwork.views.hooks.server_socket.GREETING_SECONDS", PATIENCE_SECONDS)
    settings = Settings(tmp_path, database="postgresql://localhost/none")
    listener = HookListener(settings)
    listener.start()

    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(str(get_socket_path(compute_store_identity(settings))))
        answer = ask_server("stop", settings, HookEvent("codex", "s1", "."))
    listener.close()

    assert answer == "Hello"


def test_without_a_usable_folder_a_server_starts_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings = Settings(tmp_path, database="postgresql://localhost/none")
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    for folder in (tmp_path / ("long" * 30), tmp_path / "missing" / "too", shared):
        monkeypatch.setattr(
            "deepwork.views.hooks.server_socket.get_runtime_folder", lambda folder=folder: folder
        )
        listener = HookListener(settings)
        listener.start()
        listener.close()

        assert not list(shared.iterdir())
        assert ask_server("stop", settings, HookEvent("codex", "s1", ".")) is None


@pytest.mark.parametrize(
    ("database", "variables"),
    [
        ("postgresql://localhost/b", {}),
        ("postgresql://localhost/a", {"PGPORT": "5433"}),
        ("postgresql://localhost/a", {"HOME": "/elsewhere"}),
    ],
)
def test_another_store_has_another_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str, variables: dict[str, str]
):
    before = compute_store_identity(Settings(tmp_path, database="postgresql://localhost/a"))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    after = compute_store_identity(Settings(tmp_path, database=database))

    assert get_socket_path(before) != get_socket_path(after)


def test_only_a_private_socket_in_a_private_folder_is_used():
    folder = get_runtime_folder() / "checked"
    folder.mkdir(mode=0o700, parents=True)
    path, file, link, linked = folder / "s", folder / "file", folder / "link", folder.with_name("linked")
    file.touch(mode=0o600)
    link.symlink_to(path)
    linked.symlink_to(folder)
    with listen(path):
        require_private_socket(path)
        for wrong in (file, link, linked / "s", folder / "missing"):
            with pytest.raises((PermissionError, FileNotFoundError)):
                require_private_socket(wrong)
        path.chmod(0o666)
        with pytest.raises(PermissionError):
            require_private_socket(path)
        path.chmod(0o600)
        folder.chmod(0o755)
        with pytest.raises(PermissionError):
            require_private_socket(path)


@pytest.mark.skipif(not hasattr(socket, "SO_PEERCRED"), reason="the system does not say who the peer is")
def test_a_peer_of_another_user_is_refused():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        require_own_peer(ours)
        with pytest.raises(PermissionError):
            require_own_peer(ours, user=os.getuid() + 1)


def listen(path: Path) -> socket.socket:
    """Listen on a socket without answering."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen()
    return listener
