"""A hostile clone runs nothing, connects nowhere, opens no port, and its texts appear only as quoted data."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deepwork.delivery.runner.profiles import load_catalog
from deepwork.delivery.runner.workspace_setup import require_trusted_setup
from deepwork.kernel.config import load_settings
from deepwork.kernel.errors import NotAllowed
from http_tests.http_server import reserve_port
from protocol.stdio_server import StdioServer
from trust.hostile_clone import (
    ATTACKERS_TOKEN,
    HostileClone,
    Observed,
    Observer,
    build_hostile_clone,
    copy_clone,
    find_unquoted,
    link_state,
)
from trust.traps import FakePostgreSQL

pytestmark = pytest.mark.needs("strace")

COMMANDS = {
    "store": (
        "status", "status --json", "doctor", "doctor --json", "db info", "plans list", "plans list --json", "agents list",
        "tokens list", "audit verify", "events tail --no-follow --since 0", "sessions list", "track list", "workspaces list",
        "run wf_x --agent claude", "runs list", "work --once",
    ),
    "definitions": (
        "setup --detect", "setup claude-code --hooks", "setup codex --hooks", "setup cursor", "setup gemini --scope user --print",
        "trust", "trust --json", "jobs list", "jobs show evil", "jobs validate evil", "jobs new mine", "review", "review rules",
        "templates list", "templates show evil", "init --example-job --example-review", "status", "doctor", "doctor --json",
        "run evil/main --goal g", "run evil/main --goal g --agent claude --dry-run", "work --once",
    ),
    "links": ("setup claude-code --hooks", "jobs new mine", "review", "init --example-job", "status", "doctor", "sessions list"),
}  # fmt: skip
"""The commands to run in each clone: with a store, with definitions only, with links to files of the user."""
HOOKS = ("session-start", "tool-use", "stop")
TOOLS: dict[str, dict[str, Any]] = {
    "get_workflows": {},
    "get_configured_reviews": {},
    "get_review_instructions": {},
    "template_list": {},
    "agent_list": {},
    "workflow_list": {},
    "start_workflow": {"goal": "g", "job_name": "evil", "workflow_name": "main"},
    "finished_step": {"outputs": {"report.md": "changed.txt"}},
}


@pytest.fixture(scope="module")
def trap() -> Iterator[FakePostgreSQL]:
    with FakePostgreSQL() as listening:
        yield listening


@pytest.fixture(scope="module")
def observer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Observer]:
    observing = Observer(tmp_path_factory.mktemp("observer"))
    yield observing
    observing.stop()


@pytest.fixture(scope="module")
def clones(trap: FakePostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> dict[str, HostileClone]:
    with_store = build_hostile_clone(
        tmp_path_factory.mktemp("store"), trap.port, reserve_port(), with_store=True
    )
    definitions = build_hostile_clone(tmp_path_factory.mktemp("definitions"), trap.port, reserve_port())
    return {"store": with_store, "definitions": definitions, "links": link_state(definitions)}


@pytest.fixture(params=COMMANDS)
def clone(
    request: pytest.FixtureRequest, clones: dict[str, HostileClone], trap: FakePostgreSQL
) -> Iterator[HostileClone]:
    """The clone; after each test nothing of it has run, and nothing of the user has changed."""
    opened: HostileClone = clones[request.param]
    before, connections = opened.read_private_files(), trap.count_connections()
    yield opened
    assert opened.read_traces() == ""
    assert opened.read_private_files() == before
    assert trap.count_connections() == connections


def require_harmless(ran: Observed) -> None:
    assert ran.list_programs() <= {Path(sys.executable).name, "git"}
    assert ran.list_network_calls() == []
    assert find_unquoted(ran.out) + find_unquoted(ran.err) == []


@pytest.mark.parametrize(
    ("clone", "words"),
    [(kind, words) for kind, commands in COMMANDS.items() for words in commands],
    indirect=["clone"],
)
def test_a_command_does_no_harm(clone: HostileClone, observer: Observer, words: str):
    ran = observer.run(clone, *words.split())

    require_harmless(ran)
    assert ran.code in (0, 1, 2), ran.err


@pytest.mark.parametrize("event", HOOKS)
def test_a_hook_does_no_harm(clone: HostileClone, observer: Observer, event: str):
    tool = {"tool_name": "mcp__deepwork__agent_list", "tool_input": {}, "tool_response": {}}
    sent = {"session_id": "s1", "cwd": str(clone.root), "source": "startup"} | (
        tool if event == "tool-use" else {}
    )

    ran = observer.run(
        clone, "hook", event, "--client", "claude-code", text=json.dumps(sent).encode(), is_new=True
    )

    require_harmless(ran)
    said = json.loads(ran.out)["hookSpecificOutput"]["additionalContext"] if ran.out else ""
    assert find_unquoted(said) == []
    assert ran.code == 0


def test_a_server_opens_no_port_and_starts_no_reviewer(clone: HostileClone, observer: Observer):
    command = observer.build_command(is_new=True)
    with StdioServer(clone.root, environment=clone.build_environment(), command=command) as server:
        answers = {
            tool: server.request("tools/call", {"name": tool, "arguments": given})["result"]
            for tool, given in TOOLS.items()
        }

    require_harmless(Observed(0, "", server.errors.decode(), observer.read_calls()))
    assert "deepwork trust" in server.errors.decode()
    texts = {tool: answer["content"][0]["text"] for tool, answer in answers.items()}
    assert [
        line for text in texts.values() for line in text.splitlines() if line.startswith("SYSTEM: ")
    ] == []
    assert ("STORE_NOT_ADOPTED" in texts["agent_list"]) == (clone.kind == "store")
    assert answers["finished_step"]["isError"] == (clone.kind == "links")


def test_a_dashboard_opens_only_its_own_port(clone: HostileClone, observer: Observer):
    port = reserve_port()
    with open_dashboard(clone, observer, port) as dashboard:
        answers = [ask(port, ATTACKERS_TOKEN), ask(port, "")] if wait_for_port(dashboard, port) else []

    _, err = dashboard.communicate()
    ran = Observed(dashboard.returncode, "", err.decode(), observer.read_calls())
    bound = [line for line in ran.list_network_calls() if "bind(" in line]
    assert [line for line in bound if f"htons({port})" not in line or "127.0.0.1" not in line] == []
    assert [line for line in ran.list_network_calls() if "connect(" in line] == []
    assert ran.list_programs() <= {Path(sys.executable).name, "git"}
    assert find_unquoted(ran.err) == []
    assert [status for status in answers if status != 401] == []
    assert bool(answers) == (clone.kind == "definitions"), ran.err


def test_a_run_has_only_agents_of_the_user_and_waits_for_trust(clone: HostileClone):
    """The repository brings an agents.yml of its own, and commands that prepare trees."""
    environment = clone.build_environment() | {"XDG_CONFIG_HOME": str(clone.home / ".config")}

    catalog = load_catalog(environment)
    settings = load_settings(clone.root, environment=environment)

    assert {agent.kind for agent in catalog.agents.values()} == {"claude", "codex", "gemini", "opencode"}
    assert catalog.get_chain("default") == (catalog.get_agent("claude"),)
    assert (catalog.named, settings.workspace_setup) == (frozenset(), ())
    with pytest.raises(NotAllowed, match=r"was not started.*workspace\.setup"):
        require_trusted_setup(settings)


@contextmanager
def open_dashboard(clone: HostileClone, observer: Observer, port: int) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*observer.build_command(), "dashboard", "--port", str(port)], cwd=clone.root, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=clone.build_environment(),
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()


def wait_for_port(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until the server answers; return False if it ended instead."""
    while process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port)):
                return True
        except ConnectionRefusedError:
            time.sleep(0.05)
    return False


def ask(port: int, token: str) -> int:
    """Return the status of a request with this token."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/api/v1/runs", headers={"Authorization": f"Bearer {token}"} if token else {})
    status = connection.getresponse().status
    connection.close()
    return status


def test_the_clone_acts_once_it_is_trusted(
    clones: dict[str, HostileClone], observer: Observer, trap: FakePostgreSQL
):
    """So the tests above prove something. The user's password is not sent even then."""
    clone = copy_clone(clones["definitions"], "trusted")
    before = trap.count_connections()

    observer.run(clone, "trust", "--yes")
    observer.run(clone, "status")

    assert trap.count_connections() > before
    assert trap.passwords == []
