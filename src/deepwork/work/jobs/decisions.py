"""People's decisions about the steps of a job: what the agent must know, in its answers and in notices.

Sessions are files, so a decision counts even if the database is away: its next answer shows it as well.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from deepwork.kernel.call import current_call, is_person
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import DeepworkError
from deepwork.kernel.notices.models import NoticeType, build_abort_text, build_gate_text
from deepwork.kernel.notices.store import NoticeService, NoticeStore
from deepwork.work.jobs.responses import DecisionInfo
from deepwork.work.jobs.sessions.state import GateDecision, PersonDecision, Session

log = logging.getLogger("deepwork")

_TYPES = {
    GateDecision.PASSED: NoticeType.PASSED,
    GateDecision.SENT_BACK: NoticeType.SENT_BACK,
    GateDecision.ROUND_GRANTED: NoticeType.ROUND_GRANTED,
}


def to_infos(decisions: Iterable[PersonDecision]) -> list[DecisionInfo] | None:
    """Convert decisions for an answer; None if there are none."""
    return [DecisionInfo.of(each) for each in decisions] or None


def list_for_current_step(session: Session) -> list[PersonDecision]:
    """List the decisions about the current step since it began; those about an earlier run of it are over."""
    began = session.get_progress(session.current_step_id).started_at or ""
    return [
        each for each in session.decisions if each.step_id == session.current_step_id and each.at >= began
    ]


def has_passed_meanwhile(session: Session, step_id: str | None, news: Sequence[PersonDecision]) -> bool:
    """Whether a person let the step pass that the agent reports.

    An agent that names no step and has not read of a decision reports the step that it knows as current.
    """
    if step_id is None:
        return bool(news) and news[-1].decision is GateDecision.PASSED
    return step_id != session.current_step_id and any(
        each.decision is GateDecision.PASSED and each.step_id == step_id for each in session.decisions
    )


def find_send_back(news: Sequence[PersonDecision]) -> PersonDecision | None:
    """Find the decision by which a person sent the step back, if the agent has not read of it."""
    return next((each for each in reversed(news) if each.decision is GateDecision.SENT_BACK), None)


def format_send_back(decision: PersonDecision) -> str:
    """Format a person's feedback as that of a review."""
    return f"{decision.by} sent this step back: {decision.text}"


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
