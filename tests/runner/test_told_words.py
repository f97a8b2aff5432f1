"""What a person tells an agent under a run: it arrives in the session, in the next start and with the next attempt."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pytest

from cli.run import run_deepwork
from deepwork.delivery.runner.models import Run, RunRequest, RunStatus
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call
from deepwork.kernel.errors import NotAllowed
from runner.endings import check_nothing_is_left, finish, plan, wait_until, write
from runner.run_invariants import list_attempts
from runner.run_project import RunProject
from runner.scripted import Steps
from runner.test_run_gates import CHECKS, decide, define_checks, read_prompt, run

PERSON = "human:ada"
WORDS = "The rate for books is 7 percent."
HEADING = f"# ada says\n\n{WORDS}\n\n"
BROKEN: Steps = [{"do": "exit", "code": 1, "text": "Broken."}]


@pytest.fixture
def project(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunProject]:
    """A project on each kind of database, whose agents this process finds."""
    made = RunProject(tmp_path, location)
    for name in ("PATH", "HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, made.variables[name])
    yield made
    check_nothing_is_left(made)
    made.close()


def act(project: RunProject, action: str, **arguments: Any) -> Any:
    """Do what a person does."""
    app = project.app
    return invoke(app.database, app.operations[action], arguments, Call(PERSON, action, account=PERSON))


def list_words(project: RunProject) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = act(project, "list_words", to=project.ids["alpha"])["words"]
    return found


def meet(folder: Path) -> Steps:
    """Say that the agent works, and wait until the person has spoken."""
    return [{"do": "touch", "file": str(folder / "ready")}, {"do": "wait_for", "file": str(folder / "told")}]


class Driven:
    """A run that is driven in another thread, until the person who talks to its agents is done."""

    def __init__(self, project: RunProject, folder: Path, agent: str, agents: int | None = None) -> None:
        self._project, self._folder, self._agent, self._parallel = project, folder, agent, agents
        self._pool = ThreadPoolExecutor(1)

    def __enter__(self) -> Self:
        runner = self._project.app.runner
        agent = self._project.agents.get_agent(self._agent) if self._agent == "command" else self._agent
        started = runner.start_plan(self._project.plan, RunRequest((agent,), parallel=self._parallel))
        self._run: Future[Run] = self._pool.submit(runner.drive, started.id, threading.Event())
        wait_until((self._folder / "ready").exists, "the agent")
        return self

    def __exit__(self, *_: object) -> None:
        (self._folder / "told").touch()
        self.run = self._run.result()
        self._pool.shutdown()


def test_a_hook_carries_words_to_a_running_session(project: RunProject, tmp_path: Path):
    heard, again = tmp_path / "heard.json", tmp_path / "again.json"
    hooks: Steps = [{"do": "hook", "event": "PostToolUse", "file": str(each)} for each in (heard, again)]
    plan(project, "alpha", [*meet(tmp_path), *hooks, *finish("alpha")])

    with Driven(project, tmp_path, "claude") as driven:
        told = act(project, "tell", to=project.ids["alpha"], text=WORDS)

    [attempt], [word] = list_attempts(project), list_words(project)
    assert [each["reaches"] for each in told["words"]] == ["next_call"]
    assert WORDS in json.loads(heard.read_text())["hookSpecificOutput"]["additionalContext"]
    assert again.read_text() == ""
    assert driven.run.status is RunStatus.DONE
    assert (word["attempt_id"], word["start"], "reaches" in word) == (attempt["id"], 1, False)
    assert word["delivered_at"] >= word["at"]
    assert len(project.agents.read_ledger()) == 1


def test_a_hook_that_is_about_to_stop_hears_words(project: RunProject, tmp_path: Path):
    heard = tmp_path / "heard.json"
    hook = {"do": "hook", "event": "Stop", "file": str(heard)}
    plan(project, "alpha", [*meet(tmp_path), hook, *finish("alpha")])

    with Driven(project, tmp_path, "claude"):
        act(project, "tell", to=project.ids["alpha"], text=WORDS)

    answer = json.loads(heard.read_text())
    assert (answer["decision"], WORDS in answer["reason"]) == ("block", True)
    assert len(project.agents.read_ledger()) == 1


@pytest.mark.parametrize("agent", ["codex", "command"])
def test_words_that_no_hook_carried_open_the_next_start(project: RunProject, tmp_path: Path, agent: str):
    plan(project, "alpha", [*meet(tmp_path), *finish("alpha")], [write("more"), *finish("alpha")])

    with Driven(project, tmp_path, agent) as driven:
        told = act(project, "tell", to=project.ids["alpha"], text=WORDS)

    [attempt], [word] = list_attempts(project), list_words(project)
    [first, second] = project.agents.read_ledger()
    assert [each["reaches"] for each in told["words"]] == ["next_start"]
    assert read_prompt(project, attempt, 2).startswith(HEADING)
    assert WORDS not in read_prompt(project, attempt, 1)
    assert (second.start["resumed"], first.start["attempt"]) == (agent == "codex", second.start["attempt"])
    assert (word["attempt_id"], word["start"]) == (attempt["id"], 2)
    assert (driven.run.status, attempt["stage"], attempt["resumes"]) == (RunStatus.DONE, "done", 0)


def test_words_while_checks_run_open_the_next_start_too(project: RunProject, tmp_path: Path):
    wait = f"touch {tmp_path}/ready; until [ -e {tmp_path}/told ]; do sleep 0.05; done"
    define_checks(project, f"checks:\n  tests: {{run: [sh, -c, '{wait}']}}\n")
    plan(project, "alpha", finish("alpha"), [write("more"), *finish("alpha")], checks=["tests"])

    with Driven(project, tmp_path, "codex"):
        act(project, "tell", to=project.ids["alpha"], text=WORDS)

    [attempt], [word] = list_attempts(project), list_words(project)
    assert read_prompt(project, attempt, 2).startswith(HEADING)
    assert (attempt["stage"], word["start"]) == ("done", 2)


@pytest.mark.parametrize("agent", ["codex", "command"])
def test_words_at_once_interrupt_the_agent_and_open_its_next_start(
    project: RunProject, tmp_path: Path, agent: str
):
    never: Steps = [{"do": "wait_for", "file": "/nonexistent/never"}]
    ready: Steps = [{"do": "touch", "file": str(tmp_path / "ready")}]
    plan(project, "alpha", [write("begun"), *ready, *never], finish("alpha"))

    with Driven(project, tmp_path, agent) as driven:
        act(project, "tell", to=project.ids["alpha"], text=WORDS, now=True)

    [attempt], [word] = list_attempts(project), list_words(project)
    [_, second] = project.agents.read_ledger()
    assert read_prompt(project, attempt, 2).startswith(HEADING)
    assert second.start["resumed"] == (agent == "codex")
    assert (word["attempt_id"], word["start"]) == (attempt["id"], 2)
    assert (driven.run.status, attempt["stage"], attempt["resumes"]) == (RunStatus.DONE, "done", 0)


@pytest.mark.parametrize("is_heard", [True, False])
def test_words_follow_the_task_to_the_next_attempt(project: RunProject, tmp_path: Path, is_heard: bool):
    heard = tmp_path / "heard.json"
    hook: Steps = [{"do": "hook", "event": "PostToolUse", "file": str(heard)}] if is_heard else []
    plan(project, "alpha", [*meet(tmp_path), *hook, *BROKEN], finish("alpha"))

    with Driven(project, tmp_path, "claude") as driven:
        act(project, "tell", to=project.ids["alpha"], text=WORDS)

    [first, second], [word] = list_attempts(project), list_words(project)
    assert heard.exists() == is_heard
    assert (first["stage"], second["stage"]) == ("failed", "done")
    assert read_prompt(project, second).startswith(HEADING)
    assert (word["attempt_id"], word["start"]) == (second["id"], 1)
    assert driven.run.status is RunStatus.DONE


def test_a_message_to_the_agent_of_an_attempt_follows_the_task_too(project: RunProject, tmp_path: Path):
    plan(project, "alpha", [*meet(tmp_path), *BROKEN], finish("alpha"))

    with Driven(project, tmp_path, "codex"):
        [attempt] = list_attempts(project)
        me = act(project, "agent_register", name="ada", runtime="custom")["id"]
        message = {"sender_id": me, "recipient_id": attempt["agent_id"], "message_type": "notification"}
        act(project, "message_send", **message, body=WORDS)

    [_, second] = list_attempts(project)
    assert WORDS in read_prompt(project, second).partition("# Task: alpha")[0]


def test_words_before_a_run_open_its_first_prompt(project: RunProject, tmp_path: Path):
    plan(project, "alpha", finish("alpha"))

    told = act(project, "tell", to=project.ids["alpha"], text=WORDS)
    (tmp_path / "ready").touch()
    with Driven(project, tmp_path, "claude"):
        pass

    [attempt] = list_attempts(project)
    assert [each["reaches"] for each in told["words"]] == ["next_agent"]
    assert read_prompt(project, attempt).startswith(HEADING)


@pytest.mark.parametrize("to", ["id", "agent_id", "run_id"])
def test_an_attempt_an_agent_and_a_run_stand_for_the_task(project: RunProject, tmp_path: Path, to: str):
    plan(project, "alpha", [*meet(tmp_path), *finish("alpha")], finish("alpha"))

    with Driven(project, tmp_path, "codex"):
        [attempt] = list_attempts(project)
        told = act(project, "tell", to=attempt[to], text=WORDS)

    assert [each["task_id"] for each in told["words"]] == [project.ids["alpha"]]
    assert [each["start"] for each in list_words(project)] == [2]


def test_nobody_can_be_told_about_a_task_that_is_done(project: RunProject, tmp_path: Path):
    plan(project, "alpha", finish("alpha"))
    (tmp_path / "ready").touch()
    with Driven(project, tmp_path, "claude") as driven:
        pass

    with pytest.raises(NotAllowed, match="is done"):
        act(project, "tell", to=project.ids["alpha"], text=WORDS)
    with pytest.raises(NotAllowed, match="at work"):
        act(project, "tell", to=driven.run.id, text=WORDS)

    assert list_words(project) == []


def test_the_command_says_what_the_words_wait_for_and_when_they_arrived(project: RunProject, tmp_path: Path):
    plan(project, "alpha", [*meet(tmp_path), *finish("alpha")], finish("alpha"))

    def deepwork(*words: str) -> str:
        done = run_deepwork(project.folder, *words, environment=project.variables)
        assert done.code == 0, done
        return done.out

    with Driven(project, tmp_path, "codex"):
        said = deepwork("tell", "alpha", WORDS)
        waiting = deepwork("tell", "alpha")
    arrived = deepwork("tell", "alpha")

    [attempt] = list_attempts(project)
    assert "opens the next start" in said
    assert "not delivered yet" in waiting
    assert f"in start 2 of {attempt['id']}" in arrived


@pytest.mark.parametrize("agent", ["claude", "command"])
def test_a_refusal_is_a_heading_with_the_words_of_the_person(project: RunProject, agent: str):
    plan(project, "alpha", finish("alpha"), [write("more"), *finish("alpha")], approval=["after"])

    run(project, project.agents.get_agent(agent))
    decide(project, "refuse_approval", comment=WORDS)
    run(project, project.agents.get_agent(agent))

    [attempt] = list_attempts(project)
    prompt = read_prompt(project, attempt, 2)
    decide(project, "give_approval")
    run(project, project.agents.get_agent(agent))
    assert prompt.startswith(f"# ada refused your work\n\n{WORDS}\n\n")
    assert prompt.partition("# Context")[0].count(WORDS) == 1


def test_a_hint_for_another_try_opens_its_prompt(project: RunProject):
    plan(project, "alpha", BROKEN, finish("alpha"), max_attempts=1)

    run(project)
    act(project, "task_update_status", id=project.ids["alpha"], status="pending", outcome=WORDS)
    run(project)

    [_, second] = list_attempts(project)
    heading, _, rest = read_prompt(project, second).partition("\n\n")
    assert (heading, WORDS in rest.partition("# Task: alpha")[0]) == ("# ada says", True)


def test_the_failing_test_of_a_check_is_said_first_as_text_and_once(project: RunProject):
    failing = "FAILED test_a.py::test_sum - assert 1 == 2"
    printed = "".join(f'echo "{line}"; ' for line in ("test_a.py::test_x PASSED", failing, "1 failed"))
    define_checks(project, CHECKS.replace("echo there is no good; ", printed))
    good = {"do": "write", "file": "good", "text": ""}
    plan(project, "alpha", finish("alpha"), [good, *finish("alpha")], checks=["tests"])

    run(project)

    [first, second] = list_attempts(project)
    prompt = read_prompt(project, second)
    assert (prompt.count(failing), prompt.count("1 failed")) == (1, 1)
    assert prompt.index(failing) < prompt.index("test_x PASSED")
    assert '"verdict"' not in prompt
    assert failing in first["reason"]


def wait_for_approval(project: RunProject) -> str:
    """Let work wait for the approval of a person, then tell its agent something; return the approval."""
    plan(project, "alpha", finish("alpha"), finish("again"), approval=["after"])
    run(project)
    told = act(project, "tell", to=project.ids["alpha"], text=WORDS)
    assert told["words"][0]["reaches"] == "refusal"
    [approval] = act(project, "list_approvals")["approvals"]
    return str(approval["id"])


def test_words_about_work_that_waits_for_an_approval_are_asked_about_before_it_is_given(project: RunProject):
    id = wait_for_approval(project)
    evidence = act(project, "get_approval_evidence", id=id)
    shown = run_deepwork(project.folder, "approvals", "show", id, environment=project.variables)
    refused = run_deepwork(project.folder, "approvals", "approve", id, environment=project.variables)

    assert [each["text"] for each in evidence["unheard"]] == [WORDS]
    assert WORDS in shown.out
    assert (refused.code, list_words(project)[0].get("delivered_at")) == (1, None)
    assert all(part in refused.err for part in (WORDS, f"approvals refuse {id}", f"approve {id} --anyway"))

    given = run_deepwork(
        project.folder, "approvals", "approve", id, "--anyway", environment=project.variables
    )
    assert (given.code, list_words(project)[0]["reaches"]) == (0, "never")
    assert WORDS in given.out


def test_a_refusal_lets_the_next_agent_hear_what_was_told_before_it(project: RunProject):
    act(project, "refuse_approval", approval_id=wait_for_approval(project))
    run(project)

    [attempt] = list_attempts(project)
    assert WORDS in read_prompt(project, attempt, 2)
    [approval] = act(project, "list_approvals")["approvals"]
    assert act(project, "get_approval_evidence", id=approval["id"]).get("unheard") is None
