"""The state of each thing is a pure function of facts: one table for each kind of thing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click
import pytest

from deepwork.delivery.landing.models import LandingKind, LandingStatus, Problem
from deepwork.delivery.runner.models import AttemptStage, ParkedFor, RunOptions, RunStatus
from deepwork.edge.cli.main import deepwork
from deepwork.kernel.states import Cause, Command, Standing, State
from deepwork.views.overview.states.run_rules import (
    build_run_command,
    judge_attempt,
    judge_landing,
    judge_run,
)
from deepwork.views.overview.states.work_rules import (
    PlanTotals,
    TrackFacts,
    judge_plan,
    judge_session,
    judge_step,
    judge_task,
    judge_track,
    judge_tracked_task,
    name_tasks,
)
from deepwork.work.plans.models import PlanStatus, TaskStatus
from overview.facts import NOON, make_attempt, make_landing, make_plan, make_run, make_session, make_task

RUN, ATTACH, LAND, RETRY = (
    "deepwork run wf_1",
    "deepwork runs attach rn_1",
    "deepwork land tk_1",
    "deepwork tasks retry tk_1",
)
APPROVE = "deepwork approvals approve ap_1"
AGAIN = "deepwork run wf_1 --agent claude"
UNTIL = "until 2026-11-17T12:00:00.000Z"
S, C, T = State, Cause, TaskStatus


def outline(standing: Standing) -> tuple[str, str | None, str | None]:
    return standing.state, standing.cause, standing.next


TASKS = [
    (make_task(open_names=("design",), open_total=1), S.WAITING, C.TASKS, None),
    (make_task(), S.READY, None, RUN),
    (make_task(plan=make_plan(run=make_run())), S.READY, None, None),
    (make_task(plan=make_plan(run=make_run(is_driven=False))), S.READY, None, ATTACH),
    (make_task(plan=make_plan(PlanStatus.PAUSED)), S.WAITING, C.PLAN, "deepwork plans update-status wf_1 in_progress"),
    (make_task(plan=make_plan(approval_id="ap_1")), S.WAITING, C.PLAN, APPROVE),
    (make_task(plan=make_plan(PlanStatus.ABANDONED)), S.STOPPED, C.PLAN, None),
    (make_task(is_budget_used_up=True), S.NEEDS_YOU, C.BUDGET, "deepwork budget set tk_1 --usd N"),
    (make_task(approval_id="ap_1"), S.NEEDS_YOU, C.APPROVAL, APPROVE),
    (make_task(approval_id="ap_1", was_refused=True), S.NEEDS_YOU, C.REFUSED, APPROVE),
    (make_task(is_claimed=True), S.RUNNING, None, None),
    (make_task(T.IN_PROGRESS, is_claimed=True), S.RUNNING, None, None),
    (make_task(T.IN_PROGRESS, waits_for="approval", approval_id="ap_1"), S.NEEDS_YOU, C.APPROVAL, APPROVE),
    (make_task(T.IN_PROGRESS, waits_for="approval"), S.NEEDS_YOU, C.APPROVAL, RETRY),
    (make_task(T.IN_PROGRESS, is_claimed=True, is_alive=False), S.UNATTENDED, C.AGENT_GONE, RUN),
    (make_task(T.PAUSED, is_claimed=True), S.NEEDS_YOU, C.PAUSED, Command.RESUME_TASK.about("tk_1")),
    (make_task(T.IN_PROGRESS, is_claimed=True, attempt=make_attempt()), S.RUNNING, None, None),
    (make_task(T.IN_PROGRESS, is_claimed=True, attempt=make_attempt(is_driven=False)), S.UNATTENDED, C.RUNNER_GONE, ATTACH),
    (make_task(T.FAILED), S.FAILED, None, RETRY),
    (make_task(T.FAILED, is_used_up=True), S.FAILED, C.ATTEMPTS_USED_UP, RETRY),
    (make_task(T.SKIPPED), S.DONE, C.SKIPPED, None),
    (make_task(T.COMPLETED), S.DONE, None, None),
    (make_task(T.COMPLETED, can_land=True), S.DONE, None, LAND),
    (make_task(T.COMPLETED, elsewhere="mars"), S.DONE, C.WORK_ELSEWHERE, None),
    (make_task(T.COMPLETED, can_land=True, is_landed=True), S.LANDED, None, None),
    (make_task(T.COMPLETED, can_land=True, landing=make_landing(LandingStatus.NEEDS_PERSON, problem=Problem.CONFLICT)), S.NEEDS_YOU, C.CONFLICT, LAND),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "state", "cause", "next"), TASKS)
def test_tasks(facts, state, cause, next):
    assert outline(judge_task(facts)) == (state, cause, next)


def test_a_task_names_what_it_waits_for_first():
    found = judge_task(make_task(open_names=("design", "build"), open_total=5))

    assert found.because == "tasks: design, build and 3 more"
    assert name_tasks(("design",), 1) == "design"


PLAN_STATES = [
    (make_plan(PlanStatus.PLANNING), {}, S.WAITING, C.NO_TASKS, "deepwork plans set-plan wf_1 FILE"),
    (make_plan(PlanStatus.PAUSED), {}, S.NEEDS_YOU, C.PAUSED, "deepwork plans update-status wf_1 in_progress"),
    (make_plan(approval_id="ap_1"), {}, S.NEEDS_YOU, C.APPROVAL, APPROVE),
    (make_plan(approval_id="ap_1", was_refused=True), {}, S.NEEDS_YOU, C.REFUSED, APPROVE),
    (make_plan(is_budget_used_up=True), {}, S.NEEDS_YOU, C.BUDGET, "deepwork budget set wf_1 --usd N"),
    (make_plan(day_ends_at=NOON), {}, S.PARKED, C.BUDGET, None),
    (make_plan(), {S.READY: 1}, S.READY, None, RUN),
    (make_plan(run=make_run()), {S.READY: 1}, S.RUNNING, None, None),
    (make_plan(), {S.RUNNING: 1, S.READY: 1}, S.RUNNING, None, None),
    (make_plan(run=make_run(is_driven=False)), {S.READY: 1}, S.UNATTENDED, C.RUNNER_GONE, ATTACH),
    (make_plan(), {S.UNATTENDED: 1, S.WAITING: 2}, S.UNATTENDED, C.AGENT_GONE, RUN),
    (make_plan(), {S.PARKED: 1}, S.PARKED, C.LIMIT, None),
    (make_plan(), {S.WAITING: 1}, S.WAITING, None, None),
    (make_plan(PlanStatus.COMPLETED), {S.DONE: 2}, S.DONE, None, None),
    (make_plan(PlanStatus.COMPLETED), {S.LANDED: 2}, S.LANDED, None, None),
    (make_plan(PlanStatus.ABANDONED), {S.STOPPED: 2}, S.STOPPED, None, None),
    (make_plan(PlanStatus.FAILED), {S.FAILED: 1}, S.FAILED, C.FAILED_TASKS, "deepwork plans update-status wf_1 in_progress"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "tasks", "state", "cause", "next"), PLAN_STATES)
def test_plans(facts, tasks, state, cause, next):
    assert outline(judge_plan(facts, PlanTotals(Counter(tasks)))) == (state, cause, next)


def test_a_plan_that_waits_for_a_person_says_for_what():
    failed = judge_task(make_task(T.FAILED, is_used_up=True))
    work = PlanTotals(Counter({S.FAILED: 9}), needs=(failed,) * 9)

    assert judge_plan(make_plan(), work) == Standing(S.NEEDS_YOU, C.ATTEMPTS_USED_UP, "9 tasks", RETRY)
    assert judge_plan(make_plan(PlanStatus.FAILED), work).next == RETRY
    assert outline(judge_plan(make_plan(), PlanTotals(Counter({S.FAILED: 1}), retries=1))) == (
        S.READY,
        None,
        RUN,
    )


def test_a_running_plan_says_that_a_task_of_it_needs_a_person():
    work = PlanTotals(
        Counter({S.RUNNING: 1, S.NEEDS_YOU: 1}), needs=(judge_task(make_task(approval_id="ap_1")),)
    )

    assert judge_plan(make_plan(), work).because == "person: 1 task"


def test_a_completed_plan_offers_to_land_only_what_did_not_land():
    plan = make_plan(PlanStatus.COMPLETED)

    assert (
        judge_plan(plan, PlanTotals(Counter({S.DONE: 1, S.LANDED: 1}), landable=1)).next
        == "deepwork land wf_1"
    )
    assert judge_plan(plan, PlanTotals(Counter({S.LANDED: 2}))) == Standing(S.LANDED)


RUN_STATES = [
    (make_run(), S.RUNNING, None, None),
    (make_run(attempts=(make_attempt(),)), S.RUNNING, None, None),
    (make_run(is_driven=False), S.UNATTENDED, C.RUNNER_GONE, ATTACH),
    (make_run(is_driven=False, attempts=(make_attempt(is_driven=False),)), S.UNATTENDED, C.RUNNER_GONE, ATTACH),
    (make_run(is_driven=None, hosts=("mars",)), S.UNATTENDED, C.RUNNER_UNKNOWN, ATTACH),
    (make_run(is_driven=False, starts_tasks=False), S.UNATTENDED, C.RUNNER_GONE, "deepwork work --once --plan wf_1"),
    (make_run(RunStatus.PAUSED), S.NEEDS_YOU, C.PAUSED, "deepwork runs resume rn_1"),
    (make_run(RunStatus.STOPPING), S.RUNNING, C.STOPPING, None),
    (make_run(RunStatus.ENDING, is_driven=False), S.UNATTENDED, C.RUNNER_GONE, ATTACH),
    (make_run(attempts=(make_attempt(AttemptStage.PARKED, parked_for=ParkedFor.LIMIT, not_before=NOON),)), S.PARKED, C.LIMIT, None),
    (make_run(attempts=(make_attempt(AttemptStage.REVIEWING, approval_id="ap_1"),)), S.NEEDS_YOU, C.APPROVAL, APPROVE),
    (make_run(attempts=(make_attempt(AttemptStage.REVIEWING, approval_id="ap_1"), make_attempt())), S.RUNNING, None, None),
    (make_run(RunStatus.NEEDS_PERSON), S.NEEDS_YOU, C.PERSON, AGAIN),
    (make_run(RunStatus.NEEDS_PERSON, is_continued=True), S.STOPPED, None, None),
    (make_run(RunStatus.NEEDS_PERSON, is_continued=True, is_plan_done=True), S.DONE, None, None),
    (make_run(RunStatus.NEEDS_PERSON, is_plan_done=True, unlanded=1), S.DONE, None, "deepwork land wf_1"),
    (make_run(RunStatus.NEEDS_PERSON, reason="work_elsewhere: on mars"), S.NEEDS_YOU, C.WORK_ELSEWHERE, AGAIN),
    (make_run(RunStatus.NEEDS_PERSON, options=RunOptions(max_usd=5.0), usd_micros=5_000_000), S.NEEDS_YOU, C.BUDGET, "deepwork runs set rn_1 --max-usd N"),
    (make_run(RunStatus.STOPPED), S.STOPPED, None, AGAIN),
    (make_run(RunStatus.DONE), S.DONE, None, None),
    (make_run(RunStatus.DONE, unlanded=2), S.DONE, None, "deepwork land wf_1"),
    (make_run(RunStatus.DONE, landed=2), S.LANDED, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "state", "cause", "next"), RUN_STATES)
def test_runs(facts, state, cause, next):
    assert outline(judge_run(facts)) == (state, cause, next)


def test_a_parked_run_names_the_first_moment():
    late = make_attempt(AttemptStage.PARKED, parked_for=ParkedFor.LIMIT, not_before=NOON + 60_000)
    soon = make_attempt(AttemptStage.PARKED, parked_for=ParkedFor.LIMIT, not_before=NOON)

    assert judge_run(make_run(attempts=(late, soon))).because == f"limit: {UNTIL}"


def test_a_run_is_run_again_as_it_was():
    run = make_run(
        RunStatus.STOPPED, workflow_id=None, job="letter/main", goal="Dear Ada", chain=("claude", "my agent {prompt_file}"),
        options=RunOptions(max_usd=2.5, land=True),
    )  # fmt: skip

    assert build_run_command(run) == (
        "deepwork run letter/main --goal 'Dear Ada' --agent claude --agent 'my agent {prompt_file}'"
        " --max-usd 2.5 --land"
    )


def test_a_run_of_a_chain_continues_with_the_chain():
    run = make_run(RunStatus.STOPPED, options=RunOptions(chain_name="night shift"), chain=("claude", "codex"))

    assert judge_run(run).next == "deepwork run wf_1 --chain 'night shift'"


ATTEMPT_STATES = [
    (make_attempt(AttemptStage.CLAIMED), S.RUNNING, None, None),
    (make_attempt(AttemptStage.CHECKING), S.RUNNING, C.CHECK, None),
    (make_attempt(AttemptStage.LANDING), S.RUNNING, C.LANDING, None),
    (make_attempt(is_driven=False), S.UNATTENDED, C.RUNNER_GONE, ATTACH),
    (make_attempt(AttemptStage.PARKED, parked_for=ParkedFor.LIMIT, not_before=NOON), S.PARKED, C.LIMIT, None),
    (make_attempt(AttemptStage.PARKED, parked_for=ParkedFor.LIMIT, is_driven=False), S.UNATTENDED, C.RUNNER_GONE, ATTACH),
    (make_attempt(AttemptStage.PARKED, parked_for=ParkedFor.BUDGET), S.NEEDS_YOU, C.BUDGET, "deepwork budget set tk_1 --usd N"),
    (make_attempt(AttemptStage.PARKED, parked_for=ParkedFor.PERSON, approval_id="ap_1"), S.NEEDS_YOU, C.APPROVAL, APPROVE),
    (make_attempt(AttemptStage.PARKED, parked_for=ParkedFor.PERSON), S.NEEDS_YOU, C.PERSON, ATTACH),
    (make_attempt(AttemptStage.PARKED, parked_for=ParkedFor.TRUST, reason="Nobody trusts it.\ndeepwork trust --commit abc"), S.NEEDS_YOU, C.CHECK, "deepwork trust --commit abc"),
    (make_attempt(AttemptStage.REVIEWING, approval_id="ap_1", is_driven=False), S.NEEDS_YOU, C.APPROVAL, APPROVE),
    (make_attempt(AttemptStage.DONE), S.DONE, None, None),
    (make_attempt(AttemptStage.FAILED), S.FAILED, None, None),
    (make_attempt(AttemptStage.STALLED), S.FAILED, None, None),
    (make_attempt(AttemptStage.HANDED_OVER), S.FAILED, None, None),
    (make_attempt(AttemptStage.STOPPED), S.STOPPED, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "state", "cause", "next"), ATTEMPT_STATES)
def test_attempts(facts, state, cause, next):
    assert outline(judge_attempt(facts)) == (state, cause, next)


L = LandingStatus
LANDING_STATES = [
    (make_landing(L.QUEUED, is_held=True), S.WAITING, C.LANDING, None),
    (make_landing(L.QUEUED), S.UNATTENDED, C.RUNNER_GONE, LAND),
    (make_landing(L.CHECKING, is_held=True), S.RUNNING, C.CHECK, None),
    (make_landing(L.MOVING, is_held=True), S.RUNNING, None, None),
    (make_landing(L.MOVING), S.UNATTENDED, C.RUNNER_GONE, LAND),
    (make_landing(L.WAITING, approval_id="ap_1"), S.NEEDS_YOU, C.APPROVAL, APPROVE),
    (make_landing(L.NEEDS_PERSON, problem=Problem.RED), S.NEEDS_YOU, C.CHECK, LAND),
    (make_landing(L.NEEDS_PERSON, problem=Problem.BRANCH), S.NEEDS_YOU, C.BRANCH, LAND),
    (make_landing(L.NEEDS_PERSON, kind=LandingKind.COMMIT, task_id=None), S.NEEDS_YOU, C.LANDING, "deepwork landings cancel ld_1"),
    (make_landing(L.RETURNED, problem=Problem.CONFLICT), S.WAITING, C.CONFLICT, RUN),
    (make_landing(L.RETURNED, problem=Problem.RED, run=make_run()), S.WAITING, C.CHECK, None),
    (make_landing(L.LANDED), S.LANDED, None, None),
    (make_landing(L.CANCELLED), S.STOPPED, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "state", "cause", "next"), LANDING_STATES)
def test_landings(facts, state, cause, next):
    assert outline(judge_landing(facts)) == (state, cause, next)


@pytest.mark.parametrize("problem", Problem)
def test_every_problem_of_a_landing_has_a_cause(problem: Problem):
    assert judge_landing(make_landing(L.NEEDS_PERSON, problem=problem)).cause


SESSION_STATES = [
    (make_session(), S.RUNNING, None, None),
    (make_session(has_exited=True), S.UNATTENDED, C.AGENT_GONE, "deepwork sessions resume ab12cd34"),
    (make_session(waits_for_person=True), S.NEEDS_YOU, C.REVIEW, "deepwork sessions pass ab12cd34"),
    (make_session(approval_id="ap_1"), S.NEEDS_YOU, C.APPROVAL, APPROVE),
    (make_session(run=make_run(is_driven=False), has_exited=True), S.UNATTENDED, C.RUNNER_GONE, ATTACH),
    (make_session(run=make_run(), has_exited=True), S.RUNNING, None, None),
    (make_session("completed"), S.DONE, None, None),
    (make_session("aborted"), S.STOPPED, None, None),
]


@pytest.mark.parametrize(("facts", "state", "cause", "next"), SESSION_STATES)
def test_job_sessions_and_their_current_steps(facts, state, cause, next):
    assert outline(judge_session(facts)) == (state, cause, next)
    if facts.session.status == "active":
        assert judge_step(facts, "write") == judge_session(facts)
        assert judge_step(facts, "send").because == "tasks: write"


TRACKED = [
    (TrackFacts("tt_1", "in_progress"), S.RUNNING, None, None),
    (TrackFacts("tt_1", "in_progress", is_alive=False), S.UNATTENDED, C.AGENT_GONE, "deepwork track abandon-task tt_1 REASON"),
    (TrackFacts("tt_1", "in_progress", blocker_id="is_1"), S.NEEDS_YOU, C.BLOCKER, "deepwork answer is_1 TEXT"),
    (TrackFacts("tt_1", "success"), S.DONE, None, None),
    (TrackFacts("tt_1", "success", needs_review=True), S.NEEDS_YOU, C.REVIEW, "deepwork answer tt_1 TEXT"),
    (TrackFacts("tt_1", "failed", needs_review=True), S.FAILED, None, "deepwork answer tt_1 TEXT"),
    (TrackFacts("tt_1", "failed"), S.FAILED, None, None),
    (TrackFacts("tt_1", "partial_success"), S.DONE, None, None),
    (TrackFacts("tt_1", "partial_success", needs_review=True), S.NEEDS_YOU, C.REVIEW, "deepwork answer tt_1 TEXT"),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "state", "cause", "next"), TRACKED)
def test_tracked_tasks(facts, state, cause, next):
    assert outline(judge_tracked_task(facts)) == (state, cause, next)


TRACKS = [
    (TrackFacts("tw_1", "in_progress"), S.RUNNING, None, None),
    (TrackFacts("tw_1", "in_progress", blocker_id="is_1"), S.NEEDS_YOU, C.BLOCKER, "deepwork answer is_1 TEXT"),
    (TrackFacts("tw_1", "in_progress", is_alive=False, silent_task_id="tt_1"), S.UNATTENDED, C.AGENT_GONE, "deepwork track abandon-task tt_1 REASON"),
    (TrackFacts("tw_1", "in_progress", is_alive=False), S.UNATTENDED, C.AGENT_GONE, "deepwork track complete-workflow tw_1 STATUS SUMMARY"),
    (TrackFacts("tw_1", "completed"), S.DONE, None, None),
    (TrackFacts("tw_1", "failed"), S.FAILED, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "state", "cause", "next"), TRACKS)
def test_tracked_workflows(facts, state, cause, next):
    assert outline(judge_track(facts)) == (state, cause, next)


def test_the_words_are_these_and_no_others():
    assert [state.value for state in State] == [
        "waiting", "ready", "running", "needs_you", "parked", "unattended", "done", "landed", "failed", "stopped",
    ]  # fmt: skip


AGAIN_WITH_ALL = build_run_command(
    make_run(RunStatus.STOPPED, options=RunOptions(max_usd=2.5, land=True), chain=("claude", "codex"))
)


@pytest.mark.parametrize("line", [*(command.about("wf_1") for command in Command), AGAIN_WITH_ALL])
def test_every_command_exists_and_takes_what_it_is_given(line: str, tmp_path: Path):
    plan = tmp_path / "plan.json"
    plan.write_text('{"summary": "s", "tasks": [{"name": "a"}]}')
    known = {"TEXT": "x", "REASON": "x", "SUMMARY": "x", "STATUS": "completed", "N": "5", "FILE": str(plan)}
    words = [known.get(word, word) for word in line.split()[1:]]
    command: click.Command = deepwork
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, line
        command, words = found, words[1:]

    command.make_context("deepwork", words)  # raises for what the command does not take


def test_an_answer_has_a_reason_with_a_code_and_perhaps_a_detail():
    found = Standing(State.WAITING, Cause.TASKS, "design, build")

    assert found.to_answer() == {"state": "waiting", "because": "tasks: design, build", "next": None}
    assert Standing(State.RUNNING).to_answer() == {"state": "running", "because": None, "next": None}
