"""An agent is started once, outlives the runner, and leaves nothing behind, whoever is killed. All are real."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import deepwork
from application import skip_or_fail
from deepwork.delivery.runner import processes, shim
from deepwork.delivery.runner.attempt_files import AttemptFiles, CpuTimes, read_lines, read_record
from deepwork.delivery.runner.models import Observation, ProcessState
from deepwork.delivery.runner.processes import (
    AlreadyStarted,
    ProcessIdentity,
    StartFailed,
    end_process,
    interrupt_process,
    observe,
    read_identity,
    start_process,
)
from deepwork.kernel.errors import Code, NotAllowed, StorageError
from deepwork.kernel.supervision import supervisor
from patience import PATIENCE_SECONDS, wait_until

PROGRAM = Path(__file__).parents[1] / "supervision/tree_program.py"
STARTER = Path(__file__).with_name("process_starter.py")
ENVIRONMENT = {"PATH": os.environ["PATH"]}

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture
def files(tmp_path: Path) -> Iterator[AttemptFiles]:
    """A start that can be made; afterwards nothing of it may run."""
    files = AttemptFiles.locate(tmp_path, "att_1", 1)
    files.folder.mkdir(parents=True)
    files.prompt.write_text("Do it.\n")
    yield files
    launch = read_record(files.launch)
    end_process(files, grace_seconds=0)
    assert launch is None or supervisor.list_marked(launch["tree"]) == []


def words(folder: Path, *acts: str) -> list[str]:
    return [sys.executable, "-S", str(PROGRAM), str(folder), *acts]


def start(files: AttemptFiles, *acts: str, seconds: float = 600, grace: float = 60) -> ProcessIdentity:
    folder = files.folder.parent
    return start_process(files, words(folder, *acts), ENVIRONMENT, folder, seconds, grace=grace)


def start_command(files: AttemptFiles, command: str) -> ProcessIdentity:
    return start_process(files, ["sh", "-c", command], ENVIRONMENT, files.folder.parent, 600)


def wait_for(files: AttemptFiles, name: str) -> int:
    """Wait until a process of the agent runs, and return its pid."""
    path = files.folder.parent / f"{name}.pid"
    wait_until(path.exists, f"{name}.pid")
    return int(path.read_text())


def wait_for_end(files: AttemptFiles, identity: ProcessIdentity | None = None) -> Observation:
    wait_until(lambda: observe(files, identity).state is not ProcessState.RUNNING)
    return observe(files, identity)


def list_running(files: AttemptFiles) -> list[str]:
    pids = sorted(files.folder.parent.glob("*.pid"))
    return [file.stem for file in pids if supervisor._read_stat(int(file.read_text())) is not None]


# starts and ends


def test_an_agent_reads_its_prompt_and_its_exit_code_is_kept(files: AttemptFiles):
    identity = start_command(files, "cat; echo problem >&2; exit 3")

    ending = wait_for_end(files, identity)

    assert (ending.state, ending.code, ending.reason, ending.left) == ("exited", 3, "exited", 0)
    assert ending.ended_at is not None
    assert (files.stdout.read_text(), files.stderr.read_text()) == ("Do it.\n", "problem\n")
    assert read_identity(files) == identity


def test_a_start_happens_once_even_when_it_is_over(files: AttemptFiles):
    identity = start(files, "answer")
    with pytest.raises(AlreadyStarted):
        start(files, "answer")

    wait_for_end(files, identity)

    with pytest.raises(AlreadyStarted):
        start(files, "answer")
    assert files.stdout.read_text() == "out\n"


def test_of_concurrent_starts_one_wins(files: AttemptFiles):
    started: list[ProcessIdentity] = []
    refused: list[AlreadyStarted] = []

    def start_too() -> None:
        try:
            started.append(start_command(files, "echo once; sleep 600"))
        except AlreadyStarted as error:
            refused.append(error)

    threads = [threading.Thread(target=start_too) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(files.stdout.read_text)

    assert (len(started), len(refused)) == (1, 3)
    assert files.stdout.read_text() == "once\n"
    assert observe(files, started[0]).state is ProcessState.RUNNING


def test_an_agent_ends_with_everything_that_holds_its_output(files: AttemptFiles):
    identity = start(files, "daemon", "nameless", "answer")

    ending = wait_for_end(files, identity)

    assert (ending.reason, ending.code, ending.left) == ("exited", 7, 0)
    assert list_running(files) == []


@pytest.mark.parametrize("act", ["ignore", "daemon", "respawn"])
def test_ending_an_agent_ends_what_ignores_it(files: AttemptFiles, act: str):
    identity = start(files, act, "close", "hang")
    wait_until((files.folder.parent / "closed").exists)

    end_process(files, identity, grace_seconds=0.2)

    assert observe(files, identity).reason == "stopped"
    assert list_running(files) == []


def test_an_agent_that_is_asked_to_end_has_the_grace_of_its_start(files: AttemptFiles):
    identity = start(files, "ignore", "close", "hang", grace=0.1)
    wait_until((files.folder.parent / "closed").exists)

    os.kill(identity.pid, signal.SIGTERM)

    ending = wait_for_end(files, identity)
    assert (ending.reason, ending.code) == ("stopped", -signal.SIGKILL)


def test_an_agent_gets_time_to_end_by_itself(files: AttemptFiles):
    identity = start(files, "clean", "close", "hang")
    wait_until((files.folder.parent / "closed").exists)

    end_process(files, identity, grace_seconds=PATIENCE_SECONDS)

    ending = observe(files, identity)
    assert (ending.reason, ending.code) == ("stopped", 0)
    assert (files.folder.parent / "cleaned").exists()


def test_an_agent_ends_when_its_time_is_over(files: AttemptFiles):
    identity = start(files, "daemon", "hang", seconds=2, grace=0.1)

    ending = wait_for_end(files, identity)

    assert (ending.state, ending.reason) == ("exited", "timeout")
    assert list_running(files) == []


def test_an_interrupted_agent_may_go_on(files: AttemptFiles):
    identity = start_command(files, "trap 'echo interrupted' INT; echo ready; while :; do sleep 0.05; done")
    wait_until(lambda: files.stdout.read_text() == "ready\n")

    interrupt_process(files, identity)

    wait_until(lambda: files.stdout.read_text() == "ready\ninterrupted\n")
    assert observe(files, identity).state is ProcessState.RUNNING


def test_the_cpu_time_of_a_tree_has_that_of_its_children(files: AttemptFiles):
    burn = f"{sys.executable} -S -c 'import time\nwhile time.process_time() < 0.3: pass'"
    identity = start_command(files, f"{burn}; echo burnt; {burn}; sleep 600")
    wait_until(files.stdout.read_text)

    def measure() -> int:
        return observe(files, identity, CpuTimes.read_now()).cpu_ms or 0

    first = measure()
    wait_until(lambda: measure() >= 500)
    assert 250 <= first < 500
    end_process(files, identity)
    assert (observe(files, identity).cpu_ms or 0) >= 500


# kills


def run_starter(files: AttemptFiles, window: str, *argv: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(STARTER), str(files.folder), window, *argv], stdout=subprocess.PIPE
    )


def test_an_agent_outlives_the_process_that_started_it(files: AttemptFiles):
    with run_starter(files, "never", *words(files.folder.parent, "hang")) as starter:
        assert starter.stdout is not None
        assert starter.stdout.readline() == b"started\n"
        pid = wait_for(files, "main")
        starter.kill()

    identity = read_identity(files)

    assert observe(files, identity).state is ProcessState.RUNNING
    assert supervisor._read_stat(pid) is not None
    end_process(files, identity, grace_seconds=0)
    assert list_running(files) == []


@pytest.mark.parametrize("window", ["before_launch", "after_launch"])
def test_a_start_that_was_cut_short_can_be_made_again(files: AttemptFiles, window: str):
    with run_starter(files, window, "true") as starter:
        assert starter.wait(PATIENCE_SECONDS) == -signal.SIGKILL

    assert observe(files).state is ProcessState.NOT_STARTED

    assert wait_for_end(files, start(files, "answer")).code == 7


def test_a_start_whose_starter_was_killed_goes_on(files: AttemptFiles):
    with run_starter(files, "after_fork", *words(files.folder.parent, "hang")) as starter:
        assert starter.wait(PATIENCE_SECONDS) == -signal.SIGKILL

    wait_until(lambda: observe(files).state is ProcessState.RUNNING)

    wait_for(files, "main")
    with pytest.raises(AlreadyStarted):
        start(files, "answer")


def test_nothing_outlives_a_killed_shim(files: AttemptFiles):
    identity = start(files, "daemon", "hang")
    main, daemon = wait_for(files, "main"), wait_for(files, "daemon")

    os.kill(identity.pid, signal.SIGKILL)

    assert wait_for_end(files, identity).state is ProcessState.VANISHED
    wait_until(lambda: supervisor._read_stat(main) is None)
    assert supervisor._read_stat(daemon) is not None  # only its marker leads to it
    end_process(files, identity)
    assert list_running(files) == []
    assert observe(files, identity).state is ProcessState.VANISHED
    with pytest.raises(AlreadyStarted):
        start(files, "answer")


def test_a_child_without_the_marker_is_found_in_the_session_of_the_agent(files: AttemptFiles):
    script = "echo $$ > new && mv new cleared.pid && exec sleep 600"
    identity = start_command(files, f"env -i PATH=$PATH sh -c '{script}' & wait")
    child = wait_for(files, "cleared")

    os.kill(identity.pid, signal.SIGKILL)
    wait_for_end(files, identity)
    end_process(files, identity)

    assert supervisor._read_stat(child) is None


def test_a_killed_agent_has_an_exit_code(files: AttemptFiles):
    identity = start(files, "daemon", "hang")
    wait_for(files, "daemon")

    os.kill(wait_for(files, "main"), signal.SIGKILL)

    ending = wait_for_end(files, identity)
    assert (ending.state, ending.code, ending.reason) == ("exited", -signal.SIGKILL, "exited")
    assert list_running(files) == []


def change_shim(monkeypatch: pytest.MonkeyPatch, folder: Path, old: str, new: str) -> None:
    """Let starts use a copy of the shim with one line changed."""
    for module in (shim, supervisor):
        path = Path(str(module.__file__))
        copy = folder / "package" / path.relative_to(Path(str(deepwork.__file__)).parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    copy = folder / "package/delivery/runner/shim.py"
    text = copy.read_text()
    assert text.count(old) == 1
    copy.write_text(text.replace(old, new))
    monkeypatch.setattr(processes, "_SHIM", copy)


KILL = "os.kill(os.getpid(), signal.SIGKILL)"


def test_a_shim_killed_before_it_is_recorded_has_run_no_agent(
    files: AttemptFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        change_shim(patch, tmp_path, 'write_file(self._folder, "process", content)', KILL)
        with pytest.raises(StorageError, match="before it could start the agent"):
            start(files, "hang")

    assert observe(files).state is ProcessState.NOT_STARTED
    wait_until(lambda: supervisor.list_marked((read_record(files.launch) or {})["tree"]) == [])
    assert list(files.folder.parent.glob("*.pid")) == []
    assert wait_for_end(files, start(files, "answer")).code == 7


def test_a_shim_killed_before_the_agent_runs_has_vanished(
    files: AttemptFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    change_shim(monkeypatch, tmp_path, "self._is_recorded = True", KILL)

    identity = start(files, "hang")

    assert wait_for_end(files, identity).state is ProcessState.VANISHED
    end_process(files, identity)
    assert list(files.folder.parent.glob("*.pid")) == []


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("self._flush_output()", "vanished"),
        ('os.rename(temporary, f"{folder}/{name}")', "vanished"),
        ("        sync_folder(folder)", "exited"),
    ],
)
def test_a_shim_killed_at_the_end_has_written_all_or_nothing(
    files: AttemptFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, state: str
):
    kill = f"if is_durable: {KILL}\n        {line}" if "rename" in line else line.replace(line.strip(), KILL)
    change_shim(monkeypatch, tmp_path, line, kill)

    identity = start(files, "answer")

    assert wait_for_end(files, identity).state == state
    end_process(files, identity)
    assert list_running(files) == []


# identities


def test_a_pid_that_is_in_use_again_is_not_the_process(files: AttemptFiles):
    identity = start(files, "hang")
    wait_for(files, "main")
    before = replace(identity, start_time=str(int(identity.start_time) - 1))

    interrupt_process(files, before)

    assert observe(files, before).state is ProcessState.VANISHED
    assert observe(files, identity).state is ProcessState.RUNNING


def test_after_a_reboot_nothing_runs_and_nothing_is_started_again(
    files: AttemptFiles, monkeypatch: pytest.MonkeyPatch
):
    identity = start(files, "hang")
    wait_for(files, "main")

    monkeypatch.setenv("DEEPWORK_TEST_BOOT_ID", "another")

    assert observe(files, identity).state is ProcessState.REBOOTED
    files.process.unlink()  # a power failure may lose it
    assert observe(files).state is ProcessState.REBOOTED
    with pytest.raises(AlreadyStarted):
        start(files, "hang")
    end_process(files, identity)
    assert list_running(files) == []
    assert observe(files, identity).state is ProcessState.REBOOTED


def test_what_had_ended_before_a_reboot_has_ended(files: AttemptFiles, monkeypatch: pytest.MonkeyPatch):
    identity = start(files, "answer")
    wait_for_end(files, identity)

    monkeypatch.setenv("DEEPWORK_TEST_BOOT_ID", "another")

    assert observe(files, identity).code == 7


def test_a_process_of_another_host_is_left_alone(files: AttemptFiles):
    identity = start(files, "hang")
    elsewhere = replace(identity, host="elsewhere")

    with pytest.raises(NotAllowed, match="'elsewhere'"):
        observe(files, elsewhere)
    with pytest.raises(NotAllowed, match="'elsewhere'"):
        end_process(files, elsewhere)

    assert observe(files, identity).state is ProcessState.RUNNING


def test_a_start_that_was_ended_before_it_was_made_is_never_made(files: AttemptFiles):
    end_process(files)

    assert (observe(files).state, observe(files).reason) == ("exited", "stopped")
    with pytest.raises(AlreadyStarted):
        start(files, "answer")


# what is missing, and a full disk


def test_a_missing_program_is_named_and_the_start_can_be_made_later(files: AttemptFiles):
    with pytest.raises(StartFailed, match="no program 'no-such-agent'"):
        start_process(files, ["no-such-agent"], ENVIRONMENT, files.folder, 60)

    assert observe(files).state is ProcessState.NOT_STARTED


def test_a_missing_folder_is_named(files: AttemptFiles):
    with pytest.raises(StartFailed, match="is gone"):
        start_process(files, ["true"], ENVIRONMENT, files.folder / "tree", 60)


def test_a_program_that_cannot_be_executed_is_an_error(files: AttemptFiles):
    script = files.folder / "agent"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o700)

    with pytest.raises(StartFailed):
        start_process(files, [str(script)], ENVIRONMENT, files.folder, 60)

    ending = wait_for_end(files)
    assert (ending.state, ending.reason, ending.code) == ("exited", "failed", None)


def test_a_missing_prompt_is_an_error(files: AttemptFiles):
    files.prompt.unlink()

    with pytest.raises(StorageError, match="1/prompt"):
        start(files, "answer")

    assert observe(files).state is ProcessState.NOT_STARTED


def test_an_exit_code_that_cannot_be_written_is_tried_again(files: AttemptFiles):
    identity = start_command(files, "while [ ! -e go ]; do sleep 0.02; done; exit 4")
    files.exit.mkdir()  # like a full disk, it makes the renaming fail
    (files.folder.parent / "go").touch()
    wait_until(lambda: supervisor.list_tree(identity.pid, "") == [])
    assert observe(files, identity).state is ProcessState.RUNNING

    files.exit.rmdir()

    assert wait_for_end(files, identity).code == 4


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        skip_or_fail("a small disk cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_shim_that_cannot_record_itself_runs_no_agent(
    files: AttemptFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        full = 'raise OSError(errno.ENOSPC, "")'
        change_shim(patch, tmp_path, 'write_file(self._folder, "process", content)', full)
        with pytest.raises(StorageError, match="Cannot write 1/process: the disk is full"):
            start(files, "answer")

    assert observe(files).state is ProcessState.NOT_STARTED
    assert wait_for_end(files, start(files, "answer")).code == 7


def test_a_full_disk_prevents_a_start_and_loses_nothing(small_disk: Path):
    files = AttemptFiles.locate(small_disk, "att_1", 1)
    files.folder.mkdir(parents=True)
    files.prompt.write_text("Do it.\n")
    ballast = small_disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))

    with pytest.raises(StorageError, match="the disk is full") as raised:
        start_process(files, ["cat"], ENVIRONMENT, small_disk, 60)

    assert raised.value.code is Code.STORAGE_FULL
    assert observe(files).state is ProcessState.NOT_STARTED
    ballast.unlink()
    assert wait_for_end(files, start_process(files, ["cat"], ENVIRONMENT, small_disk, 60)).code == 0
    assert read_lines(files, 0, 1000) == (["Do it."], 7)
