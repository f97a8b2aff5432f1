"""Migration 0019 seals the decisions that the keyed audit log has; the others are asked for again, or unverified."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from access.make import make_token
from access.test_forged_rows import find_problem, give
from application import make_app
from approvals.make import ask, make_request, read, use
from approvals.person import enroll_passphrase
from dashboard.make import create_client
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.database.store_key import get_or_create_user_key, hmac_hex
from package.old_stores import create_empty_location


def undo_migration(app: Application) -> None:
    """Let the store be as the version before left it."""
    before = import_module("deepwork.kernel.database.migrations.versions.0019_seals").down_revision
    with app.database.transaction() as tx:
        tx.execute("DROP TABLE seals")
        for table in (
            "wishes", "review_comments", "inbox_marks", "notifications", "notification_channels", "visits"
        ):  # fmt: skip
            tx.execute(f"DROP TABLE {table}")
        tx.execute("ALTER TABLE runner_hosts DROP COLUMN seen_at")  # of later migrations
        tx.execute("DROP INDEX spending_by_run")
        tx.execute("ALTER TABLE spending DROP COLUMN run_id")
        tx.execute("DROP INDEX notices_by_task")
        for table, column in (
            ("notices", "attempt_id"),
            ("notices", "start"),
            ("attempts", "interrupted_by"),
            ("attempts", "wish"),
        ):
            tx.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        tx.execute("DROP TABLE sealed_lists")
        tx.execute("DROP INDEX ix_audit_approvals")
        if not tx.row_lock:  # the mark of a SQLite store said nothing of seals
            [row] = tx.fetch_all("SELECT id, secret, keyed_from, mark FROM store_identity")
            text = f"mark:{row['id']}:{row['secret']}:{row['keyed_from']}"
            mark = hmac_hex(get_or_create_user_key(), text)
            tx.execute("UPDATE store_identity SET mark = :mark", mark=mark)
        tx.execute("UPDATE alembic_version SET version_num = :before", before=before)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_old_decisions_count_if_the_log_has_them(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else ""
    requests = {name: make_request(subject=name) for name in ("given", "used", "forged", "forged used")}
    with create_empty_location(kind, tmp_path, url) as location:
        app = make_app(tmp_path, location)
        ids = {name: ask(app, each).id for name, each in requests.items()}
        asked = ask(app, make_request(subject="pending"))
        give(app, ids["given"])
        give(app, ids["used"])
        use(app, requests["used"])
        token, _, _ = make_token(app, "ci", "read")
        enroll_passphrase(app)
        with app.database.transaction() as tx:
            for name in ("forged", "forged used"):
                columns = "status = :status, decided_by = 'human:anna', decided_at = asked_at"
                status = "given" if name == "forged" else "used"
                tx.execute(f"UPDATE approvals SET {columns} WHERE id = :id", id=ids[name], status=status)
        undo_migration(app)
        app.close()

        app = make_app(tmp_path, location)
        try:
            assert {name: read(app, id).status for name, id in ids.items()} == {
                "given": "given",
                "used": "used",
                "forged": "stale",
                "forged used": "used",
            }
            assert read(app, ids["forged used"]).decided_by == "unverified:human:anna"
            assert use(app, requests["given"]).id == ids["given"]
            assert create_client(app, token).get("/api/v1/runs").status_code == 200
            assert find_problem(app) is None
            with app.database.transaction() as tx:
                assert ApprovalStore(tx).is_sealed(asked.id)  # so that a person can decide about it
                tx.execute("DELETE FROM person_credentials")
                tx.execute("DELETE FROM seals WHERE kind = 'person_credentials'")
            assert find_problem(app) is not None  # the list of proofs has a seal since the migration
        finally:
            app.close()
