"""REST endpoint for the proofs of checks."""

from __future__ import annotations

from pydantic import Field

from deepwork.gates.checks.models import CheckVerdict
from deepwork.gates.checks.responses import ProofSummary
from deepwork.gates.checks.store import ProofStore
from deepwork.views.dashboard.endpoints import (
    Endpoint,
    PagedAnswer,
    PageQuery,
    ReadContext,
    decode_cursor,
    encode_cursor,
)


class ProofPage(PagedAnswer):
    proofs: list[ProofSummary]


class ProofQuery(PageQuery):
    check: str | None = Field(default=None, description="Of this check")
    verdict: CheckVerdict | None = None
    task_id: str | None = Field(default=None, description="With which this task counted as done")


def read_proofs(context: ReadContext, query: ProofQuery) -> ProofPage:
    """Read proofs, the newest first."""
    after = tuple(decode_cursor(query.cursor, int, str)) if query.cursor else None
    found, total = ProofStore(context.tx).list_newest(
        query.limit + 1, query.check, query.verdict, query.task_id, after
    )
    page = found[: query.limit]
    has_more = len(found) > query.limit
    cursor = encode_cursor([page[-1].created_at, page[-1].id]) if has_more else None
    return ProofPage(proofs=[ProofSummary.from_proof(each) for each in page], total=total, cursor=cursor)


ENDPOINTS = (
    Endpoint(
        "/api/v1/proofs",
        "What checks said about which files, newest first.",
        ProofQuery,
        ProofPage,
        read_proofs,
    ),
)
