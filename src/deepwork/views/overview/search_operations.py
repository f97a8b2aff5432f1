"""What people search: runs, tasks, decisions, issues and agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from deepwork.kernel.answers import Answer, Field
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.foreign_text import truncate_to_line
from deepwork.kernel.operations import Traits, operation
from deepwork.views.overview.run_refs import find_run_refs
from deepwork.views.overview.run_search_store import RunSearchStore
from deepwork.work.agents.store import AgentStore
from deepwork.work.plans.stores.search_store import SearchStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.tracking.list_responses import RunRef
from deepwork.work.tracking.operations import MAX_SEARCH_WORDS

MAX_PER_KIND = 20
_MAX_EXCERPT = 160


class Found(Answer):
    kind: str
    id: str
    title: str
    excerpt: str
    run: RunRef | None = None
    """What it belongs to; an agent belongs to none."""
    task_id: str | None = None


class SearchAnswer(Answer):
    results: list[Found]


class SearchOperations:
    """Searches runs of all kinds."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(self, database: Database) -> None:
        self._database = database

    @operation("read")
    def search_work(
        self, q: Annotated[str, Field(max_length=200, description="Search words; all must occur")]
    ) -> SearchAnswer:
        """Runs, tasks, decisions, issues and registered agents that match."""
        words = q.split()[:MAX_SEARCH_WORDS]
        if not words:
            raise InvalidInput("`q` contains no word.", suggestion="Enter at least one word to search for.")
        with self._database.reading() as tx:
            found = list(RunSearchStore(tx).find(words, MAX_PER_KIND))
            found += [("task", row) for row in _find_planned_tasks(tx, q)]
            runs = find_run_refs(tx, [row["run_id"] for _, row in found])
            agents = _find_agents(tx, words)
        things = [_build_result(kind, row, runs, words) for kind, row in found if row["run_id"] in runs]
        return SearchAnswer(results=[*things, *agents])


def _find_agents(tx: Transaction, words: Sequence[str]) -> list[Found]:
    """Find registered agents by name, newest first."""
    names = AgentStore(tx).list_names_of_agents()
    found = [id for id, name in names.items() if all(word.lower() in name.lower() for word in words)]
    return [
        Found(kind="agent", id=id, title=names[id], excerpt=names[id])
        for id in reversed(found[-MAX_PER_KIND:])
    ]


def _find_planned_tasks(tx: Transaction, query: str) -> list[Row]:
    """Find planned tasks by the full-text index of plans."""
    ids, _ = SearchStore(tx).find(query, None, 2 * MAX_PER_KIND)
    tasks = TaskStore(tx).find_by_ids([id for id in ids if id.startswith("tk_")])
    return [
        {
            "id": task.id,
            "title": task.name,
            "said": f"{task.description} {task.outcome or ''}",
            "run_id": task.workflow_id,
            "task_id": task.id,
        }
        for task in list(tasks.values())[:MAX_PER_KIND]
    ]


def _build_result(kind: str, row: Row, runs: Mapping[str, RunRef], words: Sequence[str]) -> Found:
    return Found(
        kind=kind,
        id=row["id"],
        title=truncate_to_line(row["title"]) or "",
        excerpt=_extract_excerpt(row["said"], words[0]),
        run=runs[row["run_id"]],
        task_id=row["task_id"],
    )


def _extract_excerpt(text: str, word: str) -> str:
    """Return the text around the first occurrence of the word."""
    at = max(0, text.lower().find(word.lower()) - _MAX_EXCERPT // 3)
    return ("…" if at else "") + (truncate_to_line(text[at : at + 2 * _MAX_EXCERPT], _MAX_EXCERPT) or "")
