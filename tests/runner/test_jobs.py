"""Jobs that agents do unattended: each step is an attempt, in a worktree of the run."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.run import run_deepwork
from deepwork.delivery.runner import agent_watcher
from deepwork.delivery.runner.claiming import find_step_overrun
from deepwork.delivery.runner.models import AttemptStage, ParkedFor, Run, RunRequest, RunStatus
from deepwork.delivery.runner.service import RunService
from deepwork.delivery.runner.work_sources import StepBudget
from deepwork.gates.budgets.models import Budget, SubjectKind
from deepwork.gates.budgets.service import BudgetService
from deepwork.kernel.errors import DeepworkError, InvalidInput, NotFound
from jobs.project import make_files_output, make_review, make_step, write_job
from provenance.make import verify
from runner.endings import wait_until
from runner.job_project import GOAL, JOB, WRITE_A, WRITE_B, JobProject
from runner.person_checkout import take_fingerprint
from workspaces.make import run_git

MakeProject = Callable[..., JobProject]
on_one_database = pytest.mark.parametrize("location", ["sqlite"], indirect=True)
"""For tests of what does not depend on the store."""


@pytest.fixture
def make_job(tmp_path: Path, location: str) -> Iterator[MakeProject]:
    """Creates a project with a job; after the test the person's checkout is as it was."""
    made: list[JobProject] = []

    def make(*steps: dict[str, Any], **flags: Any) -> JobProject:
        made.append(JobProject(tmp_path, location, steps, **flags))
        return made[-1]

    yield make
    for project in made:
        project.close()


def test_each_step_is_an_attempt_and_the_result_is_on_a_branch(make_job: MakeProject) -> None:
    project = make_job()

    run = project.run()

    assert (run.status, run.job, run.goal) == (RunStatus.DONE, JOB, GOAL)
    assert project.list_stages(run) == [("a", "done", 1), ("b", "done", 1)]
    assert run.reason == f"The result is on the branch {project.list_attempts(run)[0].branch}."
    assert project.read_result(run, "b.md") == "one"
    message = run_git(project.folder, "log", "-1", "--format=%B", project.list_attempts(run)[0].branch or "")
    assert message.startswith("chain/main: b\n\nB is written.\n\nDeepwork-Session:")
    assert run_git(project.find_tree(run), "status", "--porcelain") == ""
    made = verify(project.app, project.folder, f"HEAD..{project.list_attempts(run)[0].branch}")
    steps = [
        (each.verdict.value, match.task_id, match.known_by.value) for each in made for match in each.matches
    ]
    session = run.session_id
    assert steps == [("verified", f"{session}/b", "runner"), ("verified", f"{session}/a", "runner")]


@on_one_database
def test_the_prompt_has_the_instructions_and_where_each_output_goes(make_job: MakeProject) -> None:
    outputs = {"report": {"type": "file", "description": "The report.", "required": True}}
    step = make_step("a", {**outputs, "parts": make_files_output()}, [make_review(Short="Is it short?")])
    project = make_job(step, quality_gate=False)
    project.set_agent("*/a) echo x > report.md; mkdir -p parts/deep; touch parts/1 parts/deep/2 ;;")

    run = project.run()

    assert run.status is RunStatus.DONE
    [prompt] = project.prompts
    for text in ("Do a.", "about chain", GOAL, "`report.md`. The report.", "`parts/`", "Is it short?"):
        assert text in prompt
    stored = json.loads(next((project.find_tree(run) / ".deepwork/tmp").glob("session_*.json")).read_text())
    assert "parts/deep/2" in json.dumps(stored)


@on_one_database
def test_what_is_missing_becomes_the_next_prompt(make_job: MakeProject) -> None:
    project = make_job()
    project.set_agent('*/a) [ $START = 1 ] || echo one > a.md; echo "try $START" ;;', WRITE_B)

    run = project.run()

    assert run.status is RunStatus.DONE
    assert project.list_stages(run) == [("a", "done", 2), ("b", "done", 1)]
    assert "Missing required outputs: a.md" not in project.prompts[0]
    assert "Missing required outputs: a.md" in project.prompts[1]


@on_one_database
def test_an_agent_may_name_its_outputs_and_its_verdicts(make_job: MakeProject) -> None:
    project = make_job(make_step("a", None, [make_review()]))
    verdict = {"review_run_each": "step", "passed": True, "feedback": "", "criteria_results": [
        {"criterion": "Good", "passed": True}]}  # fmt: skip
    reports = [{"a.md": "deep/x.txt"}, {"outputs": {"a.md": "deep/x.txt"}, "review_results": [verdict]}]
    first, second = map(json.dumps, reports)
    write = f"mkdir -p deep; echo hi > deep/x.txt; [ $START = 1 ] && r='{first}' || r='{second}'"
    project.set_agent(f'*/a) {write}; echo "$r" > "$DEEPWORK_OUTPUTS" ;;')

    run = project.run()

    assert run.status is RunStatus.DONE
    assert "Quality review needed" in project.prompts[1]
    assert project.read_result(run, "deep/x.txt") == "hi"


@on_one_database
@pytest.mark.parametrize(
    "report",
    [
        "echo no json > $DEEPWORK_OUTPUTS",
        "echo [] > $DEEPWORK_OUTPUTS",
        """echo '{"outputs": {}, "odd": 1}' > $DEEPWORK_OUTPUTS""",
        "mkfifo $DEEPWORK_OUTPUTS",
        "mkdir $DEEPWORK_OUTPUTS",
    ],
)
def test_a_report_that_cannot_be_read_is_corrected(make_job: MakeProject, report: str) -> None:
    project = make_job(make_step("a"))
    again = "rm -rf $DEEPWORK_OUTPUTS; echo 1 > a.md"
    project.set_agent(f"*/a) [ $START = 1 ] && {report} || {{ {again}; }} ;;")

    assert project.run().status is RunStatus.DONE
    assert "DEEPWORK_OUTPUTS) " in project.prompts[1]


def test_an_agent_that_fails_is_tried_again_and_then_a_person_is_asked(make_job: MakeProject) -> None:
    project = make_job(make_step("a"))
    project.set_agent("*/a) echo broken; exit 3 ;;")

    first = project.run()
    project.set_agent(WRITE_A)
    second = project.run()

    assert first.status is RunStatus.NEEDS_PERSON
    assert "Every agent of the chain has tried step 'a'" in (first.reason or "")
    assert (second.id, second.status, second.session_id) == (first.id, RunStatus.DONE, second.session_id)
    assert [stage for _, stage, _ in project.list_stages(second)] == ["failed"] * 3 + ["done"]
    assert "exit code 3" in project.prompts[1]


def test_a_killed_runner_goes_on_at_the_same_step(make_job: MakeProject, tmp_path: Path) -> None:
    project, gate = make_job(), tmp_path / "gate"
    project.set_agent(WRITE_A, f"*/b) while [ ! -e {gate} ]; do sleep 0.05; done; cat a.md > b.md ;;")
    started, stop = project.start(), threading.Event()
    other = project.open_app()
    left = threading.Thread(target=other.runner.drive, args=(started.id, stop))
    left.start()
    wait_until(lambda: ("b", "running", 1) in project.list_stages(started), "step b")
    stop.set()
    left.join()
    other.close()
    gate.touch()

    run = project.run()

    assert (run.id, run.status) == (started.id, RunStatus.DONE)
    assert project.list_stages(run) == [("a", "done", 1), ("b", "done", 1)]


def test_a_step_that_the_agent_reported_itself_is_not_reported_again(
    make_job: MakeProject, tmp_path: Path
) -> None:
    project, gate = make_job(), tmp_path / "gate"
    project.set_agent(f"*/a) echo one > a.md; while [ ! -e {gate} ]; do sleep 0.05; done; exit 4 ;;", WRITE_B)
    started, ended = project.start(), []
    driver = threading.Thread(target=lambda: ended.append(project.drive(started.id)), daemon=True)
    driver.start()
    wait_until(lambda: project.list_stages(started) == [("a", "running", 1)], "step a")
    tree = project.find_tree(started)
    wait_until((tree / "a.md").exists, "a.md")
    server = project.open_server(tree)
    answer = server.jobs.tools.finished_step(
        {"a.md": "a.md"}, session_id=project.list_attempts(started)[0].task_id.partition("/")[0], step_id="a"
    )
    server.close()
    gate.touch()
    driver.join()

    assert answer.status == "next_step"
    assert ended[0].status is RunStatus.DONE
    assert project.list_stages(started) == [("a", "done", 1), ("b", "done", 1)]


def test_a_step_waits_for_the_approval_of_a_person(make_job: MakeProject) -> None:
    project = make_job(make_step("a", None, [], approval={"of": ["a.md"]}), make_step("b"))

    first = project.run()
    again = project.run()
    [waiting] = project.list_attempts(first)
    [approval] = project.list_approvals()
    project.decide("give_approval", approval_id=approval)
    last = project.run()

    assert (first.status, waiting.stage) == (RunStatus.NEEDS_PERSON, "reviewing")
    assert f"`deepwork approvals show {approval}`" in (first.reason or "")
    assert (again.id, again.status) == (first.id, RunStatus.NEEDS_PERSON)
    assert (last.id, last.status) == (first.id, RunStatus.DONE)
    assert project.list_stages(last) == [("a", "done", 1), ("b", "done", 1)]


def test_what_a_person_refuses_is_corrected_by_the_same_attempt(make_job: MakeProject) -> None:
    project = make_job(make_step("a", None, [], approval={}))
    project.set_agent('*/a) echo "version $START" > a.md ;;')

    first = project.run()
    project.decide("refuse_approval", approval_id=project.list_approvals()[0], comment="Too dry.")
    second = project.run()
    project.decide("give_approval", approval_id=project.list_approvals()[0])
    last = project.run()

    assert [first.status, second.status, last.status] == ["needs_person", "needs_person", "done"]
    assert "Too dry." in project.prompts[1]
    assert project.read_result(last, "a.md") == "version 2"
    assert project.list_stages(last) == [("a", "done", 2)]


def test_an_aborted_session_ends_the_run(make_job: MakeProject) -> None:
    project = make_job(make_step("a", None, [], approval={}))
    first = project.run()

    server = project.open_server(project.find_tree(first))
    server.jobs.tools.abort_workflow("not needed", first.session_id)
    server.close()
    other = project.run()

    assert other.id != first.id, "an aborted job is not continued"
    assert other.status is RunStatus.NEEDS_PERSON


@on_one_database
def test_a_run_that_is_stopped_goes_on_with_the_same_command(make_job: MakeProject) -> None:
    project = make_job()
    project.set_agent("*/a) echo one > a.md; [ $START != 1 ] || sleep 60 ;;", WRITE_B)
    started = project.start()
    timer = threading.Timer(
        1.5, lambda: RunService(project.app.database).set_status(started.id, RunStatus.ENDING)
    )
    timer.start()
    stopped = project.drive(started.id)

    run = project.run()

    assert stopped.status is RunStatus.STOPPED
    assert (run.id, run.status) == (started.id, RunStatus.DONE)
    assert project.list_stages(run) == [("a", "stopped", 1), ("a", "done", 1), ("b", "done", 1)]


@on_one_database
def test_another_goal_and_a_done_job_are_new_runs(make_job: MakeProject) -> None:
    project = make_job(make_step("a"))

    first, second = project.run(), project.run()

    assert first.id != second.id
    assert project.list_attempts(first)[0].branch != project.list_attempts(second)[0].branch


@on_one_database
def test_the_branch_brings_nothing_of_deepwork_itself(make_job: MakeProject) -> None:
    project = make_job(make_step("a"))

    run = project.run()

    branch = project.list_attempts(run)[0].branch or ""
    assert run_git(project.folder, "diff", "--name-only", "HEAD", branch) == "a.md"


@on_one_database
def test_a_vanished_worktree_is_said_and_asks_a_person(make_job: MakeProject) -> None:
    project = make_job(make_step("a", None, [], approval={}))
    first = project.run()
    tree = project.find_tree(first)
    moved = tree.with_name("moved")
    shutil.move(tree, moved)
    with project.app.database.transaction() as tx:
        tx.execute("UPDATE runner_runs SET status = 'active', ended_at = NULL WHERE id = :id", id=first.id)

    ended = project.drive(first.id)

    assert ended.status is RunStatus.NEEDS_PERSON
    assert "is gone" in (ended.reason or "")
    run_git(project.folder, "worktree", "prune")


@on_one_database
def test_a_job_is_checked_before_it_is_run(make_job: MakeProject) -> None:
    project = make_job(make_step("a", checks=["tests"]))
    request = RunRequest(agents=(project.command,))
    write_job(project.folder, "draft", [make_step("a")])
    project.fingerprint = take_fingerprint(project.folder)

    def refuse(kind: type[DeepworkError], job: str, goal: str = GOAL) -> str:
        with pytest.raises(kind) as refused:
            project.app.runner.start_job(job, goal, request)
        return refused.value.message

    assert "no job 'missing'" in refuse(NotFound, "missing/main")
    assert "Workflow 'other' not found" in refuse(InvalidInput, "deepwork_jobs/other")
    assert "'draft' is not committed" in refuse(InvalidInput, "draft/main")
    assert "what it is run for" in refuse(InvalidInput, "hello_review/greet", "  ")
    refuse(DeepworkError, JOB)
    with project.app.database.reading() as tx:
        assert tx.fetch_value("SELECT count(*) FROM runner_runs") == 0


@on_one_database
def test_a_preview_starts_nothing(make_job: MakeProject) -> None:
    project = make_job()

    [row] = project.app.runner.preview_job(JOB, GOAL, RunRequest(agents=(project.command,)))

    assert (row["task"], row["profile"]) == ("a", project.command)
    assert row["branch"].startswith("deepwork/job-chain-main-")
    assert "DEEPWORK_OUTPUTS" in row["env"]
    assert not (project.folder / ".deepwork" / "worktrees").exists()


# --- budgets of steps

REPORT = '{"type": "result", "usage": {"input_tokens": 200, "output_tokens": 100}, "total_cost_usd": 0.5}'


def raise_budget(project: JobProject, run: Run, before: str, after: str) -> None:
    """Do what the message says: raise the budget in the job.yml of the run's tree."""
    file = project.find_tree(run) / ".deepwork" / "jobs" / "chain" / "job.yml"
    assert f"in {file}." in (run.reason or "")
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


@pytest.mark.parametrize(
    ("budget", "said"),
    [({"tokens": 250}, "250 tokens is used up: 300 tokens"), ({"usd": 0.4}, "$0.40 is used up: $0.50")],
)
def test_an_agent_that_used_up_the_budget_of_its_step_is_parked_until_it_is_raised(
    make_job: MakeProject, budget: dict[str, float], said: str
) -> None:
    project = make_job(make_step("a", budget=budget), make_step("b"))
    spending = f"*/a) if [ $START = 1 ]; then echo '{REPORT}'; exec sleep 600; fi; echo one > a.md ;;"
    project.set_agent(spending, WRITE_B)

    parked = project.run()

    assert parked.status is RunStatus.NEEDS_PERSON
    assert f"The step's budget of {said}" in (parked.reason or "")
    [attempt] = project.list_attempts(parked)
    assert (attempt.stage, attempt.parked_for) == (AttemptStage.PARKED, ParkedFor.BUDGET)
    [(unit, amount)] = budget.items()
    raise_budget(project, parked, f'"{unit}": {amount}', f'"{unit}": 1000')
    done = project.run()
    assert (done.id, done.status) == (parked.id, RunStatus.DONE)
    assert project.list_stages(done) == [("a", "done", 2), ("b", "done", 1)]


def test_minutes_of_a_step_pass_while_its_agent_is_silent_and_not_while_it_is_parked(
    make_job: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_watcher, "_COMPARE_MS", 100)
    project = make_job(make_step("a", budget={"minutes": 0.02}), make_step("b"))
    project.set_agent("*/a) if [ $START = 1 ]; then exec sleep 600; fi; echo one > a.md ;;", WRITE_B)

    parked = project.run()

    assert parked.status is RunStatus.NEEDS_PERSON
    assert "The step's budget of 0.02 minutes is used up" in (parked.reason or "")
    with project.app.database.reading() as tx:
        step = project.list_attempts(parked)[0].task_id
        worked = BudgetService(tx).find_total(SubjectKind.TASK, step).cost.active_ms
        found = find_step_overrun(tx, step, StepBudget(Budget(minutes=worked / 60_000 + 0.001), ""))
    assert worked >= 1_200
    assert found is None
    raise_budget(project, parked, '"minutes": 0.02', '"minutes": 60')
    assert project.run().status is RunStatus.DONE


@on_one_database
def test_no_further_agent_begins_a_step_whose_budget_earlier_ones_used_up(make_job: MakeProject) -> None:
    project = make_job(make_step("a", budget={"tokens": 250}))
    project.set_agent(f"*/a) echo '{REPORT}'; exit 1 ;;")

    run = project.run()

    assert run.status is RunStatus.NEEDS_PERSON
    assert "The step's budget of 250 tokens is used up" in (run.reason or "")
    assert [attempt.stage for attempt in project.list_attempts(run)] in (
        [AttemptStage.FAILED],
        [AttemptStage.PARKED],
    )


@on_one_database
def test_sessions_in_the_worktrees_of_runs_are_listed(make_job: MakeProject) -> None:
    project = make_job()
    project.set_agent("*/a) echo one > a.md ;;", WRITE_B)
    run = project.run()

    place = ("--db", project.app.settings.database_location)
    listed = run_deepwork(project.folder, "sessions", "list", "--all", "--json", *place).json["sessions"]

    assert [(each["id"], each["state"]) for each in listed] == [(run.session_id, "done")]
