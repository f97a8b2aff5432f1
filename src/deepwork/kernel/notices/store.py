"""Stores notices to agents, and delivers each once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from deepwork.kernel.call import PERSON_PREFIX, is_person
from deepwork.kernel.database.engine import Row, row_parser
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import StorageError
from deepwork.kernel.events.log import RETENTION_MS
from deepwork.kernel.notices.models import Notice, NoticeType, cut_text
from deepwork.kernel.notices.responses import NoticeView
from deepwork.kernel.values import new_id


class NoticeStore:
    """Reads and writes notices."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def add(self, notices: Sequence[Notice]) -> None:
        """Insert new notices."""
        self._tx.insert_many("notices", [vars(notice) for notice in notices])

    def delete_before(self, moment: int) -> None:
        """Delete older notices, carried or not."""
        self._tx.execute("DELETE FROM notices WHERE at < :moment", moment=moment)

    def list_waiting(self, agents: Sequence[str], work: Sequence[str], limit: int) -> list[Notice]:
        """List notices that nothing carried yet, the oldest first.

        They are for one of these agents or for whoever holds their tasks, or for the work on one of these
        workflows and job sessions. Messages that have expired are left out.
        """
        sql = f"""
            SELECT {_COLUMNS} FROM notices
             WHERE carried_at IS NULL
               AND (agent_id IN :agents OR (agent_id IS NULL AND workflow_id IN :work)
                    OR (agent_id IS NULL
                        AND task_id IN (SELECT what FROM leases WHERE who IN :agents)))
               AND NOT EXISTS (SELECT 1 FROM messages
                                WHERE messages.id = notices.about AND messages.expires_at <= :now)
             ORDER BY created_seq LIMIT :limit
        """
        wanted = {"agents": list(agents), "work": list(work)}
        rows = self._tx.fetch_all(sql, **wanted, now=self._tx.now, limit=limit)
        return [_from_row(row) for row in rows]

    def list_undelivered(self, agents: Sequence[str], limit: int) -> list[Notice]:
        """List notices of these agents that something carried, since when the agent made no call."""
        sql = f"""
            SELECT {_COLUMNS} FROM notices
             WHERE agent_id IN :agents
               AND carried_at >= (SELECT last_heartbeat FROM agents WHERE agents.id = notices.agent_id)
             ORDER BY created_seq LIMIT :limit
        """
        rows = self._tx.fetch_all(sql, agents=list(agents), limit=limit)
        return [_from_row(row) for row in rows]

    def list_about(self, ids: Sequence[str], limit: int) -> list[Notice]:
        """List the notices about these issues or messages, the oldest first."""
        sql = f"SELECT {_COLUMNS} FROM notices WHERE about IN :ids ORDER BY created_seq LIMIT :limit"
        return [_from_row(row) for row in self._tx.fetch_all(sql, ids=list(ids), limit=limit)]

    def find_by_ids(self, ids: Sequence[str]) -> list[Notice]:
        """Return the notices with these ids, the oldest first."""
        sql = f"SELECT {_COLUMNS} FROM notices WHERE id IN :ids ORDER BY created_seq"
        return [_from_row(row) for row in self._tx.fetch_all(sql, ids=list(ids))]

    def mark_carried(self, ids: Sequence[str]) -> list[str]:
        """Mark notices as carried, and return the ids of those that nothing carried before.

        Of several answers and hooks that carry a notice at the same time, one gets it: a row that another
        transaction is marking is skipped.
        """
        sql = f"""
            UPDATE notices SET carried_at = :now, {_CARRIED_TO}
             WHERE id IN (SELECT id FROM notices WHERE id IN :ids AND carried_at IS NULL{self._tx.free_rows})
            RETURNING id
        """
        return [row["id"] for row in self._tx.fetch_all(sql, ids=list(ids), now=self._tx.now)]

    def list_words(self, task_id: str, limit: int) -> list[Notice]:
        """List the messages, refusals and hints of people for whoever works on a task, the oldest first.

        Those to the agent of one of its attempts are among them.
        """
        sql = f"""
            SELECT * FROM (
                SELECT {_COLUMNS}, created_seq FROM notices
                 WHERE type IN ('message', 'refused', 'retry') AND by_whom LIKE '{PERSON_PREFIX}%'
                   AND (task_id = :task AND agent_id IS NULL
                        OR agent_id IN (SELECT agent_id FROM attempts WHERE task_id = :task))
                 ORDER BY created_seq DESC LIMIT :limit) AS newest
             ORDER BY created_seq
        """
        rows = self._tx.fetch_all(sql, task=task_id, limit=limit)
        return [_from_row({name: row[name] for name in Notice.__dataclass_fields__}) for row in rows]

    def mark_repeated(self, ids: Sequence[str]) -> None:
        """Mark notices as carried to the open attempt at their task, whoever got them before."""
        sql = f"UPDATE notices SET carried_at = :now, {_CARRIED_TO} WHERE id IN :ids"
        self._tx.execute(sql, ids=list(ids), now=self._tx.now)

    def withdraw(self, ids: Sequence[str]) -> None:
        """Delete these notices, unless something carried them: what was said was said."""
        self._tx.execute("DELETE FROM notices WHERE id IN :ids AND carried_at IS NULL", ids=list(ids))

    def mark_carried_about(self, ids: Sequence[str]) -> None:
        """Mark the notices about these messages as carried: the agent read the messages themselves."""
        sql = "UPDATE notices SET carried_at = :now WHERE about IN :ids AND carried_at IS NULL"
        self._tx.execute(sql, ids=list(ids), now=self._tx.now)


_OPEN_ATTEMPT = "FROM attempts WHERE attempts.task_id = notices.task_id AND attempts.ended_at IS NULL"
_CARRIED_TO = f"attempt_id = (SELECT id {_OPEN_ATTEMPT}), start = (SELECT starts {_OPEN_ATTEMPT})"
"""Sets which attempt of a run a notice was carried to; NULL if no run works on the task."""
_COLUMNS = ", ".join(Notice.__dataclass_fields__)


@row_parser
def _from_row(row: Row) -> Notice:
    return Notice(**(row | {"type": NoticeType(row["type"])}))


MAX_NOTICES = 20
"""Notices in one answer; the next answer carries the rest."""

log = logging.getLogger("deepwork")


class NoticeDraft(NamedTuple):
    """A notice to write."""

    agent_id: str | None
    type: NoticeType
    text: str
    workflow_id: str | None = None
    task_id: str | None = None
    about: str | None = None


class NoticeService:
    """Writes the notices of one transaction.

    An agent needs no notice of what it does itself, so without `by` only what people do is told. What nobody
    does, such as a landing that fails, is told by `DEEPWORK`; an urgent message, by the agent that sent it.
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
        self.add(
            [NoticeDraft(agent, type, text, workflow_id, task_id, about) for agent in dict.fromkeys(agents)]
        )

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
        self.add([NoticeDraft(None, type, text, workflow_id, task_id, about)])

    def add(self, drafts: Sequence[NoticeDraft]) -> None:
        """Write notices that say different things."""
        if self._by is None or not drafts:
            return
        store, now, by = NoticeStore(self._tx), self._tx.now, self._by
        store.delete_before(now - RETENTION_MS)
        store.add(
            [
                Notice(new_id("nt"), type, now, by, cut_text(text), agent, workflow, task, about)
                for agent, type, text, workflow, task, about in drafts
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
