"""Notices in hooks: what a session must hear of, from one list of sources, and which of it counts as carried.

The inbox of people has such a list, too: `SOURCES` in `views/overview/inbox.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.existing_store import ExistingStore
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.errors import StorageError
from deepwork.kernel.notices.models import DEEPWORK, OFFLINE_TEXT, Notice, NoticeType, build_lost_text
from deepwork.kernel.notices.store import NoticeStore
from deepwork.views.hooks import failure_log
from deepwork.views.hooks.context import HookContext, add_delivered
from deepwork.views.hooks.identity import SessionRecord
from deepwork.views.hooks.rendering import cut_to_budget, frame_texts, render_notice
from deepwork.views.overview.current_work_store import CurrentWorkStore

MAX_SHOWN = 5
"""Notices in one text; the next hook shows the rest."""
MARK_WAIT_SECONDS = 0.2
"""Seconds to wait for a locked store before notices are shown without being marked."""


def find_notices(tx: Transaction, record: SessionRecord, *, is_start: bool = False) -> list[Notice]:
    """Find what the session should see now, the oldest first; at its start also what it may not have read."""
    sources = (*SOURCES, *START_SOURCES) if is_start else SOURCES
    found = [notice for source in sources for notice in source(tx, record)]
    fresh = [each for each in found if is_start or _name(each) not in record.told]
    # An answer may be addressed to several agents, of which this session is one.
    own_last = sorted(fresh, key=lambda notice: _is_own(notice, record))
    unique = {notice.about or notice.id: notice for notice in own_last}
    return sorted(unique.values(), key=lambda notice: (notice.at, notice.id))[:MAX_SHOWN]


Source = Callable[[Transaction, SessionRecord], list[Notice]]
"""Lists notices for the agents and the work of a session."""


def list_waiting(tx: Transaction, record: SessionRecord) -> list[Notice]:
    """List the notices that nothing carried yet."""
    return NoticeStore(tx).list_waiting(record.agents, _list_work(record), MAX_SHOWN)


def list_answers(tx: Transaction, record: SessionRecord) -> list[Notice]:
    """List answers to issues that the session logged, even if another one on the same work got them."""
    return NoticeStore(tx).list_about(record.issues, MAX_SHOWN) if record.issues else []


def list_setbacks(tx: Transaction, record: SessionRecord) -> list[Notice]:
    """List the claims that its silent agents lost, and those agents, until they send a heartbeat."""
    rows = CurrentWorkStore(tx).list_setbacks(record.agents) if record.agents else []
    found = [_describe_offline(row) for row in rows if row["silent_since"] is not None]
    return found + [_describe_lost(row) for row in rows if row["task_id"] is not None]


def _describe_offline(row: Row) -> Notice:
    agent, at = row["agent_id"], row["silent_since"]
    id = f"silent:{agent}/{at}"
    return Notice(id, NoticeType.OFFLINE, at, DEEPWORK, OFFLINE_TEXT, agent, None, None, None)


def _describe_lost(row: Row) -> Notice:
    agent, task = row["agent_id"], row["task_id"]
    id, text = f"lost:{agent}/{task}", build_lost_text(row["task"])
    return Notice(id, NoticeType.LOST, row["lost_at"], DEEPWORK, text, agent, None, task, None)


def list_maybe_unread(tx: Transaction, record: SessionRecord) -> list[Notice]:
    """List what was carried, but maybe never read: the client was killed, or dropped it from its context."""
    store = NoticeStore(tx)
    return store.list_undelivered(record.agents, MAX_SHOWN) + store.find_by_ids(record.carried)


SOURCES: tuple[Source, ...] = (list_waiting, list_answers, list_setbacks)
START_SOURCES: tuple[Source, ...] = (list_maybe_unread,)


def show_notices(context: HookContext, store: ExistingStore, *, is_start: bool = False) -> str:
    """Return the text of the notices that this hook shows, and remember them.

    Runs under the lock: hooks of parallel tools must not show the same thing twice.
    """
    with context.lock():
        text, record = take_notices(context, store, context.load_record(), is_start=is_start)
        if text:
            context.memory.save(record)
    return text


def take_notices(
    context: HookContext, store: ExistingStore, record: SessionRecord, *, is_start: bool = False
) -> tuple[str, SessionRecord]:
    """Return the text of the notices that this hook shows, and the record with them; the caller saves it."""
    with store.reading() as tx:
        found, now = find_notices(tx, record, is_start=is_start), tx.now
    chosen = _choose_fitting(found, now)
    waiting = [
        each.id for each in chosen if each.is_stored and each.carried_at is None and _is_own(each, record)
    ]
    won, is_marked = _mark_carried(context, store, waiting) if waiting else ([], True)
    shown = [each for each in chosen if each.id in won or each.id not in waiting]
    after = _remember(record, shown, is_marked=is_marked)
    return cut_to_budget("\n\n".join(render_notice(notice, now) for notice in shown)), after


def _choose_fitting(notices: Sequence[Notice], now: int) -> list[Notice]:
    """Choose the first notices that fit the budget together; one alone is cut rather than left out."""
    chosen: list[Notice] = []
    for notice in notices:
        texts = [render_notice(each, now) for each in (*chosen, notice)]
        if chosen and not frame_texts(texts).endswith(texts[-1]):
            break
        chosen.append(notice)
    return chosen


def _mark_carried(
    context: HookContext, store: ExistingStore, ids: Sequence[str]
) -> tuple[Sequence[str], bool]:
    """Mark notices as carried; return those that no other answer carried, and whether they are marked."""
    try:
        with store.writing(MARK_WAIT_SECONDS) as tx:
            return NoticeStore(tx).mark_carried(ids), True
    except StorageError as error:  # show them anyway; the session's record prevents a repetition
        failure_log.record_failure(context.settings.store_folder, "marking of notices", error)
        return ids, False


def _remember(record: SessionRecord, shown: Sequence[Notice], *, is_marked: bool) -> SessionRecord:
    if not shown:
        return record
    about = {notice.about for notice in shown}
    after = replace(
        record,
        carried=tuple(notice.id for notice in shown if notice.is_stored),
        issues=tuple(issue for issue in record.issues if issue not in about),
    )
    unmarked = [_name(notice) for notice in shown if not (is_marked and notice.is_stored)]
    return add_delivered(after, unmarked)


def _is_own(notice: Notice, record: SessionRecord) -> bool:
    """Whether the notice is addressed to this session: to one of its agents, or to its task or work."""
    if notice.agent_id is not None:
        return notice.agent_id in record.agents
    is_of_task = notice.task_id is not None and notice.type is NoticeType.MESSAGE
    return is_of_task or notice.workflow_id in _list_work(record) or notice.about in record.issues


def _list_work(record: SessionRecord) -> list[str]:
    return [*([record.workflow] if record.workflow else []), *record.jobs]


def _name(notice: Notice) -> str:
    return f"notice:{notice.id}" if notice.is_stored else notice.id
