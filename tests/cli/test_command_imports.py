"""What short commands import: their CPU time is mostly the time of imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from application import call_tool, make_app
from cli.run import run_deepwork
from deepwork.edge.cli.plans import SOURCE_TYPES
from deepwork.work.plans.models import SourceType
from workspaces.make import create_plan

# Runs the command, and at its end writes the names of all modules to standard error.
RECORDING = """
import atexit, json, sys
atexit.register(lambda: sys.stderr.write(json.dumps(list(sys.modules))))
from deepwork.__main__ import main
main()
"""
SERVERS = {"anyio", "asyncio", "fastmcp", "mcp", "starlette", "uvicorn"}
NEVER = {*SERVERS, "alembic", "psycopg", "rich", "sqlalchemy", "yaml"}


def list_imported(folder: Path, *words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-P", "-c", RECORDING, *words], cwd=folder, capture_output=True, text=True, timeout=110,
        check=True,
    )  # fmt: skip
    return set(json.loads(done.stderr))


def test_status_imports_no_tools_and_no_validation(tmp_path: Path):
    run_deepwork(tmp_path, "agents", "register", "Ada", "codex")
    imported = list_imported(tmp_path, "status")

    heavy = {
        "pydantic",
        "deepwork.edge.server.application",
        "deepwork.work.tracking.models",
        "deepwork.views.hooks.protocol",
    }
    assert not imported & {*NEVER, *heavy}


def test_agents_list_imports_no_plans_jobs_or_dashboard(tmp_path: Path):
    run_deepwork(tmp_path, "agents", "register", "Ada", "codex")
    imported = list_imported(tmp_path, "agents", "list")

    assert "deepwork.work.agents.tools" in imported
    assert not imported & {
        *NEVER,
        "deepwork.work.plans.responses",
        "deepwork.work.jobs",
        "deepwork.views.dashboard",
    }


BUDGETS = {
    "--version": 30,
    "agents list": 95,
    "messages list ID": 100,
    "approvals list": 95,
    "tokens list": 85,
    "audit": 95,
    "events tail --no-follow": 80,
    "db info": 55,
    "status": 125,
    "runs list": 135,
    "spend": 120,
    "repos list": 120,
    "plans list": 185,
    "plans show ID": 185,
    "tasks show ID": 200,
    "landings list": 215,
    "rewinds list": 240,
    "track list": 185,
    "track context ID": 185,
}
"""How many of our own modules a command that reads may import."""


@pytest.mark.parametrize("command", BUDGETS)
def test_a_command_that_reads_imports_few_modules_and_no_validation(tmp_path: Path, command: str):
    ids = make_work(tmp_path)
    words = [
        ids.get(command.split(maxsplit=1)[0], word) if word == "ID" else word for word in command.split()
    ]

    imported = list_imported(tmp_path, *words)

    assert not imported & {*NEVER, "pydantic"}
    assert len([name for name in imported if name.startswith("deepwork")]) <= BUDGETS[command]


@pytest.mark.parametrize(
    "command", ["jobs list", "jobs get-workflows", "sessions list", "templates list", "review rules"]
)
def test_a_command_that_lists_valid_definitions_imports_no_validation(tmp_path: Path, command: str):
    run_deepwork(tmp_path, "agents", "register", "Ada", "codex")
    run_deepwork(tmp_path, "jobs", "new", "report")
    imported = list_imported(tmp_path, *command.split())

    assert not imported & {*SERVERS, "pydantic", "psycopg", "rich", "sqlalchemy"}


def make_work(project: Path) -> dict[str, str]:
    """Store an agent, a plan with a task, and tracked work; return their ids by the command that shows them."""
    app = make_app(project, str(project / ".deepwork" / "deepwork.db"))
    plan, [task] = create_plan(app, "build")
    agent = call_tool(app, "agent_register", name="Ada", runtime="codex")["id"]
    record = call_tool(app, "start_workflow", name="Tidy", objective="Less.", profile="simple")["workflow_id"]
    app.close()
    return {"plans": plan, "tasks": task, "messages": agent, "track": record}


def test_the_command_groups_import_no_tools(tmp_path: Path):
    loading = "import json, sys; import deepwork.edge.cli.agents, deepwork.edge.cli.plans; print(json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-P", "-c", loading], cwd=tmp_path, capture_output=True, check=True, timeout=110
    )

    assert not set(json.loads(done.stdout)) & {
        "pydantic",
        "deepwork.edge.server.application",
        "deepwork.work.plans.models",
    }


def test_the_choices_of_source_types_are_those_of_the_model():
    assert list(SOURCE_TYPES) == [each.value for each in SourceType]
