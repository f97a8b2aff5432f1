"""What a person looks at before they approve work: what it changed, what its checks said, what it cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar

from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.words import Word, list_unheard
from deepwork.gates.approvals.models import Approval, ApprovalKind, ApprovalStatus
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.gates.checks.models import Proof, ProofSubject
from deepwork.gates.checks.responses import WeakenedTests
from deepwork.gates.checks.store import ProofStore
from deepwork.kernel.answers import Answer, Field, Id
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.foreign_text import remove_invisible
from deepwork.kernel.git.snapshot import open_snapshot_store
from deepwork.kernel.git.snapshot_types import Snapshot, SnapshotKind
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.records import dataclass
from deepwork.kernel.states import Command
from deepwork.views.overview.spending import Amounts, build_task_spending
from deepwork.views.overview.work_looking import WorkLooker
from deepwork.work.plans.interfaces import CompletedWork
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.diffs import ChangedFile, TreeComparison, read_patch
from deepwork.work.tracking.models import Watch
from deepwork.work.tracking.watch_store import WatchStore

_MAX_OUTPUT_LINES = 40
_MAX_NAMED = 3
_ASKED_AGAIN = "You are asked again if you approve."
_DECIDABLE = (ApprovalStatus.PENDING, ApprovalStatus.REFUSED, ApprovalStatus.GIVEN)


class CheckResult(Answer):
    """What a check said about the work, and the end of what it printed."""

    check: str
    verdict: str
    tests_run: int | None = None
    duration_ms: int | None = None
    proof_id: str | None = None
    output: str | None = None


class ApprovalEvidence(Answer):
    """The work to be approved, as a person looks at it; after a refusal, what differs from the refused."""

    id: str
    outcome: str | None = None
    compared_with: str | None = None
    """The approval that was refused; None: with what the work began with, or with its target."""
    files: list[ChangedFile] | None = None
    files_count: int | None = None
    patch: str | None = None
    truncated: bool | None = None
    weakened: list[WeakenedTests] | None = None
    """What makes tests say less than before; look at it first."""
    warning: str | None = None
    checks: list[CheckResult]
    spent: Amounts | None = None
    unheard: list[Word] | None = None
    """What people told about the task since its agent stopped: if it is approved, nobody hears it."""
    approve: str | None = None
    refuse: str | None = None
    """The commands that decide; none if there is nothing to decide any more."""


@dataclass(frozen=True)
class _WorkFacts:
    """What the store knows about the work that an approval is about."""

    approval: Approval
    refused: Approval | None = None
    """What was refused before."""
    proofs: dict[str, Proof] | None = None
    repository: str | None = None
    base: str | None = None
    """The commit that a landing moves its branch from."""
    project: str | None = None
    """The repository of the plan of a task."""
    watches: tuple[Watch, ...] = ()
    spent: dict[str, Any] | None = None
    unheard: tuple[Word, ...] = ()


class ApprovalEvidenceOperations:
    """What people look at before they decide."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(
        self, database: Database, looker: WorkLooker, read_output: Callable[[str], bytes | None]
    ) -> None:
        """`read_output` returns what a check printed, by the name of its file; None if that was removed."""
        self._database, self._looker, self._read_output = database, looker, read_output
        self._diffs = looker.diffs

    @operation("read")
    def get_approval_evidence(
        self,
        id: Id,
        whole: Annotated[bool, Field(description="All of the work, even after a refusal")] = False,
        max_bytes: Annotated[int, Field(ge=1, le=1_000_000, description="Of the patch")] = 200_000,
    ) -> ApprovalEvidence:
        """The work that an approval is about: its patch, its checks with their output, what it cost."""
        with self._database.reading() as tx:
            facts = _load(tx, ApprovalStore(tx).get(id))
        approval, refused = facts.approval, None if whole else facts.refused
        found: dict[str, Any] = {}
        differs_from = None
        try:
            if compared := refused and self._compare_with_refused(facts, refused):
                differs_from = refused
            if compared := compared or self._compare(facts):
                found = read_patch(compared, max_bytes) | {"warning": self._find_changes_since(facts)}
                found["weakened"] = self._find_weakened(facts, compared)
        except (DeepworkError, OSError) as error:
            found = {"warning": f"Cannot show what it changed: {error}"}
        can_decide = approval.status in _DECIDABLE
        proofs = facts.proofs or {}
        return ApprovalEvidence(
            id=approval.id,
            outcome=approval.shown.get("outcome"),
            compared_with=differs_from.id if differs_from and "files" in found else None,
            checks=[self._describe_check(each, proofs) for each in _list_checks(approval)],
            spent=Amounts(**facts.spent) if facts.spent else None,
            unheard=list(facts.unheard) if facts.unheard and can_decide else None,
            approve=Command.APPROVE.about(approval.id) if can_decide else None,
            refuse=Command.REFUSE.about(approval.id) if can_decide else None,
            **found,
        )

    def _compare(self, facts: _WorkFacts) -> TreeComparison | None:
        """Return what to compare; None if there are no files to look at."""
        shown = facts.approval.shown
        if facts.repository:
            return _compare_trees(facts.repository, shown.get("onto") or shown["base"], shown["tree"])
        if not facts.watches:
            return None
        return self._diffs.compare(facts.approval.subject_id, facts.watches, self._look(facts))[0]

    def _compare_with_refused(self, facts: _WorkFacts, refused: Approval) -> TreeComparison | None:
        """Return what differs from what was refused; None if that cannot be compared."""
        if facts.repository:
            return _compare_trees(facts.repository, refused.shown["tree"], facts.approval.shown["tree"])
        if not facts.watches or refused.decided_at is None:
            return None
        refused_at, after = refused.decided_at, self._look(facts)
        return self._diffs.compare_with_refused(facts.approval.subject_id, facts.watches, refused_at, after)

    def _look(self, facts: _WorkFacts) -> Snapshot | None:
        """Return the files as they are now while the approval can be given: these are what it is good for."""
        last = facts.watches[-1]
        self._diffs.require_here(last)
        if facts.approval.status not in _DECIDABLE:
            return None
        try:
            return self._diffs.look(last)
        except DeepworkError:  # the tree is gone: it is shown as it was left, and `_find_changes_since` warns
            return None

    def _find_changes_since(self, facts: _WorkFacts) -> str | None:
        """Say why the approval would not be good for the work as it is now; None if it would."""
        approval, asked = facts.approval, facts.approval.shown.get("work")
        if not facts.watches or not isinstance(asked, dict) or approval.status not in _DECIDABLE:
            return None
        if "files" in asked and "base" not in asked:
            return f"An earlier version asked this, about the last attempt only. {_ASKED_AGAIN}"
        now = self._diffs.describe(approval.subject_id, CompletedWork()) or {}
        if now == asked:
            return None
        if problem := now.get("problem"):
            return f"The work cannot be looked at now: {problem} {_ASKED_AGAIN}"
        if now.get("base") != asked.get("base"):
            return f"The work begins at another commit than when this was asked. {_ASKED_AGAIN}"
        then, files = asked.get("files", {}), now.get("files", {})
        changed = [path for path in sorted({**then, **files}) if then.get(path) != files.get(path)]
        more = f" and {len(changed) - _MAX_NAMED} more" if len(changed) > _MAX_NAMED else ""
        named = ", ".join(changed[:_MAX_NAMED]) or "other files"
        return f"Changed since this was asked: {named}{more}. {_ASKED_AGAIN}"

    def _find_weakened(self, facts: _WorkFacts, compared: TreeComparison) -> list[WeakenedTests] | None:
        tree = Path(facts.repository or facts.watches[-1].tree_path)
        base = facts.base or self._diffs.compare(facts.approval.subject_id, facts.watches)[1]
        look = self._looker.look_at(compared, base, Path(facts.project or tree), tree)
        return list(look.weakened) or None

    def _describe_check(self, shown: dict[str, Any], proofs: dict[str, Proof]) -> CheckResult:
        proof = proofs.get(shown["check"])
        if proof is None or proof.definition_digest != shown.get("definition"):  # it ran for other work
            return CheckResult(check=shown["check"], verdict=shown["verdict"])
        output = self._read_output(proof.output_file) if proof.output_file else None
        text = None if output is None else _shorten(output)
        about = {"check": proof.check_name, "verdict": shown["verdict"], "proof_id": proof.id}
        return CheckResult.of(proof, **about, output=text)


def _list_checks(approval: Approval) -> list[dict[str, Any]]:
    """List the checks that an approval of work shows; others have none, or name them in another way."""
    found = approval.shown.get("proofs")
    return [each for each in found if "check" in each] if isinstance(found, list) else []


def _load(tx: Transaction, approval: Approval) -> _WorkFacts:
    """Load what an approval of work needs; about a plan or guarded files, all is in what it shows."""
    kind, id = approval.subject_kind, approval.subject_id
    if kind not in (ApprovalKind.LANDING, ApprovalKind.TASK):
        return _WorkFacts(approval)
    older = ApprovalStore(tx).list_before(approval)
    refused = next((each for each in older if each.status is ApprovalStatus.REFUSED), None)
    proofs = ProofStore(tx).list_made_for(ProofSubject(kind.value, id))
    if kind is ApprovalKind.TASK:
        plan = PlanStore(tx).get(TaskStore(tx).get(id).workflow_id)
        return _WorkFacts(
            approval,
            refused,
            proofs,
            project=plan.repository_path,
            watches=tuple(WatchStore(tx).list_of_task(id)),
            spent=_sum(tx, id),
            unheard=tuple(list_unheard(tx, id)),
        )
    landing = LandingStore(tx).get(id)
    spent = _sum(tx, landing.task_id) if landing.task_id else None
    return _WorkFacts(
        approval, refused, proofs, landing.repository_path, approval.shown.get("onto"), spent=spent
    )


def _sum(tx: Transaction, task_id: str) -> dict[str, Any]:
    spent: dict[str, Any] = build_task_spending(tx, TaskStore(tx).get(task_id))["spent"]
    return spent


def _compare_trees(repository: str, before: str, after: str) -> TreeComparison:
    folder = Path(repository)
    sides = Snapshot(SnapshotKind.GIT, before), Snapshot(SnapshotKind.GIT, after)
    return TreeComparison(open_snapshot_store(folder, folder), *sides)


def _shorten(output: bytes) -> str:
    text = remove_invisible(output.decode(errors="replace")).rstrip()
    return "\n".join(text.split("\n")[-_MAX_OUTPUT_LINES:])
