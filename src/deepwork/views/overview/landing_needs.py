"""Landings that wait for a person, as plain values."""

from __future__ import annotations

from typing import Any

from deepwork.delivery.landing.models import Landing, LandingStatus
from deepwork.delivery.landing.rules import PROBLEM_WORDS
from deepwork.delivery.landing.store import LandingStore
from deepwork.kernel.text_budget.lines import truncate_to_line
from deepwork.kernel.timestamps import format_timestamp
from deepwork.views.overview.run_store import WorkListStore, get_run_kind
from deepwork.views.overview.states.view import StateView

_MAX_DETAIL = 500


def list_landing_needs(view: StateView, limit: int) -> tuple[list[dict[str, Any]], int]:
    """List landings that only a person can help on; those that wait for an approval are listed as that."""
    tx = view.tx
    found, total = LandingStore(tx).list_newest(
        statuses=[LandingStatus.NEEDS_PERSON], is_open=True, limit=limit
    )
    names = WorkListStore(tx).find_names([each.workflow_id for each in found if each.workflow_id])
    states = view.judge_landings(found)
    return [
        _build_need(each, names.get(each.workflow_id or ""), states[each.id].next) for each in found
    ], total


def _build_need(landing: Landing, plan: tuple[str, str] | None, next: str | None) -> dict[str, Any]:
    words = PROBLEM_WORDS[landing.problem] if landing.problem else "could not land"
    workflow_id = landing.workflow_id or ""
    kind, name = plan or (get_run_kind(workflow_id) if workflow_id else "plan", workflow_id)
    return {
        "kind": "landing",
        "id": landing.id,
        "next": next,
        "title": f"{landing.title} {words}",
        "detail": truncate_to_line(landing.reason or "", _MAX_DETAIL) or "",
        "run": {"id": workflow_id, "kind": kind, "name": name} if workflow_id else None,
        "task": {"id": landing.task_id, "name": landing.title} if landing.task_id else None,
        "agent_name": None,
        "since": format_timestamp(landing.updated_at),
    }
