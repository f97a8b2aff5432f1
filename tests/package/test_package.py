"""The built package is complete, and works with only its requirements installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from demo import runner

from application import skip_or_fail
from deepwork import __version__
from http_tests.http_server import HttpServer, McpSession, reserve_port
from package.installation import Installation, build_package, find_requirements, read_contents
from protocol.stdio_server import StdioServer

MUST_BE_THERE = (
    "deepwork/py.typed",
    "deepwork/views/dashboard/static/index.html",
    "deepwork/kernel/database/migrations/env.py",
    "deepwork/kernel/database/migrations/postgresql.sql",
    "deepwork/kernel/database/migrations/sqlite.sql",
    "deepwork/kernel/database/migrations/versions/0001_first_tables.py",
    "deepwork/work/jobs/job.schema.json",
    "deepwork/work/jobs/standard/deepwork_jobs/job.yml",
    "deepwork/kernel/text_budget/known_tokens.txt",
    "deepwork/gates/reviews/deepreview.schema.json",
    "deepwork/work/templates/shipped/feature.yml",
    "deepwork/work/templates/template.schema.json",
    "deepwork/gates/checks/checks.schema.json",
)


def test_the_wheel_holds_every_file_of_the_package_and_no_other(source: Path, wheel: Path):
    files = {str(path.relative_to(source / "src")) for path in (source / "src").rglob("*") if path.is_file()}

    held = {name for name in read_contents(wheel) if ".dist-info/" not in name}

    assert held == files
    assert set(MUST_BE_THERE) <= held


def test_the_page_in_the_wheel_finds_its_assets(wheel: Path):
    held = read_contents(wheel)
    page = held["deepwork/views/dashboard/static/index.html"].decode()

    assets = re.findall(r'(?:src|href)="/(assets/[^"]+)"', page)

    assert any(name.endswith(".js") for name in assets)
    assert {f"deepwork/views/dashboard/static/{name}" for name in assets} <= set(held)


def test_the_sdist_builds_the_same_wheel(source: Path, wheel: Path, tmp_path: Path):
    sdist = build_package(source, "sdist", tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    [unpacked] = (tmp_path / "unpacked").iterdir()

    again = build_package(unpacked, "wheel", tmp_path / "again")

    assert again.name == wheel.name
    assert read_contents(again) == read_contents(wheel)


def test_optional_requirements_are_extras(wheel: Path):
    base = find_requirements(wheel)

    assert {"alembic", "rich", "pyyaml", "starlette", "uvicorn", "websockets"} <= base
    assert not {"fastmcp", "mcp", "psycopg", "psycopg-pool", "opentelemetry-sdk"} & base
    assert "fastmcp" in find_requirements(wheel, frozenset({"fastmcp"}))
    assert {"psycopg", "psycopg-binary", "psycopg-pool"} <= find_requirements(wheel, frozenset({"postgres"}))
    assert "opentelemetry-exporter-otlp-proto-http" in find_requirements(wheel, frozenset({"otel"}))


def test_the_installed_program_prints_its_version(deepwork: Installation):
    assert deepwork.run("--version").stdout == f"deepwork, version {__version__}\n"


def test_the_installed_server_answers_over_stdio_and_finds_its_data_files(
    deepwork: Installation, tmp_path: Path
):
    environment = deepwork.environment(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    command = [deepwork.program]
    with StdioServer(tmp_path, "--log-level", "warning", command=command, environment=environment) as wire:
        agent = wire.call("agent_register", {"name": "Ada", "runtime": "codex"})
        templates = wire.call("template_list")["templates"]
        jobs = wire.call("get_workflows")
    errors = wire.errors.decode()

    assert re.fullmatch(r"ag_[0-9a-z]{12}", agent["id"])
    assert {"bugfix", "feature", "refactor"} <= {each["name"] for each in templates}
    assert "deepwork_jobs" in str(jobs)
    assert errors.count("pip install 'deepwork[otel]'") == 1
    assert len(errors.splitlines()) == 1, errors


def test_the_installed_tools_are_described_by_prepared_data(deepwork: Installation):
    question = (
        "from deepwork.edge.server.prepared_tools import find_prepared_class as find;"
        "print(len(find('deepwork.work.agents.tools:AgentTools').tools))"
    )
    python = deepwork.folder / "bin" / "python"
    asked = subprocess.run([python, "-P", "-c", question], capture_output=True, text=True, check=True)

    assert int(asked.stdout) == 6


def test_the_installed_dashboard_shows_its_page(deepwork: Installation, tmp_path: Path):
    port = reserve_port()
    base = f"http://127.0.0.1:{port}"
    dashboard = subprocess.Popen(
        [deepwork.program, "dashboard", "--path", str(tmp_path), "--port", str(port)],
        env=deepwork.environment(DEEPWORK_TOKEN="a-token-of-the-tests"),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        page = _read(f"{base}/", dashboard).decode()
        script = re.findall(r'src="(/assets/index[^"]+)"', page)[0]
        assert "<title>" in page
        assert len(_read(base + script, dashboard)) > 10_000
    finally:
        dashboard.terminate()
        dashboard.communicate(timeout=100)


def test_without_fastmcp_creating_a_server_says_how_to_install_it(deepwork: Installation):
    python = deepwork.folder / "bin" / "python"
    asked = subprocess.run(
        [python, "-P", "-c", "from deepwork import create_server"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert asked.returncode == 1
    assert asked.stderr.splitlines()[-1].startswith("ImportError: create_server() needs FastMCP")
    assert "pip install 'deepwork[fastmcp]'" in asked.stderr


def test_the_installed_server_answers_over_http(deepwork: Installation, tmp_path: Path):
    with HttpServer(tmp_path, command=(deepwork.program,)) as server:
        assert McpSession(server).call(1, "agent_list", {})["total"] == 0


def test_the_installed_server_opens_streams_of_events(deepwork: Installation, tmp_path: Path):
    with HttpServer(tmp_path, transport="sse", command=(deepwork.program,)) as server:
        request = urllib.request.Request(f"{server.url}/sse", headers=server.bearer)
        with urllib.request.urlopen(request, timeout=100) as stream:
            assert stream.readline().strip() == b"event: endpoint"


def test_the_installed_program_runs_agents(deepwork: Installation, tmp_path: Path):
    project = tmp_path / "project"
    environment = runner.set_up(tmp_path, project)
    work = {
        "name": "Move",
        "prompt": "Move.",
        "summary": "Boxes.",
        "tasks": [{"name": "pack", "description": "All boxes."}],
    }
    (tmp_path / "plan.json").write_text(json.dumps(work))

    def call(*words: str) -> str:
        done = subprocess.run(
            [deepwork.program, *words],
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    plan = json.loads(call("plans", "create", "--file", str(tmp_path / "plan.json"), "--json"))["id"]
    call("run", plan, "--agent", "claude")

    assert json.loads(call("plans", "get", plan, "--json"))["status"] == "completed"


UV = Path(sys.executable).with_name("uv")
NO_REGISTRY = ("network", "connect", "dns error", "Failed to fetch")


@pytest.mark.thorough
@pytest.mark.timeout(600)
def test_the_program_runs_with_uvx_from_a_clone(source: Path, tmp_path: Path):
    if not UV.exists():
        skip_or_fail("uv is not installed")
    done = subprocess.run(
        [str(UV), "tool", "run", "--from", str(source), "deepwork", "--version"],
        env={**os.environ, "UV_TOOL_DIR": str(tmp_path / "tools"), "UV_PYTHON": sys.executable},
        capture_output=True, text=True, check=False, timeout=550,
    )  # fmt: skip
    if done.returncode != 0 and any(word in done.stderr for word in NO_REGISTRY):
        skip_or_fail(f"the package registry cannot be reached: {done.stderr[-300:]}")

    assert (done.returncode, done.stdout) == (0, f"deepwork, version {__version__}\n"), done.stderr


def _read(address: str, dashboard: subprocess.Popen[bytes]) -> bytes:
    """GET a URL as soon as the server listens."""
    request = urllib.request.Request(address, headers={"Authorization": "Bearer a-token-of-the-tests"})
    for _ in range(2000):
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                found: bytes = answer.read()
                return found
        except urllib.error.HTTPError:
            raise
        except OSError:
            assert dashboard.poll() is None, dashboard.communicate()[1].decode()
            time.sleep(0.05)
    pytest.fail("nobody listens")
