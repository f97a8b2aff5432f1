"""Runs that meet approvals, guarded files, budgets and checks: they wait for a person, and go on after it."""

from __future__ import annotations

import json
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboard.make import create_client, read
from deepwork.delivery.runner import agent_watcher
from deepwork.delivery.runner.attempt_files import AttemptFiles
from deepwork.delivery.runner.models import Run, RunRequest, RunStatus
from deepwork.edge.server.invocation import invoke
from deepwork.gates.checks.definitions import parse_checks
from deepwork.gates.checks.trusting import pin_checks
from deepwork.kernel.call import Call
from deepwork.kernel.errors import InvalidInput, NotAllowed
from deepwork.kernel.user_settings import open_trust_store
from quick import PLAIN
from runner.endings import check_nothing_is_left, finish, plan, wait_until, write
from runner.person_checkout import take_fingerprint
from runner.run_invariants import list_attempts
from runner.run_project import RunProject
from runner.scripted import Steps
from workspaces.make import run_git

PERSON = "human:ada"
CHECKS = """\
checks:
  tests: {run: [sh, -c, 'test -e good || { echo there is no good; exit 1; }']}
guarded: [guarded.txt]
"""
WAIT: Steps = [{"do": "wait_for", "file": "/nonexistent/never"}]


def spend(usd: float) -> dict[str, Any]:
    return {"do": "usage", "input": 10, "output": 10, "usd_micros": round(usd * 1_000_000)}


@pytest.fixture
def project(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunProject]:
    """A project on each kind of database, whose agents this process finds."""
    made = RunProject(tmp_path, location)
    for name in ("PATH", "HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, made.variables[name])
    yield made
    check_nothing_is_left(made)
    made.close()


def define_checks(project: RunProject, checks: str = CHECKS) -> None:
    """Commit checks that the person trusts."""
    (project.folder / ".deepwork" / "checks.yml").write_text(checks)
    run_git(project.folder, "add", "-f", ".deepwork/checks.yml")
    only = ("commit", "-qm", "Add checks", "--", ".deepwork/checks.yml")
    run_git(project.folder, "-c", "core.hooksPath=/dev/null", *only)
    project.fingerprint = take_fingerprint(project.folder)
    pin_checks(project.folder, parse_checks(checks.encode()), proof="token", trusted_at="now")


def run(project: RunProject, agent: str = "claude", **options: float) -> Run:
    """Run the plan until it is done or needs a person, as `deepwork run` does."""
    return run_request(project, RunRequest((agent,), options=options))


def run_request(project: RunProject, request: RunRequest) -> Run:
    runner = project.app.runner
    started = runner.start_plan(project.plan, request)
    return runner.drive(started.id, threading.Event())


def act(project: RunProject, action: str, **arguments: Any) -> Any:
    """Do what a person does."""
    app = project.app
    spec = app.operations[action]
    return invoke(app.database, spec, arguments, Call(PERSON, action, account=PERSON))


def decide(project: RunProject, action: str, **more: Any) -> None:
    """Decide about the only approval that waits."""
    with project.app.database.reading() as tx:
        [row] = tx.fetch_all("SELECT id FROM approvals WHERE status = 'pending'")
    act(project, action, approval_id=row["id"], **more)


def list_stages(project: RunProject, name: str = "alpha") -> list[str]:
    return [each["stage"] for each in list_attempts(project) if each["task_id"] == project.ids[name]]


def read_prompt(project: RunProject, attempt: dict[str, Any], start: int = 1) -> str:
    folder = project.app.settings.state_folder
    return AttemptFiles.locate(folder, attempt["id"], start).prompt.read_text()


def get_status(project: RunProject, name: str = "alpha") -> str:
    [status] = [task["status"] for task in project.list_tasks() if task["name"] == name]
    return str(status)


def test_a_task_starts_after_a_person_approved_it(project: RunProject):
    plan(project, "alpha", finish("alpha"), approval=["before"])

    waiting = run(project)
    decide(project, "give_approval")
    done = run(project)

    assert waiting.status is RunStatus.NEEDS_PERSON
    assert "approv" in str(waiting.reason)
    assert done.status is RunStatus.DONE
    assert list_stages(project) == ["done"]


def test_a_person_sees_which_files_the_agent_changed(project: RunProject):
    plan(project, "alpha", [write("more"), *finish("alpha")], approval=["after"])

    run(project)

    with project.app.database.reading() as tx:
        [row] = tx.fetch_all("SELECT shown FROM approvals WHERE status = 'pending'")
    assert "more.txt" in json.loads(row["shown"])["work"]["files"]


def test_refused_work_goes_back_into_the_same_session(project: RunProject):
    plan(project, "alpha", finish("alpha"), [write("more"), *finish("alpha")], approval=["after"])

    waiting = run(project)
    stages = list_stages(project)
    decide(project, "refuse_approval", comment="Write more, too.")
    again = run(project)
    decide(project, "give_approval")
    done = run(project)

    assert (waiting.status, stages) == (RunStatus.NEEDS_PERSON, ["reviewing"])
    assert (again.status, done.status) == (RunStatus.NEEDS_PERSON, RunStatus.DONE)
    assert (list_stages(project), get_status(project)) == (["done"], "completed")
    [attempt] = list_attempts(project)
    [first, second] = project.agents.read_ledger()
    assert (first.start["resumed"], second.start["resumed"]) == (False, True)
    assert first.start["session"] == second.start["session"]
    assert "Write more, too." in read_prompt(project, attempt, 2)
    assert run_git(project.folder, "show", f"{attempt['branch']}:more.txt") == "more"


def test_a_change_of_guarded_files_waits_for_a_person(project: RunProject):
    define_checks(project)
    steps = [
        {"do": "write", "file": "good", "text": ""},
        {"do": "write", "file": "guarded.txt", "text": "x\n"},
    ]
    plan(project, "alpha", [*steps, *finish("alpha")], checks=["tests"])

    waiting = run(project)
    stages = list_stages(project)
    decide(project, "give_approval")
    done = run(project)

    assert (waiting.status, stages) == (RunStatus.NEEDS_PERSON, ["parked"])
    assert "guarded" in str(waiting.reason)
    assert (done.status, list_stages(project)) == (RunStatus.DONE, ["done"])
    assert len(project.agents.read_ledger()) == 1


@pytest.mark.parametrize("budget", ["run", "task", "plan"])
def test_an_agent_that_used_up_a_budget_goes_on_after_a_raise(project: RunProject, budget: str):
    steps: Steps = [write("begun"), spend(1.5), *WAIT]
    own = {"budget": {"usd": 1}} if budget == "task" else {}
    whole = {"budget": {"usd": 1}} if budget == "plan" else {}
    project.set_plan(
        [{"name": "alpha", "description": "", **own}], {"alpha": [steps, finish("alpha")]}, **whole
    )
    agent = "opencode"  # it says what it costs while it works
    limit = {"max_usd": 1.0} if budget == "run" else {}

    waiting = run(project, agent, **limit)
    stages = list_stages(project)
    still = run(project, agent, **limit)
    if budget == "run":
        raised = {"max_usd": 5.0}
    else:
        raised = {}
        act(project, "set_budget", id=project.ids["alpha"] if budget == "task" else project.plan, usd=5)
    done = run(project, agent, **raised)

    assert (waiting.status, stages) == (RunStatus.NEEDS_PERSON, ["parked"])
    assert "1" in str(waiting.reason)
    assert still.status is RunStatus.NEEDS_PERSON
    assert (done.status, list_stages(project)) == (RunStatus.DONE, ["done"])
    [first, second] = project.agents.read_ledger()
    assert first.start["session"] == second.start["session"]


def test_minutes_of_a_task_pass_while_its_agent_is_silent(
    project: RunProject, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(agent_watcher, "_COMPARE_MS", 100)
    tasks = [{"name": "alpha", "description": "", "budget": {"minutes": 0.02}}]
    project.set_plan(tasks, {"alpha": [WAIT, finish("alpha")]})

    waiting = run(project)
    stages = list_stages(project)
    act(project, "set_budget", id=project.ids["alpha"], minutes=60)
    done = run(project)

    assert (waiting.status, stages) == (RunStatus.NEEDS_PERSON, ["parked"])
    assert "0.02 minutes is used up" in str(waiting.reason)
    assert (done.status, list_stages(project)) == (RunStatus.DONE, ["done"])


def test_what_a_check_said_is_in_the_next_prompt(project: RunProject):
    define_checks(project)
    good = {"do": "write", "file": "good", "text": ""}
    plan(project, "alpha", finish("alpha"), [good, *finish("alpha")], checks=["tests"])

    done = run(project)

    assert done.status is RunStatus.DONE
    assert list_stages(project) == ["failed", "done"]
    assert "there is no good" in read_prompt(project, list_attempts(project)[1])


def test_a_person_gives_new_attempts_in_the_same_run(project: RunProject, tmp_path: Path):
    opened, refused = tmp_path / "opened", [{"do": "exit", "code": 1, "is_error": True, "text": "I cannot."}]
    project.set_plan(
        [{"name": "alpha", "description": "", "max_attempts": 2}, {"name": "beta", "description": ""}],
        {
            "alpha": [refused, refused, refused, refused, finish("alpha")],
            "beta": [[{"do": "wait_for", "file": str(opened)}, *finish("beta")]],
        },
    )
    ended: list[Run] = []
    chain = ("claude", "codex")
    thread = threading.Thread(
        target=lambda: ended.append(run_request(project, RunRequest(chain, parallel=2)))
    )

    thread.start()
    wait_until(lambda: get_status(project) == "failed", "the end of all attempts")
    stages = list_stages(project)
    profiles = [each["profile"] for each in list_attempts(project) if each["task_id"] == project.ids["alpha"]]
    act(project, "task_update_status", id=project.ids["alpha"], status="pending")
    wait_until(lambda: get_status(project) == "completed", "a new attempt")
    opened.touch()
    thread.join(60)

    assert (stages, profiles) == (["failed"] * 4, ["claude", "claude", "codex", "codex"])
    assert [each.status for each in ended] == [RunStatus.DONE]
    assert list_stages(project) == ["failed"] * 4 + ["done"]
    assert len({each["run_id"] for each in list_attempts(project)}) == 1


def test_a_run_starts_nothing_more_while_its_results_wait_for_a_person(project: RunProject):
    names = ("alpha", "beta")
    tasks = [{"name": name, "description": "", "depends_on": [], "approval": ["after"]} for name in names]
    project.set_plan(tasks, {name: [finish(name)] for name in names})

    waiting = run(project, max_unreviewed=1)
    begun = [each.name for each in project.agents.read_ledger()]
    decide(project, "give_approval")
    again = run(project, max_unreviewed=1)
    decide(project, "give_approval")
    done = run(project, max_unreviewed=1)

    assert (waiting.status, len(begun)) == (RunStatus.NEEDS_PERSON, 1)
    assert waiting.reason == "1 result waits for a person: `deepwork approvals list`."
    assert (again.status, done.status) == (RunStatus.NEEDS_PERSON, RunStatus.DONE)
    assert sorted(each.name for each in project.agents.read_ledger()) == sorted(names)


def complete_task(project: RunProject) -> dict[str, Any]:
    """The agent reports its task as completed, as it does over MCP."""
    done = f"tasks done $DEEPWORK_TASK --agent-id $DEEPWORK_AGENT_ID --outcome Done. --path {project.folder}"
    where = f"DEEPWORK_DATABASE_URL={shlex.quote(project.variables.get('DEEPWORK_DATABASE_URL', ''))}"
    return {"do": "run", "argv": ["sh", "-c", f"{where} {shlex.join(PLAIN)} {done}"]}


def test_work_that_changes_after_the_agent_completed_it_has_to_pass_again(project: RunProject):
    define_checks(project)
    good = {"do": "append", "file": "good", "line": "good"}
    spoil = {"do": "run", "argv": ["rm", "good"]}
    plan(
        project,
        "alpha",
        [good, complete_task(project), spoil, *finish("alpha")],
        checks=["tests"],
        max_attempts=1,
    )

    ended = run(project)

    assert ended.status is RunStatus.NEEDS_PERSON
    assert get_status(project) != "completed"
    [attempt, *_] = list_attempts(project)
    assert attempt["stage"] == "failed"
    assert "Deepwork-Attempt" not in run_git(project.folder, "log", "--format=%B", attempt["branch"])


def test_work_that_still_passes_is_completed_as_it_is_at_the_end(project: RunProject):
    define_checks(project)
    good = {"do": "append", "file": "good", "line": "good"}
    plan(project, "alpha", [good, complete_task(project), *finish("alpha")], checks=["tests"])

    ended = run(project)

    assert (ended.status, get_status(project)) == (RunStatus.DONE, "completed")
    [attempt] = list_attempts(project)
    with project.app.database.reading() as tx:
        tree = tx.fetch_value("SELECT completed_tree FROM plan_tasks")
    assert run_git(project.folder, "rev-parse", f"{attempt['branch']}^{{tree}}") == tree
    assert run_git(project.folder, "show", f"{attempt['branch']}:alpha.txt") == "alpha"


def test_finished_work_is_checked_at_a_budget_and_not_paid_for_again(
    project: RunProject, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(agent_watcher, "_LAST_WORDS_SECONDS", 0.1)
    define_checks(project)
    result = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "Done.",
        "total_cost_usd": 1.5,
    }
    good = {"do": "write", "file": "good", "text": ""}
    plan(project, "alpha", [good, {"do": "raw", "line": result}, *WAIT], checks=["tests"])

    ended = run(project, max_usd=1.0)

    assert (ended.status, list_stages(project)) == (RunStatus.DONE, ["done"])
    assert len(project.agents.read_ledger()) == 1


def test_a_limit_that_was_used_up_can_be_raised_and_the_run_continues(project: RunProject):
    steps: Steps = [write("begun"), spend(1.5), *WAIT]
    plan(project, "alpha", steps, finish("alpha"))

    waiting = run(project, "opencode", max_usd=1.0)
    [need] = read(create_client(project.app), "/home")["needs_you"]
    with pytest.raises(InvalidInput):
        act(project, "set_run", run_id=waiting.id, max_usd=1.2)
    changed = act(project, "set_run", run_id=waiting.id, max_usd=5)
    raised = read(create_client(project.app), f"/runner/runs/{waiting.id}")
    done = project.app.runner.drive(waiting.id, threading.Event())

    assert (need["kind"], need["next"]) == ("agent_run", f"deepwork runs set {waiting.id} --max-usd N")
    assert [each["tool"] for each in need["actions"]] == ["set_run"]
    assert (changed["status"], raised["state"]) == ("active", "unattended")
    assert raised["next"] == f"deepwork runs attach {waiting.id}"
    assert (done.status, list_stages(project)) == (RunStatus.DONE, ["done"])
    with pytest.raises(NotAllowed):
        act(project, "set_run", run_id=waiting.id, max_usd=50)


def test_the_cost_of_a_run_that_ended_stays_when_its_work_continues_in_another(project: RunProject):
    steps: Steps = [write("begun"), spend(1.5), *WAIT]
    plan(project, "alpha", steps, [spend(0.25), *finish("alpha")])
    first = run(project, "opencode", max_usd=1.0)

    second = run(project, "opencode")
    costs = {each["id"]: (each["usd"], each["tokens"]) for each in read_runs(project)}
    total = read(create_client(project.app), f"/runs/{project.plan}/spending")["total"]
    [line] = read(create_client(project.app), "/runs")["runs"]

    assert second.id != first.id
    assert second.status is RunStatus.DONE
    assert costs == {first.id: (1.5, 20), second.id: (0.25, 20)}
    assert (line["tokens"], line["usd"]) == (total["tokens"], total["usd"]) == (40, 1.75)


def read_runs(project: RunProject) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = read(create_client(project.app), "/runner/runs")["runs"]
    return runs


def test_an_agent_whose_checks_nobody_trusts_any_more_names_the_command_that_trusts_them(project: RunProject):
    define_checks(project)
    plan(project, "alpha", finish("good"), checks=["tests"])
    started = project.app.runner.start_plan(project.plan, RunRequest(("claude",)))
    open_trust_store().revoke(project.folder)
    project.app.runner.drive(started.id, threading.Event())

    [attempt] = read(create_client(project.app), "/runner/attempts")["attempts"]
    [entry] = [
        each
        for each in read(create_client(project.app), "/home")["needs_you"]
        if each["kind"] == "parked_attempt"
    ]
    assert attempt["state"] == "needs_you"
    assert attempt["next"] == entry["next"]
    assert shlex.split(attempt["next"])[:2] == ["deepwork", "trust"]


def test_a_run_keeps_the_name_of_its_chain(project: RunProject):
    profiles = project.home / ".config" / "deepwork" / "agents.yml"
    profiles.parent.mkdir(parents=True, exist_ok=True)
    profiles.write_text("chains: {night: [claude, codex]}\n")
    profiles.chmod(0o600)
    plan(project, "alpha", [{"do": "exit", "code": 1, "text": "Broken."}], max_attempts=1)

    run_request(project, RunRequest(chain="night"))

    [found] = read(create_client(project.app), "/runner/runs")["runs"]
    command = f"deepwork run {project.plan} --chain night"
    assert (found["chain"], found["next"].startswith(command)) == (["claude", "codex"], True)
