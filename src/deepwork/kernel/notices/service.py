"""Writes notices together with the action they report, and lets answers carry them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from deepwork.kernel.call import is_person
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import StorageError
from deepwork.kernel.events.log import RETENTION_MS
from deepwork.kernel.names import new_id
from deepwork.kernel.notices.models import Notice, NoticeType
from deepwork.kernel.notices.responses import NoticeView
from deepwork.kernel.notices.rules import cut_text
from deepwork.kernel.notices.store import NoticeStore

MAX_NOTICES = 20
"""Notices in one answer; the next answer carries the rest."""

DEEPWORK = "deepwork"
"""Tells what no person and no agent did."""

log = logging.getLogger("deepwork")


class NoticeService:
    """Writes the notices of one transaction.

    An agent needs no notice of what it does itself, so without `by` only what people do is told. What nobody
    does, such as a landing that fails, is told by `DEEPWORK`.
    """

    def __init__(self, tx: Transaction, by: str | None = None) -> None:
        self._tx, self._by = tx, by or (tx.caller if is_person(tx.caller) else None)

    @property
    def is_needed(self) -> bool:
        """Whether somebody acts whom others must hear of; ask before you look for those."""
        return self._by is not None

    def notify_agents(
        self,
        agents: Sequence[str],
        type: NoticeType,
        text: str,
        *,
        workflow_id: str | None = None,
        task_id: str | None = None,
        about: str | None = None,
    ) -> None:
        """Write a notice for each of these agents."""
        self._add([(agent, type, text, workflow_id, task_id, about) for agent in dict.fromkeys(agents)])

    def notify_work(
        self,
        workflow_id: str,
        type: NoticeType,
        text: str,
        *,
        task_id: str | None = None,
        about: str | None = None,
    ) -> None:
        """Write a notice for the sessions that work on a tracked workflow or a job."""
        self._add([(None, type, text, workflow_id, task_id, about)])

    def _add(
        self, rows: Sequence[tuple[str | None, NoticeType, str, str | None, str | None, str | None]]
    ) -> None:
        if self._by is None or not rows:
            return
        store, now, by = NoticeStore(self._tx), self._tx.now, self._by
        store.delete_before(now - RETENTION_MS)
        store.add(
            [
                Notice(new_id("nt"), type, now, by, cut_text(text), agent, workflow, task, about)
                for agent, type, text, workflow, task, about in rows
            ]
        )


def carry_notices(tx: Transaction, agent_id: str) -> list[NoticeView] | None:
    """Return the notices that wait for the agent, for the answer of its call, and mark them; None if none."""
    if is_person(tx.caller):  # who acts in the agent's name; the agent does not get this answer
        return None
    waiting = NoticeStore(tx).list_waiting([agent_id], [], MAX_NOTICES)
    return build_views(_keep_won(tx, waiting)) if waiting else None


def carry_after_reading(database: Database, waiting: Sequence[Notice], *, is_marked: bool) -> list[Notice]:
    """Return the waiting notices that a read carries; without `is_marked` its answer only shows them."""
    if not waiting or not is_marked:
        return list(waiting)
    try:
        with database.transaction() as tx:
            return _keep_won(tx, waiting)
    except StorageError as error:  # a full disk must not make reads fail
        log.warning("Could not mark notices as carried: %s", error)
        return list(waiting)


def build_views(notices: Sequence[Notice], *, is_iso: bool = False) -> list[NoticeView] | None:
    """Build the value of the key `notices`; None, so that it is left out, if there are none."""
    return [NoticeView.from_notice(notice, is_iso=is_iso) for notice in notices] or None


def _keep_won(tx: Transaction, waiting: Sequence[Notice]) -> list[Notice]:
    won = NoticeStore(tx).mark_carried([notice.id for notice in waiting])
    return [notice for notice in waiting if notice.id in won]
