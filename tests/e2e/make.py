"""Fills a project with a morning's work through the tools: a tracked workflow, a plan and a job."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from application import Clock, call_tool, make_app
from dashboard.make_agent_runs import add_attempt, move, start_run
from deepwork.delivery.runner.attempt_files import AttemptFiles, AttemptLocks
from deepwork.delivery.runner.models import AttemptStage, ParkedFor
from deepwork.edge.server.application import Application
from deepwork.kernel.values import new_id
from deepwork.work.tracking.models import CallerType, TrackedTask, TrackedTaskStatus
from deepwork.work.tracking.store import TrackStore
from jobs import project as jobs
from jobs.reviewer import Reviewer
from jobs.runs import call_job_tool as ask_job
from tracking import make as track

NOBODY = {
    "GIT_AUTHOR_NAME": "e2e", "GIT_AUTHOR_EMAIL": "e2e@example.org",
    "GIT_COMMITTER_NAME": "e2e", "GIT_COMMITTER_EMAIL": "e2e@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull,
}  # fmt: skip
LEDGER = '''"""Money, kept."""

from decimal import Decimal


def balance(entries):
    total = 0.0
    for entry in entries:
        total += entry.amount
    return total


def close(entries):
    return [entry for entry in entries if entry.open]
'''
BETTER = LEDGER.replace("total = 0.0", 'total = Decimal("0")').replace(
    "return total", "return total.quantize(CENT)"
)


@dataclass
class MadeProject:
    """The ids of what was made."""

    track: str = ""
    tasks: dict[str, str] = field(default_factory=dict)
    blocker: str = ""
    done: str = ""
    plan: str = ""
    planned: dict[str, str] = field(default_factory=dict)
    agent: str = ""
    job: str = ""
    agent_run: str = ""
    attempts: dict[str, str] = field(default_factory=dict)
    locks: AttemptLocks | None = None
    """As those of the process that drives the run."""

    def hold_locks(self) -> None:
        """Drive the run, as far as others can see."""
        assert self.locks is not None
        for id in (self.agent_run, *self.attempts.values()):
            self.locks.take(id)


def open_app(project: Path, hours_ago: float = 0) -> tuple[Application, Clock]:
    """Open the project's store with a clock that starts in the past."""
    clock = Clock()
    clock.now = int(time.time() * 1000 - hours_ago * 3_600_000)
    (project / ".deepwork").mkdir(exist_ok=True)
    return make_app(project, str(project / ".deepwork" / "deepwork.db"), clock), clock


def make_project(project: Path) -> MadeProject:
    """Make runs of every kind that started within the last hour and a half."""
    run_git(project, "init", "--quiet")
    (project / "src" / "ledger").mkdir(parents=True)
    (project / "src" / "ledger" / "balance.py").write_text(LEDGER)
    (project / "notes.md").write_text("# Notes\n")
    (project / ".gitignore").write_text(".deepwork/\n")
    run_git(project, "add", "--all")
    run_git(project, "commit", "--quiet", "--message", "first")
    made = MadeProject()
    app, clock = open_app(project, hours_ago=1.46)
    try:
        _make_ended_run(app, clock, made)
        _make_tracked_run(app, clock, made, project)
        _make_plan(app, clock, made)
        _make_job_session(app, clock, made, project)
        _make_agent_run(app, clock, made)
    finally:
        app.close()
    return made


def run_git(project: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=project, env={**os.environ, **NOBODY}, check=True)


def _make_ended_run(app: Application, clock: Clock, made: MadeProject) -> None:
    made.done = track.create_workflow(
        app, name="Handbook", objective="Say in words how the ledger works.", profile="simple"
    )
    where = (made.done, track.create_phase(app, made.done, 1, name="Write"))
    page = track.create_task(app, where, "write the page", agent_name="Mary")
    clock.advance(seconds=1300)
    track.complete_task(app, page, metadata={"tokens_input": 40_000, "tokens_output": 6_000})
    call_tool(app, "complete_phase", phase_id=where[1], status="completed")
    call_tool(
        app, "complete_workflow", workflow_id=made.done, status="completed",
        summary="The handbook has **one page**, and it is read.",
        achievements=["A page on rounding", "Examples that run"], limitations=["No pictures yet"],
    )  # fmt: skip


def _make_tracked_run(app: Application, clock: Clock, made: MadeProject, project: Path) -> None:
    made.track = track.create_workflow(
        app, name="Payments in two currencies", profile="complex",
        objective="Customers pay in euro or yen; nothing is lost to rounding.",
        scope="`src/ledger` and its tests.", constraints="- No new service\n- Keep the old API for a year",
    )  # fmt: skip
    first = (made.track, track.create_phase(app, made.track, 1, name="Survey"))
    look = track.create_task(
        app,
        first,
        "Read the ledger",
        agent_name="Ada",
        goal="Find every place that adds money.",
        areas=["*.md"],
    )
    clock.advance(seconds=400)
    call_tool(app, "log_milestone", task_id=look, message="Seven places found", progress=60)
    call_tool(
        app, "log_decision", task_id=look, category="library_choice", question="Which type holds money?",
        chosen="Decimal", reasoning="Floats lose cents; see https://docs.python.org/3/library/decimal.html and `balance()`.",
        options_considered=["float", "Decimal", "int of cents"], trade_offs="Slower by a factor of three.",
    )  # fmt: skip
    clock.advance(seconds=300)
    (project / "notes.md").write_text("# Notes\n\nSeven places add money.\n")
    track.complete_task(
        app, look, outcome={"summary": "Seven places, all in one module.", "achievements": ["A list of places"], "next_steps": ["Change the type"]},
        metadata={"tokens_input": 90_000, "tokens_output": 10_000, "tests_status": "passed", "commands_executed": ["grep -rn balance src"]},
    )  # fmt: skip
    call_tool(app, "complete_phase", phase_id=first[1], status="completed")
    clock.advance(seconds=1500)
    _make_build_phase(app, clock, made, project)


def _make_build_phase(app: Application, clock: Clock, made: MadeProject, project: Path) -> None:
    second = (made.track, track.create_phase(app, made.track, 2, name="Build"))
    build = track.create_task(
        app,
        second,
        "Change the ledger",
        agent_name="Grace",
        caller_type="orchestrator",
        goal="All sums in Decimal.",
    )
    part = track.create_task(
        app,
        second,
        "Sum in Decimal",
        parent_task_id=build,
        agent_name="Grace",
        goal="`balance()` sums in Decimal.",
        areas=["src/ledger/**"],
    )
    clock.advance(seconds=200)
    (project / "src" / "ledger" / "balance.py").write_text(BETTER)
    (project / "src" / "ledger" / "currency.py").write_text('EURO = "EUR"\nYEN = "JPY"\n')
    (project / "notes.md").write_text("# Notes\n\nSeven places add money.\nThe eighth was a test.\n")
    track.complete_task(
        app, part, outcome={"summary": "Sums are exact now.", "limitations": ["Old rows are not converted"]},
        metadata={"tokens_input": 200_000, "tokens_output": 31_000, "packages_added": ["babel"], "tests_status": "passed"},
    )  # fmt: skip
    broken = track.create_task(
        app,
        second,
        "Migrate old rows",
        parent_task_id=build,
        agent_name="Ada",
        goal="Rows from before the change.",
    )
    clock.advance(seconds=350)
    track.complete_task(app, broken, "failed", outcome={"summary": "The table is locked by the nightly job."})
    unsure = track.create_task(
        app, second, "Round to the cent", agent_name="Lin", goal="Half up or half even?"
    )
    clock.advance(seconds=120)
    track.complete_task(
        app, unsure, "partial_success",
        outcome={"summary": "Rounds half up.", "manual_review_needed": True, "manual_review_reason": "Is half up legal in Japan?"},
    )  # fmt: skip
    running = track.create_task(
        app, second, "Show both currencies", agent_name="Lin", goal="The page shows euro and yen."
    )
    clock.advance(seconds=900)
    call_tool(app, "log_milestone", task_id=running, message="The euro column stands", progress=40)
    made.blocker = track.create_blocker(
        app, running, "Which currency is shown first when a customer has both?"
    )
    call_tool(
        app, "log_issue", task_id=running, type="documentation_gap", description="The style guide does not say how to align yen.",
        resolution="Aligned right.", requires_human_review=False,
    )  # fmt: skip
    made.tasks = {"build": build, "part": part, "broken": broken, "unsure": unsure, "running": running}


def _make_plan(app: Application, clock: Clock, made: MadeProject) -> None:
    made.plan = call_tool(
        app, "workflow_create", name="Release 2.0", source_type="prompt", source_content="Ship version 2 to everybody.",
        max_parallel_tasks=3,
    )["id"]  # fmt: skip
    tasks: list[dict[str, Any]] = [
        {"name": "design", "description": "Draw the screens.", "sequence": 1},
        {"name": "backend", "description": "Serve both currencies.", "sequence": 2, "depends_on": ["design"], "files_likely_affected": ["src/api.py"]},
        {"name": "frontend", "description": "Show both currencies.", "sequence": 2, "depends_on": ["design"]},
        {"name": "docs", "description": "Tell people.", "sequence": 2, "depends_on": ["design"]},
        {"name": "end-to-end tests", "description": "As a customer would.", "sequence": 3, "depends_on": ["backend", "frontend"]},
        {"name": "announce", "description": "Write the post.", "sequence": 3, "depends_on": ["docs"]},
        {"name": "ship", "description": "Tag it.", "sequence": 4, "depends_on": ["end-to-end tests", "announce"]},
    ]  # fmt: skip
    plan = {
        "summary": "Screens first.",
        "approach": "From the screens down.",
        "risks": ["The store is slow to approve"],
        "assumptions": ["The design holds"],
        "tasks": tasks,
    }
    call_tool(app, "workflow_set_plan", id=made.plan, plan=plan)
    shown = call_tool(app, "workflow_get", id=made.plan, include_tasks=True)["tasks"]
    made.planned = {task["name"]: task["id"] for task in shown}
    made.agent = call_tool(app, "agent_register", name="Edsger", runtime="codex")["id"]
    for name in ("design", "backend", "frontend"):
        call_tool(app, "task_claim", task_id=made.planned[name], agent_id=made.agent)
        call_tool(app, "task_update_status", id=made.planned[name], status="in_progress", agent_id=made.agent)
        clock.advance(seconds=60)
        if name == "design":
            call_tool(
                app,
                "checkpoint_add",
                task_id=made.planned[name],
                type="progress",
                summary="The first screen is drawn",
                agent_id=made.agent,
            )
            call_tool(
                app,
                "task_update_status",
                id=made.planned[name],
                status="completed",
                outcome="Drawn.",
                agent_id=made.agent,
            )
    call_tool(
        app,
        "task_update_status",
        id=made.planned["frontend"],
        status="failed",
        error="No browser on this machine.",
        agent_id=made.agent,
    )
    call_tool(
        app,
        "message_send",
        sender_id=made.agent,
        recipient_id=made.agent,
        message_type="notification",
        subject="A note to self",
        body="Mind the **yen**.",
    )


def _make_job_session(app: Application, clock: Clock, made: MadeProject, project: Path) -> None:
    steps = [
        jobs.make_step("draft"),
        jobs.make_step("polish", reviews=[jobs.make_review(Clear="Is it clear?", Short="Is it short?")]),
        jobs.make_step("send"),
    ]
    jobs.write_job(project, "letter", steps)
    verdict = {
        "passed": False, "feedback": "The second paragraph says the same twice.",
        "criteria_results": [
            {"criterion": "Clear", "passed": True, "feedback": None},
            {"criterion": "Short", "passed": False, "feedback": "Cut the second paragraph."},
        ],
    }  # fmt: skip
    with open_app_with_reviewer(project, clock, verdict) as app_with_judge:
        begun = ask_job(
            app_with_judge, "start_workflow", goal="Write to every customer.", job_name="letter",
            workflow_name="main",
        )  # fmt: skip
        made.job = begun["begin_step"]["session_id"]
        jobs.write_files(project, "draft.md", "polish.md")
        ask_job(app_with_judge, "finished_step", outputs={"draft.md": "draft.md"})
        ask_job(app_with_judge, "finished_step", outputs={"polish.md": "polish.md"})


def _make_agent_run(app: Application, clock: Clock, made: MadeProject) -> None:
    """Make a run in which one agent failed, one works, one waits at a limit and one is checked."""
    began, hour = clock.now - 12 * 60_000, 3_600_000
    run = start_run(app, made.plan, max_usd=20.0, until=clock.now + 9 * hour, created_at=began)
    broken = add_attempt(
        app, run, made.planned["backend"], created_at=began, usd_micros=410_000, input_tokens=90_000, output_tokens=4_000,
    )  # fmt: skip
    move(
        app,
        broken,
        AttemptStage.FAILED,
        reason="Check tests is red: 2 tests failed.",
        ended_at=began + 240_000,
    )
    works = add_attempt(
        app, run, made.planned["backend"], created_at=began + 250_000, now_doing="Bash: make test ARGS=tests/ledger",
        usd_micros=1_230_000, input_tokens=31_000, cached_tokens=420_000, output_tokens=18_500,
    )  # fmt: skip
    limited = add_attempt(
        app, run, made.planned["docs"], created_at=began + 1, profile="codex", usd_micros=350_000, input_tokens=120_000,
        starts=2, resumes=1,
    )  # fmt: skip
    checked = add_attempt(
        app, run, made.planned["frontend"], created_at=began + 300_000, profile="codex", stage=AttemptStage.CHECKING,
        usd_micros=640_000, output_tokens=52_000,
    )  # fmt: skip
    not_before = int(time.time() * 1000) + 47 * 60_000
    reason = "You've hit your usage limit."
    move(app, limited, AttemptStage.PARKED, parked_for=ParkedFor.LIMIT, not_before=not_before, reason=reason)
    _write_output(app, works.id, '{"type":"assistant","text":"All sums are exact now."}\n')
    made.agent_run = run.id
    made.attempts = {
        "broken": broken.id, "works": works.id, "limited": limited.id, "checked": checked.id,
    }  # fmt: skip
    made.locks = AttemptLocks(app.settings.state_folder)
    made.hold_locks()


def _write_output(app: Application, attempt: str, text: str) -> None:
    files = AttemptFiles.locate(app.settings.state_folder, attempt, 1)
    files.folder.mkdir(parents=True)
    files.stdout.write_text(text)


@contextmanager
def open_app_with_reviewer(project: Path, clock: Clock, *verdicts: Any) -> Iterator[Application]:
    """Open the project's store with a reviewer that gives these verdicts."""
    reviewer = Reviewer(project.parent / f"{project.name}-reviewer", *verdicts)
    with pytest.MonkeyPatch.context() as environment:
        for name, value in reviewer.environment.items():
            environment.setenv(name, value)
        location = str(project / ".deepwork" / "deepwork.db")
        app = make_app(project, location, clock, external_runner="claude", git_branch="off")
        try:
            yield app
        finally:
            app.close()


def make_large_run(project: Path, tasks: int) -> str:
    """Make a run with this many tasks, a tenth of them nested; return its id."""
    app, clock = open_app(project, hours_ago=5)
    try:
        id = track.create_workflow(app, name="Ten thousand rows", objective="As many as there are.")
        phases = [track.create_phase(app, id, number, name=f"Part {number}") for number in range(1, 6)]
        # In one transaction, since that many tool calls would take minutes.
        with app.database.transaction() as tx:
            store, above = TrackStore(tx), None
            for number in range(tasks):
                row = _build_task(
                    id, phases[number * len(phases) // tasks], number, clock.now + number * 1500, above
                )
                store.add_task(row)
                is_next_below = number % 10 == 8 and number % (tasks // len(phases)) > 10
                above = row.id if is_next_below else None
    finally:
        app.close()
    return id


def _build_task(workflow_id: str, phase_id: str, number: int, started: int, above: str | None) -> TrackedTask:
    status = (
        TrackedTaskStatus.FAILED
        if number % 90 == 0
        else TrackedTaskStatus.SUCCESS
        if number % 3 == 0
        else TrackedTaskStatus.IN_PROGRESS
    )
    ended = None if status is TrackedTaskStatus.IN_PROGRESS else started + 60_000 * (1 + number % 17)
    return TrackedTask(
        id=new_id("tt"), workflow_id=workflow_id, phase_id=phase_id, parent_task_id=above, name=f"row {number}",
        goal="Be there.", status=status, caller_type=CallerType.SUBAGENT, agent_name=f"agent {number % 7}", areas=(),
        started_at=started, last_sign_at=int(time.time() * 1000), completed_at=ended,
        outcome={"summary": "It was there."} if ended else {},
    )  # fmt: skip
