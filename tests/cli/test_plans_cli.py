"""Plans and tasks from a terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import quick
from cli.run import CommandResult, run_deepwork

PLAN = """\
summary: Login by SSO
approach: Small steps.
tasks:
  - name: Design
    description: |
      Think first.
      Then write.
    estimated_complexity: low
  - name: Build
    sequence: 2
    parallel_group: work
    files_likely_affected: ["src/**"]
  - name: Test
    sequence: 2
    parallel_group: work
  - name: Ship
    sequence: 3
    depends_on: [Build, Test]
"""


def run_with_stdin(project: Path, text: str, *words: str) -> CommandResult:
    """Run the command with this text on standard input."""
    done = subprocess.run(
        [*quick.build_command(), *words],
        cwd=project, input=text, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return CommandResult(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def workflow(tmp_path: Path) -> str:
    """Create a workflow with a plan."""
    id: str = run_deepwork(
        tmp_path, "plans", "create", "SSO", "--prompt", "Let people log in.", "--json"
    ).json["id"]
    (tmp_path / "plan.yml").write_text(PLAN)
    ran = run_deepwork(tmp_path, "plans", "set-plan", id, "plan.yml")
    assert ran.code == 0, ran.err
    return id


def tasks(project: Path, workflow: str) -> dict[str, Any]:
    shown = run_deepwork(project, "plans", "show", workflow, "--json").json
    return {task["name"]: task for task in shown["tasks"]}


def test_a_plan_is_created_executed_and_completed(tmp_path: Path, workflow: str):
    ada = run_deepwork(tmp_path, "agents", "register", "Ada", "custom", "--json").json["id"]
    [first] = run_deepwork(tmp_path, "plans", "next", workflow, "--json").json["tasks"]
    design = first["id"]

    assert run_deepwork(tmp_path, "tasks", "claim", design, ada, "--json").json["success"]
    planned = run_with_stdin(
        tmp_path, "approach: Ask.\nsteps: [ask, write]\n", "tasks", "set-plan", design, "--agent-id", ada
    )
    assert planned.code == 0, planned.err
    assert run_deepwork(tmp_path, "tasks", "start", design, "--agent-id", ada).code == 0
    noted = run_deepwork(
        tmp_path, "tasks", "checkpoint-add", design, "decision", "Use OIDC", "--files-changed", "a.md",
        "--detail", '{"why": "simple"}', "--json",
    )  # fmt: skip
    assert noted.json["sequence"] == 2
    done = run_deepwork(tmp_path, "tasks", "done", design, "--outcome", "Designed.", "--agent-id", ada)
    assert done.code == 0, done.err
    shown = run_deepwork(tmp_path, "tasks", "show", design)
    assert "Think first.\n" in shown.out
    assert "Designed." in shown.out
    assert "Use OIDC" in run_deepwork(tmp_path, "tasks", "checkpoint-list", design).out

    rest = tasks(tmp_path, workflow)
    failed = run_deepwork(tmp_path, "tasks", "fail", rest["Build"]["id"], "--error", "No network.")
    assert failed.code == 0, failed.err
    assert run_deepwork(tmp_path, "tasks", "start", rest["Build"]["id"]).code == 0
    assert run_deepwork(tmp_path, "tasks", "done", rest["Build"]["id"], "--outcome", "Built.").code == 0
    assert run_deepwork(tmp_path, "tasks", "skip", rest["Test"]["id"]).code == 0
    assert run_deepwork(tmp_path, "tasks", "done", rest["Ship"]["id"], "--outcome", "Shipped.").code == 0

    progress = run_deepwork(tmp_path, "plans", "progress", workflow, "--json").json
    assert (progress["by_status"]["completed"], progress["by_status"]["skipped"]) == (3, 1)
    listed = run_deepwork(tmp_path, "plans", "list", "--status", "completed")
    assert "SSO" in listed.out


def test_a_status_shortcut_accepts_only_its_own_options(tmp_path: Path, workflow: str):
    design = tasks(tmp_path, workflow)["Design"]["id"]

    without = run_deepwork(tmp_path, "tasks", "done", design, "--json")

    assert (without.code, '"MISSING_OUTCOME"' in without.err) == (1, True)
    assert "No such option '--error'" in run_deepwork(tmp_path, "tasks", "done", design, "--error", "x").err
    assert "STATUS" not in run_deepwork(tmp_path, "tasks", "start", "--help").out


def test_a_request_can_come_from_standard_input_and_other_sources(tmp_path: Path):
    made = run_with_stdin(
        tmp_path, "Line one\nLine two\n", "plans", "create", "W", "--prompt", "-", "--source-type", "github_issue",
        "--source-ref", "https://example.org/1", "--max-parallel-tasks", "3", "--json",
    ).json  # fmt: skip

    shown = run_deepwork(tmp_path, "plans", "get", made["id"], "--json").json

    assert made["max_parallel_tasks"] == 3
    assert (shown["source_type"], shown["source_ref"]) == ("github_issue", "https://example.org/1")
    assert shown["source_content"] == "Line one\nLine two\n"
    assert "Missing option '--prompt'" in run_deepwork(tmp_path, "plans", "create", "W").err


@pytest.mark.parametrize("words", [(), ("-",)])
def test_a_plan_can_be_read_from_standard_input(tmp_path: Path, words: tuple[str, ...]):
    id = run_deepwork(tmp_path, "plans", "create", "W", "--prompt", "x", "--json").json["id"]

    assert run_with_stdin(tmp_path, PLAN, "plans", "set-plan", id, *words, "--json").json == {
        "workflow_id": id,
        "tasks_created": 4,
        "parallelizable_groups": 1,
        "status": "ready",
        "warning": "max_parallel_tasks is 1: tasks that could run in parallel wait for it; raise it to let them.",
    }  # fmt: skip


def test_a_plan_can_be_json_in_a_file_or_in_the_argument(tmp_path: Path):
    one, two = (
        run_deepwork(tmp_path, "plans", "create", "W", "--prompt", "x", "--json").json["id"] for _ in "ab"
    )
    text = '{"summary": "s",\n\t"tasks": [{"name": "\\ud83d\\ude80"}]}'
    (tmp_path / "plan.json").write_text(text)

    assert run_deepwork(tmp_path, "plans", "set-plan", one, "plan.json").code == 0
    assert run_deepwork(tmp_path, "plans", "set-plan", two, text).code == 0
    assert list(tasks(tmp_path, one)) == ["🚀"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("summary: [x\ntasks:\n", "p.yml:2: did not find expected ',' or ']' while parsing a flow sequence."),
        ("tasks:\n  - name: a\n", "p.yml:1: `summary` is missing."),
        ("summary: s\ntasks:\n  - nme: a\n", "p.yml:3: `tasks[0].name` is missing.\np.yml:3: The key `nme` is unknown."),
        ("summary: s\ntasks:\n  - name: a\n    sequence: -1\n", "p.yml:4: `tasks[0].sequence`: input should be greater than or equal to 0, not -1."),
        ("summary: s\ntasks: []\n", "p.yml:2: The plan has no tasks."),
        ("summary: s\ntasks:\n  - name: a\n  - name: b\n    depends_on: [x]\n", "p.yml:4: Task 'b' depends on 'x', which is not in the plan."),
        ("- a\n", 'p.yml:1: It must be an object, not ["a"].'),
        ("", "p.yml:1: It must be an object, not null."),
    ],
)  # fmt: skip
def test_problems_of_a_plan_are_reported_by_line(tmp_path: Path, text: str, said: str):
    (tmp_path / "p.yml").write_text(text)

    ran = run_deepwork(tmp_path, "plans", "set-plan", "wf_x", "p.yml")

    assert ran.code == 2
    assert ran.err == f"Error: {said}\nCorrect the file and run it again.\n"
    assert not (tmp_path / ".deepwork").exists()


def test_a_missing_file_is_a_usage_error(tmp_path: Path):
    ran = run_deepwork(tmp_path, "plans", "set-plan", "wf_x", "none.yml")

    assert (ran.code, "none.yml: No such file or directory." in ran.err) == (2, True)


def test_a_plan_can_change_during_its_execution(tmp_path: Path, workflow: str):
    added = run_with_stdin(
        tmp_path, "name: Tell\n", "plans", "add-task", workflow, "--after", "Ship", "--json"
    )
    assert added.code == 0, added.err
    assert tasks(tmp_path, workflow)["Tell"]["depends_on"] == ["Ship"]

    removed = run_deepwork(
        tmp_path, "plans", "remove-task", workflow, tasks(tmp_path, workflow)["Tell"]["id"]
    )
    assert removed.code == 0, removed.err

    (tmp_path / "new.yml").write_text(PLAN.replace("Ship", "Publish"))
    again = run_deepwork(tmp_path, "plans", "replan", workflow, "Another name.", "new.yml", "--json").json
    assert (again["tasks_created"], again["tasks_removed"]) == (4, 4)
    assert "Publish" in tasks(tmp_path, workflow)
    assert run_with_stdin(tmp_path, "- name: All\n", "plans", "replan", workflow, "Simpler.").code == 0
    assert list(tasks(tmp_path, workflow)) == ["All"]
    assert "Simpler." in run_deepwork(tmp_path, "plans", "show", workflow, "--history").out


def test_a_plan_is_shown_and_drawn(tmp_path: Path, workflow: str):
    shown = run_deepwork(tmp_path, "plans", "show", workflow)
    drawn = run_deepwork(tmp_path, "plans", "show", workflow, "--graph")
    mermaid = run_deepwork(tmp_path, "plans", "show", workflow, "--mermaid")

    assert all(word in shown.out for word in ("Design", "waiting", "Small steps.", "tasks total"))
    assert drawn.out == (
        "SSO: ready\n  1.   ○ Design\n  2. ┌ · Build\n     └ · Test\n  3.   · Ship\n\n○ ready 1  · waits 3\n"
    )
    assert mermaid.out.startswith('flowchart TD\n    t1["Design"]\n')
    as_json = run_deepwork(tmp_path, "plans", "show", workflow, "--graph", "--json").json
    assert as_json["drawing"] in drawn.out
    assert (as_json["id"], as_json["status"]) == (workflow, "ready")


def test_names_cannot_control_the_terminal(tmp_path: Path):
    id = run_deepwork(tmp_path, "plans", "create", "W\x1b[2J", "--prompt", "x", "--json").json["id"]
    run_with_stdin(tmp_path, '{"summary": "s", "tasks": [{"name": "a\\u001b[2J"}]}', "plans", "set-plan", id)

    for words in (("--graph",), ("--mermaid",), ()):
        assert "\x1b" not in run_deepwork(tmp_path, "plans", "show", id, *words).out


def test_plans_are_searched(tmp_path: Path, workflow: str):
    found = run_deepwork(tmp_path, "plans", "search", "think", "--json").json

    assert [each["name"] for each in found["results"]] == ["Design"]


def test_unknown_ids_are_errors(tmp_path: Path):
    for words in (
        ("plans", "show", "wf_unknown"),
        ("plans", "show", "wf_unknown", "--graph"),
        ("tasks", "show", "tk_unknown"),
    ):
        ran = run_deepwork(tmp_path, *words)
        assert (ran.code, "\nError: There is no " in ran.err) == (1, True)


def test_every_verb_has_help_and_opens_nothing(tmp_path: Path):
    from deepwork.edge.cli.plans import plans, tasks
    from deepwork.edge.cli.templates import templates

    for group in (plans, tasks, templates):
        with group.make_context(group.name, ["--help"], resilient_parsing=True) as context:
            for verb in group.list_commands(context):
                command = group.get_command(context, verb)
                assert command is not None
                with command.make_context(verb, [], parent=context, resilient_parsing=True) as inner:
                    assert command.get_help(inner)
    assert list(tmp_path.iterdir()) == []


def test_a_verb_of_plans_imports_nothing_it_does_not_need(tmp_path: Path):
    run_deepwork(tmp_path, "plans", "list")
    code = (
        f"import sys; from deepwork.edge.cli.main import main; sys.argv = ['deepwork', 'plans', 'list', '--path', {str(tmp_path)!r}]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "heavy = {'sqlalchemy', 'alembic', 'fastmcp', 'mcp', 'psycopg', 'yaml', 'deepwork.work.jobs.tools'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy))"
    )
    ran = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)

    assert "heavy: []" in ran.stdout


def test_a_person_retries_a_task_without_attempts_left(tmp_path: Path, workflow: str):
    design = tasks(tmp_path, workflow)["Design"]["id"]
    for number in range(3):
        ran = run_deepwork(tmp_path, "tasks", "fail", design, "--error", f"No pen {number}.")
        assert ran.code == 0, ran.err
        if number < 2:
            run_deepwork(tmp_path, "tasks", "start", design)
    refused = run_deepwork(tmp_path, "tasks", "start", design)

    ran = run_deepwork(tmp_path, "tasks", "retry", design, "--hint", "Buy a pen.")

    assert refused.code != 0
    assert f"deepwork tasks retry {design}" in refused.err
    assert ran.code == 0, ran.err
    shown = run_deepwork(tmp_path, "tasks", "show", design, "--include-checkpoints", "--json").json
    assert (shown["status"], "waits_for_person" in shown) == ("pending", False)
    [hint] = shown["checkpoints"]
    assert (hint["summary"], hint["detail"]["by"].startswith("human:")) == ("Buy a pen.", True)
