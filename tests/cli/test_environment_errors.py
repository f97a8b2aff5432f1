"""Errors of the environment (closed output, full disk, deleted folder, ...) are reported as such."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from application import make_app
from cli.command_tree import map_tool_commands
from deepwork.edge.cli import command_hints, main, servers
from deepwork.edge.cli.framework.terminal import is_terminal
from deepwork.kernel.database import processes
from deepwork.kernel.errors import DefinitionError, InvalidArguments, NotFound
from trust.make import trust_settings

SOURCE = Path(main.__file__).parents[2]
_PR_GET_DUMPABLE = 3


@pytest.fixture
def elsewhere() -> Iterator[None]:
    """Restores the current folder after a test that deletes it."""
    before = Path.cwd()
    yield
    os.chdir(before)


def run_main(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["deepwork", *words])
    return main._run()


def run_doctor(project: Path) -> tuple[int, dict[str, str], list[str]]:
    done = CliRunner().invoke(main.deepwork, ["doctor", "--json", "--path", str(project)])
    answer = json.loads(done.stdout)
    return done.exit_code, answer["facts"], answer["problems"]


def write_config(project: Path, text: str) -> Path:
    (project / ".deepwork").mkdir()
    (project / ".deepwork" / "config.yml").write_text(text)
    return project


@pytest.mark.usefixtures("elsewhere")
def test_a_deleted_current_folder_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (gone := tmp_path / "gone").mkdir()
    os.chdir(gone)
    gone.rmdir()

    code = run_main(monkeypatch, "status")

    assert code == 1
    assert capsys.readouterr().err.startswith("Error: The current folder no longer exists.\n")


def test_a_closed_output_is_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdout", None)
        code = run_main(closed, "agents", "list", "--path", str(tmp_path))
        assert not is_terminal(None)

    assert code == 1
    assert "Standard output is closed" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["status", "doctor"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
def test_an_unwritable_output_is_reported(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with Path("/dev/full").open("w") as full, monkeypatch.context() as filled:
        filled.setattr(sys, "stdout", full)
        code = run_main(filled, command, "--path", str(tmp_path))

    err = capsys.readouterr().err
    assert code == 1
    assert "The answer could not be written: No space left on device." in err
    assert "a bug in deepwork" not in err


def test_a_full_disk_is_not_reported_as_a_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fails(**_: object) -> None:
        raise OSError(28, "No space left on device", "notes.txt")

    monkeypatch.setattr(main.deepwork, "main", fails)

    assert run_main(monkeypatch, "status") == 1
    assert "notes.txt could not be written: the disk is full." in capsys.readouterr().err


def test_another_missing_file_is_reported_as_a_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def fails(**_: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", "x")

    monkeypatch.setattr(main.deepwork, "main", fails)

    assert run_main(monkeypatch, "status") == main.INTERNAL_FAILURE
    assert "a bug in deepwork" in capsys.readouterr().err


def test_every_tool_has_its_own_command_in_a_shell():
    spoken_of = command_hints.map_tools_to_commands([])

    assert spoken_of.keys() == map_tool_commands().keys()
    for tool, verb in spoken_of.items():
        assert tuple(verb.strip("`").split()[1:]) in [words for words, _ in map_tool_commands()[tool]]
    assert spoken_of["task_update_status"] == "`deepwork tasks update-status`"
    assert spoken_of["start_workflow"] == "`deepwork sessions start`"
    assert command_hints.map_tools_to_commands(["track"])["start_workflow"] == "`deepwork track start`"


def test_errors_suggest_commands_in_text_and_tools_in_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    make_app(tmp_path, "").database.prepare()

    assert run_main(monkeypatch, "plans", "show", "nope", "--path", str(tmp_path)) == 1
    to_people = capsys.readouterr().err
    assert run_main(monkeypatch, "plans", "show", "nope", "--json", "--path", str(tmp_path)) == 1
    to_programs = json.loads(capsys.readouterr().err)

    assert to_people == ("Error: There is no workflow 'nope'.\nList workflows with `deepwork plans list`.\n")
    assert to_programs["suggestion"] == "List workflows with workflow_list."


def test_only_marked_tools_become_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys, "argv", ["deepwork", "plans"])
    error = NotFound(
        "workflow", "task_claim", suggestion="Ask {tool:task_claim} or {tool:task_get}, not task_get."
    )

    main.print_error(error)

    assert capsys.readouterr().err.splitlines() == [
        "Error: There is no workflow 'task_claim'.",
        "Ask `deepwork tasks claim` or `deepwork tasks get`, not task_get.",
    ]
    assert error.to_dict()["suggestion"] == "Ask task_claim or task_get, not task_get."


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("List them with `deepwork plans get` and include_tasks.", "… and --include-tasks."),
        ("Pass the task_id that `deepwork track start-task` returned.", "Pass the task id that …"),
        ("Call again with `force: true`.", "Run it again with --force."),
        ("Use `deepwork messages get` and mark_read false.", "… and --no-mark-read."),
        ("Call `deepwork sessions finish` again.", "Run `deepwork sessions finish` again."),
        ("Omit `parent_task_id`, or pass agent_id.", "Omit --parent-task-id, or pass --agent-id."),
        ("Run secrets.token_urlsafe(32).", "Run secrets.token_urlsafe(32)."),
    ],
)
def test_suggestions_at_a_shell_name_options_and_commands(written: str, spoken: str):
    expected = ".*".join(re.escape(part) for part in spoken.split("…"))

    assert re.fullmatch(expected, command_hints.to_shell_words(written))


def test_invalid_arguments_are_explained_without_the_tool_at_a_shell():
    error = InvalidArguments("`reason` is missing.", "task_replan", ["id", "reason", "agent_id"])

    spoken = command_hints.to_shell_words(error.suggestion)

    assert spoken == "Correct this and run the command again; --help lists what it takes."


def test_no_suggestion_at_a_shell_has_a_parameter_of_a_tool():
    fields = {option[2:].replace("-", "_") for option in command_hints._list_options() if "-" in option[2:]}
    given = [re.sub(r"\{tool:\w+\}", "`deepwork x`", text) for text in list_suggestions()]

    spoken = [command_hints.to_shell_words(text) for text in given]

    assert [text for text in spoken if fields & set(re.findall(r"\w+", text))] == []


def test_every_tool_that_a_suggestion_names_exists_and_is_marked():
    tools = map_tool_commands().keys()
    given = list(list_suggestions())
    marked = {name for text in given for name in re.findall(r"\{tool:(\w+)\}", text)}

    assert len(marked) > 20
    assert marked <= tools
    assert [text for text in given if tools & set(re.findall(r"(?<!tool:)\b\w+", text))] == []


def list_suggestions() -> Iterator[str]:
    """The strings that the code passes as `suggestion`."""
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "suggestion":
                parts = [part for part in ast.walk(node.value) if isinstance(part, ast.Constant)]
                yield from (part.value for part in parts if isinstance(part.value, str))


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("toolsets: [jbs]\n", "There is no toolset 'jbs'."),
        ("tools: [agent_gte]\n", "There is no tool 'agent_gte'."),
        ("exclude_tools: [agent_gte]\n", "There is no tool 'agent_gte'."),
    ],
)
def test_the_doctor_reports_problems_that_would_keep_a_server_from_starting(
    text: str, unknown: str, tmp_path: Path
):
    code, _, [problem] = run_doctor(write_config(tmp_path, text))

    assert code == 1
    assert problem.startswith(f"`deepwork serve` would not start: {unknown} The tool")


def test_the_doctor_accepts_a_choice_of_tools_and_opens_nothing(tmp_path: Path):
    code, _, problems = run_doctor(write_config(tmp_path, "toolsets: [jobs]\nexclude_tools: [agent_get]\n"))

    assert (code, problems) == (0, [])
    assert [file.name for file in (tmp_path / ".deepwork").iterdir()] == ["config.yml"]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("version: [", "config.yml"), ("port: 99999\n", "`port` in .deepwork/config.yml is 99999")],
)
def test_the_doctor_continues_if_settings_are_invalid(text: str, wrong: str, tmp_path: Path):
    code, facts, [problem] = run_doctor(write_config(tmp_path, text))

    assert code == 1
    assert wrong in problem
    assert facts["database"] == str(tmp_path / ".deepwork" / "deepwork.db")
    assert facts["git"]


def test_the_doctor_checks_the_store_even_if_other_settings_are_invalid(tmp_path: Path):
    trust_settings(write_config(tmp_path, "database: other.db\n"))
    (tmp_path / ".deepwork" / "config.yml").write_text("port: 99999\ntools: 5\ndatabase: other.db\n")

    _, facts, _ = run_doctor(tmp_path)

    assert facts["database"] == str(tmp_path / "other.db")


def test_the_doctor_reports_a_file_in_place_of_the_state_folder(tmp_path: Path):
    (tmp_path / ".deepwork").write_text("")

    code, facts, [problem] = run_doctor(tmp_path)

    assert code == 1
    assert problem.startswith(f"{tmp_path / '.deepwork'} is not a folder")
    assert facts["project"] == str(tmp_path)


@pytest.mark.parametrize("place", ["nowhere", "~nobody-at-all"])
def test_the_doctor_refuses_a_missing_project(place: str):
    done = CliRunner().invoke(main.deepwork, ["doctor", "--path", place])

    assert isinstance(done.exception, DefinitionError)
    assert "does not exist" in done.exception.message


def test_a_folder_in_place_of_the_store_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / ".deepwork" / "deepwork.db").mkdir(parents=True)

    code = run_main(monkeypatch, "status", "--path", str(tmp_path))

    told = capsys.readouterr()
    assert (code, told.out) == (1, "")
    assert "deepwork.db is not a regular file." in told.err


class System:
    """A fake /proc with these processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "self" / "fd").mkdir(parents=True)

    def runs(
        self, number: int, words: str, at: Path, environment: str = "", holds: Path | None = None
    ) -> None:
        process = self.folder / str(number)
        (process / "fd").mkdir(parents=True)
        (process / "cmdline").write_bytes(words.replace(" ", "\0").encode() + b"\0")
        (process / "environ").write_bytes(environment.encode() + b"\0")
        (process / "cwd").symlink_to(at)
        if holds:
            (process / "fd" / "7").symlink_to(holds)


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> System:
    made = System(tmp_path / "proc")
    monkeypatch.setattr(servers, "PROCESSES", made.folder)
    monkeypatch.setattr(processes, "_PROCESSES", made.folder)
    return made


def test_the_servers_of_a_store_are_distinguished_from_other_processes(tmp_path: Path, system: System):
    for name in ("ours/.deepwork", "ours/src", "theirs"):
        (tmp_path / name).mkdir(parents=True)
    ours, theirs, store = tmp_path / "ours", tmp_path / "theirs", tmp_path / "ours/.deepwork/deepwork.db"
    system.runs(11, "/venv/bin/python3 /venv/bin/deepwork serve", ours)
    system.runs(12, f"/venv/bin/python -P -m deepwork dashboard --path {ours} --port 9", theirs)
    system.runs(13, f"deepwork serve --db {store}", theirs)
    system.runs(14, "deepwork serve", theirs, f"DEEPWORK_DATABASE_URL={store}")
    system.runs(16, "deepwork serve", ours / "src")
    system.runs(15, "deepwork serve --path gone", theirs, holds=store)
    system.runs(21, "deepwork serve", theirs)
    system.runs(22, f"deepwork serve --path {theirs}", ours)
    system.runs(23, "timeout 40 deepwork serve", ours)
    system.runs(24, "python -m another deepwork serve", ours)
    system.runs(25, "deepwork status", ours, holds=store)
    system.runs(26, "deepwork serve", ours, "DEEPWORK_DATABASE_URL=postgresql://db/work")

    assert servers.list_servers(str(store)) == [
        "pid 11 serve", "pid 12 dashboard", "pid 13 serve", "pid 14 serve", "pid 15 serve",
        "pid 16 serve",
    ]  # fmt: skip
    assert servers.list_servers("postgresql://db/work") == ["pid 26 serve"]
    assert run_doctor(ours)[1]["servers"].startswith("pid 11 serve, pid 12 dashboard")


def test_without_proc_the_doctor_reports_servers_as_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(servers, "PROCESSES", tmp_path / "none")

    assert run_doctor(tmp_path)[1]["servers"] == "unknown on this system"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux can hide a process")
@pytest.mark.parametrize("words", [["--version"], ["serve", "--help"], ["hook", "--help"]])
@pytest.mark.parametrize(
    ("secret", "is_readable"),
    [
        ({}, 1),
        ({"DEEPWORK_DATABASE_URL": "postgresql://ada:secret@nowhere/x"}, 0),
        ({"DEEPWORK_STORE_KEY": "secret"}, 0),
        ({"DEEPWORK_TOKEN": "secret"}, 0),
        ({"PGPASSWORD": "secret"}, 0),
    ],
)
def test_a_command_that_has_a_secret_hides_its_environment_first(
    words: list[str], secret: dict[str, str], is_readable: int
):
    code = f"""
import atexit, ctypes, sys
atexit.register(lambda: print("dumpable", ctypes.CDLL(None).prctl({_PR_GET_DUMPABLE}, 0, 0, 0, 0)))
from deepwork.__main__ import main
sys.argv = ["deepwork", *{words!r}]
main()
"""
    kept = {name: os.environ[name] for name in ("PATH", "HOME")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=kept | secret,
        capture_output=True,
        text=True,
        timeout=110,
        check=True,
    )

    assert done.stdout.splitlines()[-1] == f"dumpable {is_readable}"
