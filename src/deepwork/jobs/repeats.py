"""Calls that come again under the same idempotency key: their answers are kept in the session's own file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from deepwork.database.call import current_call
from deepwork.errors import Code, Conflict, NotAllowed
from deepwork.jobs.progress import LastAnswer, Session
from deepwork.jobs.responses import JobAnswer

Answer = TypeVar("Answer", bound=JobAnswer)


def answered(session: Session, tool: str, arguments: Mapping[str, Any], answer: JobAnswer) -> Session:
    """The session with its answer, if the call has a key under which it may come again."""
    key = current_call().key
    if key is None:
        return session
    last = session.last_answers.get(tool)
    before = (*last.before, last.key) if last else ()
    kept = LastAnswer(key, _digest(arguments), answer.model_dump(mode="json"), before)
    return replace(session, last_answers={**session.last_answers, tool: kept})


def was_answered(session: Session, tool: str) -> bool:
    """Whether this very call was carried out before."""
    last, key = session.last_answers.get(tool), current_call().key
    return key is not None and last is not None and last.has(key)


def again(session: Session, tool: str, arguments: Mapping[str, Any], kind: type[Answer]) -> Answer:
    """The answer of the first time, for the same call under the same key."""
    last, key = session.last_answers.get(tool), current_call().key
    if last is not None and key in last.before:
        raise NotAllowed(
            f"The call of {tool} under the key {key!r} was carried out; the session has gone on since.",
            suggestion="See get_session for where it stands; use a new key for each new call.",
        )
    if last is None or last.key != key or last.digest != _digest(arguments):
        raise Conflict(
            f"The idempotency key {key!r} was used for {tool} with other arguments.",
            code=Code.KEY_REUSED,
            suggestion="Repeat the call with its first arguments, or use a new key.",
        )
    return kind.model_validate(last.answer)


def id_from_key(tool: str) -> str | None:
    """The id of the session that a call under a key starts: the same each time it is repeated."""
    call = current_call()
    if call.key is None:
        return None
    return hashlib.sha256(f"{call.account}\0{tool}\0{call.key}".encode()).hexdigest()[:8]


def _digest(arguments: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()
