"""No process of a supervised program outlives it, its time, or the process that started it. All are real."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deepwork.kernel.programs import (
    OutputTooLarge,
    ProgramCancelled,
    ProgramLimits,
    run_bounded,
    run_supervised,
)
from deepwork.kernel.supervision import supervisor
from deepwork.kernel.supervision.supervised_program import SupervisedProgram, start_supervised
from patience import PATIENCE_SECONDS, wait_until

PROGRAM = Path(__file__).with_name("tree_program.py")
ENVIRONMENT = {"PATH": os.environ["PATH"]}

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


def words(folder: Path, *acts: str) -> list[str]:
    return [sys.executable, "-S", str(PROGRAM), str(folder), *acts]


def start(folder: Path, *acts: str, **more: Any) -> SupervisedProgram:
    return start_supervised(words(folder, *acts), cwd=folder, env=ENVIRONMENT, **more)


def wait_for(path: Path) -> Path:
    wait_until(path.exists, path.name)
    return path


def list_running(folder: Path) -> list[str]:
    """The recorded processes that run."""
    return [file.stem for file in sorted(folder.glob("*.pid")) if is_running(int(file.read_text()))]


def is_running(pid: int) -> bool:
    return supervisor._read_stat(pid) is not None


def wait_until_none_runs(folder: Path) -> None:
    wait_until(lambda: not list_running(folder), "the end of all processes")


@contextmanager
def start_elsewhere(folder: Path, *acts: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Another process that supervises the program; yields it, and the pid of the supervisor."""
    script = Path(__file__).with_name("starter.py")
    with subprocess.Popen(
        [sys.executable, str(script), str(folder), *acts], stdout=subprocess.PIPE
    ) as starter:
        assert starter.stdout is not None
        try:
            yield starter, int(starter.stdout.readline())
        finally:
            starter.kill()


# ends


def test_a_program_that_exits_reports_its_code_and_output(tmp_path: Path):
    with start(tmp_path, "answer") as program:
        assert program.stdout is not None
        assert program.stderr is not None
        output = program.stdout.read(), program.stderr.read()
        ending = program.wait(PATIENCE_SECONDS)

    assert output == (b"out\n", b"err\n")
    assert ending is not None
    assert (ending.reason, ending.code, ending.left) == ("exited", 7, 0)


def test_a_daemon_ends_with_the_program_that_started_it(tmp_path: Path):
    with start(tmp_path, "daemon", "answer") as program:
        ending = program.wait(PATIENCE_SECONDS)

        assert ending is not None
        assert (ending.reason, ending.code) == ("exited", 7)
        assert list_running(tmp_path) == []


@pytest.mark.parametrize("act", ["daemon", "nameless", "respawn", "ignore"])
def test_ending_a_program_ends_everything_that_it_started(tmp_path: Path, act: str):
    with start(tmp_path, act, "hang") as program:
        wait_for(tmp_path / ("main.pid" if act == "ignore" else f"{act}{'ing' * (act == 'respawn')}.pid"))
        tree = program._tree

        ending = program.end()

    assert (ending.reason, ending.left) == ("ended", 0)
    assert list_running(tmp_path) == []
    assert supervisor.list_marked(tree) == []
    if act == "respawn":  # a list can miss it: it is replaced while the list is made
        with pytest.raises(ProcessLookupError):
            os.killpg(int((tmp_path / "respawning.pid").read_text()), 0)


def test_a_program_ends_with_its_daemons_when_its_time_is_over(tmp_path: Path):
    with start(tmp_path, "daemon", "hang", seconds=3) as program:
        ending = program.wait(PATIENCE_SECONDS)

    assert ending is not None
    assert ending.reason == "timeout"
    assert list_running(tmp_path) == []


def test_with_a_grace_a_program_can_clean_up(tmp_path: Path):
    with start(tmp_path, "clean", "close", "hang", grace=PATIENCE_SECONDS) as program:
        wait_for(tmp_path / "closed")

        ending = program.end()

    assert ending.code == 0
    assert (tmp_path / "cleaned").exists()


def test_a_grace_does_not_help_a_program_that_ignores_it(tmp_path: Path):
    with start(tmp_path, "ignore", "close", "hang", grace=0.2) as program:
        wait_for(tmp_path / "closed")

        assert program.end().code == -signal.SIGKILL


def test_a_program_that_does_not_exist_is_an_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        start_supervised(["no-such-program"], cwd=tmp_path, env=ENVIRONMENT)


def test_a_program_inherits_no_pipe_of_its_supervisor(tmp_path: Path):
    with start(tmp_path, "descriptors") as program:
        assert program.stdout is not None
        assert program.stdout.read() == b"[]\n"


def test_ending_twice_gives_the_same_answer(tmp_path: Path):
    with start(tmp_path, "hang") as program:
        assert program.end() is program.end()
        assert program.poll() is program.end()


# kills


def test_nothing_is_left_when_the_process_that_started_it_is_killed(tmp_path: Path):
    with start_elsewhere(tmp_path, "daemon", "nameless", "hang") as (starter, pid):
        wait_for(tmp_path / "nameless.pid")

        starter.kill()

        wait_until_none_runs(tmp_path)
        wait_until(lambda: not is_running(pid), "the end of the supervisor")


def test_nothing_is_left_when_the_supervisor_is_killed(tmp_path: Path):
    with start(tmp_path, "daemon", "hang") as program:
        wait_for(tmp_path / "daemon.pid")

        os.kill(program._process.pid, signal.SIGKILL)
        ending = program.wait(PATIENCE_SECONDS)

    assert ending is not None
    assert (ending.reason, ending.code, ending.left) == ("lost", None, 0)
    wait_until_none_runs(tmp_path)


def test_the_program_itself_does_not_outlive_both(tmp_path: Path):
    with start_elsewhere(tmp_path, "hang") as (starter, pid):
        wait_for(tmp_path / "main.pid")
        os.kill(starter.pid, signal.SIGSTOP)  # it can do nothing about it

        os.kill(pid, signal.SIGKILL)

        wait_until_none_runs(tmp_path)


def test_a_supervisor_that_is_terminated_ends_its_tree(tmp_path: Path):
    with start(tmp_path, "daemon", "hang") as program:
        wait_for(tmp_path / "daemon.pid")

        os.kill(program._process.pid, signal.SIGTERM)
        ending = program.wait(PATIENCE_SECONDS)

    assert ending is not None
    assert ending.reason == "stopped"
    assert list_running(tmp_path) == []


def test_a_tree_inside_a_tree_ends_with_it(tmp_path: Path):
    script = Path(__file__).with_name("starter.py")
    inner = [sys.executable, str(script), str(tmp_path), "daemon", "hang"]
    with start_supervised(inner, cwd=tmp_path, env=ENVIRONMENT) as outer:
        wait_for(tmp_path / "daemon.pid")

        assert outer.end().left == 0

    assert list_running(tmp_path) == []


# limits


def run(folder: Path, *acts: str, **more: Any) -> Any:
    limits = ProgramLimits(more.pop("seconds", PATIENCE_SECONDS), 1_000_000)
    return run_supervised(
        words(folder, *acts), cwd=folder, env=ENVIRONMENT, input=None, bounds=limits, **more
    )


def test_a_flood_of_output_ends_the_tree(tmp_path: Path):
    with pytest.raises(OutputTooLarge):
        run(tmp_path, "daemon", "flood")

    assert list_running(tmp_path) == []


def test_a_program_that_closed_its_output_can_be_cancelled(tmp_path: Path):
    with pytest.raises(ProgramCancelled):
        run(tmp_path, "daemon", "close", "hang", should_continue=lambda: not (tmp_path / "closed").exists())

    assert list_running(tmp_path) == []


def test_an_unsupervised_program_that_closed_its_output_can_be_cancelled_too(tmp_path: Path):
    limits = ProgramLimits(PATIENCE_SECONDS, 1_000_000)

    with pytest.raises(ProgramCancelled):
        run_bounded(
            words(tmp_path, "close", "hang"), cwd=tmp_path, env=ENVIRONMENT, input=None, bounds=limits,
            should_continue=lambda: not (tmp_path / "closed").exists(),
        )  # fmt: skip


def test_a_program_that_takes_too_long_is_a_timeout(tmp_path: Path):
    with pytest.raises(TimeoutError):
        run(tmp_path, "daemon", "close", "hang", seconds=3)

    assert list_running(tmp_path) == []


def test_a_result_has_code_and_output(tmp_path: Path):
    result = run(tmp_path, "daemon", "answer")

    assert (result.code, result.stdout, result.stderr) == (7, b"out\n", b"err\n")


# rules


def test_a_marker_that_is_too_short_marks_no_process():
    assert supervisor.list_marked("") == []


def test_only_whole_markers_count(tmp_path: Path):
    with start(tmp_path, "close", "hang") as program:
        wait_for(tmp_path / "closed")

        assert len(supervisor.list_marked(program._tree)) == 2  # the program and its supervisor
        assert supervisor.list_marked(program._tree[:-1] + "x") == []
        assert supervisor.list_marked(f"{program._tree}0") == []


def test_without_a_list_of_processes_the_process_group_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    copy = tmp_path / "supervisor.py"
    copy.write_text(Path(supervisor.__file__).read_text().replace('_PROC = "/proc"', '_PROC = "/no/proc"'))
    monkeypatch.setattr(supervisor, "__file__", str(copy))
    with start(tmp_path, "ignore", "close", "hang", grace=0.2) as program:
        wait_for(tmp_path / "closed")

        assert program.end().code == -signal.SIGKILL

    assert list_running(tmp_path) == []


def test_a_process_that_hides_shows_its_environment_to_nobody_with_its_rights():
    code = "from deepwork.kernel.supervision import supervisor; supervisor.hide_process(); import ctypes; print(ctypes.CDLL(None).prctl(3))"

    shown = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout == "0\n"  # not dumpable: /proc/PID/environ and its memory belong to root
