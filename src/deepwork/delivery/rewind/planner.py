"""Plans a rewind: everything that would change, for a person to decide about; changes nothing."""

from __future__ import annotations

from dataclasses import asdict

from deepwork.delivery.rewind.facts import RewindFacts, RewoundTask, load_facts
from deepwork.delivery.rewind.landed_work import LandedWork
from deepwork.delivery.rewind.models import (
    Dependents,
    RewindRole,
    RewindTask,
    Steps,
    Target,
    TargetKind,
    TargetMoment,
    find_target,
)
from deepwork.delivery.rewind.responses import (
    DependentTask,
    FileInTheWay,
    MovedBranch,
    MovedFile,
    RevertedCommit,
    RewindPreview,
    cut,
)
from deepwork.delivery.rewind.tree_plans import TreePlan, TreePlanner
from deepwork.gates.approvals.models import compute_digest
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.files.private import to_printable_name
from deepwork.kernel.records import dataclass
from deepwork.work.workspaces.repositories import RepositoryLocator

_MAX_NAMED = 10
_MAX_TARGETS = 50
_OUTSIDE = "What its agents did outside of the repository (requests, deployments, mails) stays done."


@dataclass(frozen=True)
class RewindPlan:
    """What a rewind does, and how it is shown."""

    facts: RewindFacts
    target: Target
    dependents: Dependents
    steps: Steps
    tasks: tuple[RewindTask, ...]
    preview: RewindPreview

    @property
    def digest(self) -> str:
        return self.preview.digest


class RewindPlanner:
    """Plans rewinds from the store, from snapshots and from git."""

    def __init__(
        self, database: Database, repositories: RepositoryLocator, trees: TreePlanner, landed: LandedWork
    ) -> None:
        self._database, self._repositories, self._trees = database, repositories, trees
        self._landed = landed

    def plan(self, task_id: str, target: Target, dependents: Dependents, id: str) -> RewindPlan:
        """Plan a rewind; the names of what is set aside contain the id."""
        facts = load_facts(self._database, self._repositories, task_id)
        main = facts.main
        moment = _find_moment(main, target)
        resets = facts.dependents if dependents is Dependents.RESET else ()
        plan = self._trees.plan(main, moment, resets, id)
        going_back = {main.task.id, *(each.task.id for each in resets)}
        landed = [each for each in facts.landed if each.task_id in going_back]
        plan.reverts, problems = self._landed.place(self._landed.list_reverts(landed), facts.workflow.id)
        plan.refused |= problems
        tasks = _list_tasks(facts, moment, dependents)
        digest = _compute_digest(facts, target, dependents, plan, id)
        preview = _build_preview(facts, target, dependents, plan, digest)
        return RewindPlan(facts, target, dependents, plan.steps, tasks, preview)


def require_possible(plan: RewindPlan) -> None:
    """Raise NotAllowed if files are in the way, or nobody decided about dependents."""
    if plan.dependents is Dependents.ASK and plan.facts.dependents:
        raise _build_ask_error(plan.facts)
    refused = plan.preview.in_the_way
    if refused:
        shown = "; ".join(f"{each.path} ({each.reason})" for each in refused[:_MAX_NAMED])
        more = plan.preview.in_the_way_total - min(len(refused), _MAX_NAMED)
        raise NotAllowed(
            f"These files cannot go back without a loss: {shown}{f' and {more} more' if more > 0 else ''}.",
            suggestion="Commit them or move them elsewhere; rewind the tasks that changed them since, for "
            "example with --dependents reset; then call again.",
            recoverable=True,
        )


def _build_ask_error(facts: RewindFacts) -> NotAllowed:
    begun = facts.dependents
    shown = ", ".join(
        f"{each.task.name!r} ({each.task.status}, {each.task.id})" for each in begun[:_MAX_NAMED]
    )
    more = f" and {len(begun) - _MAX_NAMED} more" if len(begun) > _MAX_NAMED else ""
    return NotAllowed(
        f"These tasks build on {facts.main.task.name!r} and have begun: {shown}{more}.",
        suggestion="Pass --dependents reset to let them begin again, too, or --dependents keep to keep them "
        "and mark them as stale_input.",
        recoverable=True,
    )


def _find_moment(main: RewoundTask, target: Target) -> TargetMoment | None:
    if main.tree is None:
        if target.kind is TargetKind.START:
            return None
        raise NotAllowed(
            f"The task cannot go back to {target}: no snapshot of its files was taken.",
            suggestion="Use start: then its state goes back, and its files stay.",
        )
    return find_target(target, main.segments, main.checkpoints, main.tree)


def _list_tasks(
    facts: RewindFacts, moment: TargetMoment | None, dependents: Dependents
) -> tuple[RewindTask, ...]:
    main = facts.main
    first, checkpoint = (moment.attempt, moment.checkpoint) if moment else (1, None)
    rewound = RewindTask(main.task.id, RewindRole.REWOUND, first, main.last_attempt, checkpoint)
    role = RewindRole.RESET if dependents is Dependents.RESET else RewindRole.STALE
    others = [
        RewindTask(each.task.id, role, 1, each.last_attempt if role is RewindRole.RESET else 0)
        for each in facts.dependents
    ]
    return (rewound, *others)


def _compute_digest(
    facts: RewindFacts, target: Target, dependents: Dependents, plan: TreePlan, id: str
) -> str:
    """Compute the digest of what is decided about: without the id, which differs each time."""
    asides = [{**asdict(each), "new_branch": "", "new_path": ""} for each in plan.asides]
    tasks = [
        [each.task.id, each.task.status.value, each.epoch, each.last_attempt]
        for each in (facts.main, *facts.dependents)
    ]
    return compute_digest(
        {
            "target": str(target),
            "dependents": dependents.value,
            "tasks": tasks,
            "restores": [asdict(each) for each in plan.restores],
            "asides": asides,
            "reverts": [asdict(each) for each in plan.reverts],
            "refused": {to_printable_name(path): reason for path, reason in plan.refused.items()},
            "remarks": [remark.replace(id, "") for remark in plan.remarks],
        }
    )


def _build_preview(
    facts: RewindFacts, target: Target, dependents: Dependents, plan: TreePlan, digest: str
) -> RewindPreview:
    main = facts.main
    files = [
        MovedFile(
            path=to_printable_name(move.path),
            tree=restore.tree,
            what="deleted" if move.then is None else "restored",
        )
        for restore in plan.restores
        for move in restore.moves
    ]
    refused = [
        FileInTheWay(path=to_printable_name(path), reason=why) for path, why in sorted(plan.refused.items())
    ]
    begun = [_describe_dependent(each) for each in facts.dependents]
    return RewindPreview(
        task_id=main.task.id,
        task=main.task.name,
        workflow_id=facts.workflow.id,
        status=main.task.status.value,
        to=str(target),
        dependents=dependents,
        digest=digest,
        possible=not refused and not (begun and dependents is Dependents.ASK),
        files=cut(files),
        files_total=len(files),
        in_the_way=cut(refused),
        in_the_way_total=len(refused),
        branches=_list_branches(plan),
        begun_dependents=cut(begun),
        reverts=[
            RevertedCommit(
                commit=each.commit,
                branch=each.place or each.branch,
                task=each.title,
                merge_into=each.merge and each.branch,
            )
            for each in plan.reverts
        ],
        cannot_undo=_list_remarks(main, plan),
        held_by=main.task.claimed_by,
        targets=_list_targets(main),
    )


def _list_branches(plan: TreePlan) -> list[MovedBranch]:
    moved = [
        MovedBranch(
            branch=each.branch, tree=each.tree, now=str(each.head_now)[:12], then=str(each.head_then)[:12]
        )
        for each in plan.restores
        if each.branch is not None and each.head_now != each.head_then
    ]
    aside = [MovedBranch(branch=each.branch, tree=each.path, now=each.commit[:12]) for each in plan.asides]
    return [*moved, *aside]


def _list_remarks(main: RewoundTask, plan: TreePlan) -> list[str]:
    count = main.messages
    messages = [f"{count} message(s) about it were sent and stay."] if count else []
    return [*plan.remarks, *messages, _OUTSIDE]


def _list_targets(main: RewoundTask) -> list[str]:
    here = [each for each in main.segments if each.watch.tree_path == main.tree]
    attempts = {each.attempt: each for each in here}
    checkpoints = [
        f"checkpoint:{each.sequence}"
        for each in main.checkpoints
        if (found := attempts.get(each.attempt)) and (not found.ended_at or each.taken_at <= found.ended_at)
    ]
    return ["start", *(f"attempt:{number}" for number in attempts), *checkpoints][:_MAX_TARGETS]


def _describe_dependent(each: RewoundTask) -> DependentTask:
    return DependentTask(id=each.task.id, name=each.task.name, status=each.task.status.value, tree=each.tree)
