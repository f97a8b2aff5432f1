"""The exact command lines; `tests/clients` runs them with the real programs."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from deepwork.delivery.runner.adapters import Launch, LaunchRequest, McpServer, get_adapter
from deepwork.delivery.runner.profiles import AgentProfile
from deepwork.kernel.vendors import AGENT_KINDS

TREE = Path("/trees/one")
FOLDER = Path("/runs/at_1/1")
PROMPT = FOLDER / "prompt.md"
SESSION = "8c2f0c56-5f3e-4d1c-9a51-0d3c7c6a1f10"
SERVER = McpServer(("/bin/deepwork", "-I", "bridge.py", 'a "quoted" file'))


def build(
    kind: str,
    *,
    session_id: str | None = None,
    is_resume: bool = False,
    mcp: McpServer | None = None,
    max_usd: float | None = None,
    **settings: object,
) -> Launch:
    profile = AgentProfile(kind, kind, **settings)  # type: ignore[arg-type]
    return get_adapter(kind).build_launch(
        LaunchRequest(profile, TREE, PROMPT, FOLDER, session_id, is_resume, mcp, max_usd=max_usd)
    )


def test_claude_starts_with_the_session_that_we_chose() -> None:
    launch = build("claude", session_id=SESSION, model="opus", allow=("Bash(git log:*)", "Edit"), max_usd=2.5)

    assert launch == Launch(
        (
            *("claude", "-p", "--output-format", "stream-json", "--verbose", "--model=opus"),
            *(f"--session-id={SESSION}", "--max-budget-usd=2.500000", "--permission-mode=acceptEdits"),
            *("--allowedTools=Bash(git log:*)", "--allowedTools=Edit"),
        ),
        session_id=SESSION,
    )


def test_claude_resumes_a_session_and_gets_only_our_server() -> None:
    launch = build("claude", session_id=SESSION, is_resume=True, permission="plan", mcp=SERVER)

    config = FOLDER / "mcp.json"
    assert launch.argv[5:] == (
        *(f"--resume={SESSION}", "--permission-mode=plan", "--allowedTools=mcp__deepwork"),
        *("--mcp-config", str(config), "--strict-mcp-config"),
    )
    assert launch.env == {"MCP_CONNECTION_NONBLOCKING": "false"}
    assert json.loads(launch.files[config])["mcpServers"]["deepwork"] == {
        "type": "stdio",
        "command": "/bin/deepwork",
        "args": list(SERVER.argv[1:]),
    }


def test_codex_starts_a_thread_whose_id_it_tells_us() -> None:
    launch = build("codex", session_id=SESSION, model="gpt-5")

    assert launch == Launch(
        (
            *("codex", "exec", "--json", "--cd", str(TREE), "--sandbox", "workspace-write"),
            *("--model", "gpt-5", "-o", str(FOLDER / "last.txt"), "-"),
        )
    )


def test_codex_resumes_a_thread_with_the_flags_before_it() -> None:
    launch = build("codex", session_id="th_1", is_resume=True, sandbox="read-only")

    assert launch.argv[-5:] == ("-o", str(FOLDER / "last.txt"), "resume", "th_1", "-")
    assert launch.argv[6] == "read-only"
    assert launch.session_id == "th_1"


def test_codex_gets_our_server_by_its_arguments() -> None:
    launch = build("codex", mcp=SERVER)

    settings = [launch.argv[n + 1] for n, word in enumerate(launch.argv) if word == "-c"]
    assert tomllib.loads("\n".join(settings))["mcp_servers"]["deepwork"] == {
        "command": "/bin/deepwork",
        "args": list(SERVER.argv[1:]),
        "required": True,
        "default_tools_approval_mode": "approve",
    }
    assert launch.env == {}


def test_gemini_starts_and_resumes_with_the_session_that_we_chose() -> None:
    start = build("gemini", session_id=SESSION)
    resume = build("gemini", session_id=SESSION, is_resume=True, permission="auto_edit", allow=("edit",))

    assert start == Launch(
        (
            *("gemini", "-p", "", "-o", "stream-json", "--skip-trust", "--approval-mode=yolo"),
            f"--session-id={SESSION}",
        ),
        session_id=SESSION,
    )
    assert resume.argv[6:] == ("--approval-mode=auto_edit", "--allowed-tools=edit", f"--resume={SESSION}")


def test_gemini_gets_our_server_from_a_file_and_its_sandbox_from_a_variable() -> None:
    launch = build("gemini", mcp=SERVER, sandbox="docker")

    settings = FOLDER / "gemini-settings.json"
    assert launch.env == {"GEMINI_SANDBOX": "docker", "GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(settings)}
    assert json.loads(launch.files[settings])["mcpServers"]["deepwork"]["trust"] is True


def test_opencode_starts_and_resumes() -> None:
    start = build("opencode", session_id=SESSION, model="openai/gpt-5")
    resume = build("opencode", session_id="ses_1", is_resume=True)

    begin = (
        "opencode",
        "run",
        "--format",
        "json",
        "--print-logs",
        "--log-level",
        "ERROR",
        "--dir",
        str(TREE),
    )
    assert start == Launch((*begin, "--auto", "--model", "openai/gpt-5"))
    assert resume == Launch((*begin, "--auto", "--session", "ses_1"), session_id="ses_1")


def test_opencode_gets_its_permission_and_our_server_from_variables() -> None:
    launch = build("opencode", permission="deny", mcp=SERVER)

    assert "--auto" not in launch.argv
    assert json.loads(launch.env["OPENCODE_PERMISSION"]) == {"*": "deny"}
    assert json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])["mcp"]["deepwork"] == {
        "type": "local",
        "command": list(SERVER.argv),
        "enabled": True,
    }


def test_a_command_gets_the_path_of_the_prompt_in_its_words() -> None:
    launch = build("command", run=("mycmd", "--task={prompt_file}", "{prompt_file}"), mcp=SERVER)

    assert launch == Launch(("mycmd", f"--task={PROMPT}", str(PROMPT)))


@pytest.mark.parametrize("kind", AGENT_KINDS)
def test_a_vendor_names_its_program_and_the_versions_it_was_tested_with(kind: str) -> None:
    assert build(kind).argv[0] == get_adapter(kind).kind == kind
    assert AGENT_KINDS[kind].tested_versions
