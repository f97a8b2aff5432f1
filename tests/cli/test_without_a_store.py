"""Commands in a folder that has no store yet."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cli.command_tree import map_tool_commands
from cli.run import run_deepwork
from deepwork.edge.cli import main
from deepwork.edge.server.application import OPERATION_CLASSES
from deepwork.edge.server.registry import describe_class

NO_STORE = "There is no store for {} yet; `deepwork status` says what comes next.\n"
TOOL_CLASSES = [kind for kind in map(describe_class, OPERATION_CLASSES) if not kind.traits.people_only]
READ_ONLY = {spec.name for kind in TOOL_CLASSES for spec in kind.specs if spec.read_only}


def fill_arguments(command: click.Command) -> list[str]:
    """Return a value for each argument, so that the command runs; the thing it names need not exist."""
    return [f"{each.name}=x" for each in command.params if isinstance(each, click.Argument) and each.required]


@pytest.mark.parametrize("tool", sorted(READ_ONLY))
def test_the_command_of_a_tool_that_reads_creates_nothing(tool: str, tmp_path: Path):
    for words, command in map_tool_commands()[tool]:
        CliRunner().invoke(main.deepwork, [*words, "--path", str(tmp_path), *fill_arguments(command)])

        assert list(tmp_path.iterdir()) == [], words


@pytest.mark.parametrize(
    "words",
    [
        "audit",
        "audit verify",
        "diff tt_1",
        "events tail --no-follow",
        "messages get msg_1",
        "plans list",
        "plans show wf_1",
        "runs list",
        "runs show run_1",
        "work --once",
        "sessions list",
        "tokens list",
        "track blockers tw_1",
        "track list",
        "track show tw_1",
    ],
)
def test_a_command_that_reads_says_that_there_is_no_store(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["deepwork", *words.split(), "--path", str(tmp_path)])

    main._run()

    assert capsys.readouterr().err.startswith(NO_STORE.format(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        "answer is_000000000000 x",
        "tell ada x",
        "tasks retry tk_000000000000",
        "plans update-status wf_000000000000 paused",
        "track abandon-task tt_000000000000 x",
        "agents heartbeat ag_000000000000",
        "run wf_000000000000",
        "runs stop rn_000000000000",
    ],
)
def test_a_command_that_changes_what_is_stored_creates_no_store(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["deepwork", *words.split(), "--path", str(tmp_path)])

    code = main._run()

    told = capsys.readouterr().err
    assert (code, told.startswith(NO_STORE.format(tmp_path)), "Error: There is no" in told) == (1, True, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        "sessions abort abcd1234 --explanation x",
        "sessions abort-workflow x",
        "sessions pass abcd1234",
        "sessions send-back abcd1234 x",
        "sessions grant-round abcd1234",
        "sessions finish a=b",
        "sessions back-to a",
    ],
)
def test_a_command_about_a_session_creates_no_store(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["deepwork", *words.split(), "--path", str(tmp_path)])

    code = main._run()

    assert (code, "Error: " in capsys.readouterr().err) == (1, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", ["doctor", "db info", "review", "jobs list", "templates list"])
def test_a_command_that_needs_no_store_creates_none(words: str, tmp_path: Path):
    CliRunner().invoke(main.deepwork, [*words.split(), "--path", str(tmp_path)])

    assert list(tmp_path.iterdir()) == []


def test_the_doctor_says_that_there_is_no_store(tmp_path: Path):
    assert (
        "store     none yet;" in CliRunner().invoke(main.deepwork, ["doctor", "--path", str(tmp_path)]).output
    )


def test_without_a_store_lists_are_empty_and_json_has_no_notice(tmp_path: Path):
    listed = run_deepwork(tmp_path, "plans", "list", "--json")

    assert (listed.code, listed.json, listed.err) == (0, {"workflows": [], "total": 0}, "")


def test_events_are_followed_as_soon_as_there_is_a_store(tmp_path: Path):
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "deepwork", "events", "tail"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    waiting = process.stderr.readline()
    run_deepwork(tmp_path, "agents", "register", "Ada", "codex")

    first = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=100)

    assert waiting == "(There is no store yet; waiting for the server or command that creates it.)\n"
    assert "agent:registered" in first
