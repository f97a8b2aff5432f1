"""Runs, attempts, and what agents signal.

The frequent signals are named tuples: building one takes a fifth of the time of a frozen dataclass.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, NamedTuple

from deepwork.kernel.records import dataclass
from deepwork.kernel.values import CaseInsensitiveEnum

SESSION_TOTAL: Final = ""
"""Key of a total of the vendor's session: it goes on counting when the session is resumed."""
START_TOTAL: Final = "start"
"""Key of a total of one start; `start/…` is that of a part of it, such as a model."""


class SessionStarted(NamedTuple):
    """The vendor's session is known: a resume names it."""

    session_id: str
    model: str | None = None


class ToolStarted(NamedTuple):
    """The agent uses a tool; `detail` is its command, path or query."""

    id: str
    name: str
    detail: str = ""


class ToolEnded(NamedTuple):
    """A tool answered."""

    id: str


class Said(NamedTuple):
    """The agent wrote text; the last one is its outcome."""

    text: str
    is_delta: bool = False
    """Whether it continues the text before."""


class UsageReported(NamedTuple):
    """What the model used. A key counts once, with its highest figures."""

    key: str
    input: int
    """Without those from the cache."""
    cached: int
    output: int
    usd_micros: int | None = None
    model: str | None = None
    is_total: bool = False
    """Whether the figures are all of a session or start, so that the difference to those before counts."""
    context: int | None = None
    """How many tokens the model has read for its last answer, with those of the answer, if that is known."""


@dataclass(frozen=True)
class LimitReached:
    """The vendor refuses work until a time, in Unix milliseconds; None when it did not say."""

    resets_at: int | None
    message: str
    scope: str = ""
    """Which limit, such as `five_hour`."""


@dataclass(frozen=True)
class TransientFailure:
    """An overload or a broken connection: the same session may go on."""

    message: str


@dataclass(frozen=True)
class Ended:
    """The vendor's own result. It says nothing about whether the task is done."""

    is_error: bool
    text: str = ""
    reason: str = ""


class TranscriptPart(NamedTuple):
    """A part of what an agent did and said, as people read it; the same for every vendor."""

    kind: str
    """`session`, `said`, `thought`, `tool`, `result`, `output`, `note`, `limit`, `failure` or `end`."""
    text: str = ""
    tool_id: str = ""
    name: str = ""
    is_error: bool = False
    is_delta: bool = False
    """Whether it continues the text before."""


Signal = (
    SessionStarted | ToolStarted | ToolEnded | Said | UsageReported | LimitReached | TransientFailure | Ended
)


class RunStatus(CaseInsensitiveEnum):
    ACTIVE = "active"
    PAUSED = "paused"  # starts nothing; agents go on
    STOPPING = "stopping"  # starts nothing; ends when the agents have ended
    ENDING = "ending"  # ends its agents now
    DONE = "done"
    NEEDS_PERSON = "needs_person"
    STOPPED = "stopped"

    @property
    def is_final(self) -> bool:
        """Whether the run has ended."""
        return self in (RunStatus.DONE, RunStatus.NEEDS_PERSON, RunStatus.STOPPED)


class AttemptStage(CaseInsensitiveEnum):
    """Where an attempt is."""

    CLAIMED = "claimed"
    PREPARING = "preparing"
    RUNNING = "running"
    PARKED = "parked"
    CHECKING = "checking"
    REVIEWING = "reviewing"
    LANDING = "landing"
    DONE = "done"
    FAILED = "failed"
    STALLED = "stalled"
    HANDED_OVER = "handed_over"
    STOPPED = "stopped"

    @property
    def is_final(self) -> bool:
        """Whether the attempt has ended."""
        return self in FINAL_STAGES


FINAL_STAGES = frozenset(
    {
        AttemptStage.DONE,
        AttemptStage.FAILED,
        AttemptStage.STALLED,
        AttemptStage.HANDED_OVER,
        AttemptStage.STOPPED,
    }
)
NOT_LANDED = "Its work was not landed:"
"""Begins the reason of an attempt whose task is done, but could not even be queued to land."""
TIME_IS_OVER = "The time of the run is over."
"""The reason of a run that ended at the moment of `--until`."""
FAILED_STAGES = frozenset({AttemptStage.FAILED, AttemptStage.STALLED, AttemptStage.HANDED_OVER})
"""The stages of attempts that count against `max_attempts`."""


class ParkedFor(CaseInsensitiveEnum):
    """What a parked attempt waits for."""

    LIMIT = "limit"
    PERSON = "person"
    TRUST = "trust"  # of its checks, by a person; the last line of the reason is the command
    BUDGET = "budget"
    PAUSED = "paused"  # a person stopped its agent for a while
    TAKEN = "taken"  # a person works in its session and its tree

    @property
    def is_held(self) -> bool:
        """Whether a person keeps the attempt, and says when it continues."""
        return self in (ParkedFor.PAUSED, ParkedFor.TAKEN)


class AttemptWish(CaseInsensitiveEnum):
    """What a person wants of an attempt, until its runner has done it."""

    PAUSE = "pause"
    TAKE = "take"
    STOP = "stop"
    CONTINUE = "continue"


class ProcessState(CaseInsensitiveEnum):
    """What is known of one start of an agent.

    `not_started`: no agent of it has run, so it may be started. `running`: its shim runs. `exited`: it is
    over and nothing of it runs. `vanished`: its shim was killed, and the agent dies with it; what the agent
    started may run until `end_process`. `rebooted`: the machine was started again, so nothing of it runs.
    """

    NOT_STARTED = "not_started"
    RUNNING = "running"
    EXITED = "exited"
    VANISHED = "vanished"
    REBOOTED = "rebooted"


@dataclass(frozen=True, slots=True)
class Observation:
    """What a start does, or how it ended.

    `reason` of an exited one: `exited` by itself, `timeout` at its deadline, `failed` to be executed,
    `stopped` by a signal: from us, or from a machine that shuts down. `code` is negative for a signal. `left`
    is the number of processes that could not be ended. `ended_at` is in Unix milliseconds.
    """

    state: ProcessState
    code: int | None = None
    reason: str = ""
    cpu_ms: int | None = None
    ended_at: int | None = None
    left: int = 0


class RunEvent(CaseInsensitiveEnum):
    """Event types of runs; the payload is the run or the attempt as REST shows it."""

    STARTED = "run:started"
    UPDATED = "run:updated"
    ENDED = "run:ended"
    ATTEMPT_STARTED = "attempt:started"
    ATTEMPT_UPDATED = "attempt:updated"
    ATTEMPT_ENDED = "attempt:ended"
    ATTEMPT_PROGRESS = "attempt:progress"


@dataclass(frozen=True)
class RunOptions:
    """What a person chose for a run; stored with it."""

    max_usd: float | None = None
    until: int | None = None
    """A moment in Unix milliseconds after which nothing starts, and agents are ended."""
    stall_minutes: float = 15.0
    minutes: float = 240.0
    """How long one process of an agent may run."""
    resumes: int = 10
    """How often one attempt goes on after an interruption, a failed request or a limit."""
    wait_at_limit: float = 720.0
    """How many minutes an attempt waits for one limit at most."""
    max_unreviewed: int | None = None
    land: bool = False
    without_dependencies: bool = False
    """Whether tasks begin although work of their dependencies is on other machines."""
    chain_name: str | None = None
    """The chain of profiles that was named, if one was."""


@dataclass(frozen=True)
class Run:
    """A plan or a job that agents work on; times are Unix milliseconds."""

    id: str
    workflow_id: str | None
    job: str | None
    goal: str | None
    session_id: str | None
    repository_path: str
    status: RunStatus
    chain: tuple[str, ...]
    """Names of profiles, or commands: who takes over from whom."""
    options: RunOptions
    reason: str | None
    created_by: str
    created_at: int
    updated_at: int
    ended_at: int | None = None


@dataclass(frozen=True)
class Attempt:
    """One agent's work on one task: one process after another, until it is done or has failed."""

    id: str
    run_id: str
    workflow_id: str | None
    task_id: str
    number: int
    profile: str
    vendor: str
    agent_id: str
    claim_epoch: int
    stage: AttemptStage
    host: str
    created_at: int
    updated_at: int
    parked_for: ParkedFor | None = None
    reason: str | None = None
    not_before: int | None = None
    boot_id: str | None = None
    pid: int | None = None
    start_time: str | None = None
    tree: str | None = None
    branch: str | None = None
    port: int | None = None
    vendor_session: str | None = None
    starts: int = 0
    resumes: int = 0
    waits: int = 0
    """How often in a row it was parked at a limit without a reset."""
    stream_offset: int = 0
    stream_state: str = "{}"
    """What the stream said up to there, as JSON."""
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    usd_micros: int = 0
    usd_source: str | None = None
    now_doing: str | None = None
    next_prompt: str | None = None
    outcome: str | None = None
    started_at: int | None = None
    active_at: int | None = None
    cpu_ms: int = 0
    entries: int = 0
    """How many lines of the ledger it has."""
    exhausted: int = 0
    """1 if the task failed with it for good; if a person lets it be tried again, only later ones count."""
    ended_at: int | None = None
    interrupted_by: str | None = None
    """The person for whose words its agent is to be interrupted, or who paused or took the attempt."""
    wish: AttemptWish | None = None
    """What that person wants; None if only that the words are heard, or if it was done."""

    @property
    def tokens(self) -> int:
        """All tokens, read or written."""
        return self.input_tokens + self.cached_tokens + self.output_tokens

    @property
    def model(self) -> str | None:
        """The model that the stream names, else that of the profile; None if neither does."""
        found: str | None = json.loads(self.stream_state).get("model")
        return found


@dataclass(frozen=True)
class RunRequest:
    """What a person asks for; the project's config.yml says the rest."""

    agents: tuple[str, ...] = ()
    """Names of profiles, or commands, in the order in which they take over."""
    chain: str | None = None
    parallel: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    """The fields of `RunOptions` that were given."""


class WorkStatus(CaseInsensitiveEnum):
    """How `deepwork work --once` ended."""

    WORKED = "worked"
    NOTHING = "nothing"
    PARKED = "parked"
    FAILED = "failed"


@dataclass(frozen=True)
class WorkResult:
    """What one attempt came to."""

    status: WorkStatus
    attempt: Attempt | None = None
    reason: str | None = None
