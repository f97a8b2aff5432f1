"""What the pages of a plan and a task show as evidence, and the spending of a plan over REST."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from starlette.testclient import TestClient

from application import NOW, call_tool
from budgets.make import claim, create_plan, report
from dashboard.make import create_client, create_token, read, read_error, read_pages
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.models import ApprovalKind, ApprovalRequest
from deepwork.gates.approvals.service import ask
from deepwork.gates.checks.models import CheckVerdict, Proof, ProofSubject
from deepwork.gates.checks.store import ProofStore

PROOF = Proof(
    id="pf_1",
    check_name="tests",
    verdict=CheckVerdict.PASSED,
    inputs_digest="i",
    definition_digest="d",
    exit_code=0,
    tests_run=12,
    tests_skipped=1,
    duration_ms=900,
    host="here",
    project="/p",
    tree="t",
    head=None,
    output_file="/p/.deepwork/tmp/out.txt",
    output_digest=None,
    created_at=NOW,
)


def test_a_plan_without_requirements_has_no_evidence(app: Application, page: TestClient):
    plan, task = create_plan(app, {"name": "a"})

    assert "evidence" not in read(page, f"/runs/{plan}")
    assert "evidence" not in read(page, f"/tasks/{task}")


def test_budget_and_spending_are_shown_with_their_sources(app: Application, page: TestClient):
    plan, first, _ = create_plan(app, {"name": "a", "budget": {"usd": 2}}, {"name": "b"}, budget={"usd": 1})
    agent = call_tool(app, "agent_register", name="a", runtime="custom")["id"]
    report(app, first, usd=1.5, tokens=7)
    claim(app, first, agent)

    of_plan = read(page, f"/runs/{plan}")["evidence"]
    of_task = read(page, f"/tasks/{first}")["evidence"]

    assert (of_plan["budget"], of_plan["spent"]["usd"]) == ({"usd": 1}, 1.5)
    assert of_plan["sources"] == {"unverified": 1.5}
    assert "is used up" in of_plan["reason"]
    assert (of_task["budget"], of_task["spent"]["tokens"]) == ({"usd": 2}, 7)


def test_checks_are_shown_with_the_proofs_that_were_used(app: Application, page: TestClient):
    _, task = create_plan(app, {"name": "a"})
    waived = replace(PROOF, id="pf_2", check_name="lint", verdict=CheckVerdict.FAILED, waived_by="human:ann")
    with app.database.transaction() as tx:
        ProofStore(tx).add(PROOF)
        ProofStore(tx).add(waived)
        ProofStore(tx).add_uses(ProofSubject("task", task), [PROOF.id, waived.id])
        tx.execute(
            "UPDATE plan_tasks SET requirements = :text WHERE id = :id",
            id=task,
            text='{"checks":["tests","types"]}',
        )

    checks = read(page, f"/tasks/{task}")["evidence"]["checks"]

    assert [(each["name"], each.get("verdict"), each.get("waived_by")) for each in checks] == [
        ("tests", "passed", None),
        ("types", None, None),
        ("lint", "waived", "human:ann"),
    ]
    assert (checks[0]["tests_run"], checks[0]["tests_skipped"]) == (12, 1)


def test_approvals_that_wait_are_shown(app: Application, page: TestClient):
    plan, first, second = create_plan(app, {"name": "a"}, {"name": "b"})
    asked = ask(app.database, ApprovalRequest(ApprovalKind.TASK, first, plan, {"outcome": "Done."}))

    assert [each["id"] for each in read(page, f"/runs/{plan}")["evidence"]["approvals"]] == [asked.id]
    assert [each["id"] for each in read(page, f"/tasks/{first}")["evidence"]["approvals"]] == [asked.id]
    assert "evidence" not in read(page, f"/tasks/{second}")


def test_the_spending_of_a_plan_is_an_endpoint(app: Application, page: TestClient):
    plan, first, second = create_plan(app, {"name": "a"}, {"name": "b"}, budget={"usd": 5})
    report(app, first, usd=1)
    report(app, second, usd=2)

    answer = read(page, f"/runs/{plan}/spending", by="task")

    assert [(line["name"], line["usd"]) for line in answer["spending"]] == [("b", 2.0), ("a", 1.0)]
    assert answer["plan"]["spent"]["usd"] == answer["total"]["usd"] == 3.0
    assert read_error(page, "/runs/wf_none/spending") == (404, "WORKFLOW_NOT_FOUND")


def test_proofs_are_listed_by_page_and_filtered(app: Application, page: TestClient):
    _, task = create_plan(app, {"name": "a"})
    red = replace(PROOF, id="pf_2", check_name="lint", verdict=CheckVerdict.FAILED, created_at=NOW + 1)
    waived = replace(red, id="pf_3", waived_by="human:ann", created_at=NOW + 2)
    with app.database.transaction() as tx:
        for proof in (PROOF, red, waived):
            ProofStore(tx).add(proof)
        ProofStore(tx).add_uses(ProofSubject("task", task), [waived.id])

    def list_ids(**query: Any) -> list[str]:
        return [each["id"] for each in read(page, "/proofs", **query)["proofs"]]

    assert list_ids() == ["pf_3", "pf_2", "pf_1"]
    assert list_ids(check="lint") == ["pf_3", "pf_2"]
    assert (list_ids(verdict="failed"), list_ids(verdict="waived")) == (["pf_2"], ["pf_3"])
    assert list_ids(task_id=task) == ["pf_3"]
    assert read(page, "/proofs", verdict="waived")["proofs"][0]["verdict"] == "waived"
    pages = read_pages(page, "/proofs", "proofs", limit=1)
    assert [each["id"] for [each] in pages] == list_ids()
    assert read(page, "/proofs", check="lint", limit=1)["total"] == 2
    assert read_error(page, "/proofs", limit=501) == (400, "INVALID_INPUT")


def test_a_token_that_may_only_read_lists_proofs_and_attempts(app: Application):
    page = create_client(app, create_token(app, "reader", "read"))

    assert read(page, "/proofs")["total"] == read(page, "/runner/attempts")["total"] == 0
