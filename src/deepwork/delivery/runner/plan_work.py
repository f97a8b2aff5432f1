"""Tasks of plans, as work for attempts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from deepwork.delivery.runner.models import Attempt, Run
from deepwork.delivery.runner.profiles import COMMAND_KIND, AgentProfile, is_command_line
from deepwork.delivery.runner.prompts import PromptContent, build_prompt
from deepwork.delivery.runner.store import AttemptStore
from deepwork.delivery.runner.work_sources import StepBudget, WorkPlace
from deepwork.delivery.runner.workspace_setup import WorkspaceSettings, find_project_folder
from deepwork.kernel.call import current_call, use_call
from deepwork.kernel.config import STATE_FOLDER, TMP_FOLDER
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.files.private import make_private_folder, make_state_folder
from deepwork.kernel.files.repositories import find_tree_root
from deepwork.kernel.values import copy_with
from deepwork.kernel.vendors import RUNTIMES
from deepwork.work.agents.models import Runtime
from deepwork.work.plans.interfaces import TaskWorkspace
from deepwork.work.plans.models import Task, TaskStatus, Workflow, list_required_checks
from deepwork.work.plans.responses import Claimed
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.wishes.models import PLAN_VARIABLE, VERDICT_VARIABLE, WishRole
from deepwork.work.wishes.store import find_role
from deepwork.work.workspaces.models import WorkspaceStatus, build_slug
from deepwork.work.workspaces.repositories import WORKTREES
from deepwork.work.workspaces.service import WorkspaceService

if TYPE_CHECKING:
    from deepwork.work.plans.inputs import Plan

_MAX_OUTCOME, _MAX_REASON = 4000, 500
_MAX_NAME = 60


def locate_answer(tree: Path, attempt_id: str) -> Path:
    """Return the file in which a planner or reviewer writes what it cannot say otherwise."""
    return tree / TMP_FOLDER / f"answer_{attempt_id}.json"


class Perform(Protocol):
    """Calls an operation with its audit entry; takes and returns the values of its method."""

    def __call__(self, operation: str, arguments: Mapping[str, Any], /) -> Any: ...


class PlanWork:
    """Registers the agents of attempts, and claims, completes and releases their tasks."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    def register_agent(self, attempt_id: str, profile: AgentProfile, task: str) -> str:
        """Register the agent of a new attempt, and return its id; people know it by its profile and task."""
        name = COMMAND_KIND if is_command_line(profile.name) else profile.name
        agent = {
            "name": f"{name[:_MAX_NAME]} · {task[:_MAX_NAME]}",
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

    def set_plan(self, workflow_id: str, plan: Plan) -> None:
        """Set the plan that a planner wrote; raises what the tool raises."""
        self._perform("workflow_set_plan", {"id": workflow_id, "plan": plan})

    def close_tree(self, workspace_id: str) -> None:
        """Remove the tree of a task that changed nothing; its branch stays."""
        self._perform("workspace_update", {"id": workspace_id, "status": WorkspaceStatus.ABANDONED})

    def load_context(self, task_id: str) -> Mapping[str, Any]:
        """Load what an agent needs to know about a task, within a budget of tokens."""
        context: Mapping[str, Any] = self._perform("task_load_context", {"task_id": task_id})
        return context


class PlannedTasks:
    """Tasks of plans; each is worked on in a worktree of its own."""

    def __init__(
        self,
        database: Database,
        plans: PlanWork,
        workspaces: WorkspaceService,
        load_workspace_settings: Callable[[], WorkspaceSettings],
    ) -> None:
        self._database, self._plans, self._workspaces = database, plans, workspaces
        self._load_workspace_settings = load_workspace_settings

    def load(self, tx: Transaction, attempts: Sequence[Attempt]) -> Mapping[str, Task]:
        """Return the tasks of attempts."""
        return TaskStore(tx).find_by_ids([attempt.task_id for attempt in attempts])

    def preview(self, run: Run, task_id: str) -> tuple[str, WorkPlace]:
        """Return a task's name, and where it would be worked on."""
        with self._database.reading() as tx:
            task = TaskStore(tx).get(task_id)
            known = self._workspaces.find_for_task(tx, task)
        name, main = build_slug(task.name, task.id), Path(run.repository_path)
        top = find_tree_root(main) or main
        tree = Path(known.path or "") if known else top / WORKTREES / name
        branch = (known.branch if known else None) or f"deepwork/{name}"
        return task.name, WorkPlace(main, tree, tree / main.relative_to(top), branch)

    def provide_place(self, attempt: Attempt) -> WorkPlace:
        """Return the tree of the task, which is never that of the person."""
        workflow, task = self._load_task(attempt)
        found = self._provide_tree(workflow, task)
        main, tree = Path(workflow.repository_path or ""), Path(found.path or "")
        self._provide_answer_folder(attempt, tree)
        return WorkPlace(main, tree, find_project_folder(main, tree), found.branch or "")

    def _provide_answer_folder(self, attempt: Attempt, tree: Path) -> None:
        """Make the folder in which a planner or reviewer writes its answer; git does not see it."""
        with self._database.reading() as tx:
            _, role = find_role(tx, attempt.workflow_id, attempt.task_id)
        if role is not None:
            make_state_folder(tree / STATE_FOLDER)
            make_private_folder(tree / TMP_FOLDER)

    def _provide_tree(self, workflow: Workflow, task: Task) -> TaskWorkspace:
        outcomes: list[Any] = []
        with use_call(copy_with(current_call(), outcomes=outcomes)), self._database.transaction() as tx:
            place = self._workspaces.provide_for_task(tx, workflow, task, others=1, is_required=True)
        found = next((each for each in reversed(outcomes) if isinstance(each, TaskWorkspace)), place)
        if found is None or found.path is None or not Path(found.path).is_dir():
            problem = found.problem if found else f"Plan {workflow.id} has no repository."
            raise NotAllowed(
                f"There is no worktree for task {task.name!r}. {problem or ''}".strip(),
                suggestion="An agent needs a git repository with at least one commit.",
            )
        return found

    def build_prompt(self, attempt: Attempt) -> str:
        """Build the prompt of a first start, or of one that continues no session."""
        workflow, task = self._load_task(attempt)
        with self._database.reading() as tx:
            earlier = [each for each in AttemptStore(tx).list_of_task(task.id) if each.id != attempt.id]
        content = PromptContent(
            workflow=workflow,
            task=task,
            context=self._plans.load_context(task.id),
            tree=attempt.tree or "",
            folder=str(find_project_folder(Path(workflow.repository_path or ""), Path(attempt.tree or ""))),
            branch=attempt.branch or "",
            checks=list_required_checks(workflow.requirements, task.requirements),
            needs_changes=not (task.requirements and task.requirements.changes == "none"),
            has_mcp=attempt.vendor != COMMAND_KIND,
            agent_id=attempt.agent_id,
            claim_epoch=attempt.claim_epoch,
            port=attempt.port,
            ports=self._load_workspace_settings().ports,
            earlier=earlier[-1].reason if earlier else None,
            missing=self._workspaces.explain_missing(task.id),
        )
        return build_prompt(content)

    def list_variables(self, attempt: Attempt) -> Mapping[str, str]:
        """Return where a planner or reviewer may write its answer; others need no variables of their own."""
        with self._database.reading() as tx:
            _, role = find_role(tx, attempt.workflow_id, attempt.task_id)
        if role is None:
            return {}
        variable = PLAN_VARIABLE if role is WishRole.PLANNER else VERDICT_VARIABLE
        return {variable: str(locate_answer(Path(attempt.tree or ""), attempt.id))}

    def find_budget(self, attempt: Attempt) -> StepBudget | None:  # noqa: ARG002
        """Return None: plans know the budgets of their tasks."""
        return None

    def _load_task(self, attempt: Attempt) -> tuple[Workflow, Task]:
        with self._database.reading() as tx:
            task = TaskStore(tx).get(attempt.task_id)
            workflow = PlanStore(tx).get(task.workflow_id)
            return self._workspaces.repositories.localize(tx, workflow), task
