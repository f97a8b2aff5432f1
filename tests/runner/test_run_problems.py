"""What is missing, wrong or gone gives a clear error, and nothing is lost: the same command goes on afterwards."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from application import skip_or_fail
from cli.run import run_deepwork
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from quick import build_command
from runner.endings import Ended, finish, list_living, plan, wait_until, write, write_profiles
from runner.run_invariants import list_attempts
from runner.run_project import RunProject
from runner.scripted import Steps

MakeProject = Callable[..., RunProject]


def check_refused(ended: Ended, *words: str) -> None:
    """Check that nothing was started, that the task is free, and that the error says what to do."""
    assert ended.code in (1, 2), ended.output
    for word in words:
        assert word in ended.output
    assert "Traceback" not in ended.output
    assert ended.project.agents.read_ledger() == []
    assert [task["status"] for task in ended.project.list_tasks()] == ["pending"]


# --- before anything is started


def test_a_program_that_is_not_installed_is_named(make_project: MakeProject):
    project = make_project()
    plan(project, "task", finish("task"))
    (project.agents.bin / "codex").unlink()

    ended = Ended(project, "--agent", "codex")

    check_refused(ended, "codex", "Install it")


def test_an_agent_that_nobody_described_is_named(make_project: MakeProject):
    project = make_project()
    plan(project, "task", finish("task"))

    ended = Ended(project, "--agent", "clod")

    check_refused(ended, "clod", "claude")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("agents: {mine: {kind: clod}}\n", "clod"),
        ("agents: {mine: {kind: claude, modell: x}}\n", "modell"),
        ("agents: [\n", "agents.yml"),
        ("chains: {default: [nobody]}\n", "nobody"),
    ],
)
def test_a_wrong_profile_is_named_with_its_file(make_project: MakeProject, text: str, word: str):
    project = make_project()
    write_profiles(project, text)
    plan(project, "task", finish("task"))

    ended = Ended(project)

    check_refused(ended, word, "agents.yml")


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_a_misspelt_setting_stops_the_run_before_it_starts(
    make_project: MakeProject, options: tuple[str, ...]
):
    project = make_project("run: {agent: 1}\n")
    plan(project, "task", finish("task"))

    ended = Ended(project, "--agent", "claude", *options)

    check_refused(ended, "'run.agent'", "`run.agents`", "config.yml")


def test_commands_that_nobody_trusted_stop_the_run_before_it_starts(make_project: MakeProject):
    project = make_project("workspace: {setup: [[touch, ready]]}\n")
    plan(project, "task", finish("task"))

    ended = Ended(project, "--agent", "claude")

    check_refused(ended, "deepwork trust")


def test_checks_that_nobody_trusted_stop_the_run_before_it_starts(make_project: MakeProject):
    project = make_project(checks="checks: {unit: {run: [git, --version]}}\n")
    plan(project, "task", finish("task"), checks=["unit"])

    ended = Ended(project, "--agent", "claude")

    check_refused(ended, "deepwork trust")


def test_a_plan_that_does_not_exist_is_named(make_project: MakeProject):
    project = make_project()

    done = run_deepwork(project.folder, "run", "wf_000000000000", "--json", environment=project.variables)

    assert done.code in (1, 2)
    assert "wf_000000000000" in done.out + done.err


# --- while agents work


def start_run(project: RunProject, *options: str) -> subprocess.Popen[bytes]:
    """Start a run; what it prints goes to a file."""
    with get_output(project).open("wb") as output:
        return subprocess.Popen(
            [*build_command(), "run", project.plan, "--json", *options],
            cwd=project.folder,
            env={**os.environ, **project.variables},
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def get_output(project: RunProject) -> Path:
    return project.folder.parent / "output"


def test_a_run_that_is_stopped_now_ends_even_agents_that_ignore_it(make_project: MakeProject, tmp_path: Path):
    project = make_project()
    is_up = tmp_path / "up"
    hang: Steps = [
        {"do": "ignore_sigterm"},
        {"do": "fork"},
        {"do": "touch", "file": str(is_up)},
        {"do": "sleep", "seconds": 600},
    ]
    plan(project, "stubborn", hang)

    with start_run(project, "--agent", "claude") as runner:
        wait_until(is_up.exists, "the agent")
        [run] = {each["run_id"] for each in list_attempts(project)}
        stopped = run_deepwork(project.folder, "runs", "stop", run, "--now", environment=project.variables)
        runner.wait()

    assert stopped.code == 0, stopped.err
    [attempt] = list_attempts(project)
    assert attempt["stage"] == "stopped", get_output(project).read_text()
    [task] = project.list_tasks()
    assert task["status"] == "pending"


def test_an_agent_whose_task_was_taken_away_is_ended(make_project: MakeProject, tmp_path: Path):
    project = make_project()
    held: Steps = [write("late"), {"do": "wait_for", "file": str(tmp_path / "never")}, *finish("late")]
    plan(project, "task", held, finish("task"))

    with start_run(project, "--agent", "claude", "--agents", "2") as runner:
        wait_until(lambda: len(list_living(project)) == 1, "the first agent")
        [attempt] = list_attempts(project)
        release = {"task_id": attempt["task_id"], "agent_id": attempt["agent_id"]}
        invoke(project.app.database, project.app.registry["task_release"], release, Call("human:ada"))
        runner.wait()

    assert runner.returncode == 0, get_output(project).read_text()
    [lost, done] = list_attempts(project)
    assert (lost["stage"], done["stage"]) == ("stopped", "done")
    assert lost["claim_epoch"] < done["claim_epoch"]
    assert Path(lost["tree"], "late.txt").is_file()  # nothing of it is thrown away
    [first, second] = project.agents.read_ledger()
    assert (first.code == 0, second.code) == (False, 0)


def test_a_tree_that_vanished_is_made_again(make_project: MakeProject):
    project = make_project()
    remove = {"do": "run", "argv": ["sh", "-c", 'rm -rf "$PWD"']}
    plan(project, "gone", [remove, {"do": "transient"}], finish("gone"))

    ended = Ended(project, "--agent", "claude")

    assert ended.code == 0, ended.output
    assert ended.read_file("gone") == "gone"


def test_commits_of_a_tree_that_vanished_are_kept(make_project: MakeProject):
    project = make_project()
    first = {"do": "append", "file": "first.txt", "line": "first"}
    remove = {"do": "run", "argv": ["sh", "-c", 'rm -rf "$PWD"']}
    plan(
        project,
        "gone",
        [first, {"do": "commit", "message": "first"}, remove, {"do": "transient"}],
        finish("gone"),
    )

    ended = Ended(project, "--agent", "claude")

    assert ended.code == 0, ended.output
    assert ended.read_file("gone") == "gone"
    assert ended.read_file("gone", "first.txt") == "first"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mounts a small disk, of which the runner's files can be a part."""
    if os.geteuid() != 0:
        skip_or_fail("only root can mount a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        skip_or_fail(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_stops_nothing_for_good(make_project: MakeProject, small_disk: Path):
    """While the disk is full nothing can start; once there is space, the same run goes on."""
    project = make_project()
    plan(project, "task", finish("task"))
    ballast = fill_disk(small_disk)

    with (
        mount_at(project.folder / ".deepwork" / "runs", small_disk),
        start_run(project, "--agent", "claude") as runner,
    ):
        wait_until(lambda: "the disk is full" in get_output(project).read_text(), "a word about the disk")
        ballast.unlink()
        runner.wait()

    assert runner.returncode == 0, get_output(project).read_text()
    [task] = project.list_tasks()
    assert task["status"] == "completed"


@contextmanager
def mount_at(place: Path, disk: Path) -> Iterator[None]:
    """Let a folder be on another disk; a link in its place would be refused."""
    place.mkdir()
    subprocess.run(["mount", "--bind", str(disk), str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill_disk(folder: Path) -> Path:
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (65_536, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
    return ballast
