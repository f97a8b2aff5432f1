"""Which state a thing has, why, and what moves it on: one pure function for each kind of thing."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from deepwork.delivery.landing.models import LandingKind, LandingStatus, Problem
from deepwork.delivery.runner.models import FAILED_STAGES, Attempt, AttemptStage, ParkedFor, Run, RunStatus
from deepwork.gates.budgets.models import MICROS_PER_USD
from deepwork.kernel.states import Cause, Command, Standing, State
from deepwork.kernel.timestamps import format_timestamp
from deepwork.views.overview.states.facts import (
    AttemptFacts,
    LandingFacts,
    PlanFacts,
    PlanWork,
    RunFacts,
    SessionFacts,
    TaskFacts,
    TrackFacts,
)
from deepwork.work.plans.models import PlanStatus, TaskStatus
from deepwork.work.workspaces.models import WORK_ELSEWHERE

MAX_NAMED = 2
"""How many of the open tasks that a task waits for are named."""
_DONE, _WAITING = Standing(State.DONE), Standing(State.WAITING)
_RUNNING, _READY = Standing(State.RUNNING), Standing(State.READY)
_FAILED, _STOPPED = Standing(State.FAILED), Standing(State.STOPPED)
_LANDED = Standing(State.LANDED)


# Tasks


def judge_task(task: TaskFacts) -> Standing:
    """Judge a task of a plan."""
    if task.status.is_done:
        return _judge_finished_task(task)
    if task.plan.status is PlanStatus.ABANDONED:
        return Standing(State.STOPPED, Cause.PLAN, task.plan.status.value)
    if task.approval_id:
        return _ask_for_approval(task.approval_id, was_refused=task.was_refused)
    if task.attempt is not None:
        return judge_attempt(task.attempt)
    if task.is_claimed or task.status.is_running:
        return _judge_held_task(task)
    return _judge_free_task(task)


def _judge_finished_task(task: TaskFacts) -> Standing:
    if task.status is TaskStatus.SKIPPED:
        return Standing(State.DONE, Cause.SKIPPED)
    if task.is_landed:
        return _LANDED
    if task.landing is not None:
        return judge_landing(task.landing)
    if task.elsewhere:
        return Standing(State.DONE, Cause.WORK_ELSEWHERE, task.elsewhere)
    return Standing(State.DONE, next=Command.LAND.about(task.id)) if task.can_land else _DONE


def _judge_held_task(task: TaskFacts) -> Standing:
    if task.waits_for is not None:  # the request to approve it was withdrawn
        return Standing(State.NEEDS_YOU, Cause.APPROVAL, "", Command.RETRY.about(task.id))
    if not task.is_alive:
        return Standing(State.UNATTENDED, Cause.AGENT_GONE, "", _choose_driver(task.plan))
    if task.status is TaskStatus.PAUSED:
        return Standing(State.NEEDS_YOU, Cause.PAUSED, "", Command.RESUME_TASK.about(task.id))
    return _RUNNING


def _judge_free_task(task: TaskFacts) -> Standing:
    if task.status is TaskStatus.FAILED:
        cause = Cause.ATTEMPTS_USED_UP if task.is_used_up else None
        return Standing(State.FAILED, cause, "", Command.RETRY.about(task.id))
    if task.open_total:
        return Standing(State.WAITING, Cause.TASKS, name_tasks(task.open_names, task.open_total))
    if task.is_budget_used_up:
        return Standing(State.NEEDS_YOU, Cause.BUDGET, "", Command.SET_BUDGET.about(task.id))
    closed = _find_closed_gate(task.plan)
    if closed is not None:
        return Standing(State.WAITING, Cause.PLAN, closed.cause.value if closed.cause else "", closed.next)
    return Standing(State.READY, next=_choose_driver(task.plan))


def _ask_for_approval(id: str, *, was_refused: bool) -> Standing:
    """Ask a person; they may still approve what they refused."""
    cause = Cause.REFUSED if was_refused else Cause.APPROVAL
    return Standing(State.NEEDS_YOU, cause, "", Command.APPROVE.about(id))


def name_tasks(names: Sequence[str], total: int) -> str:
    """Name the first open tasks, and say how many more there are."""
    more = total - len(names)
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _choose_driver(plan: PlanFacts) -> str | None:
    """Return the command by which agents go on with a plan; None if a process does that already."""
    if plan.run is None:
        return Command.RUN.about(plan.id)
    return judge_run(plan.run).next


# Plans


def judge_plan(plan: PlanFacts, work: PlanWork) -> Standing:
    """Judge a plan by its tasks."""
    if plan.status is PlanStatus.ABANDONED:
        return _STOPPED
    if plan.status is PlanStatus.COMPLETED:
        return _judge_completed_plan(plan, work)
    closed = _find_closed_gate(plan)
    if closed is not None:
        return _with_need(closed, work) if plan.status is PlanStatus.FAILED else closed
    return _judge_open_plan(plan, work)


def _judge_completed_plan(plan: PlanFacts, work: PlanWork) -> Standing:
    if work.needs:
        return work.needs[0]
    if work.landable:
        return Standing(State.DONE, next=Command.LAND.about(plan.id))
    return _LANDED if work.states[State.LANDED] else _DONE


def _find_closed_gate(plan: PlanFacts) -> Standing | None:
    """Return why the plan lets no task start, if it does not."""
    if plan.status in _CLOSED_PLANS:
        state, cause, command = _CLOSED_PLANS[plan.status]
        return Standing(state, cause, "", command.about(plan.id))
    if plan.approval_id:
        return _ask_for_approval(plan.approval_id, was_refused=plan.was_refused)
    if plan.is_budget_used_up:
        return Standing(State.NEEDS_YOU, Cause.BUDGET, "", Command.SET_BUDGET.about(plan.id))
    if plan.day_ends_at is not None:
        return Standing(State.PARKED, Cause.BUDGET, _until(plan.day_ends_at))
    return None


_CLOSED_PLANS: Mapping[PlanStatus, tuple[State, Cause, Command]] = {
    PlanStatus.PLANNING: (State.WAITING, Cause.NO_TASKS, Command.SET_PLAN),
    PlanStatus.PAUSED: (State.NEEDS_YOU, Cause.PAUSED, Command.RESUME_PLAN),
    PlanStatus.FAILED: (State.FAILED, Cause.FAILED_TASKS, Command.RESUME_PLAN),
}


def _judge_open_plan(plan: PlanFacts, work: PlanWork) -> Standing:
    states = work.states
    run = judge_run(plan.run) if plan.run is not None else None
    if states[State.RUNNING]:
        return Standing(State.RUNNING, Cause.PERSON, _count(len(work.needs))) if work.needs else _RUNNING
    if run is not None and run.state in (State.UNATTENDED, State.PARKED):
        return run
    if states[State.PARKED]:
        return Standing(State.PARKED, Cause.LIMIT, _until(work.parked_until))
    if states[State.UNATTENDED]:
        return Standing(State.UNATTENDED, Cause.AGENT_GONE, "", _choose_driver(plan))
    if states[State.READY] or work.retries:
        is_driven = run is not None and run.state is State.RUNNING
        return _RUNNING if is_driven else Standing(State.READY, next=_choose_driver(plan))
    return _with_need(Standing(State.NEEDS_YOU), work) if work.needs else _WAITING


def _with_need(found: Standing, work: PlanWork) -> Standing:
    """Return the state with what the first task that needs a person says."""
    if not work.needs:
        return found
    first = work.needs[0]
    return Standing(found.state, first.cause, _count(len(work.needs)), first.next)


def _count(tasks: int) -> str:
    return "1 task" if tasks == 1 else f"{tasks} tasks"


# Runs of agents


def judge_run(run: RunFacts) -> Standing:
    """Judge a run of agents."""
    status = run.run.status
    if status.is_final:
        return _judge_ended_run(run)
    if status is RunStatus.PAUSED:
        return Standing(State.NEEDS_YOU, Cause.PAUSED, "", Command.RESUME_RUN.about(run.run.id))
    if not run.is_driven:
        return _judge_undriven_run(run)
    if status is not RunStatus.ACTIVE:
        return Standing(State.RUNNING, Cause.STOPPING)
    return _judge_driven_run(run)


def _judge_ended_run(run: RunFacts) -> Standing:
    plan, status = run.run.workflow_id, run.run.status
    if status is RunStatus.STOPPED:
        return Standing(State.STOPPED, next=build_run_command(run))
    if status is RunStatus.NEEDS_PERSON:
        reason = _first_line(run.run.reason)
        return Standing(State.NEEDS_YOU, _find_ending(run), reason, build_run_command(run))
    if plan and run.unlanded:
        return Standing(State.DONE, next=Command.LAND.about(plan))
    return _LANDED if run.landed else _DONE


def _judge_undriven_run(run: RunFacts) -> Standing:
    plan = run.run.workflow_id
    by_workers = plan is not None and not run.starts_tasks and not run.attempts
    next = Command.WORK.about(plan) if by_workers and plan else Command.ATTACH.about(run.run.id)
    if run.is_driven is None:
        return Standing(State.UNATTENDED, Cause.RUNNER_UNKNOWN, ", ".join(run.hosts), next)
    return Standing(State.UNATTENDED, Cause.RUNNER_GONE, "", next)


def _judge_driven_run(run: RunFacts) -> Standing:
    """Judge by the attempts: one that works, else one that continues by itself, else one that waits."""
    found = [judge_attempt(each) for each in run.attempts]
    parked = [each.attempt.not_before or 0 for each in run.attempts if each.attempt.not_before]
    for state in (State.RUNNING, State.PARKED, State.NEEDS_YOU, State.UNATTENDED):
        first = next((each for each in found if each.state is state), None)
        if first is None:
            continue
        if state is State.RUNNING:
            return _RUNNING
        return first._replace(detail=_until(min(parked))) if state is State.PARKED and parked else first
    return _RUNNING  # it chooses what to start


def _find_ending(run: RunFacts) -> Cause:
    """Return why a run ended that needs a person."""
    if (run.run.reason or "").startswith(WORK_ELSEWHERE):
        return Cause.WORK_ELSEWHERE
    return Cause.BUDGET if _has_spent_all(run) else Cause.PERSON


def _has_spent_all(run: RunFacts) -> bool:
    most = run.run.options.max_usd
    return most is not None and run.usd_micros >= most * MICROS_PER_USD


def build_run_command(run: RunFacts) -> str:
    """Build the command that runs the same again: with the same agents and options."""
    return " ".join(["deepwork run", *_list_run_words(run.run, is_poor=_has_spent_all(run))])


def _list_run_words(run: Run, *, is_poor: bool) -> list[str]:
    words = [shlex.quote(run.workflow_id or run.job or run.id)]
    if run.goal:
        words += ["--goal", shlex.quote(run.goal)]
    for name in run.chain:
        words += ["--agent", shlex.quote(name)]
    if run.options.max_usd is not None:
        words += ["--max-usd", "N" if is_poor else f"{run.options.max_usd:g}"]
    if run.options.land:
        words.append("--land")
    return words


def judge_attempt(facts: AttemptFacts) -> Standing:
    """Judge an attempt of an agent."""
    attempt = facts.attempt
    if attempt.stage.is_final:
        return _judge_ended_attempt(attempt)
    if attempt.stage is AttemptStage.REVIEWING or attempt.parked_for is ParkedFor.PERSON:
        next = _choose_person_command(facts)
        cause = Cause.APPROVAL if facts.approval_id else Cause.PERSON
        return Standing(State.NEEDS_YOU, cause, _first_line(attempt.reason), next)
    if attempt.parked_for is ParkedFor.BUDGET:
        target = attempt.task_id if attempt.workflow_id else attempt.run_id
        next = Command.SET_BUDGET.about(target) if attempt.workflow_id else Command.ATTACH.about(target)
        return Standing(State.NEEDS_YOU, Cause.BUDGET, _first_line(attempt.reason), next)
    if not facts.is_driven:
        return Standing(State.UNATTENDED, Cause.RUNNER_GONE, "", Command.ATTACH.about(attempt.run_id))
    if attempt.stage is AttemptStage.PARKED:
        return Standing(State.PARKED, Cause.LIMIT, _until(attempt.not_before))
    return Standing(State.RUNNING, _CAUSES_OF_STAGES.get(attempt.stage))


_CAUSES_OF_STAGES: Mapping[AttemptStage, Cause] = {
    AttemptStage.CHECKING: Cause.CHECK,
    AttemptStage.LANDING: Cause.LANDING,
}


def _judge_ended_attempt(attempt: Attempt) -> Standing:
    if attempt.stage in FAILED_STAGES:
        return _FAILED
    return _DONE if attempt.stage is AttemptStage.DONE else _STOPPED


def _choose_person_command(facts: AttemptFacts) -> str:
    if facts.approval_id:
        return Command.APPROVE.about(facts.approval_id)
    return Command.ATTACH.about(facts.attempt.run_id)


# Landings


def judge_landing(facts: LandingFacts) -> Standing:
    """Judge a landing."""
    landing = facts.landing
    if landing.status is LandingStatus.LANDED:
        return _LANDED
    if landing.status is LandingStatus.CANCELLED:
        return _STOPPED
    if landing.status is LandingStatus.WAITING:
        next = Command.APPROVE.about(facts.approval_id) if facts.approval_id else _land_again(facts)
        return Standing(State.NEEDS_YOU, Cause.APPROVAL, "", next)
    if landing.status is LandingStatus.RETURNED:
        run = judge_run(facts.run) if facts.run is not None else None
        again = Command.RUN.about(landing.workflow_id) if landing.workflow_id else None
        return Standing(State.WAITING, _find_problem(landing.problem), "", run.next if run else again)
    if landing.status is LandingStatus.NEEDS_PERSON:
        return Standing(State.NEEDS_YOU, _find_problem(landing.problem), "", _land_again(facts))
    return _judge_pending_landing(facts)


def _judge_pending_landing(facts: LandingFacts) -> Standing:
    if not facts.is_held:
        return Standing(State.UNATTENDED, Cause.RUNNER_GONE, "", _land_again(facts))
    if facts.landing.status is LandingStatus.QUEUED:
        return Standing(State.WAITING, Cause.LANDING)
    return Standing(State.RUNNING, Cause.CHECK if facts.landing.status is LandingStatus.CHECKING else None)


def _land_again(facts: LandingFacts) -> str:
    landing = facts.landing
    if landing.kind is LandingKind.TASK and landing.task_id:
        return Command.LAND.about(landing.task_id)
    return Command.CANCEL_LANDING.about(landing.id)


def _find_problem(problem: Problem | None) -> Cause:
    return _CAUSES_OF_PROBLEMS[problem] if problem else Cause.LANDING


_CAUSES_OF_PROBLEMS: Mapping[Problem, Cause] = {
    Problem.CONFLICT: Cause.CONFLICT,
    Problem.RED: Cause.CHECK,
    Problem.REFUSED: Cause.REFUSED,
    Problem.APPROVAL: Cause.APPROVAL,
    Problem.CHECKS: Cause.CHECK,
    Problem.TARGET_RED: Cause.CHECK,
    Problem.TARGET_CONFLICT: Cause.CONFLICT,
    Problem.BRANCH: Cause.BRANCH,
}


# Jobs


def judge_session(facts: SessionFacts) -> Standing:
    """Judge a session of a job by its current step."""
    session = facts.session
    if session.status != "active":
        return _DONE if session.status == "completed" else _STOPPED
    if facts.approval_id:
        next = Command.APPROVE.about(facts.approval_id)
        return Standing(State.NEEDS_YOU, Cause.APPROVAL, session.step_id, next)
    if facts.waits_for_person:
        return Standing(State.NEEDS_YOU, Cause.REVIEW, session.step_id, Command.PASS_STEP.about(session.id))
    if facts.run is not None:
        return judge_run(facts.run)
    if facts.has_exited:
        return Standing(State.UNATTENDED, Cause.AGENT_GONE, "", Command.RESUME_SESSION.about(session.id))
    return _RUNNING


def judge_step(facts: SessionFacts, step: str) -> Standing:
    """Judge a step of a job: the current one has the state of the session."""
    status = facts.session.get_step_status(step)
    if status == "completed":
        return _DONE
    if facts.session.status != "active":
        return _STOPPED
    if status == "pending":
        return Standing(State.WAITING, Cause.TASKS, facts.session.step_id)
    return judge_session(facts) if step == facts.session.step_id else _RUNNING


# Tracked work


def judge_tracked_task(facts: TrackFacts) -> Standing:
    """Judge a task that an agent tracks."""
    if facts.blocker_id:
        return Standing(State.NEEDS_YOU, Cause.BLOCKER, "", Command.ANSWER.about(facts.blocker_id))
    if facts.status == "in_progress":
        gone = Standing(State.UNATTENDED, Cause.AGENT_GONE, "", Command.ABANDON.about(facts.id))
        return _RUNNING if facts.is_alive else gone
    answer = Command.ANSWER.about(facts.id) if facts.needs_review else None
    if facts.status == "failed":
        return Standing(State.FAILED, next=answer)
    return Standing(State.NEEDS_YOU, Cause.REVIEW, "", answer) if answer else _DONE


def judge_track(facts: TrackFacts) -> Standing:
    """Judge a tracked workflow."""
    if facts.status in ("completed", "failed"):
        return _DONE if facts.status == "completed" else _FAILED
    if facts.blocker_id:
        return Standing(State.NEEDS_YOU, Cause.BLOCKER, "", Command.ANSWER.about(facts.blocker_id))
    if facts.is_alive:
        return _RUNNING
    if facts.silent_task_id:
        return Standing(State.UNATTENDED, Cause.AGENT_GONE, "", Command.ABANDON.about(facts.silent_task_id))
    return Standing(State.UNATTENDED, Cause.AGENT_GONE, "", Command.COMPLETE_TRACK.about(facts.id))


def _until(moment: int | None) -> str:
    return f"until {format_timestamp(moment)}" if moment else ""


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0][:200]
