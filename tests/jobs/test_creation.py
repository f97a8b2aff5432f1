"""One test for every numbered requirement on the server's creation (JOBS-REQ-001.1) and on its answers (001.7)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from pathlib import Path
from typing import Any, get_args

import pytest
from fastmcp import Client, FastMCP

from deepwork import create_server
from deepwork.edge.server.application import Application
from deepwork.edge.server.mcp_server import create_server as defined
from deepwork.edge.server.registration import McpTool
from deepwork.kernel.answers import build_model, read_answer
from deepwork.kernel.config import load_settings
from deepwork.work.jobs.quality_gate import QualityGate
from deepwork.work.jobs.responses import FinishedStep
from deepwork.work.jobs.reviewer_program import ClaudeCLI
from jobs.project import make_step, write_files, write_job


def get_app(server: FastMCP) -> Application:
    """The parts behind a server."""
    tool = asyncio.run(server.get_tool("finished_step"))
    assert isinstance(tool, McpTool)
    return tool._service.app


def get_gate(server: FastMCP) -> QualityGate | None:
    return get_app(server).quality_gate


def call_tools(server: FastMCP, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    async def ask() -> list[Any]:
        async with Client(server) as client:
            return [(await client.call_tool(tool, given)).structured_content for tool, given in calls]

    return asyncio.run(ask())


def get_default(parameter: str) -> Any:
    return inspect.signature(defined).parameters[parameter].default


def test_1_1_1_create_server_returns_a_fastmcp_server(tmp_path: Path):
    assert isinstance(create_server(tmp_path), FastMCP)


def test_1_1_2_the_project_root_is_a_path_or_a_string_and_becomes_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path)

    roots = [
        get_app(create_server(given)).settings.project_root
        for given in (Path("project"), "project", str(tmp_path / "project"))
    ]

    assert roots == [(tmp_path / "project").resolve()] * 3


def test_1_1_3_enable_quality_gate_is_true_by_default():
    assert get_default("enable_quality_gate") is True


def test_1_1_4_quality_gate_timeout_is_120_by_default_and_reaches_the_gate(tmp_path: Path):
    usual = get_gate(create_server(tmp_path, external_runner="claude"))
    configured = get_gate(create_server(tmp_path, external_runner="claude", quality_gate_timeout=7))

    assert get_default("quality_gate_timeout") == 120
    assert usual is not None
    assert configured is not None
    assert configured.cli is not None
    assert (usual.timeout, configured.timeout, configured.cli.timeout) == (120, 7, 7)
    assert [configured.time_for(files) for files in (1, 5, 6, 8)] == [7, 7, 37, 97]


def test_1_1_5_quality_gate_max_attempts_is_3_by_default_and_can_be_set(tmp_path: Path):
    configured = get_app(create_server(tmp_path, quality_gate_max_attempts=5))

    assert get_default("quality_gate_max_attempts") == 3
    assert load_settings(tmp_path, environment={}).quality_gate_max_attempts == 3
    assert configured.settings.quality_gate_max_attempts == 5


def test_an_explicit_default_wins_over_the_config_file(tmp_path: Path):
    config = tmp_path / ".deepwork" / "config.yml"
    config.parent.mkdir()
    config.write_text("quality_gate: {timeout: 7, max_attempts: 9}\n")

    from_file = get_app(create_server(tmp_path)).settings
    explicit = get_app(
        create_server(tmp_path, quality_gate_timeout=120, quality_gate_max_attempts=3)
    ).settings

    assert (from_file.quality_gate_timeout, from_file.quality_gate_max_attempts) == (7, 9)
    assert (explicit.quality_gate_timeout, explicit.quality_gate_max_attempts) == (120, 3)


def test_1_1_6_external_runner_is_none_by_default():
    assert get_default("external_runner") is None


def test_1_1_7_with_claude_the_gate_has_a_cli_and_shows_up_to_five_files(tmp_path: Path):
    gate = get_gate(create_server(tmp_path, external_runner="claude"))

    assert isinstance(gate, QualityGate)
    assert isinstance(gate.cli, ClaudeCLI)
    assert gate.max_inline_files == 5


def test_1_1_8_without_a_runner_the_gate_has_no_cli_and_shows_no_file(tmp_path: Path):
    gate = get_gate(create_server(tmp_path))

    assert isinstance(gate, QualityGate)
    assert (gate.cli, gate.max_inline_files) == (None, 0)


@pytest.mark.parametrize("runner", [None, "claude"])
def test_1_1_9_a_disabled_gate_is_not_created(tmp_path: Path, runner: str | None):
    assert get_gate(create_server(tmp_path, enable_quality_gate=False, external_runner=runner)) is None


def test_1_1_10_the_server_is_named_deepwork(tmp_path: Path):
    assert create_server(tmp_path).name == "deepwork"


@pytest.mark.parametrize("toolsets", ["all", "jobs"])
def test_1_1_11_the_instructions_describe_the_workflow_lifecycle_in_order(tmp_path: Path, toolsets: str):
    instructions = create_server(tmp_path, toolsets=toolsets).instructions or ""

    words = ("Discover", "Start", "Execute", "Checkpoint", "Iterate", "Continue", "Complete")
    places = [instructions.index(word) for word in words]
    assert places == sorted(places)


def test_1_1_12_every_call_is_logged_with_the_tool_and_the_stack(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    write_job(tmp_path, "chain", [make_step("a"), make_step("b")])
    write_files(tmp_path, "a.md")
    caplog.set_level(logging.INFO, "deepwork.calls")

    call_tools(
        create_server(tmp_path),
        ("get_workflows", {}),
        ("start_workflow", {"goal": "x", "job_name": "chain", "workflow_name": "main"}),
        ("finished_step", {"outputs": {"a.md": "a.md"}}),
        ("abort_workflow", {"explanation": "x"}),
    )

    logged = [record.getMessage() for record in caplog.records if record.name == "deepwork.calls"]
    assert [line.split(" ms=")[0] for line in logged] == [
        "tool=get_workflows stack=[]",
        "tool=start_workflow stack=[chain/main:a]",
        "tool=finished_step stack=[chain/main:b]",
        "tool=abort_workflow stack=[]",
    ]


def test_1_7_1_answers_are_plain_dictionaries(tmp_path: Path):
    write_job(tmp_path, "chain", [make_step("a")])
    write_files(tmp_path, "a.md")

    answers = call_tools(
        create_server(tmp_path),
        ("get_workflows", {}),
        ("start_workflow", {"goal": "x", "job_name": "chain", "workflow_name": "main"}),
        ("finished_step", {"outputs": {"a.md": "a.md"}}),
    )

    assert all(type(answer) is dict for answer in answers)
    assert read_answer(FinishedStep, answers[2]).model_dump() == answers[2]


def test_1_7_2_a_step_has_one_of_three_statuses():
    assert get_args(build_model(FinishedStep).model_fields["status"].annotation) == (
        "needs_work",
        "next_step",
        "workflow_complete",
    )


@pytest.mark.parametrize(
    ("tool", "takes_long"),
    [("get_workflows", False), ("start_workflow", True), ("finished_step", True), ("abort_workflow", True)],
)
def test_1_2_1_1_3_1_1_4_1_1_6_1_long_running_tools_are_asynchronous(
    tmp_path: Path, tool: str, takes_long: bool
):
    server = create_server(tmp_path)

    assert get_app(server).registry[tool].declaration.long_running is takes_long
    assert inspect.iscoroutinefunction(getattr(asyncio.run(server.get_tool(tool)), "run", None))
