"""What opens a gate in a person's name takes the proof that their decisions take; all else does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from application import call_tool, make_app
from approvals.authenticator import ORIGIN, Authenticator
from approvals.person import PASSPHRASE, Person, enroll_passphrase
from budgets.make import create_plan
from deepwork.edge.cli.main import deepwork
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.gates.approvals.models import Approval
from deepwork.gates.approvals.person_proof import build_decision_challenge
from deepwork.gates.approvals.store import ApprovalStore
from deepwork.kernel.call import Call, GivenProof
from deepwork.kernel.errors import GateClosed, NotAllowed
from jobs.project import make_review, make_step, write_files, write_job
from jobs.runs import finish_step, start_job
from tracking import make as track

GATED = {"approval": "after", "depends_on": []}


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))


def act(app: Application, tool: str, passphrase: str = "", **given: Any) -> Any:
    """Do something in a person's name, as a command or the page does."""
    spec = app.operations[tool]
    return invoke(app.database, spec, given, Call("human:ada", tool, proof=GivenProof(passphrase)))


def fail(app: Application, task: str) -> None:
    call_tool(app, "task_update_status", id=task, status="failed", error="It broke.")


def hold_session(app: Application, root: Path, name: str) -> str:
    """Return a job session whose step failed its review."""
    write_files(root, "a.md")
    write_job(root, name, [make_step("a", reviews=[make_review()]), make_step("b")])
    id = start_job(app, name)
    finish_step(app, "a.md")
    finish_step(app, "a.md", review_results=[{"review_run_each": "step", "passed": False, "feedback": "No."}])
    return id


def list_acts(app: Application, root: Path) -> list[tuple[str, dict[str, Any]]]:
    """Prepare one of each act that opens a gate, and list them."""
    plan, skipped, removed, used_up, failed = create_plan(
        app,
        {"name": "skipped", **GATED},
        {"name": "removed", **GATED},
        {"name": "used up", "max_attempts": 1, "depends_on": []},
        {"name": "failed", "depends_on": []},
    )
    replanned, _ = create_plan(app, {"name": "a", **GATED})
    forced, _ = create_plan(app, {"name": "a", **GATED})
    poor, unpaid = create_plan(app, {"name": "a", "depends_on": []}, budget={"usd": 1})
    call_tool(
        app, "checkpoint_add", task_id=unpaid, type="decision", summary="s", detail={"usage": {"usd": 2}}
    )
    fail(app, used_up)
    fail(app, failed)
    tracked = track.create_task(app, track.create_workflow_and_phase(app))
    weaker = [{"name": "b", "depends_on": []}]
    verdict = {"task_id": tracked, "message": "Fine.", "metadata": {"verdict": "approved"}}
    return [
        ("task_update_status", {"id": skipped, "status": "skipped"}),
        ("task_update_status", {"id": used_up, "status": "pending"}),
        ("task_update_status", {"id": failed, "status": "pending"}),
        ("task_update_status", {"id": unpaid, "status": "in_progress"}),
        ("workflow_remove_task", {"workflow_id": plan, "task_id": removed}),
        ("workflow_replan", {"workflow_id": replanned, "reason": "r", "tasks": weaker}),
        ("workflow_update_status", {"id": forced, "status": "completed", "force": True}),
        ("set_budget", {"id": poor, "usd": 9}),
        ("log_milestone", verdict),
        ("pass_step", {"session_id": hold_session(app, root, "one")}),
        ("send_back_step", {"session_id": hold_session(app, root, "two"), "text": "Again."}),
        ("grant_round", {"session_id": hold_session(app, root, "three")}),
    ]


def test_every_act_that_opens_a_gate_needs_the_enrolled_passphrase(app: Application, tmp_path: Path):
    acts = list_acts(app, tmp_path)
    enroll_passphrase(app)

    for tool, given in acts:
        with pytest.raises(NotAllowed, match="needs your passphrase") as refused:
            act(app, tool, **given)
        assert refused.value.to_dict()["proof"] == "passphrase"

    for tool, given in acts:
        assert act(app, tool, PASSPHRASE, **given), tool


def test_plain_acts_of_people_need_no_passphrase(app: Application):
    plan, first, second = create_plan(app, {"name": "a", **GATED}, {"name": "b", "depends_on": []})
    tracked = track.create_task(app, track.create_workflow_and_phase(app))
    blocker = track.create_blocker(app, tracked)
    agent = call_tool(app, "agent_register", name="a", runtime="custom")["id"]
    call_tool(app, "task_claim", task_id=first, agent_id=agent)
    enroll_passphrase(app)

    act(app, "workflow_update_status", id=plan, status="paused")
    act(app, "workflow_update_status", id=plan, status="in_progress")
    act(app, "task_release", task_id=first, agent_id=agent)
    act(app, "resolve_issue", issue_id=blocker, note="Euro.")
    act(app, "log_milestone", task_id=tracked, message="I look at it.")
    act(app, "task_update_status", id=second, status="skipped")  # nothing was required of it
    act(app, "set_budget", id=plan, usd=5)  # there was no limit before


def approve(person: Person, passkey: Authenticator, id: str) -> Approval:
    """Approve what is shown with the passkey, as the page does, and return it."""
    with person.app.database.reading() as tx:
        approval = ApprovalStore(tx).get(id)
    challenge = build_decision_challenge("approve", id, approval.digest, None)
    person.act("give_approval", GivenProof("", passkey.answer(challenge), ORIGIN), approval_id=id)
    return approval


def test_with_a_passkey_an_act_is_approved_on_the_page_and_done_once(app: Application):
    _, first, second = create_plan(app, {"name": "a", **GATED}, {"name": "b", **GATED})
    passkey, ada = Authenticator(), Person(app)
    ada.enroll_passkey(passkey)
    skip = {"id": first, "status": "skipped"}

    with pytest.raises(GateClosed, match="needs your passkey") as asked:
        act(app, "task_update_status", **skip)
    id = asked.value.evidence["approval"]["id"]
    with pytest.raises(NotAllowed, match="works in a browser only"):
        act(app, "give_approval", approval_id=id)
    assert approve(ada, passkey, id).shown["arguments"] == skip

    with pytest.raises(GateClosed, match="needs your passkey"):
        act(app, "task_update_status", id=second, status="skipped")
    act(app, "task_update_status", **skip)

    with app.database.reading() as tx:
        assert ApprovalStore(tx).get(id).status == "used"


def test_a_shell_asks_for_the_passphrase_only_if_a_gate_opens(tmp_path: Path):
    app = make_app(tmp_path, str(tmp_path / ".deepwork/deepwork.db"))
    _, gated, free = create_plan(app, {"name": "a", **GATED}, {"name": "b", "depends_on": []})
    enroll_passphrase(app)
    app.close()

    skip = ["tasks", "skip", "--as-person", "--path", str(tmp_path)]
    plain = CliRunner().invoke(deepwork, [*skip, free])
    refused = CliRunner().invoke(deepwork, [*skip, gated])
    done = CliRunner().invoke(deepwork, [*skip, gated, "--passphrase-stdin"], input=f"{PASSPHRASE}\n")

    assert (plain.exit_code, refused.exit_code, done.exit_code) == (0, 1, 0)
    assert "needs your passphrase" in str(refused.exception)


def test_a_store_with_a_passphrase_is_not_replaced_without_it(tmp_path: Path):
    app = make_app(tmp_path, str(tmp_path / ".deepwork/deepwork.db"))
    call_tool(app, "agent_register", name="a", runtime="custom")
    place = ["--path", str(tmp_path)]
    backup = CliRunner().invoke(deepwork, ["db", "backup", str(tmp_path / "older.backup"), *place])
    enroll_passphrase(app)
    app.close()
    restore = ["db", "restore", str(tmp_path / "older.backup"), "--replace", *place]

    refused = [CliRunner().invoke(deepwork, words) for words in (restore, ["db", "adopt", "--yes", *place])]
    done = CliRunner().invoke(deepwork, [*restore, "--passphrase-stdin"], input=f"{PASSPHRASE}\n")

    assert (backup.exit_code, done.exit_code) == (0, 0)
    assert all("needs your passphrase" in str(each.exception) for each in refused)


def test_with_a_passkey_a_repository_is_trusted_after_an_approval_on_the_page(tmp_path: Path):
    app = make_app(tmp_path, str(tmp_path / ".deepwork/deepwork.db"))
    passkey, ada = Authenticator(), Person(app)
    ada.enroll_passkey(passkey)
    (tmp_path / ".deepwork/config.yml").write_text("port: 4321\n")
    trust = ["trust", "--yes", "--path", str(tmp_path)]

    refused = CliRunner().invoke(deepwork, trust)
    assert isinstance(refused.exception, GateClosed)
    shown = approve(ada, passkey, refused.exception.evidence["approval"]["id"]).shown
    trusted = CliRunner().invoke(deepwork, trust)
    app.close()

    assert shown["arguments"]["trusts"] == {"port": 4321}
    assert (trusted.exit_code, "Trusted." in trusted.output) == (0, True)
