"""The engine `temporal` against the real Temporal server, with workers of which one is killed."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from temporalio.client import Client

import quick
from cli.run import run_deepwork
from deepwork.delivery.runner.models import (
    Attempt,
    AttemptStage,
    RunOptions,
    RunRequest,
    RunStatus,
    WorkResult,
    WorkStatus,
)
from deepwork.delivery.runner.service import create_run
from deepwork.delivery.runner.store import RunStore
from deepwork.delivery.runner.temporal import TemporalPlace, build_report, start_workflow
from deepwork.delivery.runner.temporal_workflow import RunInput
from deepwork.edge.cli.run.options import take_engine
from deepwork.kernel.errors import NotAllowed
from http_tests.http_server import reserve_port
from quick import PLAIN
from runner.endings import Ended, check_nothing_is_left, finish, plan, wait_until
from runner.run_invariants import list_attempts
from runner.run_project import RunProject
from runner.temporal_server import TemporalWorkers, run_temporal

OPTIONS = ("temporal_address", "temporal_namespace", "temporal_queue")
ATTEMPT = Attempt(
    "at_1", "run_1", "wf_1", "tk_1", 1, "claude", "claude", "ag_1", 1, AttemptStage.RUNNING, "host", 0, 0
)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with run_temporal(tmp_path_factory.mktemp("temporal")) as served:
        yield served


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunProject]:
    made = RunProject(tmp_path)
    for name in ("PATH", "HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, made.variables[name])
    yield made
    check_nothing_is_left(made)
    made.close()


def find_status(project: RunProject, run_id: str) -> RunStatus | None:
    with project.app.database.reading() as tx:
        run = RunStore(tx).find(run_id)
    return run.status if run else None


@pytest.mark.thorough
def test_a_killed_worker_loses_and_doubles_nothing(project: RunProject, address: str, tmp_path: Path):
    gate = tmp_path / "gate"
    names = ["one", "two", "three"]
    waits = {
        name: [{"do": "touch", "file": str(tmp_path / name)}, {"do": "wait_for", "file": str(gate)}]
        for name in names
    }
    project.set_plan(
        [{"name": name, "description": "", "sequence": 1} for name in names],
        {name: [[*waits[name], *finish(name)]] for name in names},
    )
    workers = TemporalWorkers(project, address)
    killed = workers.start(PLAIN)
    workers.start(PLAIN)
    try:
        run = project.app.runner.start_plan(project.plan, RunRequest(), is_local=False)
        start_workflow(TemporalPlace(address), RunInput(run.id, agents=2, heartbeat_seconds=2))
        wait_until(lambda: len(project.agents.read_ledger()) == 2, "an agent of each worker")
        killed.send_signal(signal.SIGKILL)
        gate.touch()
        wait_until(lambda: find_status(project, run.id) is RunStatus.DONE, "the end of the run")
        assert asyncio.run(get_result(address, run.id)) == "done"
    finally:
        gate.touch()
        workers.end()

    assert sorted(each.name for each in project.agents.read_ledger()) == sorted(names)
    assert {(each["stage"], each["number"], each["starts"]) for each in list_attempts(project)} == {
        ("done", 1, 1)
    }


async def get_result(address: str, workflow_id: str) -> str:
    client = await Client.connect(address)
    return str(await client.get_workflow_handle(workflow_id).result())


def test_the_command_lets_temporal_run_a_plan(project: RunProject, address: str):
    plan(project, "one", finish("one"))
    workers = TemporalWorkers(project, address)
    workers.start(quick.build_command())
    try:
        ended = Ended(project, "--engine", "temporal", "--temporal-address", address)
    finally:
        workers.end()

    assert ended.code == 0, ended.output
    ended.check_done("one")


def test_a_server_that_cannot_be_reached_is_named():
    nowhere = f"127.0.0.1:{reserve_port()}"

    with pytest.raises(NotAllowed, match=rf"Temporal server at {nowhere} cannot be reached"):
        start_workflow(TemporalPlace(nowhere), RunInput("run_1", 1))


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "deepwork.delivery.runner.temporal")
    monkeypatch.delattr("deepwork.delivery.runner.temporal")
    monkeypatch.setitem(sys.modules, "temporalio", None)

    with pytest.raises(NotAllowed) as raised:
        take_engine({"engine": "temporal", **dict.fromkeys(OPTIONS)})

    assert raised.value.suggestion == "Install it with: pip install 'deepwork[temporal]'"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["work"], "Give --once, or --engine temporal."),
        (["work", "--once", "--engine", "temporal"], "Give --once, or --engine temporal."),
        (["work", "--engine", "temporal", "--agent", "codex"], "`deepwork run` chooses"),
        (["work", "--once", "--agents", "2"], "--agents is for --engine temporal"),
        (["run", "wf_1", "--temporal-queue", "q"], "--temporal-queue is for --engine temporal."),
    ],
)
def test_options_that_do_not_belong_together_are_refused(tmp_path: Path, words: list[str], problem: str):
    refused = run_deepwork(tmp_path, *words)

    assert refused.code == 2
    assert problem in refused.err


def test_a_wait_ends_with_the_limit():
    parked = replace(ATTEMPT, stage=AttemptStage.PARKED, not_before=61_000)
    run = create_run(repository_path="/p", chain=["a"], options=RunOptions(), created_by="me", now=0)

    report = build_report(WorkResult(WorkStatus.PARKED, parked), run, now=1000)

    assert (report.status, report.is_over, report.wait_seconds) == ("parked", False, 60.0)
