"""What every interface says about a thing: its state, why, and the command that moves it on."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from deepwork.kernel.values import format_timestamp


class State(StrEnum):
    """Where a thing is; docs/glossary.md has the table for people."""

    WAITING = "waiting"  # for other tasks, or for its plan
    READY = "ready"  # can be claimed now
    RUNNING = "running"  # an agent works on it, seen alive
    NEEDS_YOU = "needs_you"  # a person's turn
    PARKED = "parked"  # continues by itself at a time that is named
    UNATTENDED = "unattended"  # nobody drives it
    DONE = "done"  # completed, not landed
    LANDED = "landed"
    FAILED = "failed"
    STOPPED = "stopped"


class Cause(StrEnum):
    """Why a thing has its state: the code before the colon in `because`."""

    TASKS = "tasks"  # other tasks are open
    PLAN = "plan"  # its plan lets no task start
    NO_TASKS = "no_tasks"  # the plan has none yet
    APPROVAL = "approval"
    REFUSED = "refused"  # a person refused it
    CHECK = "check"
    REVIEW = "review"
    LIMIT = "limit"  # a vendor's usage limit
    BUDGET = "budget"
    PERSON = "person"
    BLOCKER = "blocker"  # an agent asked for a person
    PAUSED = "paused"
    TAKEN = "taken"  # a person works in the session of its agent
    STOPPING = "stopping"
    RUNNER_GONE = "runner_gone"  # no process drives the run
    RUNNER_UNKNOWN = "runner_unknown"  # another machine drives it, or nobody: it has not been heard of
    AGENT_GONE = "agent_gone"
    WORK_ELSEWHERE = "work_elsewhere"  # the work is on another machine
    ATTEMPTS_USED_UP = "attempts_used_up"
    FAILED_TASKS = "failed_tasks"
    NOT_STARTED = "not_started"  # planned, and no person has let it begin
    FINDINGS = "findings"  # of a final review
    LANDING = "landing"
    CONFLICT = "conflict"
    BRANCH = "branch"  # it cannot be moved
    SKIPPED = "skipped"


class Command(StrEnum):
    """The commands that move things on; `about` fills in the id."""

    APPROVE = "deepwork approvals approve {}"
    REFUSE = "deepwork approvals refuse {} --comment TEXT"
    ANSWER = "deepwork answer {} TEXT"
    RETRY = "deepwork tasks retry {}"
    TRUST = "deepwork trust"
    RESUME_TASK = "deepwork tasks update-status {} in_progress --as-person"
    LAND = "deepwork land {}"
    CANCEL_LANDING = "deepwork landings cancel {}"
    RUN = "deepwork run {}"
    DO = "deepwork do {}"
    REPORT = "deepwork report {}"
    ATTACH = "deepwork runs attach {}"
    RESUME_RUN = "deepwork runs resume {}"
    GIVE_BACK = "deepwork runs give-back {}"
    RAISE_RUN = "deepwork runs set {} --max-usd N"
    WORK = "deepwork work --once --plan {}"
    RESUME_PLAN = "deepwork plans update-status {} in_progress"
    SET_PLAN = "deepwork plans set-plan {} FILE"
    SPEND = "deepwork spend --by day"
    SET_BUDGET = "deepwork budget set {} --usd N"
    PASS_STEP = "deepwork sessions pass {}"  # noqa: S105 - a command
    RESUME_SESSION = "deepwork sessions resume {}"
    PASS_REVIEW = "deepwork review pass {}"  # noqa: S105 - a command
    ABANDON = "deepwork track abandon-task {} REASON"
    COMPLETE_TRACK = "deepwork track complete-workflow {} STATUS SUMMARY"

    def about(self, id: str) -> str:
        """Return the command for this thing."""
        return self.value.format(id)


class Standing(NamedTuple):
    """A thing's state, why it has it, and the command that moves it on; None if nothing is to be done."""

    state: State
    cause: Cause | None = None
    detail: str = ""
    next: str | None = None

    @property
    def goes_on(self) -> bool:
        """Whether an agent works on it, or can."""
        return self.state in (State.RUNNING, State.READY)

    @property
    def because(self) -> str | None:
        """`code` or `code: detail`; None if there is nothing to say."""
        if self.cause is None:
            return None
        return f"{self.cause.value}: {self.detail}" if self.detail else self.cause.value

    def to_answer(self) -> dict[str, str | None]:
        """Return the keys that every interface adds to a thing."""
        return {"state": self.state.value, "because": self.because, "next": self.next}


DONE, LANDED = Standing(State.DONE), Standing(State.LANDED)
RUNNING = Standing(State.RUNNING)
FAILED, STOPPED = Standing(State.FAILED), Standing(State.STOPPED)


def format_until(moment: int | None) -> str:
    """Say until when a thing is parked, as a detail of why; empty if that is not known."""
    return f"until {format_timestamp(moment)}" if moment else ""
