"""What people read who review finished work: the queue, one task with its rounds, and its patch in pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from deepwork.delivery.feedback.models import describe_work
from deepwork.delivery.feedback.operations import find_review
from deepwork.delivery.feedback.responses import CommentView, view_comments
from deepwork.delivery.feedback.store import CommentStore
from deepwork.delivery.landing.models import LandingStatus
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.models import Attempt
from deepwork.delivery.runner.store import AttemptStore
from deepwork.gates.approvals.models import Approval, ApprovalKind, ApprovalStatus, compute_digest
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.gates.checks.models import Proof, ProofSubject
from deepwork.gates.checks.responses import CheckLine, WeakenedTests
from deepwork.gates.checks.store import ProofStore
from deepwork.kernel.answers import Answer, Field, Id, IsoTime
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError, InvalidInput
from deepwork.kernel.foreign_text import remove_invisible
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.paging import Cursor, Page, decode_cursor, encode_cursor
from deepwork.kernel.records import dataclass
from deepwork.kernel.values import format_optional_timestamp
from deepwork.views.overview.review_store import ReviewFilter, ReviewStore
from deepwork.views.overview.run_refs import StoredRuns
from deepwork.views.overview.spending import Amounts, build_task_spending
from deepwork.views.overview.states.view import StateView
from deepwork.views.overview.work_looking import WorkLook, WorkLooker
from deepwork.work.plans.models import Task, Workflow, list_required_checks
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.diffs import ChangedFile, TreeComparison
from deepwork.work.tracking.list_responses import RunRef
from deepwork.work.tracking.models import Watch
from deepwork.work.tracking.watch_store import WatchStore

_MAX_COMMENTS = 500
_PAGE_LINES = 1_500
"""Changed lines of one page of a patch; a file is never split, so a page has at least one file."""
_MAX_PAGE_BYTES = 400_000
_SMALL_LINES, _SMALL_FILES = 60, 5
_MAX_OUTPUT_LINES = 40
_NS_PER_MS = 1_000_000
_FINE = ("passed", "flaky", "waived")

ReadOutput = Callable[[str], bytes | None]
ReviewLimit = Annotated[int, Field(ge=1, le=100)]


class CommentCounts(Answer):
    """How many comments are where."""

    unsent: int
    open: int
    delivered: int
    fixed: int


class WorkRound(Answer):
    """Work that was handed in once: by an attempt, or by the same session after comments."""

    number: int
    done_at: IsoTime | None = None
    attempt_id: str | None = None
    agent: str | None = None
    tree: str | None = None
    comments: int
    """Comments on it."""
    open: int
    """Those of them that are not fixed or withdrawn."""


class ReviewEntry(Answer):
    """A finished task in the queue of reviews."""

    id: str
    name: str
    run: RunRef
    state: str
    because: str | None = None
    next: str | None = None
    done_at: IsoTime | None = None
    agent: str | None = None
    attempts: int
    files_count: int | None = None
    added: int | None = None
    removed: int | None = None
    weakened: list[WeakenedTests] | None = None
    """What makes tests say less; it stands at the top."""
    not_searched: bool | None = None
    """Whether a part of the patch was not searched for that, because it is too large."""
    warning: str | None = None
    """Why it is not known what the task changed."""
    checks: list[CheckLine]
    rounds: list[WorkRound]
    comments: CommentCounts
    spent: Amounts | None = None
    risks: list[str]
    """Why it should be looked at alone; empty: it is small, checked, and weakens no test."""
    digest: str
    """Names the work as it is now, for `approve_work`."""
    approval_id: str | None = None
    """The approval that waits for a decision about it."""
    approval_digest: str | None = None
    reviewed_by: str | None = None
    reviewed_at: IsoTime | None = None
    has_landed: bool


class ReviewQueue(Page):
    """Finished tasks, what waits for a decision first, then the oldest."""

    entries: list[ReviewEntry]
    unreviewed: int
    finished: int
    """Finished tasks that have not landed, reviewed or not: `unreviewed` of them were not."""


class CheckOutput(Answer):
    check: str
    verdict: str
    tests_run: int | None = None
    proof_id: str | None = None
    output: str | None = None


class TaskReview(Answer):
    """A finished task with what a reviewer reads beside its diff."""

    entry: ReviewEntry
    description: str
    outcome: str | None = None
    comments: list[CommentView]
    outputs: list[CheckOutput]


class ReviewPatch(Answer):
    """A page of what a task changed, compared with what it began with, file by file."""

    kept_nulls: ClassVar[frozenset[str]] = frozenset({"cursor"})

    id: str
    base: str | None = None
    tree: str | None = None
    files: list[ChangedFile]
    """All changed files, on every page."""
    files_count: int
    patch: str
    """The lines of this page's files."""
    cursor: str | None = None
    truncated: bool | None = None
    """Whether a file of this page is too large to be shown whole."""
    warning: str | None = None


@dataclass(frozen=True)
class _TaskFacts:
    """What the store says about a finished task."""

    task: Task
    workflow: Workflow
    run: RunRef
    standing: dict[str, Any]
    watches: tuple[Watch, ...]
    attempts: tuple[Attempt, ...]
    comments: tuple[CommentView, ...]
    trees: Mapping[str, str]
    """The tree that each comment is about."""
    proofs: Mapping[str, Proof]
    pending: Approval | None
    review: Approval | None
    spent: dict[str, Any]
    has_landed: bool


class ReviewBenchOperations:
    """Reads finished work for people who review it."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(
        self,
        database: Database,
        view_states: Callable[[Transaction], StateView],
        looker: WorkLooker,
        read_output: ReadOutput,
    ) -> None:
        """`read_output` returns what a check printed, by the name of its file; None if that was removed."""
        self._database, self._view_states = database, view_states
        self._looker, self._read_output = looker, read_output

    @operation("read")
    def list_review_queue(
        self,
        show: Annotated[
            ReviewFilter, Field(description="`waiting`: not reviewed and not landed")
        ] = "waiting",
        run: Annotated[str | None, Field(description="The id of a plan")] = None,
        limit: ReviewLimit = 25,
        cursor: Cursor = None,
    ) -> ReviewQueue:
        """Finished tasks of the last 30 days for review, with weakened tests at the top of each."""
        [offset] = decode_cursor(cursor, int) if cursor else [0]
        with self._database.reading() as tx:
            store = ReviewStore(tx)
            ids, total = store.list_page(show, run, limit, offset)
            unreviewed = store.count("waiting", run)
            finished = unreviewed + store.count("reviewed", run)
            facts = self._load(tx, ids)
        after = offset + len(ids)
        return ReviewQueue(
            entries=[self._build_entry(each) for each in facts],
            unreviewed=unreviewed,
            finished=finished,
            total=total,
            cursor=encode_cursor([after]) if after < total else None,
        )

    @operation("read")
    def get_task_review(self, id: Annotated[Id, Field(description="A task of a plan")]) -> TaskReview:
        """One task for review: what it was for, what its agent says, its comments and its checks."""
        with self._database.reading() as tx:
            [facts] = self._load(tx, [TaskStore(tx).get(id).id])
        return TaskReview(
            entry=self._build_entry(facts),
            description=facts.task.description,
            outcome=facts.task.outcome,
            comments=list(facts.comments),
            outputs=[self._describe_output(each) for each in facts.proofs.values()],
        )

    @operation("read")
    def get_review_patch(
        self,
        id: Annotated[Id, Field(description="A task of a plan")],
        path: Annotated[str | None, Field(description="Only this file")] = None,
        round: Annotated[int | None, Field(ge=1, description="As it was handed in that time")] = None,
        since: Annotated[
            str | None, Field(description="Only what changed since this comment was written")
        ] = None,
        cursor: Cursor = None,
    ) -> ReviewPatch:
        """What a task changed, compared with what it began with; in pages of whole files."""
        [start] = decode_cursor(cursor, int) if cursor else [0]
        with self._database.reading() as tx:
            TaskStore(tx).get(id)
            watches = WatchStore(tx).list_of_task(id)
            comments = {each.id: each for each in CommentStore(tx).list_of_task(id, _MAX_COMMENTS)[0]}
        if since is not None and since not in comments:
            raise InvalidInput(f"Task {id!r} has no comment {since[:60]!r}.")
        if round is not None:
            watches = _cut_to_round(watches, round)
        since_tree = comments[since].tree if since else None
        try:
            return self._read_page(id, watches, path, since_tree, start)
        except (DeepworkError, OSError) as error:
            return ReviewPatch(
                id=id, files=[], files_count=0, patch="", warning=f"Cannot show the diff: {error}"
            )

    def _read_page(
        self, id: str, watches: Sequence[Watch], path: str | None, since_tree: str | None, start: int
    ) -> ReviewPatch:
        if not watches:
            warning = "It is not known what it changed: no tree was watched while it was worked on."
            return ReviewPatch(id=id, files=[], files_count=0, patch="", warning=warning)
        compared, base = self._looker.compare(id, watches, since_tree=since_tree)
        files = compared.list_changes(counted=True)
        shown = [ChangedFile.of(each, is_binary=each.is_binary or None) for each in files]
        chosen = [each for each in shown if each.path == path] if path else choose_page(shown[start:])
        patch = _read_patch_of(compared, [each.path for each in chosen]) if chosen else None
        after = start + len(chosen)
        return ReviewPatch(
            id=id,
            base=base,
            tree=compared.after.tree,
            files=shown,
            files_count=len(shown),
            patch=patch.text if patch else "",
            truncated=(patch is not None and patch.is_truncated) or None,
            cursor=encode_cursor([after]) if not path and after < len(shown) else None,
        )

    # The queue

    def _load(self, tx: Transaction, ids: Sequence[str]) -> list[_TaskFacts]:
        tasks = TaskStore(tx).find_by_ids(ids)
        plans = PlanStore(tx).find_by_ids(list({task.workflow_id for task in tasks.values()}))
        runs = StoredRuns().find_refs(tx, plans)
        standings = self._view_states(tx).judge_tasks(ids)
        comments = CommentStore(tx).list_of_tasks(ids)
        views = {each.id: each for each in view_comments(tx, comments)}
        landed = ReviewStore(tx).list_landed(ids)
        found = []
        for id in ids:
            task = tasks[id]
            own = [each for each in comments if each.task_id == id]
            proofs = ProofStore(tx).list_made_for(ProofSubject("task", id))
            used = {each.check_name: each for each in ProofStore(tx).list_used_by(ProofSubject("task", id))}
            found.append(
                _TaskFacts(
                    task=task,
                    workflow=plans[task.workflow_id],
                    run=runs[task.workflow_id],
                    standing=standings[id].to_answer(),
                    watches=tuple(WatchStore(tx).list_of_task(id)),
                    attempts=tuple(AttemptStore(tx).list_of_task(id)),
                    comments=tuple(views[each.id] for each in own),
                    trees={each.id: each.tree for each in own},
                    proofs=proofs | used,
                    pending=_find_pending(tx, task),
                    review=find_review(tx, task),
                    spent=build_task_spending(tx, task)["spent"],
                    has_landed=id in landed,
                )
            )
        return found

    def _build_entry(self, facts: _TaskFacts) -> ReviewEntry:
        task = facts.task
        look, warning = self._look(facts)
        checks = _list_checks(facts)
        counts = _count(facts.comments)
        rounds = _list_rounds(facts)
        return ReviewEntry(
            id=task.id,
            name=task.name,
            run=facts.run,
            **facts.standing,
            done_at=format_optional_timestamp(task.finished_at or task.updated_at),
            agent=facts.attempts[-1].profile if facts.attempts else None,
            attempts=task.attempts,
            files_count=look.files_count if look else None,
            added=look.added if look else None,
            removed=look.removed if look else None,
            weakened=list(look.weakened) or None if look else None,
            not_searched=None if look is None or look.is_whole else True,
            warning=warning,
            checks=checks,
            rounds=rounds,
            comments=counts,
            spent=Amounts(**facts.spent),
            risks=find_risks(look, checks, counts, len(rounds)),
            digest=compute_digest(describe_work(task)),
            approval_id=facts.pending.id if facts.pending else None,
            approval_digest=facts.pending.digest if facts.pending else None,
            reviewed_by=facts.review.decided_by if facts.review else None,
            reviewed_at=format_optional_timestamp(facts.review.decided_at) if facts.review else None,
            has_landed=facts.has_landed,
        )

    def _look(self, facts: _TaskFacts) -> tuple[WorkLook | None, str | None]:
        if not facts.watches:
            return None, "It is not known what it changed."
        try:
            project = Path(facts.workflow.repository_path or facts.watches[-1].tree_path)
            return self._looker.look(facts.task.id, facts.watches, project), None
        except (DeepworkError, OSError) as error:
            return None, f"Cannot show what it changed: {error}"

    def _describe_output(self, proof: Proof) -> CheckOutput:
        output = self._read_output(proof.output_file) if proof.output_file else None
        verdict = proof.shown_verdict.value
        return CheckOutput.of(
            proof,
            check=proof.check_name,
            verdict=verdict,
            proof_id=proof.id,
            output=None if output is None else _shorten(output),
        )


def choose_page(files: Sequence[ChangedFile]) -> list[ChangedFile]:
    """Choose the first files whose changed lines fit on one page; at least one."""
    chosen: list[ChangedFile] = []
    lines = 0
    for file in files:
        lines += (file.added or 0) + (file.removed or 0) + 10
        if chosen and lines > _PAGE_LINES:
            break
        chosen.append(file)
    return chosen


def find_risks(
    look: WorkLook | None, checks: Sequence[CheckLine], comments: CommentCounts, rounds: int
) -> list[str]:
    """List why work should be looked at alone; nothing if it is small, checked, and weakens no test."""
    if look is None:
        return ["unknown"]
    found = {
        "weakened_tests": bool(look.weakened),
        "not_searched": not look.is_whole,
        "large": look.added + look.removed > _SMALL_LINES or look.files_count > _SMALL_FILES,
        "binary": any(each.is_binary for each in look.files),
        "no_checks": not checks,
        "checks": any(each.verdict not in _FINE for each in checks),
        "comments": bool(comments.unsent or comments.open or comments.delivered),
        "sent_back": rounds > 1,
    }
    return [name for name, is_so in found.items() if is_so]


def _read_patch_of(compared: TreeComparison, paths: Sequence[str]) -> Any:
    return compared.store.get_patch(compared.before, compared.after, *paths, max_bytes=_MAX_PAGE_BYTES)


def _find_pending(tx: Transaction, task: Task) -> Approval | None:
    """Return the approval of the work, or of its landing, that waits for a person."""
    subjects = [(ApprovalKind.TASK, task.id)]
    landing = LandingStore(tx).find_open(task.id)
    if landing is not None and landing.status is LandingStatus.WAITING:
        subjects.append((ApprovalKind.LANDING, landing.id))
    asked = [each for subject in subjects for each in ApprovalStore(tx).list_of_subject(*subject)]
    return next((each for each in asked if each.status is ApprovalStatus.PENDING), None)


def _list_checks(facts: _TaskFacts) -> list[CheckLine]:
    names = list_required_checks(facts.workflow.requirements, facts.task.requirements)
    return [
        CheckLine.of_proof(facts.proofs[name]) if name in facts.proofs else CheckLine(name=name)
        for name in dict.fromkeys((*names, *facts.proofs))
    ]


def _count(comments: Sequence[CommentView]) -> CommentCounts:
    def count(state: str, *, is_sent: bool = True) -> int:
        return sum(each.state == state and (each.sent_at is not None) == is_sent for each in comments)

    return CommentCounts(
        unsent=count("open", is_sent=False),
        open=count("open"),
        delivered=count("delivered"),
        fixed=count("fixed"),
    )


def _list_rounds(facts: _TaskFacts) -> list[WorkRound]:
    """List the times that the work was handed in, with the comments on each."""
    found = []
    for number, watch in enumerate(_list_handed_in(facts.watches), start=1):
        tree = (watch.ended or {}).get("tree")
        about = [
            each for each in facts.comments if facts.trees[each.id] == tree and each.state != "withdrawn"
        ]
        at = (watch.ended_at or 0) // _NS_PER_MS
        began = [each for each in facts.attempts if each.created_at <= at]
        found.append(
            WorkRound(
                number=number,
                done_at=format_optional_timestamp(at),
                attempt_id=began[-1].id if began else None,
                agent=began[-1].profile if began else None,
                tree=tree,
                comments=len(about),
                open=sum(each.state in ("open", "delivered") for each in about),
            )
        )
    return found


def _list_handed_in(watches: Sequence[Watch]) -> list[Watch]:
    """List the watches with which work was handed in; a claim that changed nothing more is none of them."""
    ended = [each for each in watches if each.ended is not None]
    trees = [(each.ended or {}).get("tree") for each in ended]
    return [each for place, each in enumerate(ended) if trees[place + 1 : place + 2] != [trees[place]]]


def _cut_to_round(watches: Sequence[Watch], number: int) -> list[Watch]:
    rounds = _list_handed_in(watches)
    if number > len(rounds):
        raise InvalidInput(f"Its work was handed in {len(rounds)} times, so there is no round {number}.")
    return [each for each in watches if each.attempt <= rounds[number - 1].attempt]


def _shorten(output: bytes) -> str:
    text = remove_invisible(output.decode(errors="replace")).rstrip()
    return "\n".join(text.split("\n")[-_MAX_OUTPUT_LINES:])
