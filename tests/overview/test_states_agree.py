"""A plan, a job, a run and a landing go through every state, and all interfaces say the same about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from application import call_tool, make_app
from approvals.make import ask, decide
from cli.command_tree import run_command
from dashboard.make import create_client, read
from dashboard.make_agent_runs import add_attempt, move
from deepwork.delivery.landing.models import LandingStatus, Problem
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.attempt_files import AttemptLocks
from deepwork.delivery.runner.models import AttemptStage, ParkedFor, RunStatus
from deepwork.delivery.runner.service import RunService
from deepwork.edge.cli.main import deepwork
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.models import ApprovalKind, ApprovalRequest
from deepwork.kernel.states import State
from deepwork.views.hooks.protocol import SESSION_START, STOP
from hooks.make import Project, build_event
from jobs.project import make_step, write_job
from jobs.runs import call_job_tool, finish_step
from overview.make import add_landing, execute, make_plan, start_run
from tracking import make as track

Said = tuple[str, str | None, str | None]
Lists = list[tuple[str, ...]]
OPEN = {"waiting", "ready", "running", "needs_you", "parked", "unattended"}
"""The states of things that have not ended, which the metrics count."""
HOUR = 3_600_000


@dataclass
class Interfaces:
    """Every way to ask about a thing."""

    app: Application
    page: TestClient
    folder: Path
    reads_text: bool
    """Whether what is printed is compared, too: it does not depend on the kind of database."""
    seen: set[tuple[str, str]] = field(default_factory=set)
    """Kinds of things, and the states in which they were."""

    def command(self, *words: str) -> Any:
        return run_command(tuple(words), [], self.folder)

    def print(self, *words: str) -> str:
        """Run a command for people."""
        return CliRunner().invoke(deepwork, [*words, "--path", str(self.folder)]).output

    def compare(
        self, kind: str, id: str, said: dict[str, Said], lists: Lists, shown: Lists
    ) -> dict[str, Said]:
        """Require that tables and facts for people and the metrics have the state that all interfaces say."""
        state, _, next = agree(said)
        has_ended = kind == "run" and (next or "").startswith("deepwork run ")
        self.seen.add((kind, state))
        word = state.replace("_", " ")
        for words in lists if self.reads_text else ():
            [row] = [line for line in self.print(*words).splitlines() if id in re.split(" {2,}", line)]
            assert word in re.split(" {2,}", row.replace(f" {word} ({said['show'][1]})", f"  {word}")), words
        for words in (("show", id), *shown) if self.reads_text else ():
            assert re.search(rf"^(state +{word}$|.*: {word}, )", self.print(*words), re.MULTILINE), words
        if state in OPEN and kind != "attempt" and not has_ended:
            assert self.count(kind)[state], (kind, state)
        return said

    def require(self, **states: str) -> None:
        """Require that things of these kinds were in all these states."""
        for kind, named in states.items():
            assert {state for each, state in self.seen if each == kind} >= set(named.split())

    def task(self, plan: str, id: str) -> dict[str, Said]:
        table = read(self.page, f"/runs/{plan}/tasks")
        rows = [dict(zip(table["columns"], row, strict=False)) for row in table["rows"]]
        [node] = [node for node in read(self.page, f"/runs/{plan}/graph")["nodes"] if node["id"] == id]
        listed = say(pick(rows, id))
        assert node["state"] == listed[0]
        said = {
            "REST, all tasks": listed,
            "REST, one task": say(read(self.page, f"/tasks/{id}")["task"]),
            "plans show": say(pick(self.command("plans", "show", plan)["tasks"], id)),
            "show": say(self.command("show", id)),
        }
        return self.compare("task", id, said, [("plans", "show", plan)], [])

    def plan(self, id: str) -> dict[str, Said]:
        said = {
            "REST, all runs": say(pick(read(self.page, "/runs")["runs"], id)),
            "REST, one run": say(read(self.page, f"/runs/{id}")),
            "plans list": say(pick(self.command("plans", "list")["workflows"], id)),
            "plans show": say(self.command("plans", "show", id)),
            "show": say(self.command("show", id)),
            **self._find_in_status("plans", id),
        }
        return self.compare("plan", id, said, [("plans", "list")], [("plans", "show", id)])

    def run(self, id: str) -> dict[str, Said]:
        said = {
            "REST, all runs": say(pick(read(self.page, "/runner/runs")["runs"], id)),
            "REST, one run": say(read(self.page, f"/runner/runs/{id}")),
            "runs list": say(pick(self.command("runs", "list")["runs"], id)),
            "runs show": say(self.command("runs", "show", id)),
            "show": say(self.command("show", id)),
        }
        return self.compare("run", id, said, [("runs", "list")], [])

    def attempt(self, run: str, id: str) -> dict[str, Said]:
        said = {
            "REST, all attempts": say(pick(read(self.page, "/runner/attempts")["attempts"], id)),
            "REST, one attempt": say(read(self.page, f"/runner/attempts/{id}")),
            "runs show": say(pick(self.command("runs", "show", run)["attempts"], id)),
            "show": say(self.command("show", id)),
        }
        return self.compare("attempt", id, said, [("runs", "show", run)], [])

    def landing(self, id: str) -> dict[str, Said]:
        said = {
            "REST, all landings": say(pick(read(self.page, "/landings")["landings"], id)),
            "REST, one landing": say(read(self.page, f"/landings/{id}")),
            "landings list": say(pick(self.command("landings", "list")["landings"], id)),
            "landings show": say(self.command("landings", "show", id)),
            "show": say(self.command("show", id)),
        }
        return self.compare("landing", id, said, [("landings", "list")], [("landings", "show", id)])

    def session(self, id: str) -> dict[str, Said]:
        said = {
            "REST, all runs": say(pick(read(self.page, "/runs")["runs"], id)),
            "REST, one run": say(read(self.page, f"/runs/{id}")),
            "sessions list": say(pick(self.command("sessions", "list", "--all")["sessions"], id)),
            "sessions show": say(self.command("sessions", "show", id)),
            "show": say(self.command("show", id)),
            **self._find_in_status("sessions", id),
        }
        return self.compare("job", id, said, [("sessions", "list", "--all")], [("sessions", "show", id)])

    def track(self, id: str) -> dict[str, Said]:
        said = {
            "REST, all runs": say(pick(read(self.page, "/runs")["runs"], id)),
            "track list": say(pick(self.command("track", "list")["workflows"], id)),
            "track show": say(self.command("track", "show", id)),
            "show": say(self.command("show", id)),
            **self._find_in_status("tracked", id),
        }
        return self.compare("track", id, said, [("track", "list")], [])

    def _find_in_status(self, kind: str, id: str) -> dict[str, Said]:
        found = [each for each in self.command("status")[kind] if each["id"] == id]
        return {"status": say(found[0])} if found else {}

    def count(self, kind: str) -> dict[str, int]:
        """Count the open things of a kind by state, as the metrics do."""
        text = self.page.get("/metrics").text
        found = re.findall(rf'deepwork_open{{kind="{kind}",state="(\w+)"}} (\d+)', text)
        return {state: int(count) for state, count in found if int(count)}


def pick(things: list[dict[str, Any]], id: str) -> dict[str, Any]:
    [found] = [each for each in things if each["id"] == id]
    return found


def say(thing: dict[str, Any]) -> Said:
    return thing["state"], thing.get("because"), thing.get("next")


def agree(said: dict[str, Said]) -> Said:
    """Return what all interfaces say."""
    assert len(set(said.values())) == 1, said
    return next(iter(said.values()))


@pytest.fixture
def interfaces(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Interfaces]:
    monkeypatch.setattr("deepwork.edge.server.http.metrics.FRESH_SECONDS", 0.0)
    write_job(tmp_path, "letter", [make_step("write"), make_step("send")])
    app = make_app(tmp_path, location)
    monkeypatch.setenv("DEEPWORK_DATABASE_URL", location)
    with create_client(app) as page:
        yield Interfaces(app, page, tmp_path, reads_text="://" not in location)
    app.close()


def test_a_plan_and_its_tasks(interfaces: Interfaces):
    app = interfaces.app
    empty = call_tool(app, "workflow_create", name="Empty", source_type="prompt", source_content="?")["id"]
    plan, ids = make_plan(app)
    design, build, ship = ids["design"], ids["build"], ids["ship"]
    run = f"deepwork run {plan}"

    def task(id: str = design) -> Said:
        return agree(interfaces.task(plan, id))

    def whole() -> Said:
        return agree(interfaces.plan(plan))

    assert agree(interfaces.plan(empty)) == ("waiting", "no_tasks", f"deepwork plans set-plan {empty} FILE")
    assert (task(), task(build)[:2]) == (("ready", None, run), ("waiting", "tasks: design"))
    assert task(ship) == ("waiting", "tasks: design, build", None)
    assert whole() == ("ready", None, run)
    assert interfaces.count("task") == {"ready": 1, "waiting": 2}

    agent = call_tool(app, "agent_register", name="Ada", runtime="claude_code")["id"]
    call_tool(app, "task_claim", task_id=design, agent_id=agent, start=True)
    assert (task(), whole()) == (("running", None, None),) * 2

    execute(app, "UPDATE leases SET until = 0 WHERE what = :id", id=design)
    assert (task(), whole()) == (("unattended", "agent_gone", run),) * 2
    assert interfaces.count("plan") == {"unattended": 1, "waiting": 1}

    asked = ask(app, ApprovalRequest(ApprovalKind.TASK, design, plan, {"name": "design"}))
    assert task() == ("needs_you", "approval", f"deepwork approvals approve {asked.id}")
    assert whole() == ("needs_you", "approval: 1 task", f"deepwork approvals approve {asked.id}")
    execute(app, "UPDATE approvals SET status = 'stale'")

    call_tool(app, "task_claim", task_id=design, agent_id=agent, start=True)
    call_tool(app, "task_update_status", id=design, status="failed", error="No.", agent_id=agent)
    retry = f"deepwork tasks retry {design}"
    assert task() == ("failed", "attempts_used_up", retry)
    assert whole() == ("needs_you", "attempts_used_up: 1 task", retry)
    assert interfaces.command("status")["counts"]["tasks"]["failed"] == 1
    assert read(interfaces.page, "/home")["counts"]["tasks"]["failed"] == 1
    assert interfaces.count("task") == {"failed": 1, "waiting": 2}

    call_tool(app, "workflow_update_status", id=plan, status="paused", reason="Lunch")
    resume = f"deepwork plans update-status {plan} in_progress"
    assert whole() == ("needs_you", "paused", resume)
    call_tool(app, "workflow_update_status", id=plan, status="in_progress")

    run_command(("tasks", "retry"), [design], interfaces.folder)
    call_tool(app, "task_claim", task_id=design, agent_id=agent, start=True)
    call_tool(app, "task_update_status", id=design, status="completed", outcome="Done.", agent_id=agent)
    assert (task(), task(build)) == (("done", None, None), ("ready", None, run))
    assert task(ship)[:2] == ("waiting", "tasks: build")

    add_landing(app, plan, design, LandingStatus.LANDED)
    assert task() == ("landed", None, None)

    call_tool(app, "workflow_update_status", id=plan, status="abandoned", reason="No.")
    assert task(build) == ("stopped", "plan: abandoned", None)
    assert whole() == ("stopped", None, None)
    interfaces.require(task="waiting ready running unattended needs_you failed done landed stopped")


def test_a_plan_that_has_ended(interfaces: Interfaces):
    app = interfaces.app
    plan, ids = make_plan(app)
    agent = call_tool(app, "agent_register", name="Ada", runtime="claude_code")["id"]
    call_tool(app, "workflow_update_status", id=plan, status="in_progress", force=True)
    call_tool(app, "workflow_update_status", id=plan, status="failed", reason="No.")
    assert agree(interfaces.plan(plan)) == (
        "failed",
        "failed_tasks",
        f"deepwork plans update-status {plan} in_progress",
    )
    call_tool(app, "workflow_update_status", id=plan, status="in_progress")

    for id in ids.values():
        call_tool(app, "task_claim", task_id=id, agent_id=agent, start=True)
        call_tool(app, "task_update_status", id=id, status="completed", outcome="Done.", agent_id=agent)
    assert agree(interfaces.plan(plan)) == ("done", None, None)
    add_landing(app, plan, ids["design"], LandingStatus.LANDED)
    assert agree(interfaces.plan(plan)) == ("landed", None, None)
    run = start_run(app, plan)
    execute(app, "UPDATE runner_runs SET status = 'done'")
    assert agree(interfaces.run(run.id)) == ("landed", None, None)
    interfaces.require(plan="failed done landed")


def test_what_a_hook_says_to_an_agent(interfaces: Interfaces):
    """A hook names the state of a held task with the word of every interface."""
    app = interfaces.app
    project = Project(app)
    agent = project.register_agent()
    plan, ids = make_plan(app)
    project.claim(ids["design"], agent)

    def state() -> str:
        said = project.run_for_context(SESSION_START, build_event(source="compact"))
        [word] = re.findall(rf"{ids['design']} .*? \((\w+)\)", said)
        assert word == agree(interfaces.task(plan, ids["design"]))[0]
        return str(word)

    assert state() == "running"
    asked = ask(app, ApprovalRequest(ApprovalKind.TASK, ids["design"], plan, {"name": "design"}))
    assert state() == "needs_you"
    execute(app, "UPDATE approvals SET status = 'stale' WHERE id = :id", id=asked.id)
    call_tool(app, "workflow_update_status", id=plan, status="paused", reason="Lunch")
    assert state() == "running"
    call_tool(app, "workflow_update_status", id=plan, status="in_progress")
    call_tool(app, "workflow_update_status", id=plan, status="abandoned", reason="No.")
    said = project.run_for_context(SESSION_START, build_event(source="compact"))
    assert agree(interfaces.task(plan, ids["design"]))[0] == "stopped"
    assert (ids["design"] in said, plan in said) == (False, False)  # it is open for nobody
    assert project.run_hook(STOP, build_event()) == {}


def test_tasks_are_counted_as_they_are_judged(interfaces: Interfaces):
    app = interfaces.app
    agent = call_tool(app, "agent_register", name="Ada", runtime="claude_code")["id"]
    plan, ids = make_plan(app)
    call_tool(app, "task_claim", task_id=ids["design"], agent_id=agent, start=True)
    call_tool(app, "task_update_status", id=ids["design"], status="completed", outcome="x", agent_id=agent)
    leveled, _ = (
        call_tool(app, "workflow_create", name="L", source_type="prompt", source_content="x")["id"],
        0,
    )
    tasks = [{"name": f"t{n}", "description": "", "sequence": 1 + n // 3} for n in range(9)]
    call_tool(app, "workflow_set_plan", id=leveled, plan={"summary": "s", "tasks": tasks})
    other, _ = make_plan(app)
    asked = ask(app, ApprovalRequest(ApprovalKind.PLAN, other, other, {"name": "Login"}))
    decide(app, asked.id, "refuse", comment="No.")

    listed = [
        say(dict(zip(table["columns"], row, strict=False)))[0]
        for id in (plan, leveled, other)
        for table in [read(interfaces.page, f"/runs/{id}/tasks")]
        for row in table["rows"]
    ]

    assert {state: listed.count(state) for state in listed} == interfaces.count("task")
    assert interfaces.count("task") == {"done": 1, "ready": 4, "waiting": 10}
    assert agree(interfaces.plan(other)) == ("needs_you", "refused", f"deepwork approvals approve {asked.id}")


def test_a_run_and_its_attempts(interfaces: Interfaces):
    app = interfaces.app
    plan, ids = make_plan(app)
    run, locks = start_run(app, plan), AttemptLocks(app.settings.state_folder)
    attach, again = f"deepwork runs attach {run.id}", f"deepwork run {plan} --agent claude --agents 2"

    def whole() -> Said:
        return agree(interfaces.run(run.id))

    locks.take(run.id)
    assert whole() == ("running", None, None)
    locks.release_all()
    assert whole() == ("unattended", "runner_gone", attach)  # at once: no lease is waited for
    assert agree(interfaces.plan(plan)) == ("unattended", "runner_gone", attach)
    assert interfaces.count("run") == {"unattended": 1}

    execute(app, "UPDATE runner_hosts SET host = 'mars'")
    execute(app, "UPDATE runner_runs SET updated_at = 0")
    assert whole() == ("unattended", "runner_unknown: mars", attach)
    execute(app, "UPDATE runner_hosts SET host = :host", host=app.settings.machine)

    locks.take(run.id)
    attempt = add_attempt(app, run, ids["design"], host=app.settings.machine)

    def one() -> Said:
        return agree(interfaces.attempt(run.id, attempt.id))

    locks.take(attempt.id)
    assert (one(), whole(), agree(interfaces.task(plan, ids["design"]))) == (("running", None, None),) * 3
    attempt = move(app, attempt, AttemptStage.CHECKING)
    assert one() == ("running", "check", None)
    with app.database.reading() as tx:
        soon = tx.now + HOUR
    attempt = move(app, attempt, AttemptStage.PARKED, parked_for=ParkedFor.LIMIT, not_before=soon)
    above = {whole()[0], agree(interfaces.plan(plan))[0], agree(interfaces.task(plan, ids["design"]))[0]}
    assert {one()[0], *above} == {"parked"}
    assert one() == whole()
    locks.release_all()
    assert (one(), whole()) == (("unattended", "runner_gone", attach),) * 2
    assert agree(interfaces.task(plan, ids["design"])) == ("unattended", "runner_gone", attach)
    locks.take(run.id)
    locks.take(attempt.id)
    attempt = move(app, attempt, AttemptStage.PREPARING)
    attempt = move(app, move(app, attempt, AttemptStage.CHECKING), AttemptStage.REVIEWING)
    asked = ask(app, ApprovalRequest(ApprovalKind.TASK, ids["design"], plan, {"name": "design"}))
    approve = f"deepwork approvals approve {asked.id}"
    assert {one(), whole(), agree(interfaces.task(plan, ids["design"]))} == {
        ("needs_you", "approval", approve)
    }
    move(app, attempt, AttemptStage.DONE)
    assert one() == ("done", None, None)

    RunService(app.database).set_status(run.id, RunStatus.PAUSED)
    assert whole() == ("needs_you", "paused", f"deepwork runs resume {run.id}")
    RunService(app.database).set_status(run.id, RunStatus.STOPPING)
    assert whole() == ("running", "stopping", None)
    RunService(app.database).set_status(run.id, RunStatus.NEEDS_PERSON, "Look.")
    assert whole() == ("needs_you", "person: Look.", again)
    locks.release_all()
    for status, state, next in (("stopped", "stopped", again), ("done", "done", None)):
        execute(app, "UPDATE runner_runs SET status = :status", status=status)
        assert (whole()[0], whole()[2]) == (state, next)
    interfaces.require(
        run="running unattended parked needs_you stopped done",
        attempt="running unattended parked needs_you done",
    )


def test_a_run_that_needed_a_person_until_its_work_went_on(interfaces: Interfaces):
    app = interfaces.app
    plan, _ = make_plan(app)
    run = start_run(app, plan)
    RunService(app.database).set_status(run.id, RunStatus.NEEDS_PERSON, "Look.")
    execute(app, "UPDATE runner_runs SET created_at = created_at - 1")

    before = agree(interfaces.run(run.id))
    start_run(app, plan)
    after = agree(interfaces.run(run.id))
    execute(app, "UPDATE plans SET status = 'completed'")

    assert (before[0], after) == ("needs_you", ("stopped", None, None))
    assert agree(interfaces.run(run.id)) == ("done", None, None)


def test_an_attempt_that_ended_badly(interfaces: Interfaces):
    app = interfaces.app
    plan, ids = make_plan(app)
    run = start_run(app, plan)

    for name, stage in (("design", AttemptStage.FAILED), ("build", AttemptStage.STOPPED)):
        attempt = move(app, add_attempt(app, run, ids[name], host=app.settings.machine), stage)
        assert agree(interfaces.attempt(run.id, attempt.id)) == (stage.value, None, None)


def test_a_landing(interfaces: Interfaces):
    app = interfaces.app
    plan, ids = make_plan(app)
    agent = call_tool(app, "agent_register", name="Ada", runtime="claude_code")["id"]
    call_tool(app, "task_claim", task_id=ids["design"], agent_id=agent, start=True)
    call_tool(app, "task_update_status", id=ids["design"], status="completed", outcome="x", agent_id=agent)
    landing = add_landing(app, plan, ids["design"], LandingStatus.QUEUED)
    land = f"deepwork land {ids['design']}"

    def become(status: LandingStatus, **changes: Any) -> Said:
        nonlocal landing
        after = replace(landing, status=status, ended_at=1 if status.is_final else None, **changes)
        with app.database.transaction() as tx:
            assert LandingStore(tx).save(landing, after)
        landing = after
        said = agree(interfaces.landing(landing.id))
        if status is not LandingStatus.CANCELLED:
            assert agree(interfaces.task(plan, ids["design"]))[0] == said[0]
        return said

    assert agree(interfaces.landing(landing.id)) == ("unattended", "runner_gone", land)
    execute(
        app,
        "INSERT INTO branch_leases (repository, branch, holder, epoch, until) VALUES ('r', 'main', 'x', 1, :until)",
        until=4_000_000_000_000,
    )
    assert agree(interfaces.landing(landing.id)) == ("waiting", "landing", None)
    assert become(LandingStatus.CHECKING) == ("running", "check", None)
    assert become(LandingStatus.MOVING) == ("running", None, None)
    assert interfaces.count("landing") == {"running": 1}
    asked = ask(app, ApprovalRequest(ApprovalKind.LANDING, landing.id, plan, {"name": "design"}))
    approve = f"deepwork approvals approve {asked.id}"
    assert become(LandingStatus.WAITING, problem=Problem.APPROVAL) == ("needs_you", "approval", approve)
    assert become(LandingStatus.NEEDS_PERSON, problem=Problem.CONFLICT) == ("needs_you", "conflict", land)
    assert become(LandingStatus.RETURNED, problem=Problem.RED) == ("waiting", "check", f"deepwork run {plan}")
    assert become(LandingStatus.CANCELLED) == ("stopped", None, None)
    ended = add_landing(app, plan, ids["design"], LandingStatus.LANDED)
    assert agree(interfaces.landing(ended.id)) == ("landed", None, None)
    interfaces.require(landing="unattended waiting running needs_you stopped landed")


def test_a_job(interfaces: Interfaces, monkeypatch: pytest.MonkeyPatch):
    app = interfaces.app
    id = call_job_tool(app, "start_workflow", goal="Dear Ada", job_name="letter", workflow_name="main")
    id = id["begin_step"]["session_id"]

    assert agree(interfaces.session(id)) == ("running", None, None)
    steps = read(interfaces.page, f"/runs/{id}")["session"]["steps"]
    assert [(step["state"], step.get("because")) for step in steps] == [
        ("running", None), ("waiting", "tasks: write"),
    ]  # fmt: skip
    monkeypatch.setattr("deepwork.views.overview.states.store.has_exited", bool)
    assert agree(interfaces.session(id)) == ("unattended", "agent_gone", f"deepwork sessions resume {id}")
    asked = ask(app, ApprovalRequest(ApprovalKind.STEP, f"{id}/write", id, {"name": "write"}))
    approve = f"deepwork approvals approve {asked.id}"
    assert agree(interfaces.session(id)) == ("needs_you", "approval: write", approve)
    assert interfaces.count("job") == {"needs_you": 1}
    execute(app, "UPDATE approvals SET status = 'stale'")
    call_job_tool(app, "abort_workflow", explanation="No.", session_id=id)
    assert agree(interfaces.session(id)) == ("stopped", None, None)
    done = call_job_tool(app, "start_workflow", goal="Dear Bob", job_name="letter", workflow_name="main")
    done = done["begin_step"]["session_id"]
    for step in ("write", "send"):
        (interfaces.folder / f"{step}.md").write_text("Dear Bob")
        finish_step(app, f"{step}.md", session_id=done)
    assert agree(interfaces.session(done)) == ("done", None, None)
    interfaces.require(job="running unattended needs_you stopped done")


def test_a_job_that_its_run_left(interfaces: Interfaces):
    app = interfaces.app
    id = call_job_tool(app, "start_workflow", goal="Dear Ada", job_name="letter", workflow_name="main")
    id = id["begin_step"]["session_id"]
    run = start_run(app, None, job="letter/main", goal="Dear Ada")
    execute(app, "UPDATE runner_runs SET session_id = :id", id=id)
    locks = AttemptLocks(app.settings.state_folder)
    locks.take(run.id)
    again = "deepwork run letter/main --goal 'Dear Ada' --agent claude"

    assert agree(interfaces.session(id)) == ("running", None, None)
    attempt = add_attempt(app, run, f"{id}/write", workflow_id=None, host=app.settings.machine)
    move(app, attempt, AttemptStage.FAILED)
    RunService(app.database).set_status(run.id, RunStatus.NEEDS_PERSON, "Every agent has tried it.")
    locks.release_all()
    assert agree(interfaces.session(id)) == ("failed", "attempts_used_up: write", again)
    steps = read(interfaces.page, f"/runs/{id}")["session"]["steps"]
    assert [step["state"] for step in steps] == ["failed", "waiting"]

    execute(app, "UPDATE attempts SET stage = 'stopped'")
    assert agree(interfaces.session(id)) == agree(interfaces.run(run.id))
    execute(app, "UPDATE runner_runs SET status = 'stopped'")
    assert agree(interfaces.session(id)) == ("unattended", "runner_gone", again)
    (interfaces.folder / "write.md").write_text("Dear Ada")
    finish_step(app, "write.md", session_id=id)
    execute(app, "UPDATE runner_runs SET ended_at = ended_at - 1000")
    assert agree(interfaces.session(id)) == ("running", None, None)
    interfaces.require(job="running failed needs_you unattended")


def test_tracked_work(interfaces: Interfaces):
    app = interfaces.app
    where = track.create_workflow_and_phase(app)
    task = track.create_task(app, where)
    id = where[0]

    assert agree(interfaces.track(id)) == ("running", None, None)
    execute(app, "UPDATE tracked_tasks SET last_sign_at = 1")
    abandon = f"deepwork track abandon-task {task} REASON"
    assert agree(interfaces.track(id)) == ("unattended", "agent_gone", abandon)
    assert say(interfaces.command("show", task)) == say(read(interfaces.page, f"/tasks/{task}")["task"])
    issue = track.create_blocker(app, task, "Which?")
    answer = f"deepwork answer {issue} TEXT"
    assert agree(interfaces.track(id)) == ("needs_you", "blocker", answer)
    assert say(read(interfaces.page, f"/tasks/{task}")["task"]) == ("needs_you", "blocker", answer)
    assert interfaces.count("track") == {"needs_you": 1}

    for status, state in (("completed", "done"), ("failed", "failed")):
        execute(app, "UPDATE tracked_workflows SET status = :status", status=status)
        assert agree(interfaces.track(id))[0] == state
    interfaces.require(track="running unattended needs_you done failed")


def test_every_state_has_a_word_for_people(interfaces: Interfaces):
    make_plan(interfaces.app)

    assert set(interfaces.command("status")["counts"]["states"]) == {state.value for state in State}
