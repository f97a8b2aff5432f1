"""Finding anything by its words: runs, tasks, decisions, issues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from deepwork.dashboard.endpoints import Endpoint, Nothing, Sight
from deepwork.dashboard.note_store import MAX_WORDS
from deepwork.dashboard.run_store import containing
from deepwork.dashboard.runs import RunRef, refs
from deepwork.database.engine import Row
from deepwork.database.transaction import Transaction
from deepwork.errors import InvalidInput
from deepwork.plans.responses import one_line
from deepwork.plans.search import SearchStore
from deepwork.plans.task_store import TaskStore
from deepwork.shapes import Answer

EACH = 20
_EXCERPT = 160


class SearchQuery(Nothing):
    q: str = Field(max_length=200, description="Words, all of which are in it")


class Found(Answer):
    kind: str
    id: str
    title: str
    excerpt: str
    run: RunRef
    task_id: str | None = None


class Results(Answer):
    results: list[Found]


@dataclass(frozen=True)
class _Place:
    """A table to look in."""

    kind: str
    table: str
    title: str
    texts: str
    run_id: str = "workflow_id"
    task_id: str = "NULL"
    order: str = "created_at"


_PLACES = (
    _Place("run", "tracked_workflows", "name", "name || ' ' || objective", run_id="id"),
    _Place("run", "plans", "name", "name || ' ' || source_content", run_id="id"),
    _Place(
        "run", "job_sessions", "job_name || '/' || workflow_name", "job_name || '/' || workflow_name",
        run_id="id", order="updated_at",
    ),
    _Place("task", "tracked_tasks", "name", "name || ' ' || goal", task_id="id", order="started_at"),
    _Place(
        "decision", "decisions", "question",
        "question || ' ' || chosen || ' ' || reasoning || ' ' || coalesce(trade_offs, '')", task_id="task_id",
    ),
    _Place("issue", "issues", "description", "description || ' ' || resolution", task_id="task_id"),
)  # fmt: skip


class FindStore:
    """Whatever has these words, newest first; a few of each kind."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def find(self, place: _Place, words: Sequence[str]) -> list[Row]:
        patterns = {f"word_{number}": containing(word.lower()) for number, word in enumerate(words)}
        conditions = " AND ".join(f"lower({place.texts}) LIKE :{name} ESCAPE '!'" for name in patterns)
        return self._tx.all(
            f"SELECT id, {place.title} AS title, {place.texts} AS said, {place.run_id} AS run_id,"
            f" {place.task_id} AS task_id FROM {place.table} WHERE {conditions}"
            f" ORDER BY {place.order} DESC, created_seq DESC LIMIT :limit",
            limit=EACH, **patterns,
        )  # fmt: skip


def search(sight: Sight, query: SearchQuery) -> Results:
    """What has all of these words."""
    words = query.q.split()[:MAX_WORDS]
    if not words:
        raise InvalidInput("`q` has no word in it.", suggestion="Say what to look for.")
    store = FindStore(sight.tx)
    found = [(place.kind, row) for place in _PLACES for row in store.find(place, words)]
    found += [("task", row) for row in _planned(sight.tx, query.q)]
    runs = refs(sight.tx, [row["run_id"] for _, row in found])
    return Results(results=[_shown(kind, row, runs, words) for kind, row in found if row["run_id"] in runs])


def _planned(tx: Transaction, query: str) -> list[Row]:
    """Tasks of plans, by the words that their slice keeps."""
    ids, _ = SearchStore(tx).find(query, None, 2 * EACH)
    tasks = TaskStore(tx).named([id for id in ids if id.startswith("tk_")])
    return [
        {
            "id": task.id, "title": task.name, "said": f"{task.description} {task.outcome or ''}",
            "run_id": task.workflow_id, "task_id": task.id,
        }
        for task in list(tasks.values())[:EACH]
    ]  # fmt: skip


def _shown(kind: str, row: Row, runs: Mapping[str, RunRef], words: Sequence[str]) -> Found:
    return Found(
        kind=kind, id=row["id"], title=one_line(row["title"]) or "", excerpt=_excerpt(row["said"], words[0]),
        run=runs[row["run_id"]], task_id=row["task_id"],
    )  # fmt: skip


def _excerpt(text: str, word: str) -> str:
    """The words around the first place where one of them stands."""
    at = max(0, text.lower().find(word.lower()) - _EXCERPT // 3)
    return ("…" if at else "") + (one_line(text[at : at + 2 * _EXCERPT], _EXCERPT) or "")


ENDPOINTS = (
    Endpoint(
        "/api/v1/search", "Runs, tasks, decisions and issues with these words.", SearchQuery, Results, search,
        follows_events=True,
    ),
)  # fmt: skip
