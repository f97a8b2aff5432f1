"""Several processes that prove the same check, and processes that are killed while they do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.make import COUNT, SUBJECT, Project, shell
from deepwork.gates.checks.runner import CheckRunner
from deepwork.kernel.errors import Code
from patience import wait_until

HELPER = """
import json, os, signal, sys, time
sys.path[:0] = {path!r}
from pathlib import Path
from application import make_app
from deepwork.gates.checks import input_files, runner, service
from deepwork.gates.checks.models import ProofRequest, ProofSubject

def mark(path, text=""):
    Path(path + ".new").write_text(text)
    os.replace(path + ".new", path)

def prove(folder, location, base, stage, answer):
    def stop(*_):
        mark(answer + ".stage")
        time.sleep(600)
    if stage:
        setattr(runner.CheckRunner, stage, stop)
    checks = make_app(Path(folder), location).checks
    mark(answer + ".ready")
    request = ProofRequest(ProofSubject("task", "other"), Path(folder), base, ("tests",), (), wait_seconds=None)
    proofs = checks.prove(request)
    mark(answer, proofs[0].id)

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            prove(*json.loads(line))
        finally:
            os._exit(0)
    print(pid, flush=True)
"""
"""Starts a process for each line, which costs less than a new interpreter."""


class Starter:
    """Starts processes that prove the check of a project."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, config: str) -> None:
        self._process, self._folder, self.config = process, folder, config
        self._count = 0

    def start(self, project: Project, location: str, stage: str = "") -> tuple[int, Path]:
        """Start one, which stops before this method; return its id and the file that it writes."""
        self._count += 1
        answer = self._folder / f"answer-{self._count}"
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = [str(project.folder), location, project.base, stage, str(answer)]
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline()), answer


@pytest.fixture(scope="module")
def starter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starter]:
    words = [sys.executable, "-c", HELPER.format(path=sys.path)]
    config = str(tmp_path_factory.mktemp("config"))
    process = subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CONFIG_HOME": config},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield Starter(process, tmp_path_factory.mktemp("answers"), config)
    process.communicate()


@pytest.fixture(autouse=True)
def shared_trust(starter: Starter, monkeypatch: pytest.MonkeyPatch, own_trust: None) -> None:
    """The started processes trust what this one does."""
    monkeypatch.setenv("XDG_CONFIG_HOME", starter.config)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_proof_that_is_stored_just_after_one_looked_for_it_is_used(
    any_project: Project, monkeypatch: pytest.MonkeyPatch
):
    any_project.define_check(shell(COUNT))
    [first] = any_project.prove()
    find, answers = CheckRunner.find_proof, iter([True])
    monkeypatch.setattr(
        CheckRunner, "find_proof", lambda *looked: None if next(answers, False) else find(*looked)
    )

    [second] = any_project.prove()

    assert (second.id, next(answers, None)) == (first.id, None)


@pytest.mark.differs
def test_eight_processes_at_once_make_one_run(any_project: Project, location: str, starter: Starter):
    any_project.define_check(shell(f"{COUNT}; until test -e go.log; do sleep 0.05; done"))
    any_project.app.database.prepare()  # the folder of the state must not appear while files are listed
    count = 3 if "://" in location else 8  # the lock is the same on both
    started = [starter.start(any_project, location) for _ in range(count)]
    for _, answer in started:
        wait_until(Path(f"{answer}.ready").exists)

    any_project.write("go.log", "")
    for _, answer in started:
        wait_until(answer.exists)

    assert len({answer.read_text() for _, answer in started}) == 1
    assert any_project.count_runs() == 1


COUNTED = ", junit: build/junit.xml, not_fewer: true"
REPORT = "mkdir -p build; echo '<testsuite><testcase/></testsuite>' > build/junit.xml"
HANG = "sleep 600 & echo $$ $! > {0}/new.log; mv {0}/new.log {0}/pids.log; sleep 600"
"""Leaves the ids of its processes."""


@pytest.mark.parametrize(
    ("stage", "command", "more"),
    [
        ("_run_in_tree", "exit 0", ""),
        ("", HANG, ""),
        ("_store", "exit 0", ""),
        ("", HANG, ", clean: true"),
        ("", REPORT + '; test "$PWD" = {0} || {{ ' + HANG + "; }}", COUNTED),
    ],
    ids=["starts", "runs", "ends", "in-a-clean-tree", "at-the-base"],
)
def test_a_killed_process_leaves_no_proof_and_no_process(
    project: Project, tmp_path: Path, starter: Starter, stage: str, command: str, more: str
):
    """Another process that waits for the run starts its own."""
    quick = f"{REPORT}; test -e {project.folder}/again.log && exit 0; "
    project.define_check(shell(quick + command.format(project.folder)), more)
    pid, answer = starter.start(project, str(tmp_path / "deepwork.db"), stage)
    pids = project.folder / "pids.log"
    wait_until(Path(f"{answer}.stage").exists if stage else pids.exists)
    assert project.fail(wait_seconds=0).code is Code.CHECKS_RUNNING

    project.write("again.log", "")
    os.kill(pid, signal.SIGKILL)
    [proof] = project.prove()

    assert proof.verdict == "passed"
    assert not answer.exists()
    left = [int(each) for each in pids.read_text().split()] if pids.exists() else []
    assert [each for each in [pid, *left] if is_running(each)] == []
    with project.app.database.reading() as tx:
        stored = tx.fetch_all("SELECT asked_by FROM proofs WHERE tests_run IS NULL OR asked_by IS NOT NULL")
    assert [row["asked_by"] for row in stored] == [str(SUBJECT)]
