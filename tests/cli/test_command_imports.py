"""What short commands import: their CPU time is mostly the time of imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from cli.run import run_deepwork
from deepwork.edge.cli.plans import SOURCE_TYPES
from deepwork.work.plans.models import SourceType

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
