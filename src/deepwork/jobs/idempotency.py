"""Idempotent retries of job tools; the answers are stored in the session's own file, not in the database."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from deepwork.call import current_call
from deepwork.errors import Code, Conflict, NotAllowed
from deepwork.jobs.responses import JobAnswer
from deepwork.jobs.sessions.state import LastAnswer, Session

Answer = TypeVar("Answer", bound=JobAnswer)


def record_answer(session: Session, tool: str, arguments: Mapping[str, Any], answer: JobAnswer) -> Session:
    """Add the answer to the session if the call has an idempotency key."""
    key = current_call().key
    if key is None:
        return session
    last = session.last_answers.get(tool)
    before = (*last.before, last.key) if last else ()
    recorded = LastAnswer(key, _hash_arguments(arguments), answer.model_dump(mode="json"), before)
    return replace(session, last_answers={**session.last_answers, tool: recorded})


def is_repeated(session: Session, tool: str) -> bool:
    """Whether a call with this idempotency key was executed before."""
    last, key = session.last_answers.get(tool), current_call().key
    return key is not None and last is not None and last.has(key)


def replay_answer(session: Session, tool: str, arguments: Mapping[str, Any], kind: type[Answer]) -> Answer:
    """Return the stored answer of a repeated call; raise if it is gone or if the arguments differ."""
    last, key = session.last_answers.get(tool), current_call().key
    if last is not None and key in last.before:
        raise NotAllowed(
            f"The call of {tool} with key {key!r} was already executed; the session has moved on since.",
            suggestion="Call {tool:get_session} for its current state; use a new key for each new call.",
        )
    if last is None or last.key != key or last.digest != _hash_arguments(arguments):
        raise Conflict(
            f"The idempotency key {key!r} was used for {tool} with different arguments.",
            code=Code.KEY_REUSED,
            suggestion="Repeat the call with its original arguments, or use a new key.",
        )
    return kind.model_validate(last.answer)


def derive_session_id(tool: str) -> str | None:
    """Derive a session id from the idempotency key, so that a retry finds the session it already started."""
    call = current_call()
    if call.key is None:
        return None
    return hashlib.sha256(f"{call.account}\0{tool}\0{call.key}".encode()).hexdigest()[:8]


def _hash_arguments(arguments: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()
