"""The words for people that stand for the fields of an answer."""

from __future__ import annotations

_WORDS = {
    "agent_name": "agent",
    "at": "when",
    "by_whom": "by",
    "duration_seconds": "seconds",
    "is_stale": "silent",
    "last_heartbeat": "last seen",
    "manual_review_needed": "needs review",
    "message_type": "type",
    "phase_name": "phase",
    "phase_number": "number",
    "phase_summary": "phases",
    "plan_summary": "summary",
    "requires_human_review": "needs a person",
    "seq": "number",
    "task_name": "task",
    "ts": "when",
    "until_at": "claim ends",
}


def to_heading(key: str) -> str:
    """Return a field's name as words: `created_at` is `created`, `files_changed` is `files changed`."""
    return _WORDS.get(key) or key.removesuffix("_at").replace("_", " ")
