"""The stdio protocol line by line, and how the server ends."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path

import pytest

from protocol.stdio_server import StdioServer
from quick import PLAIN

wired = partial(StdioServer, command=PLAIN)  # how it starts and ends is what is looked at


def test_a_lone_surrogate_gets_an_error_and_the_server_keeps_running(tmp_path: Path):
    with wired(tmp_path) as wire:
        wire.send(
            b'{"jsonrpc":"2.0","id":"s","method":"tools/call",'
            b'"params":{"name":"agent_register","arguments":{"name":"\\ud800","runtime":"codex"}}}'
        )
        answer = wire.receive()

        assert (answer["id"], answer["result"]["isError"]) == ("s", True)
        assert json.loads(answer["result"]["content"][0]["text"])["code"] == "INVALID_INPUT"
        assert wire.call("agent_list")["total"] == 0


def test_garbage_gets_errors_and_the_server_keeps_running(tmp_path: Path):
    with wired(tmp_path) as wire:
        for garbage in (b"hello", b"{", b"[]", b"\xff\xfe\x00", b'{"jsonrpc":"2.0","id":9}', b"\x00" * 10):
            wire.send(garbage)
        wire.send(b"")
        answers = [wire.receive() for _ in range(6)]

        assert all("error" in answer for answer in answers)
        assert wire.call("agent_list")["total"] == 0


def test_an_oversized_line_gets_an_error_and_the_server_keeps_running(tmp_path: Path):
    with wired(tmp_path) as wire:
        wire.send(
            b'{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{"x":"' + b"x" * 40_000_000 + b'"}}'
        )
        answer = wire.receive()

        assert answer["id"] == 77
        assert json.loads(answer["result"]["content"][0]["text"])["code"] == "TOO_LARGE"
        assert wire.call("agent_list")["total"] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server(tmp_path: Path, number: int):
    with wired(tmp_path) as wire:
        wire.call("agent_register", {"name": "Ada", "runtime": "codex"})

        assert wire.stop(number) == 0
        assert b"Traceback" not in wire.errors


def test_the_end_of_input_stops_the_server(tmp_path: Path):
    with wired(tmp_path) as wire:
        wire.call("agent_list")

        assert wire.stop() == 0
        assert b"Traceback" not in wire.errors


def test_calls_sent_before_the_end_of_input_are_answered(tmp_path: Path):
    with wired(tmp_path) as wire:
        params = {"name": "agent_register", "arguments": {"name": "Ada", "runtime": "codex"}}
        for number in range(10, 18):
            wire.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        wire.stop()

        assert {wire.receive()["id"] for _ in range(8)} == set(range(10, 18))


def test_a_server_without_calls_stops_and_creates_no_database(tmp_path: Path):
    wire = wired(tmp_path)

    assert wire.stop() == 0
    assert not (tmp_path / ".deepwork" / "deepwork.db").exists()


def test_an_acknowledged_write_survives_a_kill_of_the_server(tmp_path: Path):
    with wired(tmp_path) as wire:
        id = wire.call("agent_register", {"name": "Ada", "runtime": "codex"})["id"]
        wire.stop(signal.SIGKILL)

    with wired(tmp_path) as wire:
        assert wire.call("agent_get", {"id": id})["name"] == "Ada"


def test_two_servers_share_one_project(tmp_path: Path):
    with wired(tmp_path) as one, wired(tmp_path) as other:
        id = one.call("agent_register", {"name": "Ada", "runtime": "codex"})["id"]

        assert other.call("agent_get", {"id": id})["name"] == "Ada"


def test_each_call_is_logged_with_its_tool_and_the_stack(tmp_path: Path):
    with wired(tmp_path, "--log-level", "info") as wire:
        wire.call("agent_list")
        wire.stop()

    assert b" INFO deepwork.calls: tool=agent_list stack=[] ms=" in wire.errors


def test_the_projects_own_files_are_neither_imported_nor_read(tmp_path: Path):
    marker = tmp_path / "imported"
    for name in (
        "json.py",
        "argparse.py",
        "mcp.py",
        "click.py",
        "sitecustomize.py",
        "deepwork.py",
        "yaml.py",
    ):
        (tmp_path / name).write_text(f"open({str(marker)!r}, 'w')")
    (tmp_path / ".env").write_text("FASTMCP_LOG_LEVEL=DEBUG\nFASTMCP_MASK_ERROR_DETAILS=false\n")

    with wired(tmp_path, "--log-level", "debug") as wire:
        assert wire.call("agent_list")["total"] == 0

    assert not marker.exists()


def test_an_invalid_setting_is_reported_without_a_traceback(tmp_path: Path):
    wire = wired(tmp_path, "--toolsets", "agnets")

    assert wire.wait() == 2
    assert b"There is no toolset 'agnets'" in wire.errors
    assert b"Traceback" not in wire.errors


def test_a_damaged_database_fails_the_call_and_not_the_server(tmp_path: Path):
    (tmp_path / ".deepwork").mkdir()
    (tmp_path / ".deepwork" / "deepwork.db").write_bytes(b"no database" * 1000)

    with wired(tmp_path) as wire:
        for _ in range(2):
            said = wire.call("agent_list")
            assert said["code"] == "STORAGE_ERROR"
            assert "deepwork.db" in said["message"]
            assert str(tmp_path) not in said["message"]
