"""Commands while PostgreSQL cannot be reached."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from deepwork.edge.cli import main

NOWHERE = "postgresql://ada@127.0.0.1:1/work"
UNREACHABLE = "The PostgreSQL database 'work' on 127.0.0.1, port 1 cannot be reached: Connection refused."


def run_main(monkeypatch: pytest.MonkeyPatch, project: Path, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["deepwork", *words, "--path", str(project), "--db", NOWHERE])
    return main._run()


@pytest.mark.parametrize(
    "words",
    [
        "status",
        "status --json",
        "plans list",
        "track list",
        "agents register Ada codex",
        "templates list",
        "events tail --no-follow",
        "tokens list",
        "audit",
        "audit verify",
        "db info",
    ],
)
def test_commands_name_the_server_that_cannot_be_reached(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    code = run_main(monkeypatch, tmp_path, *words.split())

    told = capsys.readouterr()
    assert (code, told.out) == (1, "")
    assert UNREACHABLE in (json.loads(told.err)["message"] if "--json" in words else told.err)
    assert "Check that it is running and that DEEPWORK_DATABASE_URL is correct" in told.err
    assert "a bug in deepwork" not in told.err


def test_the_doctor_names_the_server_that_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    code = run_main(monkeypatch, tmp_path, "doctor", "--json")

    answer = json.loads(capsys.readouterr().out)
    assert code == 1
    assert answer["facts"]["database"].startswith("PostgreSQL database 'work' on 127.0.0.1, port 1: not read")
    assert [
        problem.startswith(f"{UNREACHABLE} Check that it is running") for problem in answer["problems"]
    ] == [True]
