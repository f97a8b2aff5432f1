"""What happened while a person was away, and what it cost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar

from deepwork.gates.access.models import OWNER
from deepwork.gates.approvals.models import find_name
from deepwork.gates.budgets.models import MICROS_PER_USD
from deepwork.kernel.answers import Answer, Field, IsoTime
from deepwork.kernel.call import PERSON_PREFIX
from deepwork.kernel.database.engine import Row
from deepwork.kernel.database.transaction import Database, Transaction
from deepwork.kernel.errors import InvalidInput
from deepwork.kernel.foreign_text import truncate_to_line
from deepwork.kernel.operations import Traits, operation
from deepwork.kernel.values import format_optional_timestamp, format_timestamp, parse_timestamp
from deepwork.views.overview.run_store import WorkListStore, get_run_kind
from deepwork.views.overview.spending import Amounts
from deepwork.work.tracking.list_responses import RunRef

AWAY_MS = 60 * 60 * 1000
"""Who gives no sign for so long was away."""
USUAL_MS = 8 * AWAY_MS
MAX_LINES = 50
_MAX_DETAIL = 300
_PERIOD_PATTERN = re.compile(r"(\d{1,6})\s*([mhdw])")
_UNITS = {"m": 60_000, "h": 3_600_000, "d": 24 * 3_600_000, "w": 7 * 24 * 3_600_000}
_EXAMPLES = "Write a period such as 8h, 90m or 2d, or a time such as 2026-11-18T18:00."

Since = Annotated[str | None, Field(description="A period such as 8h, or a time; default: your last visit")]


class SinceLine(Answer):
    """One thing that happened."""

    kind: str
    id: str
    title: str
    at: IsoTime
    by: str | None = None
    """Who did or decided it."""
    detail: str = ""
    run: RunRef | None = None


class SinceGroup(Answer):
    """Things of one kind, the newest first, and how many there are in all."""

    total: int
    items: list[SinceLine]


class SinceYouLeft(Answer):
    """What happened since a moment, for the person who asks."""

    since: IsoTime
    until: IsoTime
    is_back: bool
    """Whether this person was away for an hour or more, and has not been seen since."""
    is_kept: bool
    """Whether the server keeps when this person was here; for the owner, a browser does."""
    landed: SinceGroup
    done: SinceGroup
    """Tasks that were completed."""
    failed: SinceGroup
    parked: SinceGroup
    decided: SinceGroup
    """What agents decided, and approvals that other people decided."""
    spent: Amounts
    total: int


class Visit(Answer):
    """When a person was here; null where a browser has to keep it."""

    seen: IsoTime | None = None
    is_kept: bool


class SinceOperations:
    """Reads what happened while a person was away, and notes that they are here."""

    traits: ClassVar = Traits(toolset="overview", people_only=True)

    def __init__(self, database: Database) -> None:
        self._database = database

    @operation("read")
    def get_since(self, since: Since = None) -> SinceYouLeft:
        """What landed, was done, failed, parked and was decided since you left, and what it cost."""
        with self._database.reading() as tx:
            store = SinceStore(tx)
            visit = store.find_visit(tx.caller) if _is_identified(tx.caller) else None
            is_back = visit is not None and tx.now - visit["seen_at"] >= AWAY_MS
            moment = parse_since(since, tx.now) if since else _find_absence(visit, tx.now, is_back=is_back)
            return store.build(moment, is_back=is_back)

    @operation("work", idempotent=True, for_people=True)
    def note_visit(self) -> Visit:
        """Note that you are here, so that the server knows since when you were away."""
        with self._database.transaction() as tx:
            if not _is_identified(tx.caller):
                return Visit(is_kept=False)
            SinceStore(tx).note_visit(tx.caller)
            return Visit(seen=format_timestamp(tx.now), is_kept=True)


def parse_since(text: str, now: int) -> int:
    """Parse a period before now, or a time; raises InvalidInput for anything else."""
    if found := _PERIOD_PATTERN.fullmatch(text.strip().lower()):
        return max(0, now - int(found[1]) * _UNITS[found[2]])
    try:
        moment = parse_timestamp(text.strip(), "since")
    except (InvalidInput, OverflowError):
        raise InvalidInput(
            f"`since`: {text[:60]!r} is no period and no time.", suggestion=_EXAMPLES
        ) from None
    if not 0 <= moment <= now:
        raise InvalidInput(f"`since`: {text[:60]!r} is not in the past.", suggestion=_EXAMPLES)
    return moment


def _is_identified(caller: str) -> bool:
    """Whether the caller is one person: the owner's token may be used in several places."""
    return caller.startswith(PERSON_PREFIX) and caller != f"{PERSON_PREFIX}{OWNER}"


def _find_absence(visit: Row | None, now: int, *, is_back: bool) -> int:
    """Return since when the person was away; the usual time if nothing is known of them."""
    if visit is None:
        return now - USUAL_MS
    found = visit["seen_at"] if is_back else visit["left_at"]
    return now - USUAL_MS if found is None else int(found)


class SinceStore:
    """Reads what happened since a moment, across slices, and keeps who was here when."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx

    def find_visit(self, person: str) -> Row | None:
        """Find when a person was here."""
        return self._tx.fetch_one("SELECT seen_at, left_at FROM visits WHERE person = :person", person=person)

    def note_visit(self, person: str) -> None:
        """Note a sign of a person; after an absence, since when they were away is kept, too."""
        sql = """
            INSERT INTO visits (person, seen_at) VALUES (:person, :now)
                ON CONFLICT (person) DO UPDATE
               SET left_at = CASE WHEN excluded.seen_at - visits.seen_at >= :away
                                  THEN visits.seen_at ELSE visits.left_at END,
                   seen_at = excluded.seen_at
        """
        self._tx.execute(sql, person=person, now=self._tx.now, away=AWAY_MS)

    def build(self, since: int, *, is_back: bool) -> SinceYouLeft:
        """Build what happened since a moment."""
        found = {
            "landed": self._list(_LANDED, since),
            "done": self._list(_DONE, since),
            "failed": self._list(_FAILED, since),
            "parked": self._list(_PARKED, since),
            "decided": self._list(_DECIDED, since, me=self._tx.caller),
        }
        names = WorkListStore(self._tx).find_names(
            sorted({row["run_id"] for rows, _ in found.values() for row in rows if row["run_id"]})
        )
        groups = {
            name: SinceGroup(total=total, items=[_build_line(row, names) for row in rows])
            for name, (rows, total) in found.items()
        }
        return SinceYouLeft(
            since=format_timestamp(since),
            until=format_timestamp(self._tx.now),
            is_back=is_back,
            is_kept=_is_identified(self._tx.caller),
            spent=self._sum_spending(since),
            total=sum(group.total for group in groups.values()),
            **groups,
        )

    def _list(self, rows: str, since: int, **values: Any) -> tuple[list[Row], int]:
        columns = "kind, id, title, at, by_whom, detail, run_id, shown"
        return self._tx.list_first(
            columns, f"({rows}) AS happened", "at DESC, id", MAX_LINES, since=since, **values
        )

    def _sum_spending(self, since: int) -> Amounts:
        sql = """
            SELECT coalesce(sum(usd_micros), 0) AS usd_micros, coalesce(sum(tokens), 0) AS tokens
              FROM spending WHERE at >= :since
        """
        row: Mapping[str, int] = self._tx.fetch_one(sql, since=since) or {"usd_micros": 0, "tokens": 0}
        return Amounts(usd=int(row["usd_micros"]) / MICROS_PER_USD, tokens=int(row["tokens"]))


def _build_line(row: Row, names: Mapping[str, tuple[str, str]]) -> SinceLine:
    run_id = row["run_id"]
    kind, name = names.get(run_id, (get_run_kind(run_id), run_id)) if run_id else ("", "")
    title = (find_name(json.loads(row["shown"])) if row["shown"] else None) or row["title"]
    return SinceLine(
        kind=row["kind"],
        id=row["id"],
        title=title,
        at=format_optional_timestamp(row["at"]) or "",
        by=row["by_whom"],
        detail=truncate_to_line(row["detail"] or "", _MAX_DETAIL) or "",
        run=RunRef(id=run_id, kind=kind, name=name) if run_id else None,  # type: ignore[arg-type] # one of three
    )


def _unite(selects: Iterable[str]) -> str:
    return " UNION ALL ".join(selects)


_NOBODY = "CAST(NULL AS TEXT)"
_HOLDER = "(SELECT agents.name FROM agents WHERE agents.id = plan_tasks.claimed_by)"
_LANDED = f"""
    SELECT 'landing' AS kind, id, title, ended_at AS at, {_NOBODY} AS by_whom,
           coalesce(branch, target) AS detail, workflow_id AS run_id, {_NOBODY} AS shown
      FROM landings WHERE status = 'landed' AND ended_at >= :since
"""  # noqa: S608 - no values
_DONE = _unite(
    [
        f"""
    SELECT 'task' AS kind, id, name AS title, finished_at AS at, {_HOLDER} AS by_whom, outcome AS detail,
           workflow_id AS run_id, {_NOBODY} AS shown
      FROM plan_tasks WHERE status = 'completed' AND finished_at >= :since
""",  # noqa: S608
        f"""
    SELECT 'task' AS kind, id, name AS title, completed_at AS at, agent_name AS by_whom, {_NOBODY} AS detail,
           workflow_id AS run_id, {_NOBODY} AS shown
      FROM tracked_tasks WHERE status IN ('success', 'partial_success') AND completed_at >= :since
""",  # noqa: S608
    ]
)
_FAILED = _unite(
    [
        f"""
    SELECT 'task' AS kind, id, name AS title, coalesce(finished_at, updated_at) AS at, {_HOLDER} AS by_whom,
           error AS detail, workflow_id AS run_id, {_NOBODY} AS shown
      FROM plan_tasks WHERE status = 'failed' AND coalesce(finished_at, updated_at) >= :since
""",  # noqa: S608
        f"""
    SELECT 'task' AS kind, id, name AS title, completed_at AS at, agent_name AS by_whom, {_NOBODY} AS detail,
           workflow_id AS run_id, {_NOBODY} AS shown
      FROM tracked_tasks WHERE status = 'failed' AND completed_at >= :since
""",  # noqa: S608
        f"""
    SELECT 'landing' AS kind, id, title, updated_at AS at, {_NOBODY} AS by_whom, reason AS detail,
           workflow_id AS run_id, {_NOBODY} AS shown
      FROM landings WHERE status IN ('needs_person', 'returned') AND updated_at >= :since
""",  # noqa: S608
        f"""
    SELECT 'session' AS kind, id, job_name || '/' || workflow_name AS title, updated_at AS at,
           {_NOBODY} AS by_whom, goal AS detail, id AS run_id, {_NOBODY} AS shown
      FROM job_sessions WHERE status = 'aborted' AND updated_at >= :since
""",  # noqa: S608
    ]
)
_PARKED = f"""
    SELECT 'attempt' AS kind, attempts.id, coalesce(task.name, attempts.task_id) AS title,
           attempts.updated_at AS at, profile AS by_whom, reason AS detail,
           attempts.workflow_id AS run_id, {_NOBODY} AS shown
      FROM attempts LEFT JOIN plan_tasks AS task ON task.id = attempts.task_id
     WHERE ended_at IS NULL AND stage = 'parked' AND attempts.updated_at >= :since
"""  # noqa: S608
_DECIDED = _unite(
    [
        f"""
    SELECT 'decision' AS kind, id, question AS title, created_at AS at, agent_name AS by_whom,
           chosen AS detail, workflow_id AS run_id, {_NOBODY} AS shown
      FROM decisions WHERE created_at >= :since
""",  # noqa: S608
        """
    SELECT 'approval' AS kind, id, subject_id AS title, decided_at AS at, decided_by AS by_whom,
           CASE WHEN status = 'refused' THEN 'refused' ELSE 'approved' END AS detail,
           workflow_id AS run_id, shown
      FROM approvals WHERE decided_at >= :since AND decided_by <> :me
""",
    ]
)
