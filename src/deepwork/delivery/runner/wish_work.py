"""The two tasks of a wish whose agents change no file: planning it, and the final review of its work."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deepwork.delivery.runner.attempt_files import DamagedFiles, open_to_read
from deepwork.delivery.runner.models import Attempt
from deepwork.delivery.runner.plan_work import PlanWork, locate_answer
from deepwork.kernel.config import STATE_FOLDER
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.foreign_text import quote_line
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.refs import get_commit
from deepwork.kernel.git.uncommitted import list_uncommitted
from deepwork.kernel.values import copy_with
from deepwork.work.plans.models import Outline, PlanStatus, Task
from deepwork.work.plans.planning import Planner
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.wishes.models import MAX_FINDINGS, Wish, WishFinding, WishRole, find_object, parse_verdict
from deepwork.work.wishes.operations import add_review
from deepwork.work.wishes.planning import require_sound_plan
from deepwork.work.wishes.store import WishStore, find_role
from deepwork.work.workspaces.store import WorkspaceStore

_MAX_ANSWER_BYTES = 2_000_000
_MAX_NAMED = 5
_NO_PLAN = (
    "You ended without a plan. Hand one over with the tool workflow_set_plan of the MCP server deepwork, as a"
    " JSON object in your last message, or in the file that $DEEPWORK_PLAN names."
)
_NO_VERDICT = (
    'Your last message does not end with a JSON object that has `findings`: {"findings": []} if there is'
    " nothing to send back."
)
_FIX = "The final review of this plan found a fault in the work so far. This is what it says:"
_FIXED = (
    "Correct that, and nothing else.\n\n"
    "Done when: the fault is gone, and a test shows it where that is possible."
)


class WishWork:
    """Judges what planners and final reviewers leave, and hands it on."""

    def __init__(self, database: Database, plans: PlanWork, open_git: Callable[[Path], Git]) -> None:
        self._database, self._plans, self._open_git = database, plans, open_git

    def find_problem(self, attempt: Attempt) -> str | None:
        """Return why the work of a planner or reviewer cannot count; it can be repeated after a crash."""
        with self._database.reading() as tx:
            wish, role = find_role(tx, attempt.workflow_id, attempt.task_id)
            task = TaskStore(tx).get(attempt.task_id)
        if role is None or wish is None:
            return None
        if role is WishRole.PLANNER:  # its tree is thrown away, whatever it did there
            return self._take_plan(attempt, wish)
        if changed := self._list_changed(attempt, task):
            named = ", ".join(map(quote_line, changed[:_MAX_NAMED]))
            return f"You may change no file, but these are not as they were: {named}. Take that back."
        found = parse_verdict(_read_verdict(attempt) or attempt.outcome or "")
        if found is None:
            return _NO_VERDICT
        self._record_findings(attempt, found)
        return None

    def is_reading(self, attempt: Attempt) -> bool:
        """Return whether the agent plans or reviews for a wish, so that nothing of it is committed."""
        with self._database.reading() as tx:
            return find_role(tx, attempt.workflow_id, attempt.task_id)[1] is not None

    def close_tree(self, attempt: Attempt) -> None:
        """Remove the tree of a planner or reviewer: it has nothing that could land."""
        with self._database.reading() as tx:
            workspace = WorkspaceStore(tx).find_active(TaskStore(tx).get(attempt.task_id).workspace_id)
        if workspace is not None:
            self._plans.close_tree(workspace.id)

    def _list_changed(self, attempt: Attempt, task: Task) -> list[str]:
        tree = Path(attempt.tree or "")
        if not tree.is_dir():
            return []
        git = self._open_git(tree)
        changed = [path for path in list_uncommitted(git) if STATE_FOLDER not in Path(path).parts]
        with self._database.reading() as tx:
            workspace = WorkspaceStore(tx).find_active(task.workspace_id)
        is_moved = workspace and workspace.base_commit and get_commit(git, "HEAD") != workspace.base_commit
        return [*changed, *(["its last commit"] if is_moved else [])]

    # Planning

    def _take_plan(self, attempt: Attempt, wish: Wish) -> str | None:
        """Return what is wrong with the plan; that of a file is set as if the agent had called the tool."""
        with self._database.reading() as tx:
            if PlanStore(tx).get(wish.plan_id).status is not PlanStatus.PLANNING:
                return None
        from deepwork.work.plans.inputs import Plan  # noqa: PLC0415 - with pydantic, for agents without tools

        path = locate_answer(Path(attempt.tree or ""), attempt.id)
        try:
            plan = _read_plan(path) or find_object(attempt.outcome or "", "tasks")
            if plan is None:
                return _NO_PLAN
            require_sound_plan(self._database, wish.plan_id, plan)
            self._plans.set_plan(wish.plan_id, Plan.model_validate(plan))
        except DeepworkError as error:
            return f"The plan cannot be used: {error.message}"
        except ValueError as error:
            return f"The plan cannot be read: {error}"
        return None

    # Reviewing

    def _record_findings(self, attempt: Attempt, found: tuple[WishFinding, ...]) -> None:
        """Store what the review found; that of the first one becomes tasks, and then a second review."""
        with self._database.transaction() as tx:
            known = WishStore(tx).find_of_plan(attempt.workflow_id)
            wish = WishStore(tx).get(known.id, for_update=True) if known else None
            if wish is None or wish.review_tasks[-1:] != (attempt.task_id,):
                return  # this was recorded before a crash
            after: Wish = copy_with(wish, findings=found)
            if found and len(wish.review_tasks) == 1:
                after = _add_fixes(tx, after, TaskStore(tx).get(attempt.task_id))
            WishStore(tx).save(after)


def _add_fixes(tx: Transaction, wish: Wish, review: Task) -> Wish:
    """Add a task for each finding, and the review that follows them."""
    plan = PlanStore(tx).get_for_update(wish.plan_id)
    names = {node.name for node in TaskStore(tx).list_nodes(plan.id)}
    for finding in wish.findings[:MAX_FINDINGS]:
        name = f"Fix: {finding.title}"
        while name in names:
            name += "'"
        names.add(name)
        outline = Outline(
            name,
            f"{_FIX}\n\n{finding.text or finding.title}\n\n{_FIXED}",
            depends_on=(review.name,),
            files_likely_affected=finding.files,
        )
        Planner(tx).add_task(plan, outline, has_sequence=False)
    return add_review(tx, wish, plan)


def _read_verdict(attempt: Attempt) -> str | None:
    """Return the verdict that a reviewer wrote into its file, if it can be read."""
    try:
        content = _read_answer(locate_answer(Path(attempt.tree or ""), attempt.id))
    except ValueError:
        return None
    return content.decode(errors="replace") if content else None


def _read_answer(path: Path) -> bytes | None:
    """Read the file of an agent; None if there is none. Raises ValueError if it cannot be an answer."""
    try:
        with os.fdopen(open_to_read(path), "rb") as stream:
            content = stream.read(_MAX_ANSWER_BYTES + 1)
    except FileNotFoundError:
        return None
    except (DamagedFiles, OSError) as error:
        raise ValueError(str(error)) from error
    if len(content) > _MAX_ANSWER_BYTES:
        raise ValueError(f"it is larger than {_MAX_ANSWER_BYTES} bytes")
    return content


def _read_plan(path: Path) -> dict[str, Any] | None:
    """Read the plan that an agent wrote; raises ValueError unless it is a JSON object."""
    content = _read_answer(path)
    if content is None:
        return None
    try:
        plan = json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(plan, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - as every other fault of the file
    return plan
