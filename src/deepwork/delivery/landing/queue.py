"""Works through the landings of one branch: merge, check, move; everything under the lease of the branch.

Rows are stored before their effects. A row that is `checking` has had none; one that is `moving` names the
commit that the branch was at and the one that it moves to, so the next process knows whether it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from deepwork.delivery.landing.batches import (
    BatchMerge,
    Blocked,
    LandingItem,
    LandingPlace,
    MergedItem,
    choose_place,
    contains,
    load_items,
    merge_batch,
)
from deepwork.delivery.landing.checker import (
    Green,
    MergeChecker,
    Red,
    ShownLanding,
    Unchecked,
    ask_for_landing,
    read_shown_landing,
    use_landing_approval,
)
from deepwork.delivery.landing.models import (
    WAITS_FOR_DEPENDENCY,
    BranchLease,
    Landing,
    LandingKind,
    LandingStatus,
    Problem,
    choose_batch,
    describe_conflict,
    describe_landed_elsewhere,
    describe_red,
    list_ready,
    name_integration_branch,
    sort_by_dependencies,
)
from deepwork.delivery.landing.recorder import BranchLeases, LandingRecorder, LeaseLost, WorkReturner
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.landing.work_finder import WorkFinder
from deepwork.gates.approvals.models import Approval, ApprovalStatus
from deepwork.gates.checks.models import Proof
from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import Code, GateClosed
from deepwork.kernel.git.command import Git
from deepwork.kernel.git.merge_bases import CommitWalk
from deepwork.kernel.git.merge_commits import (
    CommitFacts,
    find_checkout,
    find_own_branch_tip,
    get_commit_facts,
    move_branch,
)
from deepwork.kernel.git.refs import find_merge_commit, get_tree
from deepwork.work.wishes.store import WishStore

Suspects = frozenset[str]
"""Landings that were red together, so that one of them is red by itself, or some of them do not fit."""


_MAX_PATHS = 10
"""How many guarded files a reason names."""


class LandingQueue:
    """Lands what is queued for a branch."""

    def __init__(
        self,
        database: Database,
        leases: BranchLeases,
        recorder: LandingRecorder,
        returner: WorkReturner,
        checker: MergeChecker,
        finder: WorkFinder,
        open_git: Callable[[Path], Git],
        host: str,
    ) -> None:
        self._database, self._leases, self._recorder, self._host = database, leases, recorder, host
        self._returner, self._checker, self._finder, self._open_git = returner, checker, finder, open_git

    def work(self, repository: str, target: str) -> bool:
        """Land what is queued for this branch; False if another process does."""
        with self._leases.hold(repository, target) as lease:
            if lease is None:
                return False
            try:
                self.recover(lease, repository)
                self._work_through(lease, repository)
            except LeaseLost:
                return False
        return True

    # After a crash

    def recover(self, lease: BranchLease, repository: str) -> None:
        """Finish what a killed process left: its branch has moved, moves now, or its work is queued again.

        Only what it left in this repository: nobody can see from here what a branch of another machine has.
        """
        left = self._list_pending(lease, repository)
        checking = [each for each in left if each.status is LandingStatus.CHECKING]
        if checking:
            self._recorder.move(lease, checking, LandingStatus.QUEUED)
        moving = sorted((each for each in left if each.status is LandingStatus.MOVING), key=_get_move)
        for _, batch in groupby(moving, key=_get_move):
            self.finish_move(lease, list(batch))

    def finish_move(self, lease: BranchLease, batch: Sequence[Landing]) -> list[Landing]:
        """Move the branch, unless that was done, and record what landed; queue it again if it cannot be."""
        git = self._open_git(Path(batch[0].repository_path))
        branch, base, commit = batch[0].branch or "", batch[0].base_commit, batch[0].branch_commit or ""
        is_moved = self._has_landed(git, branch, commit)
        if not is_moved and find_checkout(git, branch) is None:
            self._leases.renew(lease)
            is_moved = move_branch(git, branch, commit, base, f"deepwork: land {batch[0].id}")
            is_moved = is_moved or self._has_landed(git, branch, commit)
        if not is_moved:
            return self._recorder.move(lease, batch, LandingStatus.QUEUED)
        return self._recorder.end(
            lease, [(each, get_commit_facts(git, each.merge_commit or "")) for each in batch]
        )

    def _has_landed(self, git: Git, branch: str, commit: str) -> bool:
        tip = find_own_branch_tip(git, branch)
        return tip is not None and CommitWalk(git).contains(tip, commit)

    # The queue

    def _list_pending(self, lease: BranchLease, repository: str) -> list[Landing]:
        with self._database.reading() as tx:
            return LandingStore(tx).list_pending(self._host, repository, lease.branch)

    def _work_through(self, lease: BranchLease, repository: str) -> None:
        suspects: Suspects = frozenset()
        while batch := self._choose_batch(lease, repository, suspects):
            suspects = self._land_batch(lease, batch, suspects)

    def _choose_batch(self, lease: BranchLease, repository: str, suspects: Suspects) -> list[LandingItem]:
        queued = [
            each
            for each in self._list_pending(lease, repository)
            if each.kind is LandingKind.TASK and each.status is LandingStatus.QUEUED
        ]
        if not queued:
            return []
        with self._database.reading() as tx:
            dependencies = self._finder.map_dependencies(tx, (each.task_id for each in queued))
            items = {item.landing.id: item for item in load_items(tx, self._finder.repositories, queued)}
            unlanded = self._list_unlanded(LandingStore(tx), queued)
        orphans = [each for each in queued if each.id not in items]
        if orphans:
            self._recorder.move(lease, orphans, LandingStatus.CANCELLED, reason="Its task was removed.")
        ordered = sort_by_dependencies([each for each in queued if each.id in items], dependencies)
        alone = {id for id, item in items.items() if item.needs_approval}
        ready = list_ready(ordered, dependencies, unlanded)
        self._explain_blocked(lease, [each for each in ordered if each not in ready])
        return [items[each.id] for each in choose_batch(ready, suspects, alone)]

    def _explain_blocked(self, lease: BranchLease, blocked: Iterable[Landing]) -> None:
        """Say of landings that stay in the queue what they wait for."""
        unexplained = [each for each in blocked if each.reason != WAITS_FOR_DEPENDENCY]
        if unexplained:
            self._recorder.move(lease, unexplained, LandingStatus.QUEUED, reason=WAITS_FOR_DEPENDENCY)

    def _list_unlanded(self, store: LandingStore, queued: Iterable[Landing]) -> set[str]:
        """List the tasks of the same plans whose landings wait for somebody."""
        plans = {each.workflow_id for each in queued if each.workflow_id}
        opened = [each for plan in sorted(plans) for each in store.list_open_of_plan(plan)]
        return {each.task_id for each in opened if each.task_id and not each.status.is_pending}

    # One batch

    def _land_batch(self, lease: BranchLease, batch: list[LandingItem], suspects: Suspects) -> Suspects:
        """Land a batch; return the landings that are suspected to be red now."""
        first = batch[0].landing
        git = self._open_git(Path(first.repository_path))
        place = self.choose_place(git, first)
        if isinstance(place, Blocked):
            self._stop(lease, batch, place.problem, place.reason)
            return suspects
        merge = merge_batch(git, place.start, batch)
        self._settle_unmerged(lease, git, place, merge)
        if not merge.merged:
            return suspects
        merged = self._store_merged(lease, place, merge.merged)
        return self._check_and_move(lease, git, place, merged, suspects)

    def choose_place(self, git: Git, landing: Landing) -> LandingPlace | Blocked:
        """Choose the branch that a landing moves."""
        return self.find_place(git, landing.repository_path, landing.target, landing.workflow_id)

    def find_place(
        self, git: Git, repository_path: str, target: str, plan: str | None
    ) -> LandingPlace | Blocked:
        """Find the branch that work for this target moves."""
        other, elsewhere, wish, branch = None, None, None, None
        if plan is not None:
            with self._database.reading() as tx:
                store, wish = LandingStore(tx), WishStore(tx).find_of_plan(plan)
                branch = wish.branch if wish else name_integration_branch(plan)
                other = store.find_other_target(branch, repository_path, target)
                elsewhere = store.find_landed_elsewhere(plan, target, self._host)
        place = choose_place(git, target, branch, other_target=other, keeps_target=wish is not None)
        if elsewhere is None or isinstance(place, Blocked) or contains(git, place.start, elsewhere):
            return place
        return Blocked(Problem.BRANCH, describe_landed_elsewhere(elsewhere))

    def _settle_unmerged(self, lease: BranchLease, git: Git, place: LandingPlace, merge: BatchMerge) -> None:
        """End the landings that bring nothing new, and send those back that conflict."""
        for item in merge.contained:
            self._settle_contained(lease, git, place, item)
        for item, conflict in merge.conflicting:
            text = describe_conflict(place.branch, item.landing, conflict.files, conflict.messages)
            self._return(lease, item.landing, place, Problem.CONFLICT, text)

    def _settle_contained(self, lease: BranchLease, git: Git, place: LandingPlace, item: LandingItem) -> None:
        """End a landing that brings nothing new if its checks pass: anybody may have moved the branch."""
        why = f"{place.branch} contains its changes already"
        guarded = self._list_guarded(place, item, place.start)
        if guarded and not isinstance(guarded, Unchecked):
            paths = ", ".join(each["path"] for each in guarded[:_MAX_PATHS])
            text = f"{why}, and changes what {item.landing.target} guards: {paths}. Take that back first."
            self._stop(lease, [item], Problem.BRANCH, text)
            return
        verdict = (
            guarded
            if isinstance(guarded, Unchecked)
            else self._check(lease, [item], place.start, place.target_tip)
        )
        if isinstance(verdict, Red):
            text = f"{why}, but does not pass: {verdict.failure}"
            self._stop(lease, [item], Problem.TARGET_RED, text)
            return
        if isinstance(verdict, Unchecked):
            self._stop(lease, [item], Problem.CHECKS, verdict.reason)
            return
        shown = self._read_contained(git, place, item, verdict.proofs) if item.needs_approval else None
        if shown and (approval := ask_for_landing(self._database, shown)):
            self._hold(lease, place, item.landing, approval)
            return
        found = find_merge_commit(git, item.landing.source_branch or "", place.branch)
        ended = {
            "branch": place.branch,
            "merge_commit": found,
            "branch_commit": place.tip or place.start,  # by which other machines know that they have it
            "problem": None,
            "reason": f"{why}.",
        }
        try:
            with self._database.transaction() as tx:
                self._leases.require(tx, lease)
                if shown:
                    use_landing_approval(tx, shown)
                self._recorder.move_one(tx, item.landing, LandingStatus.LANDED, **ended)
                self._checker.record_uses(tx, item.project, [item.landing.id], verdict.proofs)
        except GateClosed as closed:
            if closed.code is not Code.NEEDS_APPROVAL:
                raise  # else it was decided otherwise meanwhile: it is still in the queue, and asked again

    def _read_contained(
        self, git: Git, place: LandingPlace, item: LandingItem, proofs: tuple[Proof, ...]
    ) -> ShownLanding:
        """Read what a person has to see of work that the branch has already: what its commits changed."""
        source, since = item.landing.source_commit or "", item.workflow.base_commit
        base = since if since and CommitWalk(git).contains(source, since) else source
        facts = CommitFacts(place.start, get_tree(git, place.start), (base, source), get_tree(git, base))
        files = self._checker.list_changed_files(item.project, base, source)
        return read_shown_landing(git, place, MergedItem(item, facts), files, proofs)

    def _store_merged(
        self, lease: BranchLease, place: LandingPlace, merged: list[MergedItem]
    ) -> list[MergedItem]:
        last = merged[-1].facts.commit
        with self._database.transaction() as tx:
            self._leases.require(tx, lease)
            stored = [
                self._recorder.move_one(
                    tx,
                    each.item.landing,
                    LandingStatus.CHECKING,
                    branch=place.branch,
                    base_commit=place.tip,
                    merge_commit=each.facts.commit,
                    merge_tree=each.facts.tree,
                    branch_commit=last,
                    problem=None,
                    reason=None,
                )
                for each in merged
            ]
        return [each.with_landing(landing) for each, landing in zip(merged, stored, strict=True)]

    def _check_and_move(
        self, lease: BranchLease, git: Git, place: LandingPlace, merged: list[MergedItem], suspects: Suspects
    ) -> Suspects:
        landings = [each.item.landing for each in merged]
        ids = frozenset(each.id for each in landings)
        guarded = self._list_guarded(place, merged[0].item, merged[-1].facts.commit)
        if guarded and len(merged) > 1:  # a person looks at one landing at a time
            self._recorder.move(lease, landings, LandingStatus.QUEUED)
            return ids
        verdict = (
            guarded
            if isinstance(guarded, Unchecked)
            else self._check(lease, [each.item for each in merged], merged[-1].facts.commit, place.target_tip)
        )
        if isinstance(verdict, Red) and len(merged) > 1:
            self._recorder.move(lease, landings, LandingStatus.QUEUED)
            return ids
        if isinstance(verdict, Green) and not isinstance(guarded, Unchecked):
            self._pass(lease, git, place, merged, verdict.proofs, guarded)
        elif isinstance(verdict, Unchecked):
            self._recorder.move(
                lease, landings, LandingStatus.NEEDS_PERSON, problem=Problem.CHECKS, reason=verdict.reason
            )
        elif isinstance(verdict, Red):
            self._handle_red(lease, place, merged[0], verdict)
        return suspects - ids

    def _list_guarded(
        self, place: LandingPlace, item: LandingItem, commit: str
    ) -> list[dict[str, Any]] | Unchecked:
        """List how a commit differs from the target in files that the target guards.

        Not only what a batch itself changes: anybody can commit to an integration branch.
        """
        return self._checker.list_guarded(item.project, place.target_tip, item.landing.workflow_id, commit)

    def _check(
        self, lease: BranchLease, items: Sequence[LandingItem], commit: str, base: str
    ) -> Green | Red | Unchecked:
        names = tuple(dict.fromkeys(name for each in items for name in each.checks))
        first = items[0]
        return self._checker.check(lease, first.project, first.landing.id, commit, base, names)

    def _handle_red(self, lease: BranchLease, place: LandingPlace, merged: MergedItem, red: Red) -> None:
        """Send red work back, unless the branch is red without it: that is nobody's work to correct."""
        before = self._check(lease, [merged.item], place.start, place.target_tip)
        landing = merged.item.landing
        if isinstance(before, Green):
            self._return(lease, landing, place, Problem.RED, describe_red(place.branch, red.failure))
            return
        why = before.failure if isinstance(before, Red) else before.reason
        text = f"{place.branch} does not pass without this work either: {why}"
        self._recorder.move(
            lease, [landing], LandingStatus.NEEDS_PERSON, problem=Problem.TARGET_RED, reason=text
        )

    def _pass(
        self,
        lease: BranchLease,
        git: Git,
        place: LandingPlace,
        merged: list[MergedItem],
        proofs: tuple[Proof, ...],
        guarded: Sequence[Mapping[str, Any]],
    ) -> None:
        """Let a person approve what needs it, then move the branch."""
        shown = [
            read_shown_landing(git, place, each, self._list_files(each), proofs, guarded)
            for each in merged
            if each.item.needs_approval or guarded
        ]  # a batch of one, if there is any
        for each in shown:
            if approval := ask_for_landing(self._database, each):
                self._hold(lease, place, each.item.landing, approval)
                return
        self._checker.require_contents(merged[0].item.project, place.start, merged[-1].facts.commit)
        try:
            moving = self._store_moving(lease, merged, shown, proofs)
        except GateClosed as closed:
            if closed.code is not Code.NEEDS_APPROVAL:
                raise
            self._recorder.move(lease, [each.item.landing for each in merged], LandingStatus.QUEUED)
            return  # it was decided otherwise meanwhile, so it is asked again
        self.finish_move(lease, moving)

    def _list_files(self, merged: MergedItem) -> list[tuple[str, str]]:
        base, commit = merged.facts.parents[0], merged.facts.commit
        return self._checker.list_changed_files(merged.item.project, base, commit)

    def _store_moving(
        self,
        lease: BranchLease,
        merged: Sequence[MergedItem],
        shown: Sequence[ShownLanding],
        proofs: Sequence[Proof],
    ) -> list[Landing]:
        """Store the intent to move the branch, with everything that allows it, in one transaction."""
        with self._database.transaction() as tx:
            self._leases.require(tx, lease)
            for each in shown:
                use_landing_approval(tx, each)
            ids = [each.item.landing.id for each in merged]
            self._checker.record_uses(tx, merged[0].item.project, ids, proofs)
            return [self._recorder.move_one(tx, each.item.landing, LandingStatus.MOVING) for each in merged]

    def _hold(self, lease: BranchLease, place: LandingPlace, landing: Landing, approval: Approval) -> None:
        """Let a landing wait for a person; one that was refused goes back with the comment."""
        if approval.status is ApprovalStatus.REFUSED:
            comment = f"{approval.decided_by} refused to land it: {approval.comment or 'no comment'}"
            self._return(lease, landing, place, Problem.REFUSED, comment)
            return
        reason = f"A person has to approve it: `deepwork approvals approve {approval.id}`."
        self._recorder.move(lease, [landing], LandingStatus.WAITING, problem=Problem.APPROVAL, reason=reason)

    def _return(
        self, lease: BranchLease, landing: Landing, place: LandingPlace, problem: Problem, text: str
    ) -> None:
        with self._database.transaction() as tx:
            self._leases.require(tx, lease)
            self._returner.return_work(tx, landing, place.branch, problem, text)

    def _stop(self, lease: BranchLease, batch: Sequence[LandingItem], problem: Problem, reason: str) -> None:
        landings = [item.landing for item in batch]
        self._recorder.move(lease, landings, LandingStatus.NEEDS_PERSON, problem=problem, reason=reason)


def _get_move(landing: Landing) -> tuple[str, str, str]:
    return landing.branch or "", landing.base_commit or "", landing.branch_commit or ""
