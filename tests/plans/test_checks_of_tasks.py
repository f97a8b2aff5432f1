"""A task is done only if the checks of its plan and its own pass, whatever its agent says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rs_bpe.bpe import openai

from application import Clock
from approvals.make import decide
from checks.make import run_git, shell
from deepwork.edge.cli.main import deepwork
from deepwork.edge.server.invocation import invoke
from deepwork.gates.checks.models import ProofSubject
from deepwork.gates.checks.store import ProofStore
from deepwork.kernel.call import Call
from deepwork.kernel.errors import GateClosed
from deepwork.views.overview.needs import list_needs
from deepwork.views.overview.provenance_store import ProvenanceStore
from deepwork.views.overview.states.view import StateView
from gated_project import CHECK, GatedProject


def plan(gated: GatedProject, *tasks: dict[str, Any], **of_plan: Any) -> tuple[str, dict[str, str]]:
    """Create a plan, and return its id and those of its tasks, by name."""
    id = gated.call("workflow_create", name="Login", source_type="prompt", source_content="It breaks.")["id"]
    given = {"summary": "Fix it", "tasks": list(tasks) or [{"name": "fix"}], **of_plan}
    gated.call("workflow_set_plan", id=id, plan=given)
    return id, list_tasks(gated, id)


def list_tasks(gated: GatedProject, id: str) -> dict[str, str]:
    shown = gated.call("workflow_get", id=id, include_tasks=True)["tasks"]
    return {task["name"]: task["id"] for task in shown}


def get_status(gated: GatedProject, task: str) -> str:
    status: str = gated.call("task_get", id=task)["status"]
    return status


def complete(gated: GatedProject, task: str, **more: Any) -> Any:
    return gated.call("task_update_status", id=task, status="completed", outcome="Done.", **more)


def test_a_task_that_says_done_stays_as_it_was_while_its_check_is_red(any_gated: GatedProject):
    _, tasks = plan(any_gated, checks=["tests"])
    any_gated.call("task_update_status", id=tasks["fix"], status="in_progress")
    before = any_gated.call("task_get", id=tasks["fix"])

    error = any_gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")

    assert error["code"] == "CHECKS_FAILED"
    assert error["recoverable"] is True
    [shown] = error["checks"]
    assert (shown["name"], shown["verdict"]) == ("tests", "failed")
    assert "there is no good" in shown["output"]
    assert "attempt 1 of 3" in error["message"]
    assert any_gated.call("task_get", id=tasks["fix"]) == before
    again = any_gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")
    assert "attempt 2 of 3" in again["message"]


def test_a_waived_check_is_called_waived_and_not_failed(any_gated: GatedProject):
    _, tasks = plan(any_gated, checks=["tests"])
    any_gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")
    with any_gated.app.database.reading() as tx:
        [red], _ = ProofStore(tx).list_newest(1)
    waive = any_gated.app.operations["waive_proof"]
    call = Call("human:ada", waive.name, account="human:ada")
    said = invoke(any_gated.app.database, waive, {"proof_id": red.id, "reason": "known"}, call)

    answer = complete(any_gated, tasks["fix"])

    with any_gated.app.database.reading() as tx:
        [explained] = ProvenanceStore(tx, [tasks["fix"]]).list_proofs()
    assert said["verdict"] == explained["verdict"] == "waived"
    assert answer["checks"] == {"tests": "waived"}


def test_a_task_is_completed_with_its_proofs_once_the_check_passes(any_gated: GatedProject):
    _, tasks = plan(any_gated, checks=["tests"])
    any_gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")
    any_gated.fix()

    answer = complete(any_gated, tasks["fix"])

    assert answer["checks"] == {"tests": "passed"}
    assert get_status(any_gated, tasks["fix"]) == "completed"
    with any_gated.app.database.reading() as tx:
        [proof] = ProofStore(tx).list_used_by(ProofSubject("task", tasks["fix"]))
    assert (proof.check_name, proof.verdict) == ("tests", "passed")


def test_a_task_has_to_pass_its_own_checks_and_those_of_its_plan(gated: GatedProject):
    gated.define(
        f"checks:\n  tests: {{run: {CHECK}}}\n  lint: {{run: {shell('test -e clean')}}}\nguarded: []\n"
    )
    _, tasks = plan(gated, {"name": "fix", "checks": ["lint"]}, {"name": "write"}, checks=["tests"])
    gated.fix()

    complete_error = gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")
    gated.write("clean", "")

    assert [each["name"] for each in complete_error["checks"]] == ["lint"]
    assert complete(gated, tasks["fix"])["checks"] == {"tests": "passed", "lint": "passed"}
    assert complete(gated, tasks["write"])["checks"] == {"tests": "passed"}


def test_a_plan_without_checks_is_completed_as_before(gated: GatedProject):
    _, tasks = plan(gated)

    answer = complete(gated, tasks["fix"])

    assert "checks" not in answer
    assert gated.count_runs() == 0


def test_a_check_that_nobody_trusts_does_not_run(gated: GatedProject):
    gated.define_check(shell("touch ran"), trust=False)
    _, tasks = plan(gated, checks=["tests"])

    error = gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")

    assert error["code"] == "CHECKS_NOT_TRUSTED"
    assert "deepwork trust" in error["suggestion"]
    assert not (gated.folder / "ran").exists()


def test_a_check_is_defined_by_the_commit_at_which_the_plan_was_created(gated: GatedProject):
    _, tasks = plan(gated, checks=["tests"])

    gated.define(f"checks:\n  tests: {{run: {shell('true')}}}\n")
    error = gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")

    assert error["code"] == "CHECKS_FAILED"


@pytest.mark.parametrize(
    ("of_task", "of_plan"), [({"checks": ["typo"]}, {}), ({}, {"checks": ["tests", "typo"]})]
)
def test_a_name_that_is_not_defined_is_refused_when_the_plan_is_set(
    gated: GatedProject, of_task: dict[str, Any], of_plan: dict[str, Any]
):
    id = gated.call("workflow_create", name="x", source_type="prompt", source_content="x")["id"]

    error = gated.refuse(
        "workflow_set_plan", id=id, plan={"summary": "x", "tasks": [{"name": "fix"} | of_task], **of_plan}
    )

    assert error["code"] == "INVALID_INPUT"
    assert "'typo'" in error["message"]
    assert "Commit .deepwork/checks.yml" in error["suggestion"]
    assert gated.call("workflow_get", id=id)["status"] == "planning"


def test_names_are_checked_when_tasks_are_added_and_replaced(gated: GatedProject):
    id, _ = plan(gated)

    added = gated.refuse("workflow_add_task", workflow_id=id, task={"name": "b", "checks": ["typo"]})
    replaced = gated.refuse(
        "workflow_replan", workflow_id=id, reason="r", tasks=[{"name": "b", "checks": ["typo"]}]
    )
    gated.call("workflow_add_task", workflow_id=id, task={"name": "b", "checks": ["tests"]})

    assert added["code"] == replaced["code"] == "INVALID_INPUT"
    assert list(list_tasks(gated, id)) == ["fix", "b"]


def test_naming_a_check_needs_a_repository_with_a_commit(gated: GatedProject, tmp_path: Path):
    bare = tmp_path / "bare"
    bare.mkdir()
    id = gated.call(
        "workflow_create", name="x", source_type="prompt", source_content="x", repository_path=str(bare)
    )["id"]

    given = {"summary": "x", "tasks": [{"name": "a"}], "checks": ["tests"]}
    error = gated.refuse("workflow_set_plan", id=id, plan=given)

    assert error["code"] == "INVALID_INPUT"
    assert "Commit .deepwork/checks.yml" in error["suggestion"]


def test_a_repeated_key_returns_the_first_answer_and_runs_nothing(gated: GatedProject):
    _, tasks = plan(gated, checks=["tests"])
    gated.fix()

    first = complete(gated, tasks["fix"], key="k")
    (gated.folder / "good").unlink()
    second = complete(gated, tasks["fix"], key="k")

    assert first == second
    assert gated.count_runs() == 1


def test_reporting_done_again_does_not_run_the_check_again(gated: GatedProject):
    _, tasks = plan(gated, checks=["tests"])
    gated.fix()
    complete(gated, tasks["fix"])
    (gated.folder / "good").unlink()

    complete(gated, tasks["fix"])

    assert gated.count_runs() == 1


def test_a_missing_outcome_is_reported_before_any_check_runs(gated: GatedProject):
    _, tasks = plan(gated, checks=["tests"])

    error = gated.refuse("task_update_status", id=tasks["fix"], status="completed")

    assert error["code"] == "MISSING_OUTCOME"
    assert gated.count_runs() == 0


def test_failed_needs_no_proof_and_a_red_check_is_no_failed_attempt(gated: GatedProject):
    _, tasks = plan(gated, checks=["tests"])
    for _ in range(3):
        gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")

    gated.call("task_update_status", id=tasks["fix"], status="failed", error="I cannot.")

    assert gated.call("task_get", id=tasks["fix"])["failures"] == 1


def test_an_agent_keeps_its_lease_while_its_checks_are_red(gated: GatedProject, clock: Clock):
    agent = gated.call("agent_register", name="Ada", runtime="codex")["id"]
    _, tasks = plan(gated, checks=["tests"])
    gated.call("task_claim", task_id=tasks["fix"], agent_id=agent, start=True)

    for _ in range(3):
        clock.advance(seconds=60)
        gated.close(
            "task_update_status", id=tasks["fix"], status="completed", outcome="Done.", agent_id=agent
        )

    clock.advance(seconds=60)
    gated.fix()
    complete(gated, tasks["fix"], agent_id=agent)


def test_only_the_holder_can_let_the_checks_of_a_task_run(gated: GatedProject):
    agent = gated.call("agent_register", name="Ada", runtime="codex")["id"]
    other = gated.call("agent_register", name="Bob", runtime="codex")["id"]
    _, tasks = plan(gated, checks=["tests"])
    gated.call("task_claim", task_id=tasks["fix"], agent_id=agent, start=True)

    gated.refuse("task_update_status", id=tasks["fix"], status="completed", outcome="Done.", agent_id=other)

    assert gated.count_runs() == 0


def test_a_call_waits_as_long_as_its_caller_does(gated: GatedProject):
    gated.define_check(shell("until test -e go.log; do sleep 0.05; done"))
    _, tasks = plan(gated, checks=["tests"])
    spec = gated.app.registry["task_update_status"]
    given = {"id": tasks["fix"], "status": "completed", "outcome": "Done."}

    with pytest.raises(GateClosed) as running:
        invoke(gated.app.database, spec, given, Call(tool=spec.name, patience=0.1))
    gated.write("go.log", "")
    answer = invoke(gated.app.database, spec, given, Call(tool=spec.name, patience=None))

    assert running.value.code == "CHECKS_RUNNING"
    assert answer["checks"] == {"tests": "passed"}


# What a task must not change


def test_a_task_that_changed_a_guarded_file_waits_for_a_person(gated: GatedProject):
    _, tasks = plan(gated, checks=["tests"])
    gated.call("task_update_status", id=tasks["fix"], status="in_progress")
    gated.fix()
    gated.write("guarded/test_a.py", "assert True\n")

    error = gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")

    assert error["code"] == "CHECKS_GUARDED"
    assert f"`deepwork approvals approve {error['approval']['id']}`" in error["suggestion"]
    assert get_status(gated, tasks["fix"]) == "in_progress"
    with gated.app.database.reading() as tx:
        [need], _ = list_needs(StateView(tx, gated.app.processes))
    assert need["title"] == "Approve changes to guarded files: guarded/test_a.py"


def test_the_check_of_a_task_that_changed_a_guarded_file_exits_with_3(gated: GatedProject, tmp_path: Path):
    _, tasks = plan(gated, checks=["tests"])
    gated.call("task_update_status", id=tasks["fix"], status="in_progress")
    gated.fix()
    gated.write("guarded/test_a.py", "assert True\n")

    words = [
        "check",
        tasks["fix"],
        "--json",
        "--path",
        str(gated.folder),
        "--db",
        str(tmp_path / "deepwork.db"),
    ]
    done = CliRunner().invoke(deepwork, words)

    assert (done.exit_code, json.loads(done.stdout)["error"]["code"]) == (3, "CHECKS_GUARDED")


def test_changing_a_guarded_file_before_the_claim_does_not_hide_it(gated: GatedProject):
    _, tasks = plan(gated, checks=["tests"])
    gated.fix()
    gated.write("guarded/test_a.py", "assert True\n")
    gated.call("task_update_status", id=tasks["fix"], status="in_progress")

    error = gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")

    assert error["code"] == "CHECKS_GUARDED"


def test_changing_a_guarded_file_in_an_attempt_that_failed_does_not_hide_it(gated: GatedProject):
    _, tasks = plan(gated, checks=["tests"])
    gated.call("task_update_status", id=tasks["fix"], status="in_progress")
    gated.write("guarded/test_a.py", "assert True\n")
    gated.call("task_update_status", id=tasks["fix"], status="failed", error="x")
    gated.call("task_update_status", id=tasks["fix"], status="in_progress")
    gated.fix()

    error = gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")

    assert error["code"] == "CHECKS_GUARDED"


def test_a_task_of_a_plan_without_checks_does_not_hide_a_guarded_change(any_gated: GatedProject):
    _, tasks = plan(any_gated, checks=["tests"])
    _, helpers = plan(any_gated, {"name": "helper"})
    any_gated.call("task_update_status", id=helpers["helper"], status="in_progress")
    any_gated.write("guarded/test_a.py", "assert True\n")
    complete(any_gated, helpers["helper"])
    any_gated.call("task_update_status", id=tasks["fix"], status="in_progress")
    any_gated.fix()

    error = any_gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")

    assert error["code"] == "CHECKS_GUARDED"


def test_changing_a_guarded_file_while_another_check_runs_does_not_hide_it(gated: GatedProject):
    gated.write("guarded/test_a.py", "hard\n")
    swap, tests = shell("echo easy > guarded/test_a.py"), shell("grep -q easy guarded/test_a.py")
    gated.define(
        f"checks:\n  lint: {{run: {swap}, needs: ['src/**']}}\n  tests: {{run: {tests}, needs: ['guarded/**']}}\n"
        "guarded: ['guarded/**']\n"
    )
    _, tasks = plan(gated, checks=["lint", "tests"])
    gated.call("task_update_status", id=tasks["fix"], status="in_progress")

    error = gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")

    assert error["code"] == "CHECKS_FAILED"
    assert "guarded/test_a.py" in error["checks"][0]["output"]


def test_what_a_person_approved_for_one_task_counts_for_the_next_until_it_changes(any_gated: GatedProject):
    _, tasks = plan(any_gated, {"name": "a"}, {"name": "b"}, {"name": "c"}, checks=["tests"])
    any_gated.fix()
    any_gated.write("guarded/test_a.py", "assert True\n")
    asked = any_gated.close("task_update_status", id=tasks["a"], status="completed", outcome="Done.")
    decide(any_gated.app, asked["approval"]["id"])
    complete(any_gated, tasks["a"])

    complete(any_gated, tasks["b"])
    any_gated.write("guarded/test_a.py", "assert 1\n")
    error = any_gated.close("task_update_status", id=tasks["c"], status="completed", outcome="Done.")

    assert error["code"] == "CHECKS_GUARDED"


# A tree of its own


def test_a_task_in_a_worktree_is_checked_there(gated: GatedProject):
    id, tasks = plan(gated, checks=["tests"])
    gated.call(
        "workspace_create",
        workflow_id=id,
        path="../project-tree",
        branch="fix",
        task_ids=[tasks["fix"]],
        create=True,
    )
    gated.fix()

    error = gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")
    (gated.folder.parent / "project-tree/good").write_text("")

    assert error["code"] == "CHECKS_FAILED"
    assert complete(gated, tasks["fix"])["checks"] == {"tests": "passed"}


def test_a_worktree_on_an_older_commit_does_not_choose_weaker_definitions(gated: GatedProject):
    run_git(gated.folder, "branch", "weak", "HEAD")
    gated.define(f"checks:\n  tests: {{run: {shell('test -e better')}}}\n")
    id, tasks = plan(gated, checks=["tests"])
    gated.call(
        "workspace_create",
        workflow_id=id,
        path="../project-tree",
        branch="fix",
        base_branch="weak",
        task_ids=[tasks["fix"]],
        create=True,
    )
    (gated.folder.parent / "project-tree/good").write_text("")

    error = gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")

    assert error["code"] == "CHECKS_FAILED"


def test_moving_the_branch_that_a_plan_started_from_hides_no_guarded_change(gated: GatedProject):
    """The task is claimed in one tree and completed in another, so nobody saw what it changed there."""
    id, tasks = plan(gated, checks=["tests"])
    gated.call("task_update_status", id=tasks["fix"], status="in_progress")
    place = {"path": "../project-tree", "branch": "fix", "task_ids": [tasks["fix"]], "create": True}
    gated.call("workspace_create", workflow_id=id, **place)
    tree = gated.folder.parent / "project-tree"
    for name in ("good", "guarded/test_a.py"):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("")
    run_git(tree, "add", "-A")
    run_git(tree, "commit", "-q", "-m", "evil")
    run_git(tree, "update-ref", "refs/heads/main", "HEAD")

    error = gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")

    assert error["code"] == "CHECKS_GUARDED"


def test_a_folder_that_is_no_tree_of_the_repository_proves_nothing(gated: GatedProject, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "good").write_text("")
    id, tasks = plan(gated, checks=["tests"])
    gated.call("workspace_create", workflow_id=id, path=str(other), branch="x", task_ids=[tasks["fix"]])

    error = gated.refuse("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")

    assert error["code"] == "INVALID_STATE"
    assert get_status(gated, tasks["fix"]) == "pending"


# Ways around


PERSON = {"caller": "human:ada"}


def test_only_a_person_skips_a_task_that_has_to_pass_checks(gated: GatedProject):
    _, tasks = plan(gated, checks=["tests"])

    error = gated.refuse("task_update_status", id=tasks["fix"], status="skipped", outcome="no")
    gated.call("task_update_status", id=tasks["fix"], status="skipped", outcome="no", **PERSON)

    assert error["code"] == "UNAUTHORIZED"
    assert "person" in error["suggestion"]


def test_only_a_person_removes_a_task_with_checks_of_its_own(gated: GatedProject):
    id, tasks = plan(
        gated, {"name": "fix", "checks": ["tests"]}, {"name": "sign", "approval": "after"}, {"name": "c"}
    )

    for name in ("fix", "sign"):
        assert (
            gated.refuse("workflow_remove_task", workflow_id=id, task_id=tasks[name])["code"]
            == "UNAUTHORIZED"
        )
    gated.call("workflow_remove_task", workflow_id=id, task_id=tasks["fix"], **PERSON)

    assert "fix" not in list_tasks(gated, id)


def test_only_a_person_replans_a_task_to_require_less(gated: GatedProject):
    strict = {"name": "fix", "checks": ["tests"], "approval": "after"}
    id, _ = plan(gated, strict)

    error = gated.refuse("workflow_replan", workflow_id=id, reason="r", tasks=[{"name": "fix"}])
    gated.call("workflow_replan", workflow_id=id, reason="r", tasks=[strict, {"name": "more"}])
    gated.call("workflow_replan", workflow_id=id, reason="r", tasks=[{"name": "fix"}], **PERSON)

    assert error["code"] == "UNAUTHORIZED"
    assert list(list_tasks(gated, id)) == ["fix"]


def test_only_a_person_completes_a_plan_whose_checked_tasks_are_open(any_gated: GatedProject):
    whole, _ = plan(any_gated, checks=["tests"])
    one, _ = plan(any_gated, {"name": "fix", "checks": ["tests"]})
    free, _ = plan(any_gated)

    for id in (whole, one):
        error = any_gated.refuse("workflow_update_status", id=id, status="completed", force=True)
        assert error["code"] == "UNAUTHORIZED"
        any_gated.call("workflow_update_status", id=id, status="completed", force=True, **PERSON)
    any_gated.call("workflow_update_status", id=free, status="completed", force=True)


def test_an_old_plan_in_the_history_names_its_checks(gated: GatedProject):
    id, _ = plan(gated, {"name": "fix", "checks": ["tests"]})
    gated.call("workflow_replan", workflow_id=id, reason="r", tasks=[{"name": "x"}], **PERSON)

    [change] = [
        each
        for each in gated.call("workflow_get", id=id, include_history=True)["history"]
        if each["what"] == "replanned"
    ]

    assert change["old_tasks"][0]["checks"] == ["tests"]


# What agents read


def count_tokens(answer: Any) -> int:
    """Count what an answer costs, with the tokenizer of two families of models that counts more."""
    text = json.dumps(answer, separators=(",", ":"), ensure_ascii=False)
    return max(int(encoding.count(text)) for encoding in (openai.o200k_base(), openai.cl100k_base()))


def test_answers_show_what_is_required_and_the_proofs(gated: GatedProject):
    id, tasks = plan(
        gated, {"name": "fix", "checks": ["tests"]}, {"name": "b"}, checks=["tests"], approval="after"
    )
    free, others = plan(gated)

    shown = gated.call("workflow_get", id=id)
    context = gated.call("task_load_context", task_id=tasks["b"])["current_task"]
    task = gated.call("task_get", id=tasks["fix"])

    assert shown["requires"] == {"checks": ["tests"], "approval": ["after"]}
    assert shown["base_commit"] == gated.base
    assert context["requires"] == {"checks": ["tests"], "approval": ["after"]}
    assert task["requires"] == {"checks": ["tests"]}
    assert not {"requires", "base_commit"} & gated.call("workflow_get", id=free).keys()
    assert "requires" not in gated.call("task_load_context", task_id=others["fix"])["current_task"]
    assert "requires" not in gated.call("task_get", id=others["fix"])


def test_a_completed_task_names_its_proofs(gated: GatedProject):
    _, tasks = plan(gated, {"name": "fix", "checks": ["tests"]})
    gated.fix()
    complete(gated, tasks["fix"])

    proofs = gated.call("task_get", id=tasks["fix"])["proofs"]

    with gated.app.database.reading() as tx:
        assert [proofs["tests"]] == [
            proof.id for proof in ProofStore(tx).list_used_by(ProofSubject("task", tasks["fix"]))
        ]


def test_a_green_check_costs_an_agent_at_most_40_tokens(gated: GatedProject):
    _, tasks = plan(gated, {"name": "a"}, {"name": "b", "checks": ["tests"]}, {"name": "c"})
    gated.fix()

    without, with_check = complete(gated, tasks["a"]), complete(gated, tasks["b"])

    assert count_tokens(with_check) - count_tokens(without) <= 40


@pytest.mark.parametrize("line", ["é漢字🙂 0x9f", "a9 Zq-", "Traceback (most recent call last):"])
def test_a_red_check_costs_an_agent_at_most_600_tokens(gated: GatedProject, line: str):
    gated.write("long.txt", "".join(f"{number} {line} {number:x}\n" for number in range(500)))
    gated.define_check(shell("cat long.txt; exit 1"))
    _, tasks = plan(gated, checks=["tests"])

    error = gated.close("task_update_status", id=tasks["fix"], status="completed", outcome="Done.")

    assert count_tokens(error) <= 600
