"""The commands that are not tools."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import deepwork as package
from cli.run import run_deepwork
from deepwork.kernel.database.schema import HEAD

ROOT = Path(__file__).parents[2]


def test_the_version_matches_the_package(tmp_path: Path):
    assert run_deepwork(tmp_path, "--version").out == f"deepwork, version {package.__version__}\n"


def test_the_version_is_that_of_the_newest_changes():
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changes, re.MULTILINE)

    assert newest is not None
    assert newest[1] == package.__version__


def test_help_names_every_command_and_imports_none(tmp_path: Path):
    code = (
        "import sys; from deepwork.edge.cli.main import main; sys.argv = ['deepwork', '--help']\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'pydantic', 'sqlalchemy', 'fastmcp', 'yaml', 'psycopg', 'pysqlite3', 'tomlkit'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy))"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)

    assert "heavy: []" in ran.stdout
    assert all(name in ran.stdout for name in ("serve", "doctor", "events", "agents", "messages"))


def test_a_verb_imports_neither_mcp_nor_a_migration_on_a_known_database(tmp_path: Path):
    run_deepwork(tmp_path, "agents", "list")
    code = (
        f"import sys; from deepwork.edge.cli.main import main; sys.argv = ['deepwork', 'agents', 'list', '--path', {str(tmp_path)!r}]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'sqlalchemy', 'alembic', 'fastmcp', 'mcp', 'psycopg', 'yaml', 'prometheus_client'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy))"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)

    assert "heavy: []" in ran.stdout


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, deepwork; print(sorted({'pydantic', 'fastmcp', 'click'} & set(sys.modules)))"

    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


def test_the_doctor_reports_facts_and_no_problems(tmp_path: Path):
    run_deepwork(tmp_path, "agents", "register", "Ada", "codex")

    ran = run_deepwork(tmp_path, "doctor")

    assert ran.code == 0
    for fact in ("deepwork.db", "SQLite 3.", HEAD, "git", "No problems found."):
        assert fact in ran.out


def test_the_doctor_creates_nothing(tmp_path: Path):
    assert run_deepwork(tmp_path, "doctor").code == 0
    assert list(tmp_path.iterdir()) == []


def test_the_doctor_reports_problems_and_suggests_fixes(tmp_path: Path):
    (tmp_path / ".deepwork").mkdir()
    (tmp_path / ".deepwork" / "config.yml").write_text("toolset: agents\n")
    (tmp_path / ".deepwork" / "deepwork.db").write_bytes(b"no database" * 1000)

    ran = run_deepwork(tmp_path, "doctor", "--json")

    assert ran.code == 1
    problems = " ".join(ran.json["problems"])
    assert "'toolset'" in problems
    assert "not a database" in problems


def test_events_can_be_printed_and_filtered(tmp_path: Path):
    ada = run_deepwork(tmp_path, "agents", "register", "Ada", "codex", "--json").json["id"]
    run_deepwork(tmp_path, "agents", "update", ada, "--status", "busy")

    told = run_deepwork(tmp_path, "events", "tail", "--since", "0", "--no-follow", "--json").out.splitlines()

    assert [json.loads(line)["type"] for line in told] == ["agent:registered", "agent:updated"]
    assert "agent:registered" in run_deepwork(tmp_path, "events", "tail", "--since", "0", "--no-follow").out
    assert run_deepwork(tmp_path, "events", "tail", "--since", "2", "--no-follow").out == ""
    assert "no longer stored" in run_deepwork(tmp_path, "events", "tail", "--since", "99", "--no-follow").out


def test_events_are_followed_as_they_happen(tmp_path: Path):
    run_deepwork(tmp_path, "agents", "list")
    tail = subprocess.Popen(
        [sys.executable, "-P", "-m", "deepwork", "events", "tail", "--since", "0", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert tail.stdout is not None
    run_deepwork(tmp_path, "agents", "register", "Ada", "codex")

    assert json.loads(tail.stdout.readline())["data"]["name"] == "Ada"

    tail.send_signal(signal.SIGINT)
    assert tail.wait(timeout=60) == 130
    tail.stdout.close()


def test_the_help_of_serve_names_the_platforms(tmp_path: Path):
    shown = " ".join(run_deepwork(tmp_path, "serve", "--help").out.split())

    assert "One of claude, codex, cursor, gemini, opencode, vscode, windsurf, zed, generic." in shown
