"""Notices about what people decide about job sessions, which the hooks of the session's agent show.

Sessions are files, so a decision counts even if the database is away: its next answer shows it as well.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from deepwork.kernel.call import current_call, is_person
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.notices.models import NoticeType
from deepwork.kernel.notices.rules import build_abort_text, build_gate_text
from deepwork.kernel.notices.service import NoticeService
from deepwork.kernel.notices.store import NoticeStore
from deepwork.work.jobs.sessions.state import GateDecision, PersonDecision, Session

log = logging.getLogger("deepwork")

_TYPES = {
    GateDecision.PASSED: NoticeType.PASSED,
    GateDecision.SENT_BACK: NoticeType.SENT_BACK,
    GateDecision.ROUND_GRANTED: NoticeType.ROUND_GRANTED,
}


def notify_of_decision(database: Database, session: Session) -> None:
    """Write the notice of the newest decision about the session."""
    made, id = session.decisions[-1], session.session_id
    next_step = session.current_step_id if session.is_active else None
    text = build_gate_text(id, made.step_id, made.decision.value, made.text, next_step)
    about = _list_names(session)[-1]
    _write(database, lambda tx: NoticeService(tx).notify_work(id, _TYPES[made.decision], text, about=about))


def notify_of_abort(database: Database, session: Session, explanation: str) -> None:
    """Write the notice that a person aborted the session."""
    if is_person(current_call().caller):
        id, text = session.session_id, build_abort_text(session.session_id, session.workflow, explanation)
        _write(database, lambda tx: NoticeService(tx).notify_work(id, NoticeType.ENDED, text))


def settle_decisions(database: Database, session: Session) -> None:
    """Keep hooks from repeating decisions that an answer showed; `session` is as it was before the answer."""
    names = _list_names(session)
    if session.unseen_decisions:
        _write(database, lambda tx: NoticeStore(tx).mark_carried_about(names))


def drop_read_send_backs(
    database: Database, session: Session, news: Sequence[PersonDecision]
) -> list[PersonDecision]:
    """Leave out the decisions that sent a step back and that a hook has shown to the agent.

    What the agent submits after that is its answer to them. If the database is away, none is left out.
    """
    if not any(each.decision is GateDecision.SENT_BACK for each in news):
        return list(news)
    carried = _find_carried_names(database, session)
    read = [
        each
        for name, each in zip(_list_names(session), session.decisions, strict=True)
        if name in carried and each.decision is GateDecision.SENT_BACK
    ]
    return [each for each in news if each not in read]


def _find_carried_names(database: Database, session: Session) -> set[str | None]:
    names = _list_names(session)
    try:
        with database.reading() as tx:
            found = NoticeStore(tx).list_about(names, len(names))
    except DeepworkError as error:
        log.warning("Cannot look up which notices were carried: %s", error)
        return set()
    return {notice.about for notice in found if notice.carried_at is not None}


def _list_names(session: Session) -> list[str]:
    """List what the notices of the session's decisions are about, in order."""
    return [f"{session.session_id}#{number}" for number in range(1, len(session.decisions) + 1)]


def _write(database: Database, write: Callable[[Transaction], None]) -> None:
    try:
        with database.transaction() as tx:
            write(tx)
    except DeepworkError as error:
        log.warning("Could not store a notice: %s", error)
