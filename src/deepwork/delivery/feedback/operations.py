"""What people say about finished work: they comment on lines, send it back, or say that they reviewed it."""

from __future__ import annotations

from typing import Annotated, ClassVar

from deepwork.delivery.feedback.models import (
    MAX_COMMENT,
    Comment,
    CommentEvent,
    CommentSide,
    CommentState,
    describe_work,
)
from deepwork.delivery.feedback.responses import (
    Comments,
    CommentView,
    Reviewed,
    WorkSentBack,
    build_payload,
    view_comments,
)
from deepwork.delivery.feedback.sending import emit_updates, lock_work, send_work_back
from deepwork.delivery.feedback.store import CommentStore
from deepwork.delivery.runner.store import AttemptStore
from deepwork.gates.approvals.acts import require_proven
from deepwork.gates.approvals.models import (
    Approval,
    ApprovalKind,
    ApprovalRequest,
    ApprovalStatus,
    compute_digest,
)
from deepwork.gates.approvals.service import record_unasked
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.answers import Field, Id
from deepwork.kernel.call import current_call, is_person
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import Code, InvalidInput, NotAllowed
from deepwork.kernel.git.snapshot import SnapshotStore
from deepwork.kernel.git.snapshot_types import Snapshot, SnapshotKind
from deepwork.kernel.notices.models import MAX_TEXT
from deepwork.kernel.notices.store import NoticeStore
from deepwork.kernel.operations import InTransaction, Traits, operation
from deepwork.kernel.states import Command
from deepwork.kernel.values import copy_with, format_timestamp, new_id
from deepwork.work.plans.models import Task, TaskStatus
from deepwork.work.plans.recorder import APPROVAL
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.diffs import DiffService
from deepwork.work.tracking.watch_store import NO_START, WatchStore

MAX_COMMENTS = 500
_MAX_FILE_BYTES = 4 * 1024 * 1024
_MAX_SHOWN = 200

CommentWords = Annotated[str, Field(min_length=1, max_length=MAX_COMMENT)]


class FeedbackOperations:
    """Comments on lines of work, and reviews of it."""

    traits: ClassVar = Traits(toolset="feedback", people_only=True)

    def __init__(self, database: Database, diffs: DiffService) -> None:
        self._database, self._diffs = database, diffs

    # Saying something

    @operation("work", for_people=True, long_running=True)
    def comment_on_task(
        self,
        task_id: Id,
        path: Annotated[str, Field(min_length=1, description="The file, as the task's diff names it")],
        line: Annotated[int, Field(ge=1)],
        text: CommentWords,
        side: Annotated[CommentSide, Field(description="`old`: as it was before the task")] = CommentSide.NEW,
        seen: Annotated[
            str | None, Field(description="The line as you saw it; refused if it is another one now")
        ] = None,
        later: Annotated[
            bool, Field(description="Keep it until you send the work back, instead of sending it now")
        ] = False,
    ) -> InTransaction[WorkSentBack]:
        """Comment on a line of a task's work; its agent corrects it, and it comes back checked."""
        tree, found = self._read_line(task_id, path, line, side)
        if seen is not None and seen.rstrip("\r") != found.rstrip("\r"):
            raise NotAllowed(
                f"Line {line} of {path[:_MAX_SHOWN]!r} changed since you looked.",
                suggestion="Load the diff again, and comment on the line as it is. Nothing was stored.",
                recoverable=True,
            )

        def store() -> WorkSentBack:
            with self._database.transaction() as tx:
                _require_person(tx)
                task = lock_work(tx, task_id)
                comment = _build_comment(tx, task, path, line, text, side, found, tree)
                CommentStore(tx).add(comment)
                [view] = view_comments(tx, [comment])
                tx.emit(CommentEvent.ADDED, build_payload(view), task.workflow_id)
                if later:
                    return WorkSentBack(task_id=task.id, comments=[view], reopened=False)
                return send_work_back(tx, task, [comment], None)

        return InTransaction(store)

    @operation("work", for_people=True)
    def send_back_task(
        self,
        task_id: Id,
        text: Annotated[
            str | None,
            Field(max_length=MAX_TEXT, description="What its agent should do; optional with comments"),
        ] = None,
    ) -> WorkSentBack:
        """Send work back to its agent, with your comments that were not sent yet and with these words."""
        with self._database.transaction() as tx:
            _require_person(tx)
            task = lock_work(tx, task_id)
            waiting = CommentStore(tx).list_unsent(task_id)
            words = (text or "").strip()
            if not (waiting or words):
                raise InvalidInput(
                    "Say what is wrong: sending work back needs words or a comment on a line.",
                    suggestion="Pass `text`, or comment on a line first.",
                )
            return send_work_back(tx, task, waiting, words or None)

    @operation("work", for_people=True)
    def close_comment(
        self, comment_id: Id, state: Annotated[CommentState, Field(description="`fixed` or `withdrawn`")]
    ) -> CommentView:
        """Say that a comment is answered, or take it back; with your proof, because agents must not do so."""
        if state not in (CommentState.FIXED, CommentState.WITHDRAWN):
            raise InvalidInput("A comment is closed as `fixed` or `withdrawn`.")
        with self._database.transaction() as tx:
            comment = CommentStore(tx).get_for_update(comment_id)
            if comment.closed_as is state:
                return view_comments(tx, [comment])[0]
            require_proven(tx, comment=comment.id, state=state.value)
            if state is CommentState.WITHDRAWN and comment.notice_id:
                NoticeStore(tx).withdraw([comment.notice_id])
            closed = copy_with(comment, closed_as=state, closed_by=tx.caller, closed_at=tx.now)
            CommentStore(tx).save(closed)
            views = view_comments(tx, [closed])
            emit_updates(tx, TaskStore(tx).get(comment.task_id), views)
            return views[0]

    @operation("work", for_people=True)
    def approve_work(
        self,
        task_id: Id,
        digest: Annotated[str, Field(description="Of the work as you saw it, from the review of the task")],
    ) -> Reviewed:
        """Say that you reviewed completed work as it is; a comment or another attempt makes that stale."""
        with self._database.transaction() as tx:
            task = lock_work(tx, task_id)
            _require_reviewable(tx, task)
            shown = describe_work(task)
            if compute_digest(shown) != digest:
                raise NotAllowed(
                    f"The work on {task.name!r} is not what you saw any more; nothing was recorded.",
                    suggestion="Look at it again, then decide again.",
                    recoverable=True,
                )
            if known := find_review(tx, task):
                return _describe_review(known)
            method = require_proven(tx, **shown)
            request = ApprovalRequest(ApprovalKind.REVIEW, task.id, task.workflow_id, shown)
            given = record_unasked(tx, request, method)
            current_call().note_outcome(f"{given.status.value}:{given.digest}")
            return _describe_review(given)

    # Reading

    @operation("read")
    def list_comments(
        self, task_id: Id, limit: Annotated[int, Field(ge=1, le=MAX_COMMENTS)] = MAX_COMMENTS
    ) -> Comments:
        """Comments on the work of a task, the oldest first, and whether its agent heard them."""
        with self._database.reading() as tx:
            if not task_id.startswith("tt_"):  # nobody comments on tracked work
                TaskStore(tx).get(task_id)
            found, total = CommentStore(tx).list_of_task(task_id, limit)
            return Comments(comments=view_comments(tx, found), total=total)

    def _read_line(self, task_id: str, path: str, line: int, side: CommentSide) -> tuple[str, str]:
        """Return the tree of the work as it is, and the text of the line."""
        with self._database.reading() as tx:
            task = TaskStore(tx).get(task_id)
            watches = WatchStore(tx).list_of_task(task_id)
        if not watches:
            raise NotAllowed(f"The lines of task {task.name!r} are not known: {NO_START}.")
        self._diffs.require_here(watches[-1])
        compared, _ = self._diffs.compare(task_id, watches)
        version = compared.before if side is CommentSide.OLD else compared.after
        if version.kind is not SnapshotKind.GIT:
            raise NotAllowed("Its files are not in a git repository, so their lines are not stored.")
        return compared.after.tree, _read_line_of(compared.store, version, path, line)


def find_review(tx: Transaction, task: Task) -> Approval | None:
    """Return the newest word of a person that they reviewed this work as it is, or approved it."""
    if task.status is not TaskStatus.COMPLETED:
        return None
    store, digest = ApprovalStore(tx), compute_digest(describe_work(task))
    reviews = store.list_of_subject(ApprovalKind.REVIEW, task.id)
    found = [each for each in reviews if each.status is ApprovalStatus.USED and each.digest == digest]
    approvals = store.list_of_subject(ApprovalKind.TASK, task.id)
    found += [
        each
        for each in approvals
        if each.status is ApprovalStatus.USED and (each.used_at or 0) >= (task.finished_at or 0)
    ]
    return next((each for each in found if store.is_sealed(each.id)), None)


def _require_person(tx: Transaction) -> None:
    if not is_person(tx.caller):
        raise NotAllowed("Only a person can comment on work.", code=Code.UNAUTHORIZED)


def _require_reviewable(tx: Transaction, task: Task) -> None:
    if task.waits_for == APPROVAL:
        asked = ApprovalStore(tx).list_of_subject(ApprovalKind.TASK, task.id)
        pending = next((each.id for each in asked if each.status is ApprovalStatus.PENDING), "ID")
        raise NotAllowed(
            f"The work on {task.name!r} waits for your approval.",
            suggestion=f"Decide with `{Command.APPROVE.about(pending)}`.",
        )
    if task.status is not TaskStatus.COMPLETED:
        raise NotAllowed(f"Task {task.name!r} is {task.status}: only completed work can be reviewed.")
    if waiting := len(CommentStore(tx).list_unsent(task.id)):
        raise NotAllowed(
            f"{waiting} of your comments on {task.name!r} were not sent.",
            suggestion="Send the work back with them, or withdraw them.",
        )


def _build_comment(
    tx: Transaction, task: Task, path: str, line: int, text: str, side: CommentSide, found: str, tree: str
) -> Comment:
    attempts = AttemptStore(tx).list_of_task(task.id)
    return Comment(
        id=new_id("cm"),
        task_id=task.id,
        workflow_id=task.workflow_id,
        attempt_id=attempts[-1].id if attempts else None,
        path=path,
        side=side,
        line=line,
        line_text=found[:MAX_TEXT],
        text=text,
        tree=tree,
        by_whom=tx.caller,
        created_at=tx.now,
    )


def _read_line_of(store: SnapshotStore, version: Snapshot, path: str, line: int) -> str:
    blob = next((each.blob for each in store.list_files(version.tree) if each.path == path), None)
    if blob is None:
        raise InvalidInput(
            f"There is no file {path[:_MAX_SHOWN]!r} in the work of this task.",
            suggestion="Name it as `deepwork diff TASK --stat` does. Of a deleted file, use the old side.",
        )
    content = store.read_blob(blob, _MAX_FILE_BYTES)
    lines = [] if content is None else content.decode(errors="replace").split("\n")
    count = len(lines) - (bool(lines) and not lines[-1])
    if not 1 <= line <= count:
        raise InvalidInput(f"{path[:_MAX_SHOWN]!r} has no line {line}: it has {count}.")
    return lines[line - 1]


def _describe_review(approval: Approval) -> Reviewed:
    return Reviewed(
        task_id=approval.subject_id,
        reviewed_by=approval.decided_by or "",
        reviewed_at=format_timestamp(approval.decided_at or approval.asked_at),
        approval_id=approval.id,
    )
