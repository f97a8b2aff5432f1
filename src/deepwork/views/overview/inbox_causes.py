"""What entries of the inbox have in common, and what waits for them: agents, and tasks of plans."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from deepwork.kernel.attention import Attention
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Transaction
from deepwork.kernel.states import Cause
from deepwork.views.overview.inbox_store import BlockedStore

_MAX_ROOTS = 50
"""Tasks whose dependents are followed in one read; how much the others block is not known."""
_MAX_NAMED = 12
_VARIABLE_PATTERN = re.compile(r"0x[0-9a-f]+|\d+|[\w./-]*/[\w./-]+|'[^']*'|\"[^\"]*\"", re.IGNORECASE)
"""What differs between messages about one cause: numbers, paths and names in quotes."""
_OF_ALL = ("agent_run", "waiting_plan")
"""What stops all work on a plan."""


# One cause is one entry


def merge_same_causes(entries: Sequence[tuple[int, Attention]]) -> list[tuple[int, Attention]]:
    """Make one entry of the tasks of a plan that failed for one reason; the numbers are kept."""
    groups: dict[object, list[tuple[int, Attention]]] = defaultdict(list)
    for place, each in entries:
        groups[_name_cause(each) or each.key].append((place, each))
    return [(group[0][0], _merge([each for _, each in group])) for group in groups.values()]


def _name_cause(entry: Attention) -> tuple[str, str] | None:
    """Return what failed tasks with one cause have in common; None if it is not known."""
    if entry.kind != "failed_task" or not entry.run_id or not entry.detail:
        return None
    return entry.run_id, _VARIABLE_PATTERN.sub("#", entry.detail.lower())


def _merge(group: Sequence[Attention]) -> Attention:
    first = group[0]
    if len(group) == 1:
        return first
    waits = any(each.why is Cause.ATTEMPTS_USED_UP for each in group)
    return replace(
        first,
        title=f"{len(group)} tasks failed: {first.detail}",
        detail=", ".join(each.task_name or each.id for each in group),
        why=Cause.ATTEMPTS_USED_UP if waits else first.why,
        next=f"deepwork inbox retry {first.key}",
        since=min(each.since for each in group),
        same=tuple(group),
        agents=sum(each.agents for each in group),
    )


# What waits


def find_waiting_agents(tx: Transaction, entries: Sequence[Attention]) -> dict[str, int]:
    """Count the agents that wait until a person decides, by the key of the entry."""
    if not entries:
        return {}
    return {key: len(agents) for key, agents in _find_waiting(tx, entries).items()}


def _find_waiting(tx: Transaction, entries: Sequence[Attention]) -> dict[str, set[str]]:
    store = BlockedStore(tx)
    parked = store.list_parked()
    holders = store.list_holders([each.task_id for each in entries if each.task_id])
    return {each.key: _list_agents(each, parked, holders) for each in entries}


def _list_agents(entry: Attention, parked: Sequence[Row], holders: Sequence[Row]) -> set[str]:
    """Return the agents of the task; if all work of a plan stands still, those that wait in it."""
    found = {
        row["agent_id"] for row in parked if entry.task_id == row["task_id"] or entry.id == row["run_id"]
    }
    if stops_all(entry):
        of_budget = entry.kind == "budget"
        found |= {
            row["agent_id"]
            for row in parked
            if row["workflow_id"] == entry.run_id and (not of_budget or row["parked_for"] == "budget")
        }
    return found | {row["who"] for row in holders if row["what"] == entry.task_id}


def stops_all(entry: Attention) -> bool:
    """Whether no task of the plan can be worked on."""
    is_of_plan = entry.kind in ("approval", "budget") and entry.task_id is None
    return entry.kind in _OF_ALL or is_of_plan


def count_blocked_tasks(tx: Transaction, entries: Sequence[Attention]) -> dict[str, int]:
    """Count the open tasks of plans that cannot be done before a person decides, by the key of the entry.

    An entry whose number is not known is left out.
    """
    members = [each for entry in entries for each in entry.members]
    plans = sorted({each.run_id for each in members if each.run_id and each.run_id.startswith("wf_")})
    if not plans:
        return {}
    store = BlockedStore(tx)
    levels = store.count_open_by_level(plans)
    roots = {each.task_id: each for each in members if each.task_id and each.run_id in plans}
    named = store.list_dependents(list(roots)[:_MAX_ROOTS])
    places = store.find_levels(list(roots))
    found = {}
    for entry in entries:
        if entry.run_id not in plans:
            continue
        if stops_all(entry):
            found[entry.key] = sum(count for _, count, _ in levels[entry.run_id])
            continue
        tasks = [each.task_id for each in entry.members if each.task_id]
        if not tasks or not set(tasks) <= named.keys():
            continue
        lowest = min((places[task] for task in tasks if task in places), default=None)
        by_level = [
            implied for level, _, implied in levels[entry.run_id] if lowest is not None and level > lowest
        ]
        found[entry.key] = sum(by_level) + len(set().union(*(named[task] for task in tasks)) - set(tasks))
    return found


def list_blocked_names(tx: Transaction, entry: Attention) -> tuple[list[str], list[str], int]:
    """Return the agents that wait for an entry, the first open tasks that it blocks, and their number."""
    store = BlockedStore(tx)
    waiting: set[str] = set().union(*_find_waiting(tx, entry.members).values())
    names, total = store.list_agent_names(sorted(waiting)), count_blocked_tasks(tx, [entry]).get(entry.key, 0)
    if not total or entry.run_id is None:
        return names, [], 0
    if stops_all(entry):
        return names, store.list_open_names(entry.run_id, _MAX_NAMED), total
    tasks = [each.task_id for each in entry.members if each.task_id]
    named: set[str] = set().union(*store.list_dependents(tasks).values()) - set(tasks)
    lowest = min(store.find_levels(tasks).values(), default=0)
    return names, store.list_names_after(entry.run_id, sorted(named), lowest, _MAX_NAMED), total
