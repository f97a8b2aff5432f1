"""What a run came to: what was wanted and done, the evidence, what is left, and what it cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from deepwork.delivery.landing.models import Landing, LandingStatus
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.models import Attempt, AttemptStage, Run
from deepwork.delivery.runner.store import AttemptStore, RunStore, build_missing_run_error
from deepwork.gates.approvals.models import ApprovalKind
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.gates.budgets.models import MICROS_PER_USD
from deepwork.gates.checks.models import LANDING
from deepwork.gates.checks.responses import CheckLine, WeakenedTests, list_weakened
from deepwork.gates.checks.store import ProofStore
from deepwork.kernel.answers import Answer, Field, Id, IsoTime
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import GitError, NotFound
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.merge_commits import find_own_branch_tip
from deepwork.kernel.git.patches import FileCount, count_changed_lines
from deepwork.kernel.git.refs import is_ancestor, resolve_commit
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import format_timestamp
from deepwork.views.overview.states.view import StateView
from deepwork.work.plans.models import Task, TaskStatus, Workflow
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.note_store import NoteStore
from deepwork.work.wishes.models import Wish
from deepwork.work.wishes.responses import WishFindingView
from deepwork.work.wishes.store import WishStore

_MAX_TASKS, _MAX_DECISIONS, _MAX_FILES = 1_000, 200, 200
_MAX_PATCH_BYTES = 2_000_000
_NOT_DONE = frozenset({AttemptStage.FAILED, AttemptStage.STALLED, AttemptStage.HANDED_OVER})
_TEST_PATTERN = re.compile(
    r"(^|/)(tests?|specs?|__tests__)/|(^|/)test_[^/]*$|[._-](test|spec)\.[^/]+$|_test\.[^/]+$"
)


class ReportedTask(Answer):
    """A task, and what speaks for it."""

    id: str
    name: str
    state: str
    because: str | None = None
    next: str | None = None
    outcome: str | None = None
    """What its agent said in the end."""
    agents: list[str]
    attempts: int
    failed: list[str] | None = None
    """Why earlier attempts failed: a false "done", a red check."""
    usd: float
    is_review: bool = False
    """Whether it looks at the work of the others."""
    checks: list[CheckLine]
    """The checks with which it counted as done, and then those of its landing."""
    landed: str | None = None
    """The commit with which it landed."""


class ReportedTests(Answer):
    """Which files of tests changed; None if that is not known here."""

    added: list[str]
    changed: list[str]
    removed: list[str]


class ReportedDecision(Answer):
    """Something that an agent decided."""

    task: str | None = None
    title: str
    reason: str | None = None


class RunReport(Answer):
    """What a run came to."""

    run_id: str | None = None
    wish_id: str | None = None
    plan_id: str | None = None
    name: str
    wish: str
    state: str
    because: str | None = None
    next: str | None = None
    started_at: IsoTime | None = None
    ended_at: IsoTime | None = None
    seconds: int
    usd: float
    tokens: int
    branch: str | None = None
    target: str | None = None
    is_taken_in: bool = False
    """Whether the target has the work already."""
    files_changed: int | None = None
    lines_added: int | None = None
    lines_removed: int | None = None
    tests: ReportedTests | None = None
    weakened: list[WeakenedTests] | None = None
    """What makes tests say less; None if that could not be judged."""
    tasks: list[ReportedTask]
    guarded: list[dict[str, Any]]
    """Changes of what decides about "done", and who approved them."""
    decisions: list[ReportedDecision]
    not_done: list[str]
    findings: list[WishFindingView]
    """What the last review of the whole would send back."""
    take_in: list[str]
    undo: list[str]


@dataclass(frozen=True)
class _ReportFacts:
    """What the store says about a run."""

    wish: Wish | None
    plan: Workflow | None
    runs: tuple[Run, ...]
    attempts: tuple[Attempt, ...]
    tasks: tuple[Task, ...]
    landed: dict[str, Landing]
    stuck: dict[str, Landing]
    """The landings that have not ended."""


class ReportOperations:
    """Reads what runs came to."""

    traits: ClassVar = Traits(toolset="runner", people_only=True)

    def __init__(
        self,
        database: Database,
        view_states: Callable[[Transaction], StateView],
        open_git: Callable[[Path], Git],
    ) -> None:
        self._database, self._view_states, self._open_git = database, view_states, open_git

    @operation("read")
    def report_run(self, id: Annotated[Id, Field(description="Of a run, a wish or a plan")]) -> RunReport:
        """What a run came to: work, evidence, cost, what is left, how to take it in and how to undo it."""
        with self._database.reading() as tx:
            facts = _load(tx, id)
            known = self._describe(tx, facts)
        return RunReport(**known, **self._read_branch(facts, known["branch"]))

    def _describe(self, tx: Transaction, facts: _ReportFacts) -> dict[str, Any]:
        view = self._view_states(tx)
        standing = self._judge(view, facts)
        spent = RunStore(tx).sum_usage([run.id for run in facts.runs])
        now, ids = tx.now, [task.id for task in facts.tasks]
        began = (
            facts.wish.created_at if facts.wish else min((run.created_at for run in facts.runs), default=now)
        )
        ends = [run.ended_at or now for run in facts.runs]
        states = view.judge_tasks_of_plan(facts.plan.id) if facts.plan and facts.tasks else {}
        proofs = ProofStore(tx).find_used_by("task", ids)
        of_landings = ProofStore(tx).find_used_by(LANDING, [each.id for each in facts.landed.values()])
        tasks = [
            _describe_task(
                task,
                states[task.id].to_answer(),
                [each for each in facts.attempts if each.task_id == task.id],
                [*proofs.get(task.id, ()), *of_landings.get(_get_landing_id(facts, task.id), ())],
                facts.landed.get(task.id),
                is_review=facts.wish is not None and task.id in facts.wish.review_tasks,
            )
            for task in facts.tasks
        ]
        run = facts.runs[-1] if facts.runs else None
        moved = next((each for each in facts.landed.values() if each.branch), None)
        return {
            "run_id": run.id if run else None,
            "wish_id": facts.wish.id if facts.wish else None,
            "plan_id": facts.plan.id if facts.plan else None,
            "name": _name(facts),
            "wish": facts.wish.text
            if facts.wish
            else facts.plan.source_content
            if facts.plan
            else run.goal
            if run
            else "",
            **standing,
            "started_at": format_timestamp(began),
            "ended_at": format_timestamp(max(ends))
            if ends and all(run.ended_at for run in facts.runs)
            else None,
            "seconds": (max(ends, default=now) - began) // 1000,
            "usd": sum(each[1] for each in spent.values()) / MICROS_PER_USD,
            "tokens": sum(each[0] for each in spent.values()),
            "branch": moved.branch if moved else facts.wish.branch if facts.wish else None,
            "target": facts.plan.base_branch if facts.plan else None,
            "tasks": tasks,
            "guarded": _list_guarded(tx, facts),
            "decisions": _list_decisions(tx, facts),
            "not_done": _list_not_done(facts, tasks),
            "findings": [
                WishFindingView(title=each.title, text=each.text, files=list(each.files))
                for each in (facts.wish.findings if facts.wish else ())
            ],
        }

    def _judge(self, view: StateView, facts: _ReportFacts) -> dict[str, Any]:
        if facts.wish is not None:
            return view.judge_wishes([facts.wish])[facts.wish.id].to_answer()
        if facts.runs:
            return view.judge_runs([facts.runs[-1]])[facts.runs[-1].id].to_answer()
        assert facts.plan is not None, "it is of a run, a wish or a plan"
        return view.judge_plans([facts.plan.id])[facts.plan.id].standing.to_answer()

    # Git

    def _read_branch(self, facts: _ReportFacts, branch: str | None) -> dict[str, Any]:
        """Compare the branch with where it began; nothing is known about what is not in this repository."""
        target = facts.plan.base_branch if facts.plan else None
        found: dict[str, Any] = {"take_in": [], "undo": _list_undo(facts, None)}
        folder = Path(facts.plan.repository_path or "") if facts.plan else None
        if branch is None or facts.plan is None or folder is None or not folder.is_dir():
            return found
        git = self._open_git(folder)
        try:
            tip = find_own_branch_tip(git, branch)
            base = resolve_commit(git, facts.plan.base_commit or "") if facts.plan.base_commit else None
            if tip is None or base is None:
                return found
            changed = count_changed_lines(git, base, tip)
            top = find_own_branch_tip(git, target) if target else None
            is_in = top is not None and is_ancestor(git, tip, top)
        except GitError:
            return found
        return {
            "is_taken_in": is_in,
            "files_changed": len(changed),
            "lines_added": sum(each.added for each in changed),
            "lines_removed": sum(each.removed for each in changed),
            "tests": _sort_tests(changed),
            "weakened": _list_weakened(git, base, tip),
            "take_in": [] if is_in or branch == target else [f"git merge {branch}"],
            "undo": _list_undo(facts, branch if not is_in and branch != target else None),
        }


def _load(tx: Transaction, id: str) -> _ReportFacts:
    """Load what belongs to a run, a wish or a plan: with a wish, its planning, too."""
    run = RunStore(tx).find(id) if id.startswith("rn_") else None
    if id.startswith("rn_") and run is None:
        raise build_missing_run_error(id)
    plan_id = run.workflow_id if run else id if id.startswith("wf_") else None
    wish = WishStore(tx).get(id) if id.startswith("wi_") else WishStore(tx).find_of_plan(plan_id)
    if wish is not None:
        plan_id = wish.plan_id
    if plan_id is None and run is None:
        raise NotFound("run", id, suggestion="List the runs with `deepwork runs list`.")
    plan = PlanStore(tx).get(plan_id) if plan_id else None
    store = RunStore(tx)
    found = [store.find_last_of_plan(each) for each in (wish.planning_id if wish else None, plan_id) if each]
    runs = [each for each in found if each] or ([run] if run else [])
    tasks, _ = TaskStore(tx).list_by_workflow(plan_id, _MAX_TASKS) if plan_id else ([], 0)
    attempts = [attempt for task in tasks for attempt in AttemptStore(tx).list_of_task(task.id)]
    landings = LandingStore(tx).find_newest([task.id for task in tasks])
    landed = {id: each for id, each in landings.items() if each.status is LandingStatus.LANDED}
    stuck = {id: each for id, each in landings.items() if not each.status.is_final}
    return _ReportFacts(wish, plan, tuple(runs), tuple(attempts), tuple(tasks), landed, stuck)


def _name(facts: _ReportFacts) -> str:
    if facts.wish or facts.plan:
        return facts.wish.name if facts.wish else facts.plan.name  # type: ignore[union-attr]
    return facts.runs[-1].job or facts.runs[-1].id


def _get_landing_id(facts: _ReportFacts, task_id: str) -> str:
    landing = facts.landed.get(task_id)
    return landing.id if landing else ""


def _describe_task(
    task: Task,
    standing: dict[str, Any],
    attempts: Sequence[Attempt],
    proofs: Sequence[Any],
    landing: Landing | None,
    *,
    is_review: bool,
) -> ReportedTask:
    newest = {proof.check_name: proof for proof in proofs}
    failed = [_first_line(each.reason) for each in attempts if each.stage in _NOT_DONE and each.reason]
    return ReportedTask(
        id=task.id,
        name=task.name,
        **standing,
        outcome=task.outcome,
        agents=list(dict.fromkeys(each.profile for each in attempts)),
        attempts=len(attempts),
        is_review=is_review,
        failed=failed or None,
        usd=sum(each.usd_micros for each in attempts) / MICROS_PER_USD,
        checks=[CheckLine.of_proof(proof) for proof in newest.values()],
        landed=landing.merge_commit or landing.branch_commit if landing else None,
    )


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0][:300]


def _list_guarded(tx: Transaction, facts: _ReportFacts) -> list[dict[str, Any]]:
    if facts.plan is None:
        return []
    found, _ = ApprovalStore(tx).list_matching(statuses=None, workflow_id=facts.plan.id, limit=_MAX_DECISIONS)
    return [
        {
            "id": each.id,
            "task_id": each.subject_id,
            "status": each.status.value,
            "decided_by": each.decided_by,
        }
        for each in found
        if each.subject_kind is ApprovalKind.GUARDED
    ]


def _list_decisions(tx: Transaction, facts: _ReportFacts) -> list[ReportedDecision]:
    if facts.plan is None:
        return []
    names = {task.id: task.name for task in facts.tasks}
    found, _ = NoteStore(tx).list_decisions({"workflow_id": facts.plan.id}, _MAX_DECISIONS)
    return [
        ReportedDecision(
            task=names.get(each.subject.task_id or ""),
            title=f"{each.question} {each.chosen}",
            reason=each.reasoning,
        )
        for each in reversed(found)
    ]


def _list_not_done(facts: _ReportFacts, tasks: Sequence[ReportedTask]) -> list[str]:
    """Say which tasks are not done, and why."""
    status = {task.id: task.status for task in facts.tasks}
    return [
        f"{each.name}: {_explain_open(each, facts.stuck.get(each.id))}"
        for each in tasks
        if status[each.id] is not TaskStatus.COMPLETED or each.state not in ("done", "landed")
    ]


def _explain_open(task: ReportedTask, landing: Landing | None) -> str:
    """Say why a task is not done, in words: what its landing says names the check."""
    if landing is not None and landing.reason:
        return _first_line(landing.reason)
    code, _, detail = (task.because or task.state).partition(": ")
    return ": ".join(filter(None, [code.replace("_", " "), detail]))


def _list_undo(facts: _ReportFacts, branch: str | None) -> list[str]:
    """Return the commands that undo it: all of it as long as nobody took it in, or task by task."""
    whole = [f"git branch --delete --force {branch}"] if branch else []
    landed = [task for task in facts.tasks if task.id in facts.landed]
    return [*whole, *(f"deepwork rewind {task.id}" for task in reversed(landed))]


def _list_weakened(git: Git, base: str, tip: str) -> list[WeakenedTests] | None:
    """List what makes tests say less between two commits; None if the patch is too large to be read."""
    patch = git.run("diff-tree", "-p", "-r", "--no-renames", base, tip)
    return None if len(patch) > _MAX_PATCH_BYTES else list_weakened(patch.decode(errors="replace"))


def _sort_tests(changed: Sequence[FileCount]) -> ReportedTests:
    tests = [each for each in changed if _TEST_PATTERN.search(each.path)]
    kinds: dict[str, list[str]] = {"A": [], "D": [], "M": []}
    for each in tests[:_MAX_FILES]:
        kinds[each.status].append(each.path)
    return ReportedTests(added=kinds["A"], changed=kinds["M"], removed=kinds["D"])
