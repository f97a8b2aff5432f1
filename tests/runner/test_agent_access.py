"""Agents under a run: what they are given, what they can do with it, and until when. Real processes."""

from __future__ import annotations

import json
import shlex
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from cli.run import run_deepwork
from deepwork.delivery.runner import bridge
from deepwork.delivery.runner.agent_access import AgentAccess
from deepwork.delivery.runner.models import RunStatus
from deepwork.kernel.database.transaction import join_transaction
from deepwork.kernel.errors import NotAllowed
from quick import PLAIN
from runner.endings import PATIENCE_SECONDS, Ended, check_nothing_is_left, plan, wait_until, write
from runner.job_project import WRITE_B, JobProject
from runner.run_invariants import list_attempts
from runner.run_project import CONFIG, RunProject

CANARY = "canary-4711"


@pytest.fixture
def project(tmp_path: Path, location: str) -> Iterator[RunProject]:
    """A project on each kind of store, whose address has a canary: a password, or the name of a folder."""
    if "://" in location:
        address = location.replace("postgres@", f"postgres:{CANARY}@")
        assert CANARY in address
    else:
        (tmp_path / CANARY).mkdir()
        address = str(tmp_path / CANARY / "deepwork.db")
    made = RunProject(tmp_path, address, CONFIG)
    yield made
    check_nothing_is_left(made)
    made.close()


def call(folder: Path, name: str, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """A step of the agent: call a tool, and keep its answer under a name."""
    return {"do": "call", "tool": tool, "file": str(folder / f"{name}.answer"), "arguments": arguments}


def read_answer(folder: Path, name: str) -> Any:
    result = json.loads((folder / f"{name}.answer").read_text())["result"]
    return json.loads(result["content"][0]["text"])


def list_summaries(project: RunProject, task: str) -> list[str]:
    found = call_tool(project.app, "checkpoint_list", task_id=project.ids[task])["checkpoints"]
    return [each["summary"] for each in found if each["type"] == "progress"]


def list_audited(project: RunProject, actor: str) -> list[tuple[str, str]]:
    """What `deepwork audit` shows of an agent, newest first: tools and outcomes."""
    listed = run_deepwork(project.folder, "audit", "--json", environment=project.variables).json["calls"]
    assert actor in run_deepwork(project.folder, "audit", environment=project.variables).out
    return [(each["tool"], each["outcome"]) for each in listed if each.get("actor") == actor]


@pytest.fixture
def start_run(project: RunProject) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts `deepwork run` itself, so that it can be killed."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        command = [*PLAIN, "run", project.plan, "--json", "--agent", "claude"]
        variables = project.variables
        started.append(
            subprocess.Popen(command, cwd=project.folder, env=variables, stdout=subprocess.DEVNULL)
        )
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.wait()


def test_an_agent_gets_its_task_and_neither_the_store_nor_the_work_of_others(
    project: RunProject, location: str, tmp_path: Path
):
    vendor = "codex" if "://" in location else "claude"  # the one by its arguments, the other by a file
    other = call_tool(project.app, "agent_register", name="other", runtime="codex")["id"]
    attacks = {
        "register": ("agent_register", {"name": "mine", "runtime": "codex"}),
        "unregister": ("agent_unregister", {"id": other}),
        "claim": ("task_claim", {"agent_id": other}),
        "list": ("agent_list", {}),
        "messages": ("message_list", {"agent_id": other}),
    }
    plan(
        project,
        "one",
        [
            call(tmp_path, "note", "checkpoint_add", type="progress", summary="half"),
            *(call(tmp_path, name, tool, **arguments) for name, (tool, arguments) in attacks.items()),
            {"do": "dump", "file": str(tmp_path / "given")},
            write("one"),
            {"do": "exit"},
        ],
    )

    ended = Ended(project, "--agent", vendor)

    state = project.folder / ".deepwork"
    files = [path for folder in ("runs", "worktrees", "hooks") for path in (state / folder).rglob("*")]
    shown = [path for path in [tmp_path / "given", *files] if path.is_file()]
    assert any(path.name == "prompt" for path in shown)
    [bridge_file] = [path for path in shown if path.name == "bridge.json"]
    assert stat.S_IMODE(bridge_file.stat().st_mode) == 0o600
    assert [str(path) for path in shown if CANARY.encode() in path.read_bytes()] == []
    assert CANARY not in ended.output
    assert {name: read_answer(tmp_path, name)["code"] for name in attacks} == dict.fromkeys(
        attacks, "UNAUTHORIZED"
    )
    assert call_tool(project.app, "agent_get", id=other)["status"] == "online"
    ended.check_done("one")
    assert list_summaries(project, "one") == ["half"]
    assert list_audited(project, f"{vendor} · one") == [
        ("task_claim", "UNAUTHORIZED"),
        ("agent_unregister", "UNAUTHORIZED"),
        ("agent_register", "UNAUTHORIZED"),
        ("checkpoint_add", "done"),
    ]


def test_an_agent_whose_task_another_one_got_is_refused_while_it_still_runs(
    project: RunProject, start_run: Callable[[], subprocess.Popen[bytes]], tmp_path: Path
):
    said, go = tmp_path / "said", tmp_path / "go"
    note = {"type": "progress", "summary": "x"}
    plan(
        project,
        "one",
        [
            {"do": "ignore_sigterm"},  # so it runs on for some seconds when it is ended
            call(tmp_path, "before", "checkpoint_add", **note),
            {"do": "touch", "file": str(said)},
            {"do": "wait_for", "file": str(go)},
            call(tmp_path, "note", "checkpoint_add", **note),
            call(tmp_path, "read", "task_get"),
            {"do": "touch", "file": str(tmp_path / "tried")},
            {"do": "exit"},
        ],
    )
    other = call_tool(project.app, "agent_register", name="other", runtime="codex")["id"]
    run = start_run()
    wait_until(said.exists, "the agent's first call")
    [holder] = {each["agent_id"] for each in list_attempts(project)}
    with project.app.database.transaction() as tx, join_transaction(tx):
        call_tool(project.app, "task_release", task_id=project.ids["one"], agent_id=holder)
        taken = call_tool(project.app, "task_claim", task_id=project.ids["one"], agent_id=other)
    go.touch()
    wait_until((tmp_path / "tried").exists, "the agent's last call")
    run.kill()

    assert taken["success"]
    assert read_answer(tmp_path, "before")["sequence"]
    assert [read_answer(tmp_path, name)["code"] for name in ("note", "read")] == ["UNAUTHORIZED"] * 2


def test_an_agent_whose_runner_was_killed_is_answered_by_the_next_one_until_its_attempt_ends(
    project: RunProject, start_run: Callable[[], subprocess.Popen[bytes]], tmp_path: Path
):
    said, go = tmp_path / "said", tmp_path / "go"
    plan(
        project,
        "one",
        [
            call(tmp_path, "before", "checkpoint_add", type="progress", summary="before"),
            {"do": "touch", "file": str(said)},
            {"do": "wait_for", "file": str(go)},
            call(tmp_path, "after", "checkpoint_add", type="progress", summary="after"),
            write("one"),
            {"do": "exit"},
        ],
    )
    first = start_run()
    wait_until(said.exists, "the agent's first call")
    [bridge_file] = project.folder.glob(".deepwork/runs/*/1/bridge.json")
    served = bridge_file.read_bytes()
    first.kill()
    first.wait()
    second = start_run()
    wait_until(lambda: bridge_file.read_bytes() != served, "the runner that takes over")
    go.touch()

    assert second.wait(timeout=PATIENCE_SECONDS) == 0
    assert list_summaries(project, "one") == ["before", "after"]
    assert [each["stage"] for each in list_attempts(project)] == ["done"]
    assert len(project.agents.read_ledger()) == 1
    with pytest.raises(NotAllowed):
        AgentAccess(project.app.database).find_grant(json.loads(bridge_file.read_text())["token"])


def test_an_agent_reports_its_step_of_a_job_and_no_other_one(tmp_path: Path, location: str):
    project, answers = JobProject(tmp_path, location), tmp_path / "answers"
    client = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"},
    }
    calls = {
        "other": ("finished_step", {"outputs": {"b.md": "a.md"}, "step_id": "b"}),
        "back": ("go_to_step", {"step_id": "a"}),
        "abort": ("abort_workflow", {"explanation": "x"}),
        "another": ("start_workflow", {"goal": "x", "job_name": "chain", "workflow_name": "main"}),
        "read": ("get_session", {}),
        "done": ("finished_step", {"outputs": {"a.md": "a.md"}}),
    }
    lines = [{"id": 0, "method": "initialize", "params": client}]
    lines += [
        {"id": name, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        for name, (tool, arguments) in calls.items()
    ]
    asked = tmp_path / "asked"
    asked.write_text("".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines))
    command = shlex.join([sys.executable, "-I", "-S", bridge.__file__])
    project.set_agent(
        f'*/a) echo one > a.md; {command} "$DEEPWORK_BRIDGE" < {asked} > {answers}; echo "A is written." ;;',
        WRITE_B,
    )

    run = project.run()

    found = {each["id"]: each.get("result", {}) for each in map(json.loads, answers.read_text().splitlines())}
    texts = {name: json.loads(found[name]["content"][0]["text"]) for name in calls}
    assert {
        name: text.get("code") for name, text in texts.items() if name not in ("read", "done")
    } == dict.fromkeys(["other", "back", "abort", "another"], "UNAUTHORIZED")
    assert texts["read"]["session"]["session_id"] == run.session_id
    assert texts["done"]["status"] == "next_step"
    assert run.status is RunStatus.DONE
    assert project.list_stages(run) == [("a", "done", 1), ("b", "done", 1)]
    project.close()
