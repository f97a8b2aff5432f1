"""What a person can do about an entry of the inbox on the page, besides the command that answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deepwork.delivery.landing.responses import offer_to_continue
from deepwork.delivery.runner.responses import offer_raise
from deepwork.kernel.answers import Act, offer
from deepwork.kernel.attention import Attention
from deepwork.kernel.states import Cause
from deepwork.views.overview import offered_actions
from deepwork.views.overview.run_store import PLAN, get_run_kind
from deepwork.work.tracking.operations import offer_resolve


def list_offers(entry: Attention) -> list[Act]:
    """List the actions on an entry; of one that stands for several, those on the first of them."""
    return _OFFERS[entry.kind](entry) if entry.kind in _OFFERS else []


def _offer_for_failure(entry: Attention) -> list[Act]:
    if get_run_kind(entry.run_id or "") == PLAN:
        return offered_actions.list_planned_task_actions(entry.id, "failed", None)
    return [offered_actions.offer_acknowledge(entry.id)]


def _offer_budget(entry: Attention) -> list[Act]:
    """Offer to raise the budget of a plan or a task; that of a day is in the settings."""
    if not entry.id.startswith(("wf_", "tk_")):
        return []
    return [offer("Raise the budget", "set_budget", {"usd": "How many dollars may it cost?"}, id=entry.id)]


def _offer_for_agent(entry: Attention) -> list[Act]:
    """Offer what helps an agent that waits: more money, if it is that."""
    if entry.why is not Cause.BUDGET:
        return []
    attempt = entry.record
    return [offer_raise(attempt.run_id)] if attempt is not None else []


def _list_review_offers(entry: Attention) -> list[Act]:
    given = {"review_id": entry.id}
    return [
        offer("Pass", "pass_review", None, **given),
        offer("Send back", "send_back_review", None, **given),
        offer("Grant a review", "grant_review_round", None, **given),
    ]


_OFFERS: Mapping[str, Callable[[Attention], list[Act]]] = {
    "agent_run": lambda entry: [offer_raise(entry.id)] if entry.why is Cause.BUDGET else [],
    "approval": lambda entry: offered_actions.list_approval_actions(entry.id),
    "blocker": lambda entry: [offer_resolve(entry.id)],
    "budget": _offer_budget,
    "failed_task": _offer_for_failure,
    "gate": lambda entry: offered_actions.list_session_actions(entry.record),
    "landing": lambda entry: offer_to_continue(entry.id, entry.task_id),
    "lost_claim": lambda entry: [offered_actions.offer_release(entry.id, entry.agent_id or "")],
    "manual_review": lambda entry: offered_actions.list_review_actions(entry.id),
    "parked_attempt": _offer_for_agent,
    "review": _list_review_offers,
    "stale_task": lambda entry: [offered_actions.offer_abandon(entry.id)],
    "waiting_plan": lambda entry: offered_actions.list_plan_actions(entry.id, "paused"),
}
"""By source."""
