"""What a planner hands over: a plan that is weak goes back to it once, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepwork.kernel.database.transaction import Database
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.values import copy_with
from deepwork.work.wishes.models import find_weaknesses
from deepwork.work.wishes.store import WishStore

_MAX_REASONS = 20


class WeakPlan(InvalidInput):
    """A plan that goes back to its planner."""

    suggestion = (
        "Correct the plan, and hand it over again. If you think that it is right as it is, hand it over again"
        " unchanged."
    )


def require_sound_plan(database: Database, plan_id: str, plan: object) -> None:
    """Raise WeakPlan if the plan of a wish is weak, unless one has gone back before: then a person sees it.

    What is no plan at all is left to the tool, which says so.
    """
    if not isinstance(plan, Mapping) or not _has_tasks(plan):
        return
    with database.transaction() as tx:
        store = WishStore(tx)
        found = store.find_of_plan(plan_id)
        wish = store.get(found.id, for_update=True) if found else None
        if wish is None or wish.returned_plan is not None:
            return
        reasons = find_weaknesses(plan)
        if not reasons:
            return
        text = "\n".join(f"- {reason}" for reason in reasons[:_MAX_REASONS])
        store.save(copy_with(wish, returned_plan=text))
    raise WeakPlan(f"The plan is not good enough yet:\n{text}")


def _has_tasks(plan: Mapping[str, Any]) -> bool:
    tasks = plan.get("tasks")
    return isinstance(tasks, list) and all(isinstance(task, Mapping) for task in tasks)
