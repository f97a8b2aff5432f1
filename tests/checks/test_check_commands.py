"""`deepwork check`, `proofs` and `trust`, as a user types them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from checks.make import COUNT, Project, run_git, shell
from deepwork.edge.cli.framework.progress import ProgressLines
from deepwork.edge.cli.framework.tool_commands import call_tool
from deepwork.edge.cli.main import deepwork
from deepwork.kernel.call import current_call
from deepwork.kernel.errors import Code
from deepwork.kernel.files.private import find_hidden_checks


@pytest.fixture
def place(project: Project, tmp_path: Path) -> list[str]:
    return ["--path", str(project.folder), "--db", str(tmp_path / "deepwork.db")]


def run(*words: str) -> Result:
    return CliRunner().invoke(deepwork, words)


def test_trust_prints_every_word_and_covers_the_checks(project: Project):
    project.define_check('[sh, -c, "echo \\e[31m$(id); \\u202e exit", "a b"]', trust=False)
    path = ["--path", str(project.folder)]

    shown = run("trust", "--yes", *path).stdout
    answer = json.loads(run("trust", "--json", *path).stdout)

    assert "  tests: sh -c 'echo \\x1b[31m$(id); \\u202e exit' 'a b'\n" in shown
    assert "\x1b" not in shown
    assert [(row["check"], row["run"][:2], row["trusted"]) for row in answer["checks"]] == [
        ("tests", ["sh", "-c"], True)
    ]
    assert answer["changed"] is False
    assert json.loads(run("trust", "--list", "--json").stdout)["projects"][0]["checks"] == ["tests"]


def test_trust_reads_what_is_committed(project: Project):
    project.define_check(shell("true"), trust=False)
    project.write(".deepwork/checks.yml", f"checks: {{tests: {{run: {shell(COUNT)}}}}}\n")

    run("trust", "--yes", "--path", str(project.folder))
    [proof] = project.prove()
    project.base = project.commit()

    assert proof.exit_code == 0
    assert "trust" in project.fail().suggestion


def test_check_runs_all_checks_and_says_what_failed(project: Project, place: list[str]):
    project.define("checks:\n  good: {run: ['true']}\n  bad: {run: [sh, -c, 'echo broken; exit 2']}\n")

    red = run("check", *place)
    green = run("check", "--only", "good", "--clean", "--json", *place)

    assert red.exit_code == 1
    assert "Check bad failed with exit code 2." in red.stdout
    assert "broken" in red.stdout
    assert "good" in red.stdout
    assert green.exit_code == 0
    assert [row["verdict"] for row in json.loads(green.stdout)["checks"]] == ["passed"]
    error = json.loads(run("check", "--json", *place).stdout)["error"]
    assert (error["code"], error["checks"][0]["name"], error["passed"]) == ("CHECKS_FAILED", "bad", ["good"])


def test_checks_that_nobody_trusted_exit_with_3(project: Project, place: list[str]):
    project.define_check(shell("true"), trust=False)

    done = run("check", "--json", *place)

    assert (done.exit_code, json.loads(done.stdout)["error"]["code"]) == (3, "CHECKS_NOT_TRUSTED")


def test_proofs_can_be_listed_shown_verified_exported_and_waived(project: Project, place: list[str]):
    project.define_check(shell(f"{COUNT}; echo said; exit 1"), ", needs: ['src/**']")
    run("check", *place)

    [listed] = json.loads(run("proofs", "list", "--json", *place).stdout)["proofs"]
    id = listed["id"]
    shown = json.loads(run("proofs", "show", id, "--json", *place).stdout)
    exported = json.loads(run("proofs", "export", id, *place).stdout)

    assert (listed["check"], listed["verdict"], shown["output"]) == ("tests", "failed", "said\n")
    assert exported["predicate"]["result"] == "FAILED"
    assert exported["subject"][0]["digest"] == {"sha256": listed["inputs_digest"]}
    assert run("proofs", "verify", *place).exit_code == 0
    assert run("proofs", "waive", id, "--reason", "known", *place).exit_code == 0
    [waived] = json.loads(run("proofs", "list", "--json", *place).stdout)["proofs"]
    assert (waived["verdict"], waived["waived_by"][:6]) == ("waived", "human:")
    assert waived["waive_reason"] == "known"
    assert json.loads(run("proofs", "show", id, "--json", *place).stdout)["verdict"] == "waived"
    assert json.loads(run("proofs", "list", "--verdict", "failed", "--json", *place).stdout)["proofs"] == []
    assert run("check", *place).exit_code == 0
    assert project.count_runs() == 1
    project.write("src/a.py", "changed\n")
    assert run("check", *place).exit_code == 1
    entries = json.loads(run("audit", "--json", *place).stdout)["calls"]
    assert ("waive_proof", "done") in [(entry["tool"], entry["outcome"]) for entry in entries]


def test_a_plan_from_a_file_may_name_checks(project: Project, place: list[str], tmp_path: Path):
    project.define_check(shell("true"))
    file = tmp_path / "plan.yml"
    text = "name: Login\nprompt: It breaks.\nsummary: Fix it\nchecks: [tests]\ntasks: [{name: fix, checks: [CHECK]}]\n"
    file.write_text(text.replace("CHECK", "tests"))
    made = json.loads(run("plans", "create", "-f", str(file), "--json", *place).stdout)
    file.write_text(text.replace("CHECK", "lint"))

    refused = run("plans", "create", "-f", str(file), "--json", *place)

    assert made["tasks_created"] == 1
    assert "'lint' is not defined" in str(refused.exception)
    assert json.loads(run("plans", "list", "--json", *place).stdout)["total"] == 1


def test_a_tool_that_is_called_by_a_command_waits_to_the_end(
    project: Project, capsys: pytest.CaptureFixture[str]
):
    """The check would end with the command."""
    project.define_check(shell("until test -e go.log; do sleep 0.05; done"))
    waited: list[float | None] = []

    def answer(id: str) -> dict[str, str]:
        waited.append(current_call().patience)
        assert project.fail(wait_seconds=0).code is Code.CHECKS_RUNNING
        project.write("go.log", "")
        return {"verdict": project.prove(wait_seconds=current_call().patience)[0].verdict}

    spec = replace(project.app.registry["task_get"], find_method=lambda: answer)

    assert call_tool(project.app, spec, {"id": "tk_000000000000"}) == {"verdict": "passed"}
    assert waited == [None]
    ProgressLines(0)(1, None, "Check tests has been running for 1 s")
    assert capsys.readouterr().err == "Check tests has been running for 1 s\n"


def test_an_agent_cannot_waive(project: Project):
    from deepwork.edge.server.invocation import invoke
    from deepwork.kernel.call import Call
    from deepwork.kernel.errors import NotAllowed

    project.define_check(shell("exit 1"))
    project.fail()
    with project.app.database.reading() as tx:
        id = tx.fetch_value("SELECT id FROM proofs")
    spec = project.app.operations["waive_proof"]

    with pytest.raises(NotAllowed, match="Only a person"):
        invoke(project.app.database, spec, {"proof_id": id, "reason": "x"}, Call("local", "waive_proof"))

    assert "waive_proof" not in project.app.registry


def test_verify_finds_an_output_and_inputs_that_were_changed(project: Project, place: list[str]):
    project.define_check(shell("true"))
    [proof] = project.prove()
    (project.folder / ".deepwork/checks" / f"{proof.id}.log").write_bytes(b"other")
    with project.app.database.transaction() as tx:
        tx.update("proofs", proof.id, {"inputs_digest": "0" * 64})

    verified = run("proofs", "verify", "--json", *place)

    assert verified.exit_code == 1
    assert len(json.loads(verified.stdout)["proofs"][0]["problems"]) == 2


def test_a_gitignore_of_an_earlier_version_gets_a_hint(project: Project):
    project.write(".deepwork/.gitignore", "*\n!config.yml\n")
    project.write(".deepwork/checks.yml", "checks: {}\n")

    hint = find_hidden_checks(project.folder / ".deepwork")

    assert hint is not None
    assert "!checks.yml" in hint
    assert hint in json.loads(run("doctor", "--json", "--path", str(project.folder)).stdout)["problems"]
    project.write(".deepwork/.gitignore", "*\n!checks.yml\n")
    run_git(project.folder, "add", ".deepwork")
    assert run_git(project.folder, "ls-files", ".deepwork") == ".deepwork/checks.yml"
    assert find_hidden_checks(project.folder / ".deepwork") is None
