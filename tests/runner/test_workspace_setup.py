"""A tree is prepared once: copies of ignored files, then the set-up commands of the project."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from application import make_app
from deepwork.delivery.runner.workspace_setup import (
    PORT_VARIABLE,
    PreparedTree,
    WorkspacePreparer,
    WorkspaceSettings,
    copy_ignored,
)
from deepwork.edge.server.application import Application
from deepwork.kernel.environment import build_child_environment
from deepwork.kernel.errors import NotAllowed, StorageError
from deepwork.kernel.files.repositories import find_git_folder
from deepwork.kernel.git.command import Git
from workspaces.make import commit, create_repository, run_git

IGNORED = ".env\n.venv/\n/linked\n/data\nbuild\n"
LOG_START = ("sh", "-c", "echo started >> log.build")


@pytest.fixture
def main(tmp_path: Path) -> Path:
    made = create_repository(tmp_path / "main")
    with (made / ".gitignore").open("a") as file:
        file.write(f"{IGNORED}*.build\n")
    commit(made)
    return made


@pytest.fixture
def tree(main: Path) -> Path:
    made = main / ".deepwork" / "worktrees" / "t"
    run_git(main, "worktree", "add", "-q", "-b", "t", str(made))
    return made


@pytest.fixture
def app(tmp_path: Path) -> Iterator[Application]:
    made = make_app(tmp_path, str(tmp_path / "x.db"))
    yield made
    made.close()


@pytest.fixture
def preparer(app: Application) -> WorkspacePreparer:
    return WorkspacePreparer(app.database, "here", setup_seconds=60)


def read_starts(tree: Path) -> int:
    log = tree / "log.build"
    return len(log.read_text().splitlines()) if log.exists() else 0


# Commands


def test_commands_run_once_in_order_with_the_ports_of_the_tree(
    preparer: WorkspacePreparer, main: Path, tree: Path
):
    settings = WorkspaceSettings(
        (("sh", "-c", f"echo $PWD ${PORT_VARIABLE} >> log.build"), LOG_START), ports=3
    )

    first = preparer.prepare(main, tree, settings)
    second = preparer.prepare(main, tree, settings)

    assert first == second
    assert (tree / "log.build").read_text() == f"{tree} {first.port}\nstarted\n"
    assert run_git(tree, "status", "--porcelain") == ""


def test_changed_commands_run_again(preparer: WorkspacePreparer, main: Path, tree: Path):
    preparer.prepare(main, tree, WorkspaceSettings((LOG_START,)))
    preparer.prepare(main, tree, WorkspaceSettings((LOG_START, LOG_START)))

    assert read_starts(tree) == 3


def test_no_secret_of_this_process_reaches_a_command(
    preparer: WorkspacePreparer, main: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DEEPWORK_STORE_KEY", "k" * 32)
    monkeypatch.setenv("GH_TOKEN", "t")

    preparer.prepare(main, tree, WorkspaceSettings((("sh", "-c", "env > log.build"),)))

    assert [word for word in ("STORE_KEY", "GH_TOKEN") if word in (tree / "log.build").read_text()] == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("sh", "-c", "echo no such package; exit 3"), 'ended with exit code 3. It wrote: "no such package"'),
        (("no-such-program-here",), "'no-such-program-here' cannot be started: No such file"),
        (("sh", "-c", "kill -9 $$"), "ended with exit code -9"),
    ],
)
def test_a_failed_command_is_named_and_tried_again_the_next_time(
    preparer: WorkspacePreparer, main: Path, tree: Path, command: tuple[str, ...], said: str
):
    settings = WorkspaceSettings((LOG_START, command, ("touch", "never.build")))

    with pytest.raises(NotAllowed) as refused:
        preparer.prepare(main, tree, settings)

    assert said in refused.value.message
    log = find_git_folder(tree) / "deepwork-setup.log"
    assert str(log) in refused.value.suggestion
    assert "started" in log.read_text() or read_starts(tree) == 1
    assert not (tree / "never.build").exists()
    with pytest.raises(NotAllowed):
        preparer.prepare(main, tree, settings)
    assert read_starts(tree) == 2


def test_a_command_that_takes_too_long_is_ended(app: Application, main: Path, tree: Path):
    impatient = WorkspacePreparer(app.database, "here", setup_seconds=1)

    with pytest.raises(NotAllowed, match="took too long"):
        impatient.prepare(main, tree, WorkspaceSettings((("sleep", "600"),)))


def test_a_project_in_a_subfolder_is_prepared_there(preparer: WorkspacePreparer, main: Path, tree: Path):
    for top in (main, tree):
        (top / "web").mkdir()
    (main / "web" / ".env").write_text("A=1\n")

    preparer.prepare(main / "web", tree, WorkspaceSettings((LOG_START,), (".env",)))

    assert read_starts(tree / "web") == 1
    assert (tree / "web" / ".env").read_text() == "A=1\n"
    assert preparer.prepare(main / "web", main, WorkspaceSettings((LOG_START,))) == PreparedTree()


def test_the_person_s_own_tree_only_gets_ports(preparer: WorkspacePreparer, main: Path):
    prepared = preparer.prepare(main, main, WorkspaceSettings((LOG_START,), (".env",), 2))

    assert prepared == PreparedTree(prepared.port)
    assert prepared.port is not None
    assert read_starts(main) == 0


def test_a_vanished_tree_is_named(preparer: WorkspacePreparer, main: Path):
    with pytest.raises(NotAllowed, match="'/no/tree' does not exist any more"):
        preparer.prepare(main, Path("/no/tree"), WorkspaceSettings((LOG_START,)))


def test_after_a_kill_in_the_middle_the_tree_is_prepared_again(
    preparer: WorkspacePreparer, main: Path, tree: Path, tmp_path: Path
):
    go = tmp_path / "go"
    command = ("sh", "-c", f"echo started >> log.build; [ -e {go} ] || sleep 600; touch done.build")
    program = [sys.executable, str(Path(__file__).with_name("preparing.py"))]
    killed = subprocess.Popen([*program, str(main), str(tree), json.dumps(command)])
    try:
        while read_starts(tree) == 0 and killed.poll() is None:
            time.sleep(0.01)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    go.touch()

    preparer.prepare(main, tree, WorkspaceSettings((command,)))
    preparer.prepare(main, tree, WorkspaceSettings((command,)))

    assert read_starts(tree) == 2
    assert (tree / "done.build").exists()


# Copies


def copy(preparer: WorkspacePreparer, main: Path, tree: Path, *names: str) -> tuple[str, ...]:
    return preparer.prepare(main, tree, WorkspaceSettings(copy=names)).notes


def test_ignored_files_and_folders_are_copied_with_their_modes_and_links(
    preparer: WorkspacePreparer, main: Path, tree: Path
):
    (main / ".env").write_text("SECRET=1\n")
    (main / ".env").chmod(0o600)
    (main / ".venv" / "bin" / "locked").mkdir(parents=True)
    (main / ".venv" / "bin" / "run").write_bytes(b"x" * 3_000_000)
    (main / ".venv" / "bin" / "run").chmod(0o755)
    (main / ".venv" / "bin" / "locked").chmod(0o555)
    (main / ".venv" / "bin" / "python").symlink_to("/usr/bin/env")
    os.mkfifo(main / ".venv" / "pipe")
    os.utime(main / ".venv" / "bin" / "run", (1, 1))

    notes = copy(preparer, main, tree, ".env", ".venv")

    assert notes == ()
    assert ((tree / ".env").read_text(), (tree / ".env").stat().st_mode & 0o777) == ("SECRET=1\n", 0o600)
    copied = tree / ".venv" / "bin"
    assert (copied / "run").read_bytes() == b"x" * 3_000_000
    assert ((copied / "run").stat().st_mode & 0o777, (copied / "run").stat().st_mtime) == (0o755, 1)
    assert (copied / "python").readlink() == Path("/usr/bin/env")
    assert (copied / "locked").stat().st_mode & 0o777 == 0o555
    assert not (tree / ".venv" / "pipe").exists()
    assert run_git(tree, "status", "--porcelain") == ""


def test_a_copy_is_written_to_without_changing_the_original(
    preparer: WorkspacePreparer, main: Path, tree: Path
):
    (main / ".env").write_text("A=1\n")
    copy(preparer, main, tree, ".env")

    (tree / ".env").write_text("A=2\n")
    preparer.prepare(main, tree, WorkspaceSettings(copy=(".env", "build")))

    assert ((main / ".env").read_text(), (tree / ".env").read_text()) == ("A=1\n", "A=2\n")


def test_what_cannot_be_copied_is_skipped_with_a_note(
    preparer: WorkspacePreparer, main: Path, tree: Path, tmp_path: Path
):
    private = tmp_path / "private"
    private.mkdir()
    (private / "key").write_text("secret")
    (main / "linked").symlink_to(private)
    (main / "plain.txt").write_text("not ignored")
    (main / "data").mkdir()
    (main / "data" / "x").write_text("x")
    (tree / "data").symlink_to(private)

    notes = copy(
        preparer, main, tree, ".env", "linked", "linked/key", "../private", str(private), "~/x", "plain.txt",
        "data/x", ".git/config", ".deepwork/worktrees", "a.txt",
    )  # fmt: skip

    assert [note.split(": ", 1) for note in notes if "does not exist" in note] == [
        ["'.env' was not copied", "The path '.env' does not exist."]
    ]
    assert [note for note in notes if "plain.txt" in note] == [
        "'plain.txt' was not copied: git does not ignore it, so it would be committed."
    ]
    assert [note for note in notes if "belongs to git or to deepwork" in note and ".git" in note] != []
    assert len(notes) == 10  # the tree has a.txt
    assert list(private.iterdir()) == [private / "key"]
    assert not (tree / "linked").exists()
    assert not (tree / "plain.txt").exists()


def test_a_link_within_the_project_is_copied_as_what_it_leads_to(
    preparer: WorkspacePreparer, main: Path, tree: Path
):
    (main / "build").mkdir()
    (main / "build" / "env").write_text("A=1\n")
    (main / ".env").symlink_to("build/env")

    assert copy(preparer, main, tree, ".env") == ()

    assert (tree / ".env").read_text() == "A=1\n"
    assert not (tree / ".env").is_symlink()


def test_what_a_killed_process_left_is_replaced(preparer: WorkspacePreparer, main: Path, tree: Path):
    (main / ".venv").mkdir()
    (main / ".venv" / "new").touch()
    half = find_git_folder(tree) / "deepwork-copies" / ".venv"
    half.mkdir(parents=True)
    (half / "old").touch()
    half.chmod(0o500)

    copy(preparer, main, tree, ".venv")

    assert list((tree / ".venv").iterdir()) == [tree / ".venv" / "new"]
    assert not half.parent.exists()


def test_a_tree_on_another_file_system_gets_whole_copies_too(main: Path, tree: Path):
    (main / ".env").write_text("A=1\n")
    (tree / ".env.deepwork-copy").mkdir()  # left by a killed process
    memory = Path("/dev/shm")  # another file system, where there is one
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        git = Git(tree, environment=build_child_environment())

        notes = copy_ignored(git, main, tree, [".env"], Path(folder) / "copies")

    assert notes == []
    assert (tree / ".env").read_text() == "A=1\n"


def test_a_file_that_cannot_be_copied_is_named(preparer: WorkspacePreparer, main: Path, tree: Path):
    (main / "data").mkdir()
    (main / "data" / "x").touch()
    (tree / "data").touch()  # a file where the copy needs a folder

    with pytest.raises(StorageError, match="Cannot copy data/x: File exists"):
        copy(preparer, main, tree, "data/x")
