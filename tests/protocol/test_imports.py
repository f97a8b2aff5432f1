"""What a running server has imported: start time and memory depend on it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from http_tests.http_server import HttpServer, McpSession
from protocol.stdio_server import StdioServer

MCP_LIBRARIES = {"fastmcp", "mcp", "mcp_types"}

# Runs the command, and at its end writes the names of all modules to a file.
RECORDING = """
import atexit, json, os, sys
atexit.register(lambda: open(os.environ["MODULES"], "w").write(json.dumps(list(sys.modules))))
from deepwork.__main__ import main
main()
"""
COMMAND = (sys.executable, "-P", "-c", RECORDING)


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MODULES", str(tmp_path / "modules.json"))
    return tmp_path / "modules.json"


def find_imported(modules: Path, unwanted: set[str]) -> set[str]:
    return unwanted & {name.partition(".")[0] for name in json.loads(modules.read_text())}


def test_over_stdio_a_server_imports_no_framework(tmp_path: Path, modules: Path):
    with StdioServer(tmp_path, command=COMMAND) as wire:
        assert wire.request("tools/list")["result"]["tools"]
        assert wire.call("agent_register", {"name": "Ada", "runtime": "codex"})["name"] == "Ada"

    unwanted = {"anyio", "asyncio", "click", "pydantic", "pydantic_core", "starlette", "uvicorn", "yaml"}
    assert not find_imported(modules, {*MCP_LIBRARIES, *unwanted})


def test_only_calls_import_the_fastest_json_library(tmp_path: Path, modules: Path):
    pytest.importorskip("orjson")
    with StdioServer(tmp_path, command=COMMAND) as wire:
        assert wire.request("tools/list")["result"]["tools"]
    after_listing = find_imported(modules, {"orjson"})
    with StdioServer(tmp_path, command=COMMAND) as wire:
        assert wire.call("agent_list", {})["total"] == 0

    assert not after_listing
    assert find_imported(modules, {"orjson"})


def test_calls_that_agents_make_often_do_not_import_pydantic(tmp_path: Path, modules: Path):
    with StdioServer(tmp_path, command=COMMAND) as wire:
        ada = wire.call("agent_register", {"name": "Ada", "runtime": "codex"})["id"]
        plan = wire.call(
            "workflow_create", {"name": "Move", "source_type": "prompt", "source_content": "Move it"}
        )["id"]
        assert wire.call("workflow_next_tasks", {"workflow_id": plan})["total_available"] == 0
        wire.call(
            "message_send", {"sender_id": ada, "recipient_id": ada, "message_type": "query", "body": "hi"}
        )
        assert wire.call("agent_heartbeat", {"agent_id": ada})["success"]

    assert not find_imported(modules, {"pydantic", "pydantic_core"})


def test_a_package_is_imported_when_one_of_its_tools_is_called(tmp_path: Path, modules: Path):
    with StdioServer(tmp_path, command=COMMAND) as wire:
        assert wire.request("tools/list")["result"]["tools"]
        assert wire.call("agent_list", {})["total"] == 0

    imported = set(json.loads(modules.read_text()))
    assert "deepwork.work.agents.tools" in imported
    assert not {
        name
        for name in imported
        if name.startswith(("deepwork.work.plans.stores", "deepwork.work.jobs.", "deepwork.kernel.git."))
    }


def test_over_http_a_server_imports_no_mcp_library(tmp_path: Path, modules: Path):
    with HttpServer(tmp_path, command=COMMAND) as server:
        assert McpSession(server).call(1, "agent_list", {})["total"] == 0
        server.stop()

    assert not find_imported(modules, MCP_LIBRARIES)
