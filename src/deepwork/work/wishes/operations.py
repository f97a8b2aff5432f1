"""What people read and do about wishes: make one, and let its work begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Protocol

from deepwork.kernel.answers import Field, Id, Name
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import Code, InvalidInput, NotAllowed
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.paging import Cursor, PageLimit, cut_page, parse_position
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import copy_with, new_id
from deepwork.work.plans.interfaces import RepositoryRegistry
from deepwork.work.plans.models import (
    FileConflicts,
    Outline,
    PlanRequirements,
    PlanStatus,
    SourceType,
    TaskRequirements,
    Workflow,
    list_required_checks,
    requirements_to_dict,
)
from deepwork.work.plans.planning import Planner
from deepwork.work.plans.recorder import PlanRecorder
from deepwork.work.plans.rules.transitions import get_max_attempts
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.plans.task_proofs import NamedChecks, TaskProver, record_start, require_checked_names
from deepwork.work.wishes.models import (
    BRANCH_PREFIX,
    MAX_WISH,
    Wish,
    WishEvent,
    WishOptions,
    WishSource,
    build_slug,
    name_wish,
)
from deepwork.work.wishes.prompts import build_planner_prompt, build_review_prompt
from deepwork.work.wishes.responses import WishPage, WishPlan, WishStates, WishView
from deepwork.work.wishes.store import WishStore

REVIEW_TASK = "Final review"
_PLANNING_ATTEMPTS = 2
_MAX_TASKS = 20_000
_SOURCE_TYPES = {WishSource.SENTENCE: SourceType.PROMPT, WishSource.STDIN: SourceType.PROMPT}


class Branches(Protocol):
    """Knows the branches of repositories."""

    def has_branch(self, repository_path: str, branch: str, /) -> bool: ...


@dataclass(frozen=True)
class WishParts:
    """What wishes need of other packages."""

    repositories: RepositoryRegistry
    prover: TaskProver
    branches: Branches
    view_states: Callable[[Transaction], WishStates]


class WishOperations:
    """What people read and do about wishes."""

    traits: ClassVar = Traits(toolset="wishes", people_only=True)

    def __init__(self, database: Database, parts: WishParts) -> None:
        self._database, self._parts = database, parts

    @operation("work")
    def create_wish(
        self,
        text: Annotated[str, Field(description="What is wanted, in a sentence or a page")],
        source: WishSource = WishSource.SENTENCE,
        source_ref: Annotated[str | None, Field(description="The file or the address it is from")] = None,
        planner: Annotated[Name | None, Field(description="The profile that plans")] = None,
        reviewer: Annotated[Name | None, Field(description="The profile that reviews in the end")] = None,
        agents: Annotated[list[str] | None, Field(description="Who works, in this order")] = None,
        chain: Name | None = None,
        parallel: Annotated[int, Field(ge=1, le=64)] = 2,
        max_usd: Annotated[float | None, Field(gt=0)] = None,
        checks: Annotated[list[Name] | None, Field(description="Of each task that names none")] = None,
        review: Annotated[bool, Field(description="Whether the whole is reviewed in the end")] = True,
        repository_path: Annotated[str | None, Field(description="Default: this project")] = None,
    ) -> WishView:
        """Make an empty plan for a wish; the same wish again finds it."""
        require_wish(text)
        located = self._parts.repositories.locate(repository_path)
        options = WishOptions(
            planner, reviewer, tuple(agents or ()), chain, parallel, max_usd, tuple(checks or ()), review
        )
        head = self._parts.repositories.find_head(located)
        with self._database.transaction() as tx:
            self._parts.repositories.ensure_known(tx, located)
            if known := _find_open(tx, located, text, source):
                return self._answer(tx, known)
            name, id = name_wish(text), new_id("wi")
            base: dict[str, Any] = {
                "source_ref": source_ref,
                "repository_path": located,
                "created_by": tx.caller,
                "created_at": tx.now,
                "updated_at": tx.now,
                "base_commit": head.commit if head else None,
                "base_branch": head.branch if head else None,
                "file_conflicts": FileConflicts.WARN,
                "plan_summary": None,
                "initial_plan": None,
                "status": PlanStatus.PLANNING,
                "source_type": _SOURCE_TYPES.get(source, SourceType.CUSTOM),
                "source_content": text,
            }
            plan = Planner(tx).create(
                Workflow(
                    id=new_id("wf"),
                    name=name,
                    max_parallel_tasks=parallel,
                    auto_create_workspaces=True,
                    **base,
                )
            )
            wish = Wish(
                id=id,
                name=name,
                text=text,
                source=source,
                source_ref=source_ref,
                repository_path=located,
                plan_id=plan.id,
                planning_id=None
                if source is WishSource.PLAN
                else _plan_planning(tx, name, plan.id, text, source, options, base),
                branch=self._choose_branch(tx, located, name, id),
                options=options,
                created_by=tx.caller,
                created_at=tx.now,
                updated_at=tx.now,
            )
            WishStore(tx).add(wish)
            _emit(tx, WishEvent.CREATED, wish)
            return self._answer(tx, wish)

    @operation("work", prepared_by="_check_start")
    def start_wish(self, id: Id) -> WishView:
        """Let the work of a wish begin as planned, with its checks and its final review."""
        with self._database.transaction() as tx:
            wish = WishStore(tx).get(id, for_update=True)
            plan = PlanStore(tx).get_for_update(wish.plan_id)
            if wish.started_at is not None:
                return self._answer(tx, wish)
            if plan.status is PlanStatus.PLANNING:
                raise NotAllowed(
                    f"Wish {wish.name!r} has no plan yet.",
                    suggestion=f"Let it be planned: `deepwork do {wish.id}`.",
                )
            required = plan.requirements or PlanRequirements()
            names = _list_missing_checks(tx, wish, plan)
            require_checked_names(plan, names)
            if names:
                record_start(tx, plan)
                required = copy_with(required, checks=(*required.checks, *names))
                plan = PlanRecorder(tx).save_workflow(plan, copy_with(plan, requirements=required))
            started: Wish = copy_with(wish, started_at=tx.now)
            if wish.options.review:
                started = add_review(tx, started, plan)
            WishStore(tx).save(started)
            _emit(tx, WishEvent.UPDATED, started)
            return self._answer(tx, started)

    def _check_start(self, id: str) -> NamedChecks:
        with self._database.reading() as tx:
            wish = WishStore(tx).get(id)
            names = _list_missing_checks(tx, wish, PlanStore(tx).get(wish.plan_id))
        return self._parts.prover.check_names(wish.plan_id, names)

    @operation("read")
    def get_wish(self, id: Annotated[Id, Field(description="Of the wish, or of its plan")]) -> WishView:
        """One wish, and how far it is."""
        with self._database.reading() as tx:
            found = WishStore(tx).find_of_plan(id)
            return self._answer(tx, found or WishStore(tx).get(id))

    @operation("read")
    def get_wish_plan(self, id: Id) -> WishPlan:
        """The plan of a wish as it would be written in a file; without its reviews."""
        with self._database.reading() as tx:
            wish = WishStore(tx).get(id)
            plan = PlanStore(tx).get(wish.plan_id)
            tasks, _ = TaskStore(tx).list_by_workflow(plan.id, _MAX_TASKS)
            named = TaskStore(tx).list_dependency_names([task.id for task in tasks])
        attempts = get_max_attempts(plan.initial_plan)
        written = [
            task.to_outline(named.get(task.id, ()), attempts).to_dict()
            for task in tasks
            if task.id not in wish.review_tasks
        ]
        known = {**(plan.initial_plan or {}), **requirements_to_dict(plan.requirements)}
        fields = {
            key: known[key]
            for key in ("approach", "risks", "assumptions", "checks", "approval")
            if key in known
        }
        return WishPlan(
            id=plan.id, status=plan.status, summary=plan.plan_summary or "", tasks=written, **fields
        )

    @operation("read")
    def list_wishes(
        self,
        repository_path: Annotated[str | None, Field(description="Only of this repository")] = None,
        limit: PageLimit = 50,
        cursor: Cursor = None,
    ) -> WishPage:
        """What people wanted done, newest first, and how far it is."""
        located = repository_path and self._parts.repositories.locate(repository_path)
        with self._database.reading() as tx:
            found, total = WishStore(tx).list_page(located, after=parse_position(cursor), limit=limit + 1)
            page, next_cursor = cut_page(found, limit)
            return WishPage(wishes=self._answer_all(tx, page), total=total, cursor=next_cursor)

    def _answer(self, tx: Transaction, wish: Wish) -> WishView:
        return self._answer_all(tx, [wish])[0]

    def _answer_all(self, tx: Transaction, wishes: Sequence[Wish]) -> list[WishView]:
        states = self._parts.view_states(tx).judge_wishes(wishes)
        return [describe_wish(wish, **states[wish.id].to_answer()) for wish in wishes]

    def _choose_branch(self, tx: Transaction, repository: str, name: str, id: str) -> str:
        """Choose the branch that the work lands on, named after the wish."""
        branch = f"{BRANCH_PREFIX}{build_slug(name)}"
        is_taken = WishStore(tx).has_branch(repository, branch) or self._parts.branches.has_branch(
            repository, branch
        )
        return f"{branch}-{id[-4:]}" if is_taken else branch


def describe_wish(wish: Wish, **others: Any) -> WishView:
    """Build the answer about a wish."""
    chosen = {key: value for key, value in vars(wish.options).items() if value not in (None, ())}
    findings = [{"title": each.title, "text": each.text, "files": list(each.files)} for each in wish.findings]
    return WishView.of(
        wish, options=chosen, review_tasks=list(wish.review_tasks), findings=findings, **others
    )


def add_review(tx: Transaction, wish: Wish, plan: Workflow) -> Wish:
    """Add a review of the whole as the last task of the plan; return the wish that knows it."""
    nodes = TaskStore(tx).list_nodes(plan.id)
    names = {node.name for node in nodes}
    number = len(wish.review_tasks) + 1
    name = REVIEW_TASK if number == 1 else f"{REVIEW_TASK} {number}"
    while name in names:
        name += "'"
    prompt = build_review_prompt(wish.text, is_foreign=wish.is_foreign, base=plan.base_commit or "HEAD")
    outline = Outline(
        name,
        prompt,
        depends_on=tuple(sorted(names)),
        max_attempts=_PLANNING_ATTEMPTS,
        requirements=TaskRequirements(changes="none"),
    )
    task = Planner(tx).add_task(plan, outline, has_sequence=False)
    reviewed: Wish = copy_with(wish, review_tasks=(*wish.review_tasks, task.id))
    return reviewed


def _plan_planning(
    tx: Transaction,
    name: str,
    plan_id: str,
    text: str,
    source: WishSource,
    options: WishOptions,
    base: dict[str, Any],
) -> str:
    """Create the plan whose one task is planning, and return its id."""
    planning = Planner(tx).create(
        Workflow(
            id=new_id("wf"), name=f"Plan: {name}", max_parallel_tasks=1, auto_create_workspaces=True, **base
        )
    )
    is_foreign = source is not WishSource.SENTENCE
    prompt = build_planner_prompt(text, is_foreign=is_foreign, plan_id=plan_id, checks=options.checks)
    outline = Outline(
        f"Plan: {name}",
        prompt,
        max_attempts=_PLANNING_ATTEMPTS,
        requirements=TaskRequirements(changes="none"),
    )
    Planner(tx).set_plan(planning, "An agent makes the plan.", [outline], {})
    return planning.id


def _list_missing_checks(tx: Transaction, wish: Wish, plan: Workflow) -> tuple[str, ...]:
    """Return the checks that the plan gets from the wish: all, if a task has none of its own."""
    tasks, _ = TaskStore(tx).list_by_workflow(plan.id, _MAX_TASKS)
    is_covered = all(list_required_checks(plan.requirements, task.requirements) for task in tasks)
    return () if is_covered else wish.options.checks


def _find_open(tx: Transaction, repository: str, text: str, source: WishSource) -> Wish | None:
    """Return the newest wish with the same words that has not come to its end."""
    found, _ = WishStore(tx).list_page(repository, limit=50)
    for wish in found:
        is_same = wish.text == text and (wish.source is WishSource.PLAN) == (source is WishSource.PLAN)
        if is_same and not PlanStore(tx).get(wish.plan_id).status.is_final:
            return wish
    return None


def require_wish(text: str) -> None:
    """Raise InvalidInput unless a text can be a wish."""
    if not text.strip():
        raise InvalidInput("The wish is empty.", suggestion='Say what is wanted: `deepwork do "…"`.')
    if len(text) > MAX_WISH:
        raise InvalidInput(
            f"The wish has {len(text)} characters; at most {MAX_WISH} can be read as one.",
            code=Code.TOO_LARGE,
            suggestion="Commit the text as a file of the project, and name that file in one sentence.",
        )


def _emit(tx: Transaction, event: WishEvent, wish: Wish) -> None:
    tx.emit(
        event,
        {"id": wish.id, "name": wish.name, "plan_id": wish.plan_id, "branch": wish.branch},
        wish.plan_id,
    )
