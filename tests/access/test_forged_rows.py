"""Rows written past deepwork let nothing pass, and `deepwork audit verify` names them; on both databases."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from access.make import make_token, run_sql
from approvals.make import PERSON, ask, decide, make_request, read, use
from approvals.person import CHEAP, PASSPHRASE, Person, enroll_passphrase
from approvals.test_enrollment import enroll
from cli.run import run_deepwork
from dashboard.make import create_client
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.gates.access.store import AuditStore
from deepwork.gates.access.verification import find_forged_row
from deepwork.gates.approvals.credentials import hash_passphrase
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.gates.checks.models import CheckVerdict, Proof, ProofKey
from deepwork.gates.checks.store import ProofStore
from deepwork.kernel.call import Call
from deepwork.kernel.errors import Code, GateClosed, NotAllowed

FORGED_APPROVALS = {
    "given": "status = 'given', decided_by = 'human:anna', decided_at = asked_at, method = 'passphrase'",
    "given for ever": "status = 'given', decided_at = asked_at + 1",
}
CHANGED_APPROVALS = {
    "who": "decided_by = 'human:eve'",
    "how": "method = 'passkey'",
    "when": "decided_at = decided_at + 1",
    "how long": "lasts_ms = 9",
    "plan": "workflow_id = 's2'",
}


@pytest.fixture
def ada(app: Application, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Person:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return Person(app)


def find_problem(app: Application) -> str | None:
    with app.database.reading() as tx:
        return find_forged_row(tx)


def give(app: Application, id: str) -> None:
    """Approve as the command does, so that the call is in the log."""
    invoke(app.database, app.operations["give_approval"], {"approval_id": id}, Call(PERSON, "give_approval"))


def expect_asked_again(app: Application, forged: str) -> None:
    with pytest.raises(GateClosed) as closed:
        use(app, make_request())
    assert closed.value.code is Code.NEEDS_APPROVAL
    assert ask(app, make_request()).status == "pending"
    assert ask(app, make_request()).id != forged
    assert read(app, forged).status == "stale"


@pytest.mark.parametrize("columns", FORGED_APPROVALS.values(), ids=FORGED_APPROVALS)
def test_an_approval_that_no_person_gave_lets_nothing_pass(app: Application, columns: str) -> None:
    asked = ask(app, make_request())
    run_sql(app, f"UPDATE approvals SET {columns} WHERE id = :id", id=asked.id)

    assert asked.id in (find_problem(app) or "")
    expect_asked_again(app, asked.id)
    assert find_problem(app) is None


@pytest.mark.parametrize("columns", CHANGED_APPROVALS.values(), ids=CHANGED_APPROVALS)
def test_an_approval_that_was_changed_lets_nothing_pass(app: Application, columns: str) -> None:
    asked = ask(app, make_request())
    decide(app, asked.id)
    run_sql(app, f"UPDATE approvals SET {columns} WHERE id = :id", id=asked.id)

    assert asked.id in (find_problem(app) or "")
    expect_asked_again(app, asked.id)


def test_an_approval_of_one_subject_is_not_moved_to_another(app: Application) -> None:
    asked = ask(app, make_request(subject="s1/other"))
    decide(app, asked.id)
    run_sql(app, "UPDATE approvals SET subject_id = 's1/write' WHERE id = :id", id=asked.id)

    expect_asked_again(app, asked.id)


def test_an_approval_that_was_used_is_not_used_again(app: Application) -> None:
    asked = ask(app, make_request())
    decide(app, asked.id)
    use(app, make_request())
    run_sql(app, "UPDATE approvals SET status = 'given', used_at = NULL")

    assert asked.id in (find_problem(app) or "")
    expect_asked_again(app, asked.id)


def test_a_used_approval_of_guarded_files_counts_only_if_deepwork_wrote_it(app: Application) -> None:
    asked = ask(app, make_request(kind="guarded"))
    run_sql(
        app, "UPDATE approvals SET status = 'used', used_at = 1, decided_by = 'human:anna', decided_at = 1"
    )

    with app.database.reading() as tx:
        counting = ApprovalStore(tx).list_used(asked.subject_kind, "s1")

    assert counting == []


def test_a_decision_that_was_put_back_as_a_whole_is_found_in_the_log(app: Application) -> None:
    asked = ask(app, make_request())
    give(app, asked.id)
    assert find_problem(app) is None
    with app.database.reading() as tx:
        before = read(app, asked.id)
        seal = tx.fetch_value("SELECT seal FROM seals WHERE kind = 'approvals' AND id = :id", id=asked.id)
    spec = app.operations["refuse_approval"]
    invoke(app.database, spec, {"approval_id": asked.id}, Call(PERSON, "refuse_approval"))

    run_sql(app, "UPDATE approvals SET status = 'given', decided_at = :at", at=before.decided_at)
    run_sql(app, "UPDATE seals SET seal = :seal WHERE kind = 'approvals'", seal=seal)

    assert asked.id in (find_problem(app) or "")


FORGED_PROOFS: dict[str, Callable[[], tuple[str, dict[str, Any]]]] = {
    "replaced": lambda: (
        "UPDATE person_credentials SET data = :data",
        {"data": str(hash_passphrase("a passphrase of an agent", CHEAP)).replace("'", '"')},
    ),
    "removed": lambda: ("UPDATE person_credentials SET removed_at = 1", {}),
    "deleted": lambda: ("DELETE FROM person_credentials", {}),
    "weaker": lambda: ("UPDATE person_credentials SET method = 'token'", {}),
}


@pytest.mark.parametrize("way", FORGED_PROOFS)
def test_nobody_decides_where_an_enrolled_proof_was_forged(ada: Person, way: str) -> None:
    enroll_passphrase(ada.app)
    sql, values = FORGED_PROOFS[way]()
    run_sql(ada.app, sql, **values)

    for passphrase in ("", PASSPHRASE, "a passphrase of an agent"):
        with pytest.raises(NotAllowed) as refused:
            ada.check(passphrase)
        assert refused.value.code is Code.UNAUTHORIZED
    assert "pc_000000000001" in (find_problem(ada.app) or "")


def test_nobody_decides_where_a_proof_was_deleted_with_its_seal(ada: Person, tmp_path: Path) -> None:
    enroll(ada, PASSPHRASE)
    run_sql(ada.app, "DELETE FROM person_credentials")
    run_sql(ada.app, "DELETE FROM seals")
    (tmp_path / "deepwork/credentials.json").unlink()

    with pytest.raises(NotAllowed) as refused:
        ada.check()

    assert refused.value.code is Code.UNAUTHORIZED


@pytest.mark.parametrize(
    "columns", ["is_person = (1 = 1)", "scope = 'admin'", "expires_at = NULL", "name = 'owner'"]
)
def test_a_token_whose_rights_were_raised_is_not_valid(app: Application, columns: str) -> None:
    text, _, _ = make_token(app, "ci", "read", expires_days=1)
    assert create_client(app, text).get("/api/v1/runs").status_code == 200
    run_sql(app, f"UPDATE tokens SET {columns}")

    assert create_client(app, text).get("/api/v1/runs").status_code == 401
    assert "token" in (find_problem(app) or "")


def test_a_revoked_token_is_not_made_valid_again(app: Application) -> None:
    from access.make import call_token_tool

    text, _, _ = make_token(app, "ci", "read")
    call_token_tool(app, "token_revoke", name="ci")
    assert find_problem(app) is None
    run_sql(app, "UPDATE tokens SET revoked_at = NULL")

    assert create_client(app, text).get("/api/v1/runs").status_code == 401


@pytest.mark.parametrize("columns", ["verdict = 'passed'", "waived_by = 'human:anna', waived_at = 1"])
def test_a_check_that_did_not_pass_does_not_count_because_its_row_says_so(
    app: Application, columns: str
) -> None:
    made = Proof("pf_1", "tests", CheckVerdict.FAILED, "in", "def", 1, None, None, 5, "here", "p", "tree", None, None,
                 None, 1)  # fmt: skip
    with app.database.transaction() as tx:
        ProofStore(tx).add(made)
    run_sql(app, f"UPDATE proofs SET {columns}")

    with app.database.reading() as tx:
        key = ProofKey("p", "here", "in", "def", None, None)
        assert ProofStore(tx).find_proving(key) is None
        assert ProofStore(tx).list_of(key) == []
    assert "pf_1" in (find_problem(app) or "")


def test_audit_verify_names_a_forged_approval(tmp_path: Path) -> None:
    from application import make_app

    app = make_app(tmp_path, "")
    asked = ask(app, make_request())
    give(app, asked.id)
    app.close()
    assert run_deepwork(tmp_path, "audit", "verify", "--json").json["intact"]
    app = make_app(tmp_path, "")
    run_sql(app, "UPDATE approvals SET decided_by = 'human:eve'")
    app.close()

    found = run_deepwork(tmp_path, "audit", "verify", "--json")

    assert (found.code, found.json["intact"]) == (1, False)
    assert asked.id in found.json["problem"]


# Rows that are put back together with their seals, and rows that are missing without a trace.


def save_rows(app: Application, table: str, id: str) -> Callable[[], None]:
    """Copy a row and its seal aside; return what puts both back."""
    with app.database.reading() as tx:
        row = tx.fetch_one(f"SELECT * FROM {table} WHERE id = :id", id=id)
        seal = tx.fetch_one("SELECT * FROM seals WHERE kind = :kind AND id = :id", kind=table, id=id)
    assert row is not None
    assert seal is not None

    def put_back() -> None:
        with app.database.transaction() as tx:
            tx.execute(f"DELETE FROM {table} WHERE id = :id", id=id)
            tx.execute("DELETE FROM seals WHERE kind = :kind AND id = :id", kind=table, id=id)
            tx.insert(table, row)
            tx.insert("seals", seal)

    return put_back


def refuse(app: Application, id: str) -> None:
    spec = app.operations["refuse_approval"]
    invoke(app.database, spec, {"approval_id": id}, Call(PERSON, "refuse_approval"))


def use_it(app: Application, _: str) -> None:
    use(app, make_request())


@pytest.mark.parametrize("end", [use_it, refuse], ids=["used", "refused"])
def test_an_approval_that_was_put_back_with_its_seal_is_not_good_again(
    app: Application, end: Callable[[Application, str], object]
) -> None:
    asked = ask(app, make_request())
    give(app, asked.id)
    put_back = save_rows(app, "approvals", asked.id)
    end(app, asked.id)
    put_back()

    assert asked.id in (find_problem(app) or "")
    expect_asked_again(app, asked.id)
    assert find_problem(app) is None


def test_an_approval_counts_only_if_the_log_has_the_decision(app: Application) -> None:
    asked = ask(app, make_request())
    give(app, asked.id)
    run_sql(app, "UPDATE audit SET outcome = 'done' WHERE tool = 'give_approval'")

    expect_asked_again(app, asked.id)


def test_an_approval_is_used_once_also_if_no_call_is_recorded(app: Application) -> None:
    asked = ask(app, make_request())
    give(app, asked.id)
    use(app, make_request())

    with app.database.reading() as tx:
        entries = [(each.entry.tool, each.entry.outcome) for each in AuditStore(tx).iterate_chain()]
    assert entries == [("give_approval", f"given:{asked.digest}"), ("use_approval", f"used:{asked.digest}")]


CHANGED_REQUESTS = {
    "how long it lasts": "lasts_ms = 9000000000",
    "what is shown": """shown = '{"name":"other"}', digest = :digest""",
    "what it is about": "subject_id = 's1/other'",
}


@pytest.mark.parametrize("columns", CHANGED_REQUESTS.values(), ids=CHANGED_REQUESTS)
def test_nobody_decides_about_a_request_that_was_changed(app: Application, columns: str) -> None:
    asked = ask(app, make_request())
    digest = make_request(name="other").digest
    values = {"digest": digest} if ":digest" in columns else {}
    run_sql(app, f"UPDATE approvals SET {columns}", **values)

    for decide_so in (give, refuse):
        with pytest.raises(NotAllowed):
            decide_so(app, asked.id)
    assert asked.id in (find_problem(app) or "")
    assert ask(app, make_request()).id != asked.id
    assert ask(app, make_request()).status == "pending"


def test_the_log_tells_that_a_revoked_token_was_put_back(app: Application) -> None:
    from access.make import call_token_tool

    text, _, _ = make_token(app, "ci", "read")
    put_back = save_rows(app, "tokens", text.split("_")[1])
    call_token_tool(app, "token_revoke", name="ci")
    put_back()

    assert "token" in (find_problem(app) or "")


def test_nobody_decides_where_a_proof_was_deleted_with_all_that_tells_of_it(
    ada: Person, tmp_path: Path
) -> None:
    enroll(ada, PASSPHRASE)
    for table in ("person_credentials", "seals", "audit"):
        run_sql(ada.app, f"DELETE FROM {table}")
    run_sql(ada.app, "UPDATE audit_head SET seq = 0, chain = ''")
    (tmp_path / "deepwork/credentials.json").unlink()

    for forged in ("", "DELETE FROM sealed_lists", "UPDATE sealed_lists SET seal = ''"):
        run_sql(ada.app, forged or "SELECT 1")
        with pytest.raises(NotAllowed) as refused:
            ada.check()
        assert refused.value.code is Code.UNAUTHORIZED
        assert find_problem(ada.app) is not None


def test_a_forged_proof_is_not_sealed_by_what_a_person_does_with_it(app: Application) -> None:
    made = Proof("pf_1", "tests", CheckVerdict.FAILED, "in", "def", 1, None, None, 5, "here", "p", "tree", None, None,
                 None, 1)  # fmt: skip
    with app.database.transaction() as tx:
        ProofStore(tx).add(made)
    run_sql(app, "UPDATE proofs SET inputs_digest = 'other'")

    with app.database.transaction() as tx:
        ProofStore(tx).pass_guarded(["pf_1"])
        with pytest.raises(NotAllowed):
            ProofStore(tx).waive("pf_1", PERSON, "It is fine.")
        assert ProofStore(tx).list_of(ProofKey("p", "here", "other", "def", None, None)) == []
