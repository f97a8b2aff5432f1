"""Which state runs, attempts and landings have, why, and what moves them on: one pure function for each."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from deepwork.delivery.landing.models import Landing, LandingKind, LandingStatus, Problem
from deepwork.delivery.runner.models import (
    FAILED_STAGES,
    Attempt,
    AttemptStage,
    AttemptWish,
    ParkedFor,
    Run,
    RunOptions,
    RunStatus,
)
from deepwork.gates.budgets.models import MICROS_PER_USD
from deepwork.kernel.records import dataclass
from deepwork.kernel.states import (
    DONE,
    FAILED,
    LANDED,
    RUNNING,
    STOPPED,
    Cause,
    Command,
    Standing,
    State,
    format_until,
)
from deepwork.work.workspaces.models import WORK_ELSEWHERE

# Runs of agents


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """An attempt of an agent at a task."""

    attempt: Attempt
    is_driven: bool = True
    """Whether a process looks after it: its lock is held here, or its machine was heard of."""
    approval_id: str | None = None
    """What a person has to approve about its task."""
    run: RunFacts | None = None
    """Its run, if somebody has to continue it."""
    is_plan_used_up: bool = False
    """Whether the budget of its plan is."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run of agents."""

    run: Run
    is_driven: bool | None = True
    """None if only another machine could know."""
    hosts: tuple[str, ...] = ()
    starts_tasks: bool = True
    """Whether a machine starts its tasks; else workers do, each of which is started for one task."""
    attempts: tuple[AttemptFacts, ...] = ()
    """Those that have not ended."""
    usd_micros: int = 0
    agents: int = 1
    """How many a machine starts at the same time."""
    landed: int = 0
    unlanded: int = 0
    """How many completed tasks of its plan could land."""
    is_plan_done: bool = False
    is_continued: bool = False
    """Whether another run of its plan began after it."""


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
        return Standing(State.STOPPED, next=_continue(run))
    if status is RunStatus.NEEDS_PERSON and not run.is_plan_done:
        if run.is_continued:
            return STOPPED
        return Standing(State.NEEDS_YOU, _find_ending(run), _first_line(run.run.reason), _continue(run))
    if plan and run.unlanded:
        return Standing(State.DONE, next=Command.LAND.about(plan))
    return LANDED if run.landed else DONE


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
            return RUNNING
        return first._replace(detail=format_until(min(parked))) if state is State.PARKED and parked else first
    return RUNNING  # it chooses what to start


def _find_ending(run: RunFacts) -> Cause:
    """Return why a run ended that needs a person."""
    if (run.run.reason or "").startswith(WORK_ELSEWHERE):
        return Cause.WORK_ELSEWHERE
    return Cause.BUDGET if _has_spent_all(run) else Cause.PERSON


def _has_spent_all(run: RunFacts) -> bool:
    most = run.run.options.max_usd
    return most is not None and run.usd_micros >= most * MICROS_PER_USD


def _continue(run: RunFacts) -> str:
    """Return the command that continues a run that nobody drives, or that has ended."""
    if not run.run.status.is_final:
        return Command.ATTACH.about(run.run.id)
    if run.run.status is RunStatus.NEEDS_PERSON and _has_spent_all(run):
        return Command.RAISE_RUN.about(run.run.id)
    return build_run_command(run)


def build_run_command(run: RunFacts) -> str:
    """Build the command that runs the same again: with the same agents and options."""
    return " ".join(["deepwork run", *_list_run_words(run.run, run.agents)])


def _list_run_words(run: Run, agents: int) -> list[str]:
    """List what to type; options that are as usual, and a time that has passed, are left out."""
    words = [shlex.quote(run.workflow_id or run.job or run.id)]
    if run.goal:
        words += ["--goal", shlex.quote(run.goal)]
    if run.options.chain_name:
        words += ["--chain", shlex.quote(run.options.chain_name)]
    else:
        words += [word for name in run.chain for word in ("--agent", shlex.quote(name))]
    if agents > 1 and run.workflow_id:
        words += ["--agents", str(agents)]
    usual, given = RunOptions(), run.options
    for name in ("max_usd", "stall_minutes", "minutes", "resumes", "wait_at_limit"):
        if getattr(given, name) != getattr(usual, name):
            words += [f"--{name.replace('_', '-')}", f"{getattr(given, name):g}"]
    words += [
        f"--{name.replace('_', '-')}" for name in ("land", "without_dependencies") if getattr(given, name)
    ]
    return words


def judge_attempt(facts: AttemptFacts) -> Standing:
    """Judge an attempt of an agent."""
    attempt = facts.attempt
    if attempt.stage.is_final:
        return _judge_ended_attempt(attempt)
    if waits := _judge_waiting_attempt(facts):
        return waits
    if not facts.is_driven:
        return Standing(State.UNATTENDED, Cause.RUNNER_GONE, "", _continue_attempt(facts))
    if attempt.wish is AttemptWish.CONTINUE:
        return Standing(State.PARKED)
    if attempt.stage is AttemptStage.PARKED:
        return Standing(State.PARKED, Cause.LIMIT, format_until(attempt.not_before))
    cause = Cause.STOPPING if attempt.wish else _CAUSES_OF_STAGES.get(attempt.stage)
    return Standing(State.RUNNING, cause)


def _judge_waiting_attempt(facts: AttemptFacts) -> Standing | None:
    """Judge an attempt that waits for a person; None if it does not."""
    attempt, reason = facts.attempt, _first_line(facts.attempt.reason)
    if attempt.stage is AttemptStage.REVIEWING or attempt.parked_for is ParkedFor.PERSON:
        next = _choose_person_command(facts)
        cause = Cause.APPROVAL if facts.approval_id else Cause.PERSON
        return Standing(State.NEEDS_YOU, cause, reason, next)
    if attempt.parked_for in (ParkedFor.TRUST, ParkedFor.BUDGET):
        return _judge_refused_attempt(facts)
    if attempt.parked_for in _CAUSES_OF_HOLDS and attempt.wish is not AttemptWish.CONTINUE:
        cause, next = _CAUSES_OF_HOLDS[attempt.parked_for], Command.GIVE_BACK.about(attempt.id)
        return Standing(State.NEEDS_YOU, cause, reason, next)
    return None


_CAUSES_OF_HOLDS: Mapping[ParkedFor | None, Cause] = {
    ParkedFor.PAUSED: Cause.PAUSED,
    ParkedFor.TAKEN: Cause.TAKEN,
}


def _judge_refused_attempt(facts: AttemptFacts) -> Standing:
    """Judge an attempt that goes on as soon as a person trusts its checks, or raises its budget."""
    reason = facts.attempt.reason
    if facts.attempt.parked_for is ParkedFor.TRUST:
        command = (reason or "").rpartition("\n")[2]
        return Standing(State.NEEDS_YOU, Cause.CHECK, _first_line(reason), command)
    return Standing(State.NEEDS_YOU, Cause.BUDGET, _first_line(reason), _raise_budget(facts))


_CAUSES_OF_STAGES: Mapping[AttemptStage, Cause] = {
    AttemptStage.CHECKING: Cause.CHECK,
    AttemptStage.LANDING: Cause.LANDING,
}


def _judge_ended_attempt(attempt: Attempt) -> Standing:
    if attempt.stage in FAILED_STAGES:
        return FAILED
    return DONE if attempt.stage is AttemptStage.DONE else STOPPED


def _choose_person_command(facts: AttemptFacts) -> str:
    if facts.approval_id:
        return Command.APPROVE.about(facts.approval_id)
    return _continue_attempt(facts)


def _continue_attempt(facts: AttemptFacts) -> str:
    return _continue(facts.run) if facts.run else Command.ATTACH.about(facts.attempt.run_id)


def _raise_budget(facts: AttemptFacts) -> str:
    """Return the command that raises what is used up: the run's limit, or the budget of the plan or task."""
    attempt = facts.attempt
    if facts.run and _has_spent_all(facts.run):
        return Command.RAISE_RUN.about(attempt.run_id)
    if attempt.workflow_id is None:
        return _continue_attempt(facts)
    return Command.SET_BUDGET.about(attempt.workflow_id if facts.is_plan_used_up else attempt.task_id)


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0][:200]


# Landings


@dataclass(frozen=True, slots=True)
class LandingFacts:
    """A landing."""

    landing: Landing
    is_held: bool = False
    """Whether a process has the right to move its branch now."""
    approval_id: str | None = None
    run: Standing | None = None
    """The open run of its plan."""


def judge_landing(facts: LandingFacts) -> Standing:
    """Judge a landing."""
    landing = facts.landing
    if landing.status is LandingStatus.LANDED:
        return LANDED
    if landing.status is LandingStatus.CANCELLED:
        return STOPPED
    if landing.status is LandingStatus.WAITING:
        next = Command.APPROVE.about(facts.approval_id) if facts.approval_id else _land_again(facts)
        return Standing(State.NEEDS_YOU, Cause.APPROVAL, "", next)
    if landing.status is LandingStatus.RETURNED:
        again = Command.RUN.about(landing.workflow_id) if landing.workflow_id else None
        continues = facts.run.next if facts.run is not None else again
        return Standing(State.WAITING, _find_problem(landing.problem), "", continues)
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
