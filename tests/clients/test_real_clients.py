"""Real clients read what `deepwork setup` wrote, start the server and connect."""

from __future__ import annotations

import json

import pytest

from clients.codex_server import start_codex_server
from clients.machine import START_TIMEOUT_MS, Machine

pytestmark = pytest.mark.timeout(400)


def test_claude_code_connects_by_the_users_file(machine: Machine):
    machine.write("~/.claude.json", '{"mcpServers": {}}')

    machine.setup("claude-code", "--scope", "user")
    seen = machine.run("claude", "mcp", "list")

    assert "deepwork: " in seen
    assert "Connected" in seen, seen


def test_claude_code_asks_before_it_starts_a_projects_server_then_connects(machine: Machine):
    machine.setup("claude-code", "--hooks")

    asked = machine.run("claude", "mcp", "list")
    machine.write(
        ".claude/settings.local.json", '{"enabledMcpjsonServers": ["deepwork"]}'
    )  # the person agrees
    agreed = machine.run("claude", "mcp", "list")

    assert "Pending approval" in asked, asked
    assert "Connected" in agreed, agreed
    assert machine.setup("claude-code", "--hooks", "--check")["in_order"]


def test_after_claude_code_rewrote_its_file_our_entry_can_still_be_removed(machine: Machine):
    machine.setup("claude-code", "--scope", "user")
    machine.run("claude", "mcp", "add", "-s", "user", "mine", "--", "true")

    machine.setup("claude-code", "--scope", "user", "--remove")

    assert list(json.loads(machine.read("~/.claude.json"))["mcpServers"]) == ["mine"]


def test_codex_connects_and_lists_the_hooks_as_untrusted(machine: Machine):
    project = str(machine.project)
    machine.write("~/.codex/config.toml", f'[projects."{project}"]\ntrust_level = "trusted"\n')
    machine.setup("codex", "--hooks")
    machine.write(".codex/config.toml", machine.read(".codex/config.toml") + "startup_timeout_sec = 90\n")

    listed = machine.run("codex", "mcp", "list")
    with start_codex_server(machine) as codex:
        hooks = codex.call("hooks/list", cwds=[project])["data"][0]
        thread = codex.call("thread/start", cwd=project)["thread"]["id"]
        started = codex.wait_until_started("deepwork")
        [server] = codex.call("mcpServerStatus/list", threadId=thread, detail="toolsAndAuthOnly")["data"]

    assert "deepwork" in listed
    assert started["status"] == "ready", started
    assert (server["name"], server["runtimeStatus"]) == ("deepwork", "connected")
    assert "get_workflows" in server["tools"]
    assert (hooks["errors"], hooks["warnings"]) == ([], [])
    assert {hook["eventName"]: hook["command"] for hook in hooks["hooks"]} == {
        "sessionStart": "deepwork hook session-start --client codex",
        "postToolUse": "deepwork hook tool-use --client codex",
        "stop": "deepwork hook stop --client codex",
    }
    assert {hook["trustStatus"] for hook in hooks["hooks"]} == {"untrusted"}
    assert machine.setup("codex", "--hooks", "--check")["in_order"]


def test_after_codex_rewrote_its_file_our_entry_can_still_be_removed(machine: Machine):
    machine.write("~/.codex/config.toml", 'model = "gpt-5" # mine\n')
    machine.setup("codex", "--scope", "user")
    machine.run("codex", "mcp", "add", "mine", "--", "true")

    assert machine.setup("codex", "--scope", "user", "--check")["in_order"]
    machine.setup("codex", "--scope", "user", "--remove")

    left = machine.run("codex", "mcp", "list")
    assert "mine" in left
    assert "deepwork" not in left
    assert machine.read("~/.codex/config.toml").startswith('model = "gpt-5" # mine\n')


def test_gemini_connects_in_a_trusted_folder_and_only_there(machine: Machine):
    machine.setup("gemini", "--hooks")
    machine.change(".gemini/settings.json", timeout=START_TIMEOUT_MS)

    untrusted = machine.run("gemini", "mcp", "list")
    machine.write("~/.gemini/trustedFolders.json", json.dumps({str(machine.project): "TRUST_FOLDER"}))
    trusted = machine.run("gemini", "mcp", "list")

    assert "Disabled" in untrusted, untrusted
    assert "- Connected" in trusted, trusted
    assert machine.setup("gemini", "--hooks", "--check")["in_order"]


def test_opencode_connects(machine: Machine):
    machine.write("opencode.json", '{\n  // mine\n  "$schema": "https://opencode.ai/config.json",\n}\n')

    machine.setup("opencode")
    seen = machine.run("opencode", "mcp", "list")

    assert "✓ deepwork connected" in " ".join(seen.split()), seen
