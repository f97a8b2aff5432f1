"""Agents of any vendor as external reviewers: the last message is the verdict."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from application import make_app
from cli.run import run_deepwork
from deepwork.delivery.runner.agent_reviewer import AgentReviewer, find_object
from deepwork.delivery.runner.models import RunStatus
from deepwork.delivery.runner.profiles import AgentProfile
from deepwork.kernel.config import load_settings
from deepwork.kernel.errors import DefinitionError, GateClosed, ReviewerError
from deepwork.work.jobs.quality_gate import VERDICT
from jobs.project import make_review, make_step, write_files, write_job
from jobs.runs import finish_step, start_job
from runner.job_project import JobProject

PASS = {"passed": True, "feedback": "Good."}
FAIL = {
    "passed": False,
    "feedback": "Too short.",
    "criteria_results": [{"criterion": "Good", "passed": False}],
}

STREAMS: dict[str, list[dict[str, Any]]] = {
    "codex": [
        {"type": "thread.started", "thread_id": "t"},
        {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": json.dumps(FAIL)}},
        {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}},
    ],
    "gemini": [
        {"type": "init", "session_id": "s"},
        {"type": "message", "role": "assistant", "content": f"```json\n{json.dumps(FAIL)}\n```"},
        {"type": "result", "status": "success", "stats": {}},
    ],
    "opencode": [
        {"type": "text", "sessionID": "s", "part": {"type": "text", "text": json.dumps(FAIL)}},
        {"type": "step_finish", "sessionID": "s", "part": {"reason": "stop", "tokens": {}}},
    ],
    "claude": [
        {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": json.dumps(FAIL)}]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": json.dumps(FAIL)},
    ],
}  # fmt: skip


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that is on the path."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return folder


def write_program(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!{sys.executable} -S\nimport json, os, sys\nprompt = sys.stdin.read()\n{body}\n")
    path.chmod(0o755)


def ask(profile: AgentProfile, folder: Path, seconds: float = 60) -> dict[str, Any]:
    reviewer = AgentReviewer(profile.name, seconds, lambda name: profile)
    return reviewer.run("Judge this: a.md", "You are an editor.", VERDICT, cwd=folder)


@pytest.mark.parametrize("kind", STREAMS)
def test_the_last_message_of_an_agent_is_its_verdict(bin: Path, tmp_path: Path, kind: str) -> None:
    lines = "\n".join(json.dumps(event) for event in STREAMS[kind])
    called = tmp_path / "called.json"
    seen = "[sys.argv, prompt, os.environ.get('OPENCODE_PERMISSION', '')]"
    write_program(bin, kind, f"open({str(called)!r}, 'w').write(json.dumps({seen}))\nprint({lines!r})")

    verdict = ask(AgentProfile("mine", kind, allow=("Edit",)), tmp_path)

    argv, prompt, permission = json.loads(called.read_text())
    assert verdict == FAIL
    assert prompt.startswith("You are an editor.")
    assert "Judge this: a.md" in prompt
    assert '"criteria_results"' in prompt
    expected = {
        "codex": "read-only", "gemini": "--approval-mode=default", "claude": "--permission-mode=default",
        "opencode": "--dir",
    }  # fmt: skip
    assert expected[kind] in argv
    assert not any("Edit" in word or word == "--auto" for word in argv), "a reviewer only reads"
    assert kind != "opencode" or json.loads(permission)["*"] == "deny"


def test_a_command_may_write_its_verdict_on_several_lines(bin: Path, tmp_path: Path) -> None:
    write_program(bin, "judge", f"print('Let me see.')\nprint(json.dumps({PASS!r}, indent=1))")

    assert ask(AgentProfile("judge", "command", run=("judge", "{prompt_file}")), tmp_path) == PASS


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("print('Looks fine.')", "not a JSON object with passed, feedback: Looks fine."),
        ("print('{\"passed\": true}')", "not a JSON object with passed, feedback"),
        ("sys.exit('No key.')", "exit code 1: No key."),
        (
            "print(json.dumps({'type': 'result', 'is_error': True, 'result': 'Out of credit'}))",
            "Out of credit",
        ),
        ("import time; time.sleep(60)", "timed out after 1 seconds"),
    ],
)
def test_a_reviewer_without_a_verdict_is_an_error(bin: Path, tmp_path: Path, body: str, problem: str) -> None:
    write_program(bin, "judge", body)

    with pytest.raises(ReviewerError) as failed:
        ask(AgentProfile("judge", "command", run=("judge",)), tmp_path, seconds=1 if "sleep" in body else 60)

    assert problem in failed.value.message


def test_a_program_that_is_not_installed_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReviewerError, match="missing-judge: command not found"):
        ask(AgentProfile("judge", "command", run=("missing-judge",)), tmp_path)


def test_part_of_a_verdict_is_no_verdict() -> None:
    whole = json.dumps({**PASS, "criteria_results": [{**PASS, "criterion": "Good"}]})

    assert find_object(f"So:\n```json\n{whole}\n```", PASS) == json.loads(whole)
    for cut in (whole[3:], whole[30:], whole[:-3], whole[whole.rindex("{") - 2 :], "", "[1]", "} {"):
        assert find_object(cut, PASS) is None


def test_a_setting_names_an_agent_and_needs_trust(tmp_path: Path) -> None:
    (tmp_path / ".deepwork").mkdir()
    (tmp_path / ".deepwork" / "config.yml").write_text("quality_gate: {external_runner: codex}\n")

    named = load_settings(tmp_path, {"external_runner": "my-judge"}, environment={})
    untrusted = load_settings(tmp_path, environment={})

    assert named.external_runner == "my-judge"
    assert (untrusted.external_runner, untrusted.untrusted_keys) == ("", ("quality_gate.external_runner",))
    with pytest.raises(DefinitionError, match="the name of another agent"):
        load_settings(tmp_path, {"external_runner": "rm -rf x"}, environment={})


def test_an_unknown_agent_is_said_when_it_should_review(tmp_path: Path) -> None:
    write_files(tmp_path, "a.md")
    write_job(tmp_path, "chain", [make_step("a", None, [make_review()])])
    app = make_app(tmp_path, str(tmp_path / "deepwork.db"), git_branch="off", external_runner="nobody")
    start_job(app)

    with pytest.raises(GateClosed, match="nobody"):
        finish_step(app, "a.md")
    app.close()


@pytest.mark.parametrize("location", ["sqlite"], indirect=True)
def test_another_agent_reviews_an_unattended_job(
    bin: Path, tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "config" / "deepwork"
    own.mkdir(parents=True)
    (own / "agents.yml").write_text("agents: {judge: {kind: command, run: [judge]}}\n")
    (own / "agents.yml").chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own.parent))
    write_program(bin, "judge", f"print(json.dumps({PASS!r} if 'final' in prompt else {FAIL!r}))")
    step = make_step("a", None, [make_review()])
    project = JobProject(tmp_path, location, [step], external_runner="judge", quality_gate_max_attempts=2)
    project.set_agent('*/a) echo "draft $START" > a.md ;;')

    first = project.run()
    session, store = first.session_id or "", {"DEEPWORK_DATABASE_URL": location}
    shown = run_deepwork(project.folder, "sessions", "show", session, "--json", environment=store)
    granted = run_deepwork(project.folder, "sessions", "grant-round", session[:5], environment=store)
    project.set_agent("*/a) echo final > a.md ;;")
    last = project.run()

    assert first.status is RunStatus.NEEDS_PERSON
    assert f"deepwork sessions pass {first.session_id}" in (first.reason or "")
    assert shown.json["session_id"] == first.session_id, "the session is in the worktree of the run"
    assert "Step a may be reviewed" in granted.out, granted.err
    assert project.list_stages(first)[0][1:] == ("done", 3)
    assert "Too short." in project.prompts[1]
    assert "once more" in project.prompts[2]
    assert (last.id, last.status) == (first.id, RunStatus.DONE)
    project.close()
