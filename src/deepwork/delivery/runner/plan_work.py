"""What the runner does with plans and agents, in calls that are recorded as those of every interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from deepwork.delivery.runner.models import Attempt
from deepwork.delivery.runner.profiles import COMMAND_KIND, AgentProfile
from deepwork.kernel.vendors import RUNTIMES
from deepwork.work.agents.models import Runtime
from deepwork.work.plans.models import TaskStatus
from deepwork.work.plans.responses import Claimed

_MAX_OUTCOME, _MAX_REASON = 4000, 500
_MAX_NAME = 60


class Perform(Protocol):
    """Calls an operation with its audit entry; takes and returns the values of its method."""

    def __call__(self, operation: str, arguments: Mapping[str, Any], /) -> Any: ...


class PlanWork:
    """Registers the agents of attempts, and claims, completes and releases their tasks."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    def register_agent(self, attempt_id: str, profile: AgentProfile) -> str:
        """Register the agent of a new attempt, and return its id."""
        name = profile.name if profile.kind != COMMAND_KIND else COMMAND_KIND
        agent = {
            "name": f"{name[:_MAX_NAME]} {attempt_id}",
            "runtime": Runtime(RUNTIMES.get(profile.kind, Runtime.CUSTOM)),
            "metadata": {"attempt": attempt_id},
        }
        return str(self._perform("agent_register", agent).id)

    def unregister_agent(self, agent_id: str) -> None:
        """Let the agent of an attempt end; its claims are released."""
        self._perform("agent_unregister", {"id": agent_id})

    def claim(self, task_id: str, agent_id: str) -> Claimed:
        """Claim and start a task, unless another agent holds it."""
        wanted = {"task_id": task_id, "agent_id": agent_id, "start": True}
        claimed: Claimed = self._perform("task_claim", wanted)
        return claimed

    def release(self, attempt: Attempt, reason: str) -> None:
        """Let others take the task of an attempt."""
        given = {"task_id": attempt.task_id, "agent_id": attempt.agent_id, "reason": reason[:_MAX_REASON]}
        self._perform("task_release", given)

    def complete(self, attempt: Attempt, outcome: str) -> None:
        """Complete the task of an attempt; raises GateClosed."""
        self._update(attempt, status=TaskStatus.COMPLETED, outcome=outcome[:_MAX_OUTCOME])

    def fail(self, attempt: Attempt, error: str) -> None:
        """Let the task of an attempt fail."""
        self._update(attempt, status=TaskStatus.FAILED, error=error[:_MAX_OUTCOME])

    def _update(self, attempt: Attempt, **given: Any) -> None:
        holder = {"agent_id": attempt.agent_id, "claim_epoch": attempt.claim_epoch}
        self._perform("task_update_status", {"id": attempt.task_id, **given, **holder})

    def set_parallelism(self, workflow_id: str, tasks: int) -> None:
        """Set how many tasks of a plan may run in parallel."""
        self._perform("workflow_set_parallelism", {"id": workflow_id, "max_parallel_tasks": tasks})

    def load_context(self, task_id: str) -> Mapping[str, Any]:
        """Load what an agent needs to know about a task, within a budget of tokens."""
        context: Mapping[str, Any] = self._perform("task_load_context", {"task_id": task_id})
        return context
