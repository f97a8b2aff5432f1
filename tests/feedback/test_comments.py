"""Comments on lines of work under real runs: they reach the session that did it, and it comes back checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from approvals.person import PASSPHRASE, enroll_passphrase, write_settings
from cli.run import run_deepwork
from dashboard.make import create_client, read
from deepwork.delivery.landing.models import LandingKind, LandingStatus
from deepwork.delivery.landing.recorder import add_landing, build_landing, move_landing
from deepwork.delivery.landing.store import LandingStore
from deepwork.delivery.runner.models import RunStatus
from deepwork.edge.server.invocation import invoke
from deepwork.kernel.call import Call, GivenProof
from deepwork.kernel.errors import InvalidInput, NotAllowed, NotFound
from deepwork.work.plans.stores.task_store import TaskStore
from runner.endings import check_nothing_is_left, finish, plan, write
from runner.run_invariants import list_attempts
from runner.run_project import RunProject
from runner.test_run_gates import (
    CHECKS,
    act,
    decide,
    define_checks,
    get_status,
    list_stages,
    read_prompt,
    run,
)

WORDS = "Name the unit, too."
TEST = {"do": "write", "file": "tests/test_a.py", "text": "def test_a():\n    assert True\n"}
GOOD = {"do": "write", "file": "good", "text": ""}


@pytest.fixture
def project(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunProject]:
    """A project on each kind of database, whose agents this process finds."""
    made = RunProject(tmp_path, location)
    for name in ("PATH", "HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, made.variables[name])
    yield made
    check_nothing_is_left(made)
    made.close()


def comment(project: RunProject, text: str = WORDS, **given: Any) -> Any:
    where = {"task_id": project.ids["alpha"], "path": "alpha.txt", "line": 1}
    return act(project, "comment_on_task", **(where | given), text=text)


def list_comments(project: RunProject) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = act(project, "list_comments", task_id=project.ids["alpha"])["comments"]
    return found


def list_states(project: RunProject) -> list[str]:
    return [each["state"] for each in list_comments(project)]


def review(project: RunProject) -> dict[str, Any]:
    found: dict[str, Any] = act(project, "get_task_review", id=project.ids["alpha"])
    return found


def queue(project: RunProject, show: str = "waiting") -> list[str]:
    return [each["name"] for each in act(project, "list_review_queue", show=show)["entries"]]


def approve(project: RunProject, passphrase: str = "", caller: str = "human:ada") -> Any:
    app, id = project.app, project.ids["alpha"]
    given = {"task_id": id, "digest": review(project)["entry"]["digest"]}
    call = Call(caller, "approve_work", proof=GivenProof(passphrase))
    return invoke(app.database, app.operations["approve_work"], given, call)


def test_a_comment_goes_to_the_same_session_and_the_work_comes_back_checked(project: RunProject):
    define_checks(project)
    again = [write("more"), *finish("alpha")]
    plan(project, "alpha", [GOOD, *finish("alpha")], again, approval=["after"], checks=["tests"])

    waiting = run(project)
    before = review(project)["entry"]
    sent = comment(project)
    unheard = list_states(project)
    run(project)

    [attempt] = list_attempts(project)
    [first, second] = project.agents.read_ledger()
    prompt = read_prompt(project, attempt, 2)
    after = review(project)
    assert waiting.status is RunStatus.NEEDS_PERSON
    assert (sent["reopened"], sent["reaches"], unheard) == (True, "next_start", ["open"])
    assert prompt.startswith(f'# ada says\n\nOn line 1 of alpha.txt, "alpha": {WORDS}')
    assert second.start["resumed"]
    assert first.start["session"] == second.start["session"]
    assert list_states(project) == ["delivered"]
    assert [(each["comments"], each["open"]) for each in after["entry"]["rounds"]] == [(1, 1), (0, 0)]
    assert [each["verdict"] for each in after["entry"]["checks"]] == ["passed"]
    assert after["entry"]["approval_id"] not in (None, before["approval_id"])
    assert queue(project) == ["alpha"]


def test_an_approval_of_commented_work_does_not_count(project: RunProject):
    plan(project, "alpha", finish("alpha"), [write("more"), *finish("alpha")], approval=["after"])
    run(project)
    asked = review(project)["entry"]["approval_id"]

    comment(project)

    with pytest.raises(NotAllowed):
        act(project, "give_approval", approval_id=asked)
    assert get_status(project) == "pending"
    run(project)
    decide(project, "give_approval")
    assert (get_status(project), list_states(project), queue(project)) == ("completed", ["fixed"], [])


@pytest.mark.parametrize("agent", ["codex", "command"])
def test_a_comment_on_completed_work_opens_it_again(project: RunProject, agent: str):
    plan(project, "alpha", finish("alpha"), [write("more"), *finish("alpha")])
    run(project, project.agents.get_agent(agent))

    sent = comment(project)
    run(project, project.agents.get_agent(agent))

    [first, second] = list_attempts(project)
    [before, after] = project.agents.read_ledger()
    assert sent["next"] == f"deepwork run {project.plan}"
    assert read_prompt(project, second).startswith("# ada says\n\nOn line 1 of alpha.txt")
    assert after.start["resumed"] == (agent == "codex")
    assert (after.start["session"] == before.start["session"]) == (agent == "codex")
    assert list_stages(project) == ["done", "done"]
    [found] = list_comments(project)
    assert (found["attempt_id"], found["delivered_to"], found["state"]) == (
        first["id"],
        second["id"],
        "delivered",
    )
    assert get_status(project) == "completed"


def test_comments_that_are_kept_go_with_the_words_that_send_the_work_back(project: RunProject):
    plan(project, "alpha", finish("alpha"), [write("more"), *finish("alpha")], approval=["after"])
    run(project)

    kept = [comment(project, text, later=True) for text in ("One.", "Two.")]
    still = get_status(project)
    sent = act(project, "send_back_task", task_id=project.ids["alpha"], text="Three.")
    run(project)

    [attempt] = list_attempts(project)
    prompt = read_prompt(project, attempt, 2)
    assert ([each["reopened"] for each in kept], still) == ([False, False], "in_progress")
    assert len(sent["comments"]) == 2
    assert [prompt.count(words) for words in ("One.", "Two.", "Three.")] == [1, 1, 1]


def test_work_is_not_sent_back_without_words(project: RunProject):
    plan(project, "alpha", finish("alpha"), approval=["after"])
    run(project)

    with pytest.raises(InvalidInput):
        act(project, "send_back_task", task_id=project.ids["alpha"], text="  ")

    assert review(project)["entry"]["approval_id"]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"seen": "something else"}, NotAllowed),
        ({"line": 99}, InvalidInput),
        ({"path": "missing.txt"}, InvalidInput),
        ({"side": "old"}, InvalidInput),
        ({"task_id": "tk_000000000000"}, NotFound),
    ],
)
def test_a_line_that_is_not_there_gets_no_comment(project: RunProject, given: dict[str, Any], error: type):
    plan(project, "alpha", finish("alpha"))
    run(project)

    with pytest.raises(error):
        comment(project, **given)

    assert (list_comments(project), get_status(project)) == ([], "completed")


def test_a_comment_that_no_agent_heard_is_withdrawn_without_a_trace_in_prompts(project: RunProject):
    plan(project, "alpha", finish("alpha"), [write("more"), *finish("alpha")], approval=["after"])
    run(project)
    comment(project)
    [found] = list_comments(project)

    act(project, "close_comment", comment_id=found["id"], state="withdrawn")
    run(project)

    [attempt] = list_attempts(project)
    assert list_states(project) == ["withdrawn"]
    assert WORDS not in read_prompt(project, attempt, 2)


def test_only_a_person_with_their_proof_says_that_work_was_reviewed_or_a_comment_fixed(
    project: RunProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    plan(project, "alpha", finish("alpha"), [write("more"), *finish("alpha")])
    run(project)
    comment(project, later=True)
    [found] = list_comments(project)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    write_settings(tmp_path, "passphrase")
    enroll_passphrase(project.app)
    app = project.app

    def close(caller: str, passphrase: str = "") -> Any:
        call = Call(caller, "close_comment", proof=GivenProof(passphrase))
        given = {"comment_id": found["id"], "state": "fixed"}
        return invoke(app.database, app.operations["close_comment"], given, call)

    [agent] = {each["agent_id"] for each in list_attempts(project)}
    for caller in ("local", f"agent:{agent}", "human:ada"):  # the name alone is no proof
        with pytest.raises(NotAllowed):
            close(caller)
        with pytest.raises(NotAllowed):
            approve(project, caller=caller)
    assert (list_states(project), queue(project)) == (["open"], ["alpha"])
    assert close("human:ada", PASSPHRASE)["state"] == "fixed"
    assert approve(project, PASSPHRASE)["reviewed_by"] == "human:ada"
    assert (queue(project), queue(project, "reviewed")) == ([], ["alpha"])


def test_agents_are_not_offered_what_people_do(project: RunProject):
    names = {"comment_on_task", "send_back_task", "close_comment", "approve_work", "list_review_queue"}

    assert names & set(project.app.registry) == set()
    assert names <= set(project.app.operations)


def test_a_review_is_good_until_somebody_comments_or_works_again(project: RunProject):
    plan(project, "alpha", finish("alpha"), [write("more"), *finish("alpha")])
    run(project)
    seen = review(project)["entry"]["digest"]
    approve(project)
    reviewed = queue(project)

    comment(project)
    run(project)

    assert reviewed == []
    assert (queue(project), "reviewed_by" in review(project)["entry"]) == (["alpha"], False)
    with pytest.raises(NotAllowed):
        act(project, "approve_work", task_id=project.ids["alpha"], digest=seen)
    approve(project)
    assert queue(project) == []


def test_comments_that_were_not_sent_are_sent_or_withdrawn_before_a_review(project: RunProject):
    plan(project, "alpha", finish("alpha"))
    run(project)
    comment(project, later=True)

    with pytest.raises(NotAllowed):
        approve(project)

    assert queue(project) == ["alpha"]


def test_work_that_landed_is_not_sent_back(project: RunProject):
    plan(project, "alpha", finish("alpha"))
    run(project)
    act(project, "land_work", task_id=project.ids["alpha"])

    with pytest.raises(NotAllowed):
        comment(project)

    assert (queue(project), queue(project, "landed"), list_comments(project)) == ([], ["alpha"], [])


def test_weakened_tests_stand_in_the_queue_the_evidence_and_the_diff(project: RunProject):
    checks = CHECKS.replace("[guarded.txt]", "['tests/*']")
    project.folder.joinpath("tests").mkdir()
    define_checks(project, checks)
    steps = [TEST, *finish("alpha")]
    plan(project, "alpha", steps, approval=["after"])
    run(project)
    id = project.ids["alpha"]

    entry = review(project)["entry"]
    evidence = act(project, "get_approval_evidence", id=entry["approval_id"])
    patch = act(project, "get_task_patch", task_id=id)

    kinds = [each["kind"] for each in entry["weakened"]]
    assert kinds == ["guarded_file", "always_true"]
    assert [each["kind"] for each in evidence["weakened"]] == kinds
    assert [each["kind"] for each in patch["weakened"]] == ["always_true"]
    assert "weakened_tests" in entry["risks"]


def test_rest_answers_the_queue_a_task_its_patch_in_pages_and_its_comments(
    project: RunProject, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("deepwork.views.overview.review_operations._PAGE_LINES", 1)
    plan(project, "alpha", [write("beta"), *finish("alpha")])
    run(project)
    comment(project, later=True)
    client, id = create_client(project.app), project.ids["alpha"]

    listed = read(client, "/review")
    whole = read(client, f"/review/{id}")
    first = read(client, f"/review/{id}/patch")
    second = read(client, f"/review/{id}/patch", cursor=first["cursor"])
    only = read(client, f"/review/{id}/patch", path="beta.txt", round=1)

    [entry] = listed["entries"]
    assert (listed["unreviewed"], listed["finished"], listed["cursor"]) == (1, 1, None)
    assert (entry["added"], entry["removed"], entry["files_count"]) == (2, 0, 2)
    assert entry["comments"] == {"unsent": 1, "open": 0, "delivered": 0, "fixed": 0}
    assert (whole["outcome"], len(whole["comments"])) == ("Wrote alpha.txt.", 1)
    assert ["+alpha" in first["patch"], "+beta" in first["patch"]] == [True, False]
    assert ["+alpha" in second["patch"], "+beta" in second["patch"]] == [False, True]
    assert (second["cursor"], only["patch"]) == (None, second["patch"])
    assert read(client, f"/tasks/{id}/comments")["total"] == 1


def test_what_changed_since_a_comment_is_shown_alone(project: RunProject):
    plan(project, "alpha", finish("alpha"), [write("more"), *finish("alpha")], approval=["after"])
    run(project)
    comment(project)
    [found] = list_comments(project)
    run(project)

    since = act(project, "get_review_patch", id=project.ids["alpha"], since=found["id"])
    first = act(project, "get_review_patch", id=project.ids["alpha"], round=1)
    now = act(project, "get_review_patch", id=project.ids["alpha"])

    assert [each["path"] for each in since["files"]] == ["more.txt"]
    assert [each["path"] for each in first["files"]] == ["alpha.txt"]
    assert [each["path"] for each in now["files"]] == ["alpha.txt", "more.txt"]


def test_small_checked_work_without_comments_has_no_risks(project: RunProject):
    define_checks(project)
    plan(project, "alpha", [GOOD, *finish("alpha")], checks=["tests"])

    run(project)

    assert review(project)["entry"]["risks"] == []


def test_the_command_comments_sends_back_lists_and_approves(project: RunProject):
    plan(project, "alpha", finish("alpha"), [write("more"), *finish("alpha")])
    run(project)

    def deepwork(*words: str, code: int = 0) -> str:
        done = run_deepwork(project.folder, *words, environment=project.variables)
        assert done.code == code, done
        return done.out + done.err

    waiting = deepwork("review", "queue")
    kept = json.loads(deepwork("comment", "alpha", "alpha.txt:1", WORDS, "--later", "--json"))
    refused = deepwork("review", "approve", "alpha", code=1)
    sent = deepwork("comment", "alpha", "--send-back", "")
    listed = deepwork("comment", "alpha")
    run(project)
    deepwork("review", "approve", "alpha")

    [comment_id] = [each["id"] for each in kept["comments"]]
    assert (project.ids["alpha"] in waiting, comment_id in listed) == (True, True)
    assert "not sent" in refused
    assert f"deepwork run {project.plan}" in sent
    assert list_states(project) == ["fixed"]
    assert deepwork("comment", "alpha", "alpha.txt", WORDS, code=2)
    assert "0 of 1" in deepwork("review", "queue")


@pytest.mark.parametrize(
    ("status", "after"),
    [("queued", "cancelled"), ("waiting", "cancelled"), ("checking", "checking"), ("moving", "moving")],
)
def test_no_landing_goes_on_with_work_that_was_sent_back(project: RunProject, status: str, after: str):
    plan(project, "alpha", finish("alpha"))
    run(project)
    id = project.ids["alpha"]
    with project.app.database.transaction() as tx:
        task = TaskStore(tx).get(id)
        place = {"host": "", "repository_path": str(project.folder), "target": "main"}
        landing = build_landing(
            tx, kind=LandingKind.TASK, subject_id=id, task_id=id, workflow_id=project.plan, title="alpha",
            done_at=task.finished_at, **place,
        )  # fmt: skip
        add_landing(tx, landing)
        move_landing(tx, landing, LandingStatus(status))

    with nullcontext() if after == "cancelled" else pytest.raises(NotAllowed):
        comment(project)

    with project.app.database.reading() as tx:
        found = LandingStore(tx).get(landing.id)
    assert found.status.value == after
    assert get_status(project) == ("pending" if after == "cancelled" else "completed")
    assert len(list_comments(project)) == (after == "cancelled")
