"""How many open things of each kind have which state."""

from __future__ import annotations

from collections import Counter

from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.store import RunStore as AgentRunStore
from deepwork.views.overview.run_store import ACTIVE_STATUSES, JOB, PLAN, TRACK, WorkListStore
from deepwork.views.overview.states.models import State
from deepwork.views.overview.states.view import StateView

MAX_COUNTED = 500
"""Of each kind the last changed or newest are counted, so that a page or a scrape never takes long."""


def count_by_kind(view: StateView) -> dict[str, dict[str, int]]:
    """Count open plans, their tasks, job sessions, tracked work, runs of agents and landings by state."""
    store = WorkListStore(view.tx)
    plans, sessions, tracks = (
        store.list_ids(kind, ACTIVE_STATUSES[kind], MAX_COUNTED) for kind in (PLAN, JOB, TRACK)
    )
    judged = view.judge_plans(plans).values()
    landings, _ = LandingStore(view.tx).list_newest(is_open=True, limit=MAX_COUNTED)
    runs, _ = AgentRunStore(view.tx).list_page(is_open=True, limit=MAX_COUNTED)
    found = {
        PLAN: Counter(plan.standing.state for plan in judged),
        "task": sum((plan.tasks for plan in judged), Counter[State]()),
        JOB: Counter(each.state for each in view.judge_session_ids(sessions).values()),
        TRACK: Counter(each.state for each in view.judge_tracks(tracks).values()),
        "run": Counter(each.state for each in view.judge_runs(runs).values()),
        "landing": Counter(each.state for each in view.judge_landings(landings).values()),
    }
    return {kind: {state.value: counts[state] for state in State} for kind, counts in found.items()}
