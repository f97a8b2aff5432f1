"""Conventions of all commands: the same options, JSON answers, exit codes."""

from __future__ import annotations

import ast
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from scripts.completion_index import build_index

from cli.command_tree import is_runnable, walk_commands
from cli.run import CommandResult, run_deepwork
from deepwork.edge.cli import main
from deepwork.edge.cli.framework.tool_commands import ToolCommand
from deepwork.edge.cli.shell_completion import INDEX
from workspaces.make import create_repository, run_git

PAGE = Path(__file__).parents[2] / "docs" / "command-line.md"

NO_ANSWER = {
    ("serve",): "runs until it is stopped",
    ("dashboard",): "runs until it is stopped",
    ("completion",): "prints a script",
    ("hook",): "answers in the client's format",
}
"""Commands without --json, each with the reason."""

SERVICES = {
    "settings": "", "database": "see below", "close": "", "job_stack": "names who calls, for log lines",
    "operations": "", "registry": "", "build_toolset": "describe operations",
    "feed": "a stream of events, as the dashboard's", "runner": "this process drives runs",
    "checks": "this process runs checks", "task_prover": "as `checks`", "tracked_task_prover": "as `checks`",
    "jobs": "the files of jobs", "repositories": "git repositories",
}  # fmt: skip
"""What commands use of the application, and what for, if it is not to call operations."""
TAKING_THE_DATABASE = {
    "invoke": "calls operations",
    "perform": "the same",
    "resolve_id": "finds what a person means by a name or a part of an id", "resolve_arguments": "the same",
    "list_candidates": "the same", "_resolve": "the same",
    "LogReader": "follows the files of an attempt until it ends",
    "build_person_call": "asks for the passphrase that an operation needs", "PersonProofs": "the same",
    "prove_act": "proves acts on files, which are no operations",
}  # fmt: skip
"""What commands pass the database to, and why."""

SHARED = {
    "--path": "The project. Default: the one that contains the current folder.",
    "--db": "The store: a SQLite file or a postgresql:// URL.",
    "--global": "Use the store in ~/.deepwork, shared by all projects.",
    "--json": "Print the answer as JSON.",
    "--idempotency-key": "Re-running with the same key returns the first result instead of repeating the change.",
}
OTHERWISE = {
    ("events", "tail", "--json"): "Print one JSON object per line.",
    ("do", "--json"): "Print one JSON object per line.",
    ("run", "--json"): "Print one JSON object per line.",
    ("runs", "attach", "--json"): "Print one JSON object per line.",
    ("runs", "logs", "--json"): "Print one JSON object per line.",
    ("runs", "set", "--json"): "Print one JSON object per line.",
    ("hook", "--path"): "The project. Default: the folder that the event names.",
}
"""Commands in which a shared option has another help text."""


def list_runnable() -> list[tuple[tuple[str, ...], click.Command]]:
    return [(words, each) for words, each in walk_commands() if words and is_runnable(each)]


def list_flags(command: click.Command) -> list[str]:
    return [name for each in command.params if isinstance(each, click.Option) for name in each.opts]


def test_every_command_with_an_answer_supports_json():
    for words, command in list_runnable():
        expected = words[:1] not in NO_ANSWER
        assert ("--json" in list_flags(command)) == expected, words


def test_a_shared_option_has_one_meaning_and_one_place():
    order = list(SHARED)
    for words, command in list_runnable():
        shared = [name for name in list_flags(command) if name in SHARED]
        assert shared == sorted(shared, key=order.index), words
        assert (
            list_flags(command)[len(list_flags(command)) - len(shared) :] == shared or words[:1] in NO_ANSWER
        ), words
        for option in command.params:
            if isinstance(option, click.Option) and (name := option.opts[0]) in SHARED:
                assert option.help == OTHERWISE.get((*words, name), SHARED[name]), words


def test_no_command_has_two_options_of_one_name():
    for words, command in list_runnable():
        names = list_flags(command)
        assert len(names) == len(set(names)), words


def test_every_command_has_one_sentence_of_help():
    for words, command in walk_commands():
        said = (command.help or "").split("\n\n")[0].strip()
        assert re.match(r"[A-Z`.]", said), words
        assert said.endswith("."), (words, said)


def test_every_option_with_a_value_has_a_placeholder():
    for words, command in list_runnable():
        for option in command.params:
            if isinstance(option, click.Option) and not option.is_flag and isinstance(command, ToolCommand):
                assert option.metavar or isinstance(option.type, click.Choice), (words, option.name)


def test_help_groups_commands_by_purpose():
    sorted_in = [name for names in main.COMMANDS_BY_PURPOSE.values() for name in names.split()]

    assert len(sorted_in) == len(set(sorted_in))
    assert set(main.COMMANDS) <= set(sorted_in)
    told = CliRunner().invoke(main.deepwork, []).stdout
    assert [told.index(f"\n{purpose}:") for purpose in main.COMMANDS_BY_PURPOSE] == sorted(
        told.index(f"\n{purpose}:") for purpose in main.COMMANDS_BY_PURPOSE
    )
    assert all(f"\n  {name} " in told for name in main.COMMANDS)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("plan list", "plans"),
        ("logs", "deepwork runs logs"),
        ("resume", "deepwork runs resume"),
        ("agents regster", "register"),
        ("db backp", "backup"),
        ("agents list --limt 3", "--limit"),
    ],
)
def test_mistyped_names_get_suggestions(typed: str, meant: str):
    ran = CliRunner().invoke(main.deepwork, typed.split())

    assert ran.exit_code == 2
    assert any(sign.format(meant) in ran.stderr for sign in ("'{}'", "{}?", "`{}`"))


@pytest.mark.parametrize("name", ["agents", "approvals", "landings", "plans", "runs", "sessions", "track"])
def test_a_group_alone_lists_what_it_is_about(tmp_path: Path, name: str):
    place = ["--path", str(tmp_path)]

    alone, listed = (
        CliRunner().invoke(main.deepwork, [name, *words, *place, "--json"]) for words in ([], ["list"])
    )

    assert (alone.exit_code, alone.stdout) == (0, listed.stdout)


def test_help_is_a_command_too():
    helped, asked = (
        CliRunner().invoke(main.deepwork, words)
        for words in (["help", "runs", "logs"], ["runs", "logs", "-h"])
    )

    assert (helped.exit_code, helped.stdout) == (0, asked.stdout)


def test_options_before_a_subcommand_apply_or_are_refused(tmp_path: Path):
    project = tmp_path / "project"
    project.mkdir()

    CliRunner().invoke(main.deepwork, ["agents", "register", "Ada", "codex", "--path", str(project)])

    before = CliRunner().invoke(main.deepwork, ["audit", "--path", str(project), "--json", "verify"])
    lost = CliRunner().invoke(main.deepwork, ["audit", "--tool", "x", "verify"])

    answer = json.loads(before.stdout)
    assert (answer["intact"], answer["rows"]) == (True, 1)
    assert (lost.exit_code, "--tool does not apply to verify" in lost.stderr) == (2, True)


def test_the_completion_index_matches_the_commands():
    assert json.loads(INDEX.read_text()) == build_index(main.deepwork), "run `make docs`"


def list_documented_exit_codes() -> set[int]:
    return {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)}


def run_interrupted(project: Path) -> int:
    tail = subprocess.Popen(
        [sys.executable, "-P", "-m", "deepwork", "events", "tail", "--since", "0", "--json"],
        cwd=project, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert tail.stdout is not None
    tail.stdout.readline()
    tail.send_signal(signal.SIGINT)
    tail.stdout.close()
    return tail.wait(timeout=60)


def run_broken(project: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that has a bug."""
    code = (
        "import sys, deepwork.edge.cli.doctor as it; from deepwork.edge.cli.main import main\n"
        "it._collect_facts = lambda settings: 1 / 0; sys.argv = ['deepwork', 'doctor', '--json']\n"
        "main()"
    )
    return subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=project, capture_output=True, text=True, check=False
    )


def run_untrusted_check(folder: Path) -> CommandResult:
    """Run checks that a person has to trust first."""
    create_repository(folder)
    (folder / ".deepwork").mkdir()
    (folder / ".deepwork" / "checks.yml").write_text("checks: {tests: {run: ['true']}}\n")
    run_git(folder, "add", "-f", ".deepwork/checks.yml")
    run_git(folder, "commit", "-qm", "checks")
    return run_deepwork(folder, "check")


def test_each_exit_code_of_the_page_is_produced_by_a_command_and_errors_go_to_standard_error(tmp_path: Path):
    done = run_deepwork(tmp_path, "agents", "register", "Ada", "codex", "--json")
    refused = run_deepwork(tmp_path, "agents", "get", "ag_x", "--json")
    misused = run_deepwork(tmp_path, "agents", "list", "--xyzzy", "--json")
    unusable = run_deepwork(tmp_path, "agents", "list", environment={"DEEPWORK_PORT": "many"})
    failed = run_broken(tmp_path)
    waiting = run_untrusted_check(tmp_path / "repository")

    codes = {
        done.code,
        refused.code,
        misused.code,
        unusable.code,
        failed.returncode,
        waiting.code,
        run_interrupted(tmp_path),
    }
    assert codes == list_documented_exit_codes() == {0, 1, 2, 3, 70, 130}
    assert (misused.code, unusable.code) == (2, 2)
    assert refused.out == misused.out == unusable.out == failed.stdout == ""
    assert json.loads(refused.err)["code"] == "AGENT_NOT_FOUND"
    assert json.loads(misused.err) == {
        "code": "INVALID_INPUT", "message": "No such option '--xyzzy'.", "recoverable": True,
        "suggestion": "See `deepwork agents list --help`.",
    }  # fmt: skip
    assert unusable.err.startswith("Error: DEEPWORK_PORT is 'many'")
    assert json.loads(failed.stderr)["code"] == "INTERNAL_ERROR"


def walk_code() -> Iterator[tuple[str, ast.AST]]:
    """Yield each node of the code of each module with commands."""
    folder = Path(main.__file__).parent
    for file in folder.rglob("*.py"):
        yield from ((str(file.relative_to(folder)), node) for node in ast.walk(ast.parse(file.read_text())))


def get_last_name(node: ast.AST) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


def is_of_application(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and get_last_name(node.value) in ("app", "_app", "of_tree")


def test_commands_read_rows_only_through_operations():
    used = {
        node.attr for _, node in walk_code() if isinstance(node, ast.Attribute) and is_of_application(node)
    }
    calls = [node for _, node in walk_code() if isinstance(node, ast.Call)]
    given = {
        get_last_name(call.func)
        for call in calls
        for value in (*call.args, *(each.value for each in call.keywords))
        if is_of_application(value) and get_last_name(value) == "database"
    }

    assert used == SERVICES.keys()
    assert given == TAKING_THE_DATABASE.keys()
    assert not {get_last_name(call.func) for call in calls} & {"reading", "writing", "transaction"}


def test_commands_import_no_store():
    imported = {
        (place, name.name)
        for place, node in walk_code()
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("deepwork.")
        for name in node.names
        if re.search(r"Store$|^StateView$", name.name) and name.name != "ViewedStore"
    }

    # `status` builds the class of its operation itself: everybody waits for it, so it imports less.
    assert imported == {("status.py", "StateView")}
