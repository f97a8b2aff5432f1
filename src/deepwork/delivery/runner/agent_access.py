"""Which agent of a run is at the other end of a connection: a token is good for one claim of one start.

A token names its attempt, the start and the epoch of the claim, with a digest of these, the agent and the
task, made with the key of the store: no file is compared with it, so none can forge it. What it allows is
read from the store for each call, so it ends with the claim, with the start and with the attempt. A runner
that has to claim the task again, such as after an outage, writes the token of the new epoch into the file.
"""

from __future__ import annotations

import hmac
import json
import re
from enum import Enum, auto
from pathlib import Path

from deepwork.delivery.runner.attempt_files import AttemptFiles, read_record
from deepwork.delivery.runner.models import Attempt, AttemptStage
from deepwork.delivery.runner.processes import read_boot_id
from deepwork.delivery.runner.store import AttemptStore
from deepwork.kernel.database.store_key import StoreKey
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import Code, NotAllowed
from deepwork.kernel.files.private import write_atomically
from deepwork.kernel.records import dataclass
from deepwork.kernel.supervision import supervisor
from deepwork.work.agents.models import Lease
from deepwork.work.agents.store import LeaseStore
from deepwork.work.plans.models import TaskStatus
from deepwork.work.plans.stores.claim_store import ClaimStore
from deepwork.work.wishes.models import WishRole
from deepwork.work.wishes.store import find_role

_TOKEN_PATTERN = re.compile(
    r"(at_[0-9a-z]{12})\.([1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,17})\.[0-9a-f]{64}", re.ASCII
)
_WORKING = (AttemptStage.PREPARING, AttemptStage.RUNNING)
_MAX_ANCESTORS = 1000


@dataclass(frozen=True)
class Grant:
    """The one agent, task and claim that a connection may act for."""

    attempt_id: str
    agent_id: str
    task_id: str
    """A planned task, or `SESSION/STEP` of a job."""
    claim_epoch: int
    workflow_id: str | None
    """The plan; None for a step of a job."""
    tree: Path
    role: WishRole | None = None
    """What the agent is for a wish: a planner or a reviewer."""
    planned_id: str | None = None
    """The plan that a planner makes."""

    @property
    def session_id(self) -> str | None:
        """The session of the job."""
        return None if self.workflow_id is not None else self.task_id.partition("/")[0]

    @property
    def step_id(self) -> str | None:
        """The step of the job."""
        return None if self.workflow_id is not None else self.task_id.partition("/")[2]


def build_token(key: StoreKey, attempt: Attempt, starts: int, epoch: int) -> str:
    """Build the token of one claim of one start."""
    facts = [attempt.id, starts, attempt.agent_id, attempt.task_id, epoch]
    return f"{attempt.id}.{starts}.{epoch}.{key.compute_digest(f'agent token:{json.dumps(facts)}')}"


def build_bridge_file(key: StoreKey, attempt: Attempt, socket: Path) -> str:
    """Build what an agent's bridge reads: where the server is, and the token of the attempt's claim."""
    token = build_token(key, attempt, attempt.starts, attempt.claim_epoch)
    return json.dumps({"socket": str(socket), "token": token})


def update_bridge_file(key: StoreKey, attempt: Attempt, files: AttemptFiles, socket: Path) -> None:
    """Let the bridges of a running agent find another socket, or the token of another claim."""
    found, content = read_record(files.bridge), build_bridge_file(key, attempt, socket)
    if found is not None and found != json.loads(content):
        write_atomically(files.bridge, content.encode(), is_durable=False)


class TokenClaim(Enum):
    """What became of the claim that a token was made for."""

    HELD = auto()
    """The agent has it, or has ended it by what it reported."""
    INTERRUPTED = auto()
    """It ran out, and nobody has the task; or the runner has claimed the task again for the same agent."""
    LOST = auto()


def judge_claim(attempt: Attempt, epoch: int, lease: Lease | None, *, is_reported: bool) -> TokenClaim:
    """Judge the claim of a token; `is_reported`: the task has a result, so its claim did not just run out."""
    if lease is None or lease.was_taken_away or lease.who not in (None, attempt.agent_id):
        return TokenClaim.LOST
    if lease.who is None and lease.epoch != epoch:
        return TokenClaim.LOST
    is_current = epoch == lease.epoch == attempt.claim_epoch
    return TokenClaim.HELD if is_current and (lease.who or is_reported) else TokenClaim.INTERRUPTED


class AgentAccess:
    """Recognises the agents of this project's runs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find_grant(self, token: object, peer: int | None = None) -> Grant:
        """Return what the token allows now; raises NotAllowed if it is wrong or has ended.

        `peer` is the process that presents it, if that is known: it must belong to the agent.
        """
        with self._database.reading() as tx:
            attempt = require_valid(tx, token)
            wish, role = find_role(tx, attempt.workflow_id, attempt.task_id)
        if peer is not None:
            _require_of_agent(peer, attempt)
        return Grant(
            attempt_id=attempt.id,
            agent_id=attempt.agent_id,
            task_id=attempt.task_id,
            claim_epoch=attempt.claim_epoch,
            workflow_id=attempt.workflow_id,
            tree=Path(attempt.tree or ""),
            role=role,
            planned_id=wish.plan_id if wish and role is WishRole.PLANNER else None,
        )


class AgentToken:
    """A token that was accepted, and may end at any time."""

    def __init__(self, access: AgentAccess, text: str) -> None:
        self._access, self._text = access, text

    def find_grant(self) -> Grant:
        """Return what it allows now; raises NotAllowed if it has ended."""
        return self._access.find_grant(self._text)

    def require_valid(self, tx: Transaction) -> None:
        """Raise NotAllowed if it has ended, by what this transaction sees."""
        require_valid(tx, self._text)


def require_valid(tx: Transaction, token: object) -> Attempt:
    """Return the attempt whose agent may act by this token; raises NotAllowed if there is none."""
    match = _TOKEN_PATTERN.fullmatch(token) if isinstance(token, str) else None
    attempt = AttemptStore(tx).find(match[1]) if match else None
    if match is None or attempt is None or not _is_genuine(tx, attempt, match):
        raise _build_refusal()
    if attempt.starts != int(match[2]) or attempt.stage not in _WORKING:
        raise _build_refusal()
    if attempt.workflow_id is None:  # nobody else can take a step
        return attempt
    lease = LeaseStore(tx, 0).find(attempt.task_id)
    is_reported = lease is not None and lease.who is None and _is_reported(tx, attempt.task_id)
    claim = judge_claim(attempt, int(match[3]), lease, is_reported=is_reported)
    if claim is not TokenClaim.HELD:
        raise _build_refusal(is_soon_over=claim is TokenClaim.INTERRUPTED)
    return attempt


def _is_reported(tx: Transaction, task_id: str) -> bool:
    """Whether a task without a holder has a result, or waits until a person has judged one."""
    state = ClaimStore(tx).find_state(task_id)
    return state is not None and state.status is not TaskStatus.PENDING


def _is_genuine(tx: Transaction, attempt: Attempt, match: re.Match[str]) -> bool:
    """Whether the token was made with the key of this store, also one that a restored backup brought."""
    starts, epoch = int(match[2]), int(match[3])
    if hmac.compare_digest(build_token(tx.store_key, attempt, starts, epoch), match[0]):
        return True
    return hmac.compare_digest(build_token(tx.read_store_key(), attempt, starts, epoch), match[0])


def _require_of_agent(pid: int, attempt: Attempt) -> None:
    """Raise unless the agent started the process: its shim adopts whatever loses its parent.

    Which process the shim is, the store says: files of an attempt can be written by other agents.
    """
    if attempt.pid is None or attempt.stage is AttemptStage.PREPARING:  # the runner stores it in a moment
        raise _build_refusal(is_soon_over=True)
    is_shim_alive = supervisor.read_start_time(attempt.pid) == attempt.start_time
    if attempt.boot_id != read_boot_id() or not is_shim_alive or not _is_below(pid, attempt.pid):
        raise _build_refusal()


def _is_below(pid: int, ancestor: int) -> bool:
    for _ in range(_MAX_ANCESTORS):
        if pid == ancestor or pid <= 1:
            return pid == ancestor
        pid = supervisor.read_parent(pid)
    return False


def _build_refusal(*, is_soon_over: bool = False) -> NotAllowed:
    if is_soon_over:
        return NotAllowed(
            "The claim of this agent was interrupted; its runner has not restored it yet.",
            code=Code.UNAUTHORIZED,
            recoverable=True,
            suggestion="Go on with your work and call again in a minute; the token of the new claim is in "
            "the file that $DEEPWORK_BRIDGE names.",
        )
    return NotAllowed(
        "This is not the token of an agent that is at work.",
        code=Code.UNAUTHORIZED,
        suggestion="End: the attempt is over, or its task was given to another agent. A token is good for "
        "one claim of the process that `deepwork run` started with it.",
    )
