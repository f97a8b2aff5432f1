"""Which agent of a run is at the other end of a connection: a token is good for one start of one attempt.

The token is in a private file of that start, beside the path of the socket. What it allows is read from the
store for each call, so it ends with the start, with the attempt, and when another agent gets the task.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from deepwork.agents.leases import LeaseStore
from deepwork.database.transaction import Database, Transaction
from deepwork.errors import Code, NotAllowed
from deepwork.files.atomic import write_atomically
from deepwork.runner.attempt_files import AttemptFiles, read_record
from deepwork.runner.models import Attempt, Stage
from deepwork.runner.processes import read_identity
from deepwork.runner.store import AttemptStore
from deepwork.supervision import supervisor

_TOKEN_PATTERN = re.compile(r"(at_[0-9a-z]{12})\.([1-9][0-9]{0,8})\.[\w-]{43}", re.ASCII)
_WORKING = (Stage.PREPARING, Stage.RUNNING)
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

    @property
    def session_id(self) -> str | None:
        """The session of the job."""
        return None if self.workflow_id is not None else self.task_id.partition("/")[0]

    @property
    def step_id(self) -> str | None:
        """The step of the job."""
        return None if self.workflow_id is not None else self.task_id.partition("/")[2]


def build_bridge_file(attempt: Attempt, socket: Path, token: str | None = None) -> str:
    """Build what an agent's bridge reads; with a new token, unless the start has one."""
    token = token or f"{attempt.id}.{attempt.starts}.{secrets.token_urlsafe(32)}"
    return json.dumps({"socket": str(socket), "token": token})


def move_bridge(attempt: Attempt, files: AttemptFiles, socket: Path) -> None:
    """Let the bridges of a running agent find another socket: its runner is now this process."""
    found = read_record(files.bridge)
    if found is None or found.get("socket") == str(socket):
        return
    content = build_bridge_file(attempt, socket, str(found.get("token")))
    write_atomically(files.bridge, content.encode(), is_durable=False)


class AgentAccess:
    """Recognises the agents of this project's runs."""

    def __init__(self, database: Database, state_folder: Path) -> None:
        self._database, self._state_folder = database, state_folder

    def find_grant(self, token: object, peer: int | None = None) -> Grant:
        """Return what the token allows now; raises NotAllowed if it is wrong or has ended.

        `peer` is the process that presents it, if that is known: it must belong to the agent.
        """
        match = _TOKEN_PATTERN.fullmatch(token) if isinstance(token, str) else None
        if match is None:
            raise _build_refusal()
        files = AttemptFiles.locate(self._state_folder, match[1], int(match[2]))
        known = str((read_record(files.bridge) or {}).get("token"))
        if not hmac.compare_digest(known.encode(), match[0].encode()):
            raise _build_refusal()
        with self._database.reading() as tx:
            attempt = AttemptStore(tx).find(match[1])
            if attempt is None or attempt.starts != int(match[2]) or not _is_working(tx, attempt):
                raise _build_refusal()
        if peer is not None and not _is_of_agent(peer, files):
            raise _build_refusal()
        return Grant(
            attempt_id=attempt.id,
            agent_id=attempt.agent_id,
            task_id=attempt.task_id,
            claim_epoch=attempt.claim_epoch,
            workflow_id=attempt.workflow_id,
            tree=Path(attempt.tree or ""),
        )


def _is_working(tx: Transaction, attempt: Attempt) -> bool:
    """Whether the agent of this attempt is at work, and nobody else got its task."""
    if attempt.stage not in _WORKING:
        return False
    lease = None if attempt.workflow_id is None else LeaseStore(tx, 0).find(attempt.task_id)
    if lease is None or lease.who == attempt.agent_id:
        return True
    return lease.who is None and lease.epoch == attempt.claim_epoch


def _is_of_agent(pid: int, files: AttemptFiles) -> bool:
    """Whether a process was started by the agent: its shim adopts whatever loses its parent."""
    shim = read_identity(files)
    for _ in range(_MAX_ANCESTORS):
        if shim is None or pid <= 1:
            return False
        if pid == shim.pid:
            return True
        pid = supervisor.read_parent(pid)
    return False


def _build_refusal() -> NotAllowed:
    return NotAllowed(
        "This is not the token of an agent that is at work.",
        code=Code.UNAUTHORIZED,
        suggestion="End: the attempt is over, or its task was given to another agent. A token is good for "
        "the process that `deepwork run` started with it.",
    )
