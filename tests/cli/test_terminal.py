"""Output in a terminal and in a pipe."""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from application import call_tool, make_app
from cli.run import run_deepwork, run_in_terminal
from dashboard.make_agent_runs import add_attempt, start_run
from deepwork.edge.cli import main
from deepwork.edge.cli.framework import terminal
from deepwork.edge.cli.framework.output import render_lines
from deepwork.edge.cli.framework.tables import (
    align_rows,
    measure_width,
    select_columns,
    shorten,
    shorten_middle,
)
from workspaces.make import create_plan, create_repository

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = "[bold red]x[/] \x1b[2J\x07 :smile: \u202egone"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Creates a plan with a finished and an open task, agents with unusual names, and an audit log."""
    folder = tmp_path_factory.mktemp("project")
    (folder / ".deepwork").mkdir()
    # A long lease, so that agents stay online on a slow machine.
    (folder / ".deepwork" / "config.yml").write_text("lease_seconds: 86400\n")
    app = make_app(folder, str(folder / ".deepwork" / "deepwork.db"))
    for name in ("日本語エージェント", HOSTILE, "Ada " * 40):
        call_tool(app, "agent_register", name=name, runtime="custom", capabilities=["python", "sql"])
    plan = call_tool(app, "workflow_create", name="Login", source_type="prompt", source_content="x")["id"]
    tasks = [
        {"name": name, "description": "", "sequence": number} for number, name in enumerate(("a", "b"), 1)
    ]
    call_tool(app, "workflow_set_plan", id=plan, plan={"summary": "s", "tasks": tasks})
    first = call_tool(app, "workflow_get", id=plan, include_tasks=True)["tasks"][0]["id"]
    call_tool(app, "task_update_status", id=first, status="in_progress")
    call_tool(app, "task_update_status", id=first, status="completed", outcome="Done.")
    app.close()
    (folder / "plan").write_text(plan)
    return folder


def test_a_table_fits_the_terminal_and_cuts_no_id(project: Path):
    ids = [agent["id"] for agent in run_deepwork(project, "agents", "list", "--json").json["agents"]]

    for columns in (50, 200):
        told = COLOUR.sub("", run_in_terminal(project, "agents", "list", columns=columns).out)
        assert all(measure_width(line) <= columns for line in told.splitlines()), columns
        assert all(id in told for id in ids)
        assert ("Not shown" in told) == (columns < 200)
        assert "--json shows all" in told or columns == 200


def test_a_status_is_a_word_with_a_colour(project: Path):
    plan = (project / "plan").read_text()

    shown = run_in_terminal(project, "plans", "show", plan).out
    without = run_in_terminal(project, "plans", "show", plan, environment={"NO_COLOR": "1"}).out
    dumb = run_in_terminal(project, "plans", "show", plan, environment={"TERM": "dumb"}).out

    assert "\x1b[32mdone" in shown
    assert "done" in without
    assert not re.search(r"\x1b\[(3|9)\d", without)
    assert "done" in dumb
    assert "\x1b" not in dumb


def test_text_of_agents_is_neither_markup_nor_control_sequences(project: Path):
    for columns in (70, 200):
        told = run_in_terminal(project, "agents", "list", columns=columns).out
        assert COLOUR.sub("", told).count("\x1b") == 0
        assert "\x07" not in told
        assert "\u202e" not in told
        assert "[bold red]" in told
    assert r"[bold red]x[/] \x1b[2J\x07 :smile: \u202egone" in told


def test_wide_characters_are_aligned_in_a_terminal_and_in_a_pipe(project: Path):
    for told in (
        run_deepwork(project, "agents", "list").out,
        COLOUR.sub("", run_in_terminal(project, "agents", "list", columns=200).out),
    ):
        lines = [line for line in told.splitlines() if " custom " in line or " runtime " in line]
        starts = {measure_width(line[: re.search(r"custom|runtime", line).start()]) for line in lines}  # type: ignore[union-attr]
        assert len(lines) == 4
        assert len(starts) == 1


def test_json_is_the_same_in_a_terminal_and_a_pipe(project: Path):
    assert (
        run_in_terminal(project, "agents", "list", "--json").out
        == run_deepwork(project, "agents", "list", "--json").out
    )


def test_in_a_pipe_there_is_no_colour_and_rich_is_not_imported(project: Path):
    code = (
        f"import sys; from deepwork.edge.cli.main import main; sys.argv = ['deepwork', 'agents', 'list', '--path', {str(project)!r}]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print('rich:', 'rich' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)

    assert "rich: False" in ran.stdout
    assert "\x1b" not in ran.stdout


def test_a_closed_pipe_causes_no_error(project: Path):
    words = [
        sys.executable,
        "-P",
        "-m",
        "deepwork",
        "events",
        "tail",
        "--since",
        "0",
        "--no-follow",
        "--json",
    ]
    many = ["plans", "get", (project / "plan").read_text(), "--include-tasks"]
    for command in (words, [*words[:4], *many], [*words[:4], "--help"]):
        process = subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
        process.stderr.close()
        assert (process.wait(timeout=60), said) == (0, b"")


def add_events(project: Path, rows: int) -> None:
    """Add this many events."""
    with sqlite3.connect(project / ".deepwork" / "deepwork.db") as connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(events)")]
        last = connection.execute("SELECT max(seq) FROM events").fetchone()[0]
        copied = ", ".join("seq + n" if name == "seq" else name for name in names)
        connection.execute(
            f"WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more WHERE n < {rows}) "
            f"INSERT INTO events ({', '.join(names)}) SELECT {copied} FROM events, more WHERE seq = {last}"
        )
        connection.execute("UPDATE event_sequence SET last_seq = (SELECT max(seq) FROM events)")


IMPATIENT = """
import threading
from deepwork.edge.cli.framework import progress
from deepwork.edge.cli.main import main

progress.ProgressBar.__init__.__kwdefaults__["delay"] = 0
report = progress.ProgressBar.report

def report_to_a_bar(*given):
    for timer in threading.enumerate():
        if isinstance(timer, threading.Timer): timer.join()
    report(*given)

progress.ProgressBar.report = report_to_a_bar
main()
"""


def test_long_operations_show_progress(tmp_path: Path):
    run_deepwork(tmp_path, "agents", "register", "Ada", "codex")
    add_events(tmp_path, 20_000)
    (tmp_path / "impatient.py").write_text(IMPATIENT)  # shows the bar without a delay

    program = [sys.executable, "-P", str(tmp_path / "impatient.py")]
    seen = run_in_terminal(tmp_path, "db", "copy", "project", "seen.db", program=program)

    assert seen.code == 0
    assert re.search(r"(Copying|Comparing) .*\d+%", seen.out)
    assert "verified" in seen.out


BAR = """
import sys, threading
from deepwork.edge.cli.framework.progress import ProgressBar
with ProgressBar("Copying", quiet="--json" in sys.argv, delay=0) as bar:
    bar.report("Comparing", 30, 40)
    for timer in threading.enumerate():
        if isinstance(timer, threading.Timer): timer.join()
    bar.report("Comparing", 40, 40)
"""


def test_no_progress_is_shown_in_a_pipe_or_with_json(tmp_path: Path):
    (tmp_path / "bar.py").write_text(BAR)
    program = [sys.executable, "-P", str(tmp_path / "bar.py")]
    piped = subprocess.run(program, capture_output=True, check=True)

    assert re.search(r"Comparing .*100%", run_in_terminal(tmp_path, program=program).out)
    assert run_in_terminal(tmp_path, program=[*program, "--json"]).out == ""
    assert run_in_terminal(tmp_path, program=program, environment={"TERM": "dumb"}).out == ""
    assert piped.stdout + piped.stderr == b""


RESTING = """
import time
from deepwork.edge.cli.framework import progress
from deepwork.edge.cli.main import main

def report(waiting, what, done=0, total=0):
    if done >= 10_000:
        print("half of it is copied", flush=True)
        time.sleep(600)

progress.ProgressBar.report = report
main()
"""


def test_an_interrupted_copy_prints_and_leaves_nothing(tmp_path: Path):
    run_deepwork(tmp_path, "agents", "register", "Ada", "codex")
    add_events(tmp_path, 20_000)
    (tmp_path / "resting.py").write_text(RESTING)
    process = subprocess.Popen(
        [sys.executable, "-P", str(tmp_path / "resting.py"), "db", "copy", "project", "new.db"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "half of it is copied\n"

    process.send_signal(signal.SIGINT)

    assert "".join(process.communicate(timeout=100)).strip() == ""
    assert process.returncode == 130
    assert run_deepwork(tmp_path, "agents", "list", "--db", "new.db", "--json").json["total"] == 0


def test_text_width_matches_the_terminal():
    assert [measure_width(text) for text in ("abc", "日本", "e\u0301", "")] == [3, 4, 1, 0]
    assert shorten("日本語です", 5) == "日本…"
    assert align_rows([["id", "n"], ["日本", "x"]], ["id", "n"]) == ["id    n", "日本  x"]


def test_paths_and_branches_are_cut_in_the_middle_and_ids_come_last():
    branch = "deepwork/a-very-long-name-of-a-task-that-nobody-reads-abc123"

    assert shorten_middle(branch, 20) == "deepwork/a…ds-abc123"
    assert shorten_middle("short", 20) == "short"
    assert [measure_width(shorten_middle("日" * 30, most)) <= most for most in (5, 20, 21)] == [True] * 3
    headings, row, *_ = render_lines([{"id": "ws_1", "branch": branch, "name": "x"}])
    assert headings.split() == ["branch", "name", "id"]
    assert "…" in row
    assert row.endswith("ws_1")


@pytest.mark.parametrize("words", ["plans", "agents", "workspaces list", "runs"])
def test_tables_fit_80_columns_and_end_with_whole_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
):
    app = make_app(create_repository(tmp_path), "")
    long = "Write the form in which guests of the hotel ask for an invoice"
    plan, [task, _] = create_plan(app, long, f"{long} again", auto_create_workspaces=True)
    agent = call_tool(app, "agent_register", name=f"claude · {long}", runtime="claude_code")["id"]
    tree = call_tool(app, "task_claim", task_id=task, agent_id=agent)["workspace_id"]
    run = start_run(app, plan)
    add_attempt(app, run, task, agent_id=agent)
    app.close()
    monkeypatch.setattr(terminal, "supports_rich_output", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")

    ran = CliRunner().invoke(main.deepwork, [*words.split(), "--path", str(tmp_path)])
    told = COLOUR.sub("", ran.stdout).splitlines()

    assert ran.exit_code == 0, ran.output
    assert max(map(measure_width, told)) <= 80
    ids = {"plans": plan, "agents": agent, "workspaces list": tree, "runs": run.id}
    assert any(line.split()[-1:] == [ids[words]] for line in told)
    if words == "workspaces list":
        [row] = [line for line in told if line.endswith(tree)]
        assert (row.count("…"), row.count("deepwork/")) == (2, 1)
        assert told[told.index(row) + 1].startswith("Not shown"), "a path or a branch wraps"


def test_columns_are_dropped_from_the_last_but_never_ids_names_and_statuses():
    names = ["id", "name", "metadata", "status", "about"]

    assert select_columns(names, [15, 20, 30, 9, 30], 200) == names
    assert select_columns(names, [15, 20, 30, 9, 30], 64) == ["id", "name", "metadata", "status"]
    assert select_columns(names, [15, 20, 30, 9, 30], 10) == ["id", "name", "status"]
