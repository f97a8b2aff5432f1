"""Steps that a person has to approve: exactly the outputs that were shown pass, and nothing else lets them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from application import Clock, list_event_types, make_app
from deepwork.edge.server.application import Application
from deepwork.edge.server.invocation import invoke
from deepwork.gates.approvals.service import ask
from deepwork.kernel.call import Call
from deepwork.kernel.errors import Code, DeepworkError, GateClosed, InvalidInput
from deepwork.work.jobs.step_gate import StepGate
from jobs.project import make_review, make_step, write_files, write_job
from jobs.runs import call_job_tool, finish_step, start_job

PERSON = "human:ada"
OUTPUTS = {
    "plan.md": {"type": "file", "description": "the plan", "required": True},
    "notes.md": {"type": "file", "description": "notes", "required": True},
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_files(tmp_path, "plan.md", "notes.md", "b.md", "extra.txt")
    write_plan_job(tmp_path, {"of": ["plan.md", "extra.txt"], "expires": "24h"})
    return tmp_path


def write_plan_job(root: Path, approval: dict[str, Any] | None, reviews: list[Any] | None = None) -> None:
    more = {} if approval is None else {"approval": approval}
    write_job(root, "chain", [make_step("a", OUTPUTS, reviews or [], **more), make_step("b")])


@pytest.fixture
def app(root: Path, location: str, clock: Clock) -> Any:
    made = make_app(root, location, clock, git_branch="off")
    yield made
    made.close()


def finish(app: Application, **more: Any) -> Any:
    return finish_step(app, "plan.md", "notes.md", **more)


def decide(app: Application, id: str, action: str = "give_approval", **given: Any) -> Any:
    spec = app.operations[action]
    return invoke(app.database, spec, {"approval_id": id, **given}, Call(PERSON, action))


def test_a_step_waits_for_the_approval_of_its_outputs(app: Application) -> None:
    id = start_job(app)

    waiting = finish(app)
    again = finish(app)
    decide(app, waiting["approval"]["id"], comment="Good.")
    passed = finish(app)

    assert (waiting["status"], waiting["waiting_for"]) == ("needs_work", "approval")
    assert waiting["approval"]["subject"] == f"step:{id}/a"
    assert again["approval"] == waiting["approval"]
    assert (passed["status"], passed["begin_step"]["step_id"]) == ("next_step", "b")
    types = [each for each in list_event_types(app) if each.startswith("approval:")]
    assert types == ["approval:asked", "approval:given", "approval:used"]


@pytest.mark.parametrize("name", ["plan.md", "extra.txt"])
def test_other_content_is_asked_about_again(app: Application, root: Path, name: str) -> None:
    start_job(app)
    first = finish(app)["approval"]["id"]
    decide(app, first)
    (root / name).write_text("tampered")

    second = finish(app)["approval"]["id"]

    assert second != first
    decide(app, second)
    assert finish(app)["status"] == "next_step"


def test_content_that_changes_after_the_gate_looked_does_not_pass(
    app: Application, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_job(app)
    first = finish(app)["approval"]["id"]
    decide(app, first)

    def ask_then_change(*given: Any) -> Any:
        approval = ask(*given)
        (root / "plan.md").write_text("swapped")
        return approval

    with monkeypatch.context() as patch:
        patch.setattr("deepwork.work.jobs.step_approvals.ask", ask_then_change)
        swapped = finish(app)

    assert (swapped["status"], swapped["waiting_for"]) == ("needs_work", "approval")
    assert finish(app)["approval"]["id"] != first


def test_outputs_that_change_during_their_review_are_reviewed_again(
    app: Application, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_job(app)
    reviewed: list[str] = []
    review = StepGate.review

    def review_then_change(self: StepGate, *given: Any) -> Any:
        reviewed.append((root / "notes.md").read_text())
        outcome = review(self, *given)
        (root / "notes.md").write_text("swapped")
        return outcome

    monkeypatch.setattr(StepGate, "review", review_then_change)
    finish(app)
    finish(app)
    finish(app)

    assert reviewed[1:] == ["swapped"]


def test_what_is_not_named_may_change(app: Application, root: Path) -> None:
    start_job(app)
    decide(app, finish(app)["approval"]["id"])
    (root / "notes.md").write_text("other")

    assert finish(app)["status"] == "next_step"


def test_a_refusal_is_answered_with_its_comment(app: Application, root: Path) -> None:
    start_job(app)
    id = finish(app)["approval"]["id"]
    decide(app, id, "refuse_approval", comment="Shorter, please.")

    refused = finish(app)

    assert (refused["approval"]["id"], refused["approval"]["status"]) == (id, "refused")
    assert "Shorter, please." in refused["feedback"]
    (root / "plan.md").write_text("short")
    assert finish(app)["approval"]["id"] != id


def test_an_approval_of_a_step_expires(app: Application, clock: Clock) -> None:
    start_job(app)
    id = finish(app)["approval"]["id"]
    decide(app, id)
    clock.advance(seconds=24 * 3600)

    assert finish(app)["approval"]["id"] != id


def test_an_override_never_passes_an_approval(app: Application) -> None:
    start_job(app)

    answer = finish(app, quality_review_override_reason="I am sure.")

    assert answer["waiting_for"] == "approval"


def test_passing_the_gate_is_no_approval(app: Application) -> None:
    id = start_job(app)
    finish(app)

    spec = app.operations["pass_step"]
    with pytest.raises(GateClosed) as closed:
        invoke(app.database, spec, {"session_id": id}, Call(PERSON, "pass_step"))

    assert closed.value.code is Code.NEEDS_APPROVAL


def test_what_waits_is_not_reviewed_again_unless_it_changes(root: Path, location: str, clock: Clock) -> None:
    write_plan_job(root, {"of": ["plan.md"]}, [make_review()])
    app = make_app(root, location, clock, git_branch="off")
    start_job(app)
    assert "waiting_for" not in finish(app)  # its review comes first
    waiting = finish(app, quality_review_override_reason="reviewed elsewhere")
    assert waiting["waiting_for"] == "approval"
    decide(app, waiting["approval"]["id"])
    (root / "notes.md").write_text("not reviewed")

    assert "waiting_for" not in finish(app)  # another output changed: it is reviewed again

    (root / "notes.md").write_text("text")
    assert finish(app)["status"] == "next_step"
    app.close()


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_an_edited_job_file_takes_no_approval_away(root: Path, app: Application) -> None:
    git(root, "init", "-q")
    git(root, "add", "-f", ".deepwork/jobs")
    git(root, "commit", "-qm", "begin")
    write_plan_job(root, None)

    start_job(app)

    assert finish(app)["waiting_for"] == "approval"
    write_job(root, "chain", [make_step("b")])
    with pytest.raises(InvalidInput, match="'a'"):
        start_job(app)


@pytest.mark.parametrize("name", ["extra.txt", "plan.md"])
def test_an_edited_job_file_lets_no_name_stand_for_another_file(
    root: Path, app: Application, name: str
) -> None:
    """An output with the name of a file that is to be approved, or a file with that of an output, is none."""
    git(root, "init", "-q")
    git(root, "add", "-f", ".deepwork/jobs")
    git(root, "commit", "-qm", "begin")
    outputs = {("other" if key == name else key): value for key, value in OUTPUTS.items()}
    outputs.setdefault("extra.txt", {"type": "file", "description": "a decoy", "required": False})
    write_job(root, "chain", [make_step("a", outputs), make_step("b")])
    start_job(app)
    given = {key: "b.md" if key in ("extra.txt", "other") else key for key in outputs}

    asked = call_job_tool(app, "finished_step", outputs=given)["approval"]["id"]

    shown = call_shown(app, asked)["outputs"]
    assert shown["extra.txt"]["path"] == "extra.txt"
    assert shown["plan.md"].get("path") == ("plan.md" if name == "extra.txt" else None)


def test_an_output_that_an_edited_job_file_leaves_out_is_shown_as_missing(
    root: Path, app: Application
) -> None:
    write_plan_job(root, {})
    git(root, "init", "-q")
    git(root, "add", "-f", ".deepwork/jobs")
    git(root, "commit", "-qm", "begin")
    write_job(root, "chain", [make_step("a", {"notes.md": OUTPUTS["notes.md"]}), make_step("b")])
    start_job(app)

    shown = call_shown(app, finish_step(app, "notes.md")["approval"]["id"])["outputs"]

    assert shown["notes.md"]["text"] == "text"
    assert shown["plan.md"] == {"problem": "This output was not submitted."}


def call_shown(app: Application, id: str) -> Any:
    """What a person is shown before they decide."""
    spec = app.operations["get_approval"]
    return invoke(app.database, spec, {"id": id}, Call(PERSON, "get_approval"))["shown"]


def test_a_job_file_edited_during_the_session_changes_nothing(root: Path, app: Application) -> None:
    start_job(app)
    write_plan_job(root, None)

    assert finish(app)["waiting_for"] == "approval"


def test_only_a_person_overrides_a_review_if_the_settings_say_so(root: Path, location: str) -> None:
    write_plan_job(root, None, [make_review()])
    app = make_app(root, location, git_branch="off", quality_gate_override="person")
    id = start_job(app)

    with pytest.raises(DeepworkError, match="only a person"):
        finish(app, quality_review_override_reason="I am sure.")

    assert finish(app)["status"] == "needs_work"
    seen = finish(app, quality_review_override_reason="Seen.", caller=PERSON, session_id=id)
    assert seen["status"] == "next_step"
    app.close()


def test_a_step_without_an_approval_asks_nobody(root: Path, app: Application) -> None:
    write_plan_job(root, None)
    id = start_job(app)

    assert finish(app)["status"] == "next_step"
    assert "approvals" not in call_job_tool(app, "get_session", session_id=id)["session"]
