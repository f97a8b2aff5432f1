"""Nothing that others wrote controls the terminal, whichever command prints it."""

from __future__ import annotations

import io
import json
import logging
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from application import call_tool, make_app
from cli.command_tree import is_runnable, walk_commands
from cli.run import run_in_terminal
from deepwork.edge.cli import main as cli
from deepwork.edge.cli.framework.documents import DocumentParam
from deepwork.edge.cli.framework.id_resolution import list_identifiers
from deepwork.edge.cli.framework.options import find_kind
from deepwork.edge.cli.framework.output import render_json, render_lines
from deepwork.edge.cli.framework.progress import ProgressBar
from deepwork.edge.cli.framework.terminal import ProtectedStream, protect_output
from deepwork.kernel.foreign_text import dump_json, escape_line
from deepwork.views.observability.calls import CallLog
from deepwork.views.observability.logs import TEXT, JsonHandler, TextFormatter
from hooks.foreign_text import MARK, PAYLOAD, fill_store
from hooks.make import Project

ESCAPES = f"\x1b]0;{MARK}\x07\x1b[2J\x9b31m\x90{MARK}\x9c\x1bP{MARK}\x1b\\\u2066\u2069{PAYLOAD}"
OWN_SEQUENCES = f"\x1b[31m{MARK}\x1b[H\x1b[2J\x1b[3J{MARK}"
IN_FILES = f"\x1b]0;{MARK}\x07\x9b31m\u202e{MARK}"
NOT_COMMANDS = {(), ("serve",), ("dashboard",), ("hook",)}
"""Servers, whose log is tested below, and hooks, which print JSON in ASCII."""


def find_controls(text: str) -> set[str]:
    """Find the characters that could control a terminal."""
    return {each for each in text if unicodedata.category(each)[0] == "C" and each not in "\n\t"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A project in which every text is hostile, and ids in it by kind."""
    root = tmp_path_factory.mktemp("hostile")
    app = make_app(root, "")
    project = Project(app)
    agent, task = fill_store(project)
    call_tool(
        app, "template_create", name=PAYLOAD, description=PAYLOAD, from_workflow_id=get(project, "plans")
    )
    note = {"task_id": get(project, "tracked_tasks")}
    decided: dict[str, Any] = {
        "question": PAYLOAD,
        "chosen": PAYLOAD,
        "reasoning": PAYLOAD,
        "options_considered": [PAYLOAD],
    }
    call_tool(app, "log_decision", category="architecture", **note, **decided)
    call_tool(app, "log_issue", type="other", description=PAYLOAD, resolution=PAYLOAD, **note)
    call_tool(app, "log_milestone", message=PAYLOAD, metadata={PAYLOAD: PAYLOAD}, **note)
    call_tool(app, "repository_register", path=str(root), name=PAYLOAD)
    tables = {
        "plan": "plans", "issue": "issues", "message": "messages", "phase": "phases", "session": "job_sessions",
        "template": "templates", "tracked_task": "tracked_tasks", "record": "tracked_workflows",
    }  # fmt: skip
    ids = {kind: get(project, table) for kind, table in tables.items()} | {"agent": agent, "task": task}
    ids |= {"any": task, "any_task": ids["tracked_task"], "any_issue": ids["issue"], "job": "hello_review"}
    app.close()
    hostile = root / ".deepwork" / "jobs" / f"x{MARK}\x1b[2J"
    hostile.mkdir(parents=True)
    (hostile / "job.yml").write_text(json.dumps({"name": IN_FILES, IN_FILES: 1, "summary": IN_FILES}))
    (root / ".deepreview").write_text(json.dumps({IN_FILES: {"description": IN_FILES}}))
    return root, ids


def get(project: Project, table: str) -> str:
    return str(project.fetch_value(f"SELECT min(id) FROM {table}"))


class Shell:
    """Runs commands in this process, as the entry point does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def run(self, *words: str) -> str:
        """Run a command and return all that it printed."""
        out, err = io.StringIO(), io.StringIO()
        with Path("/dev/null").open() as nothing, self._monkeypatch.context() as patched:
            for name, stream in (("stdout", out), ("stderr", err), ("stdin", nothing)):
                patched.setattr(sys, name, stream)
            patched.setattr(sys, "argv", ["deepwork", *words])
            with pytest.raises(SystemExit) as ended:
                cli.main()
        assert ended.value.code != cli.INTERNAL_FAILURE, err.getvalue()
        if "--json" in words and out.getvalue():
            for line in out.getvalue().splitlines():
                json.loads(line)
        return out.getvalue() + err.getvalue()


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Shell:
    return Shell(monkeypatch)


def build_words(group: str, command: click.Command, ids: dict[str, str]) -> Iterator[str]:
    """Build arguments of a command: known ids where it takes them, hostile text elsewhere."""
    for parameter in command.params:
        if not isinstance(parameter, click.Argument):
            continue
        if isinstance(parameter.type, click.Choice):
            yield str(parameter.type.choices[0])
        elif isinstance(parameter.type, DocumentParam) or parameter.type.name == "json":
            yield json.dumps({ESCAPES: ESCAPES})
        elif parameter.type.name == "integer":
            yield "2"
        elif parameter.type.name == "name=file":
            yield f"{ESCAPES}={ESCAPES}"
        elif parameter.required:
            yield ids.get(find_kind(group, parameter.name or ""), ESCAPES)


def list_commands() -> list[tuple[tuple[str, ...], click.Command]]:
    found = [each for each in walk_commands() if is_runnable(each[1]) and each[0] not in NOT_COMMANDS]
    # What changes the store comes last.
    return sorted(
        found, key=lambda each: each[0][-1] in ("unregister", "abort", "restore", "copy", "complete-workflow")
    )


@pytest.mark.parametrize(
    "how",
    ["with ids", *(pytest.param(each, marks=pytest.mark.thorough) for each in ("as JSON", "with mistakes"))],
)
def test_no_command_prints_a_control_character(
    store: tuple[Path, dict[str, str]], shell: Shell, how: str, monkeypatch: pytest.MonkeyPatch
):
    root, ids = store
    monkeypatch.chdir(root)
    printed = []
    for words, command in list_commands():
        given = list(build_words(words[0], command, ids if how != "with mistakes" else {}))
        flags = [*(["--json"] if how == "as JSON" and takes(command, "--json") else [])]
        flags += ["--no-follow", "--since", "0"] if words == ("events", "tail") else []
        text = shell.run(*words, *flags, "--", *given)
        assert not find_controls(text), (words, text)
        printed.append(MARK in text)

    assert printed.count(True) > 60, "most commands print hostile text"


def takes(command: click.Command, option: str) -> bool:
    return any(option in parameter.opts for parameter in command.params)


@pytest.mark.parametrize(
    "words",
    [
        [ESCAPES], ["plans", ESCAPES], ["plans", "get", f"--{ESCAPES}"], ["plans", "list", "--limit", ESCAPES],
        ["plans", "list", "--status", ESCAPES], ["tasks", "get", ESCAPES], ["tasks", "get", ESCAPES, "--json"],
        ["--path", ESCAPES, "status"], ["status", "--path", ESCAPES], ["status", "--db", ESCAPES],
        ["jobs", "new", ESCAPES], ["tokens", "create", ESCAPES, "--scope", "work"], ["completion", ESCAPES],
    ],
)  # fmt: skip
def test_no_error_prints_a_control_character(
    store: tuple[Path, dict[str, str]], shell: Shell, words: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(store[0])

    assert not find_controls(shell.run(*words))


def test_a_config_file_with_control_characters_is_reported_without_them(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".deepwork").mkdir()
    (tmp_path / ".deepwork" / "config.yml").write_text(json.dumps({"platforms": IN_FILES, IN_FILES: 1}))

    for words in (["status"], ["doctor"], ["doctor", "--json"], ["plans", "list"]):
        text = shell.run(*words)
        assert not find_controls(text)
        assert MARK in text or words == ["plans", "list"]


def test_completion_offers_no_control_character(store: tuple[Path, dict[str, str]]):
    offered = [
        item
        for kind in {*store[1], "workspace"}
        for item in list_identifiers(kind, "", project=str(store[0]), database=None, is_global=False)
    ]

    assert any(MARK in about for _, about in offered)
    assert not find_controls("".join(value + about for value, about in offered))


@pytest.mark.parametrize("end", ["\x85", "\u2028", "\u2029"])
def test_only_a_line_feed_begins_another_line(end: str):
    """Otherwise a text in JSON or in a diff ends with a line that looks like one of ours."""
    text = f"x{end}status: given"

    assert render_json({"summary": text})[1] == f'  "summary": "x{escape_line(end)}status: given"'
    assert render_lines(f"{text}\r\nnext\n") == [f"x{escape_line(end)}status: given", "next"]


def test_json_keeps_its_values():
    value = {ESCAPES: [ESCAPES, "é 名前 😀", 1, None]}

    text = dump_json(value)

    assert json.loads(text) == value
    assert not find_controls(text)
    assert "é 名前 😀" in text


def test_in_a_terminal_only_our_own_colours_are_printed(store: tuple[Path, dict[str, str]]):
    root, ids = store
    for words in (
        ["status"],
        ["plans", "list"],
        ["tasks", "get", ids["task"]],
        ["tasks", "get", ESCAPES[1:]],
    ):
        text = run_in_terminal(root, *words).out
        plain = text
        for style in ("0", "1", "2", "31", "32", "33", "36", "90", "1;32"):
            plain = plain.replace(f"\x1b[{style}m", "")
        assert not find_controls(plain), (words, plain)
        assert MARK in plain


@pytest.mark.parametrize(
    "words",
    [
        [OWN_SEQUENCES], ["plans", OWN_SEQUENCES], ["plans", "create", "--file", OWN_SEQUENCES],
        ["plans", "list", "--limit", OWN_SEQUENCES], ["tasks", "get", OWN_SEQUENCES],
    ],
)  # fmt: skip
def test_in_a_terminal_an_argument_cannot_use_our_own_sequences(
    store: tuple[Path, dict[str, str]], words: list[str]
):
    text = run_in_terminal(store[0], *words).out

    assert MARK in text
    assert not find_controls(text)


def test_colours_are_kept_for_a_terminal_and_nothing_else(monkeypatch: pytest.MonkeyPatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    screen, pipe = Terminal(), io.StringIO()
    for stream in (screen, pipe):
        ProtectedStream(stream).write("\x1b[32mgreen\x1b[0m \x1b[8mhidden \x1b[2J\x1b]0;title\x07\n")

    assert screen.getvalue() == "\x1b[32mgreen\x1b[0m \\x1b[8mhidden \\x1b[2J\\x1b]0;title\\x07\n"
    assert not find_controls(pipe.getvalue())


def test_the_protection_ends_with_the_command():
    before = sys.stdout, sys.stderr
    with protect_output(), protect_output():
        assert isinstance(sys.stdout, ProtectedStream)
        assert not isinstance(sys.stdout.unprotected, ProtectedStream)
    assert (sys.stdout, sys.stderr) == before


def test_log_lines_have_no_control_characters(capfd: pytest.CaptureFixture[str]):
    stream = io.StringIO()
    text_handler: logging.StreamHandler[Any] = logging.StreamHandler(stream)
    text_handler.setFormatter(TextFormatter(TEXT))
    record = logging.makeLogRecord({"name": "deepwork", "levelname": "INFO", "msg": "%s", "args": (ESCAPES,)})
    error = ValueError(ESCAPES)
    failed = logging.makeLogRecord({"name": "deepwork", "msg": "x", "exc_info": (ValueError, error, None)})

    for handler in (text_handler, JsonHandler(stream)):
        handler.handle(record)
        handler.handle(failed)
    CallLog(2).write(ESCAPES)

    assert not find_controls(stream.getvalue())
    assert stream.getvalue().count(MARK) >= 4
    assert stream.getvalue().splitlines()[0].count(MARK) == ESCAPES.count(MARK), "a message is one line"
    written = capfd.readouterr().err
    assert MARK in written
    assert not find_controls(written)


def test_a_progress_bar_shows_no_control_characters():
    bar = ProgressBar(ESCAPES)
    assert not find_controls(bar._state[0])
    bar.report(ESCAPES)
    assert not find_controls(bar._state[0])
