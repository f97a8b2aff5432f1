"""`deepwork review`: its text, JSON and exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from application import call_tool, make_app
from cli.run import run_deepwork
from deepwork.edge.cli.review import review
from deepwork.kernel.errors import DeepworkError, GitError, InvalidInput, NotFound
from reviews.make import ReviewProject, make_project, make_rule_data, parse_ids, parse_names


@pytest.fixture
def project(tmp_path: Path) -> ReviewProject:
    """Creates a project with two rules and a change for each."""
    project = make_project(
        tmp_path / "project",
        python=make_rule_data("*.py", agent={"codex": "coder"}),
        docs=make_rule_data("*.md", strategy="matches_together"),
    )
    project.write("a.py", "b.py", "x.md")
    return project


def run(project: ReviewProject, *words: str, input: bytes | None = None) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(
        review, [*words, "--path", str(project.root)], input=input
    )


def run_json(project: ReviewProject, *words: str, **more: Any) -> Any:
    return json.loads(run(project, *words, "--json", **more).stdout)


def list_reviewed_files(project: ReviewProject, *words: str, **more: Any) -> list[str]:
    return [task["name"].partition(" of ")[2] for task in run_json(project, *words, **more)["tasks"]]


def get_error(project: ReviewProject, *words: str, kind: type[DeepworkError]) -> str:
    error = run(project, *words).exception
    assert isinstance(error, kind)
    return error.message


def run_with_stdin(
    project: ReviewProject, *words: str, stdin: Any, **more: Any
) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a new process with this standard input, which is in the pipe before it starts."""
    reader, writer = os.pipe()
    try:
        os.write(writer, stdin if isinstance(stdin, bytes) else b"")
        os.close(writer)
        return subprocess.run(
            [sys.executable, "-P", "-m", "deepwork", "review", "--path", str(project.root), *words],
            capture_output=True, timeout=100, check=False, stdin=reader if isinstance(stdin, bytes) else stdin, **more,
        )  # fmt: skip
    finally:
        os.close(reader)


# Which files


def test_files_changed_in_git_are_reviewed(project: ReviewProject):
    assert list_reviewed_files(project) == ["a.py", "b.py", "x.md"]


def test_the_text_matches_the_answer_of_the_tool(project: ReviewProject, tmp_path: Path):
    for platform in ("claude", "generic"):
        app = make_app(project.root, str(tmp_path / "elsewhere.db"), platform=platform)
        text = call_tool(app, "get_review_instructions")
        app.close()

        assert run(project, "--platform", platform).stdout == f"{text}\n"


def test_files_can_be_passed_as_options(project: ReviewProject):
    assert list_reviewed_files(project, "--files", "b.py", "--files", "./b.py") == ["b.py"]


@pytest.mark.parametrize(
    "content", [b"b.py\nx.md\n", b"b.py\r\n\r\nx.md", b"b.py\0x.md\0", b"./b.py\nx.md\nx.md\n"]
)
def test_files_can_be_read_from_standard_input(project: ReviewProject, content: bytes):
    assert list_reviewed_files(project, "--files", "-", input=content) == ["b.py", "x.md"]


def test_files_from_options_and_from_a_pipe_are_combined(project: ReviewProject):
    assert list_reviewed_files(project, "--files", "-", "--files", "a.py", input=b"b.py\n") == [
        "a.py",
        "b.py",
    ]


def test_empty_standard_input_means_no_file(project: ReviewProject):
    assert run(project, "--files", "-", input=b"").stdout == "No changed files detected.\n"


def test_a_pipe_is_read_without_a_dash(project: ReviewProject):
    by_line = run_with_stdin(project, stdin=b"b.py\n")
    by_nul = run_with_stdin(project, stdin=b"b.py\0new\nline.py\0")

    assert parse_names(by_line.stdout.decode()) == ["python review of b.py"]
    assert "new" in by_nul.stdout.decode().splitlines()[0]
    assert parse_names(by_nul.stdout.decode()) == ["python review of b.py"]


def test_file_names_are_read_from_a_file_on_standard_input(project: ReviewProject, tmp_path: Path):
    (tmp_path / "list").write_text("b.py\n")
    with (tmp_path / "list").open("rb") as listed:
        ran = run_with_stdin(project, stdin=listed)

    assert parse_names(ran.stdout.decode()) == ["python review of b.py"]


@pytest.mark.parametrize("kind", ["empty pipe", "nothing", "closed"])
def test_without_file_names_on_standard_input_git_is_used(project: ReviewProject, kind: str):
    if kind == "closed":
        ran = run_with_stdin(project, stdin=None, preexec_fn=lambda: os.close(0))
    else:
        ran = run_with_stdin(project, stdin=b"" if kind == "empty pipe" else subprocess.DEVNULL)

    assert len(parse_ids(ran.stdout.decode())) == 3
    assert ran.stderr == b""


def test_a_pipe_that_stays_open_does_not_block(project: ReviewProject):
    reader, writer = os.pipe()
    try:
        ran = run_with_stdin(project, stdin=reader)
    finally:
        os.close(reader)
        os.close(writer)

    assert len(parse_ids(ran.stdout.decode())) == 3
    assert ran.stderr == b"Nothing arrived on standard input; using the changes in git instead.\n"


def test_the_base_can_be_chosen(project: ReviewProject):
    project.commit("c.py")
    project.write("d.py")

    assert list_reviewed_files(project, "--base-ref", "HEAD") == ["d.py"]
    assert run_json(project, "--base-ref", "HEAD")["base"] == "HEAD"
    assert run_json(project)["base"] == "main"


def test_an_invalid_base_is_refused(project: ReviewProject):
    assert "'nowhere'" in get_error(project, "--base-ref", "nowhere", kind=InvalidInput)
    assert "'--exec=x'" in get_error(project, "--base-ref=--exec=x", kind=InvalidInput)


def test_a_base_with_named_files_is_refused(project: ReviewProject):
    assert "--base-ref" in get_error(project, "--base-ref", "main", "--files", "a.py", kind=InvalidInput)


def test_a_file_outside_the_project_is_refused(project: ReviewProject):
    assert "not inside the project" in get_error(project, "--files", "../x", kind=InvalidInput)


def test_names_that_are_not_utf_8_are_shown_and_break_nothing(project: ReviewProject):
    ran = run_with_stdin(project, "--json", "--files", "-", stdin=b"caf\xe9.txt\n")

    assert ran.returncode == 0
    assert json.loads(ran.stdout)["missing"] == [r"caf\xe9.txt"]


# Platforms


def test_the_text_depends_on_the_platform(project: ReviewProject):
    ran = run(project, "--platform", "codex")

    assert ran.stdout.startswith("Do these reviews, in parallel if you can: ")
    assert "\n   subagent_type: coder\n" in ran.stdout


def test_the_json_answer_has_every_field(project: ReviewProject):
    project.write_rules("sub", bad=1)

    told = run_json(project, "--files", "a.py", "--files", "none")

    [task] = told.pop("tasks")
    assert (task["name"], task["prompt"]) == (
        "python review of a.py",
        f"@.deepwork/tmp/review_instructions/{task['review_id']}.md",
    )
    assert told.pop("problems") == [
        "sub/.deepreview:2: bad: this must be a mapping, not the number 1; write a mapping with description, match and review."
    ]
    assert told == {
        "passed_before": 0,
        "base": None,
        "message": None,
        "missing": ["none"],
        "waiting_for_person": [],
    }


def test_json_contains_the_reason_why_there_is_nothing_to_review(project: ReviewProject):
    told = run_json(project, "--files", "-", input=b"")

    assert (told["tasks"], told["message"]) == ([], "No changed files detected.")


def test_a_hostile_name_cannot_control_the_terminal(project: ReviewProject):
    project.write("\x1b[2J.py", ".deepreview", content="\x1b]0;owned\x07: 1\n")
    project.write_rules("sub", **{"\x1b[2J": 1, "python": make_rule_data()})
    project.write("sub/\x1b[2J.py")

    for words in ([], ["--platform", "generic"], ["rules"], ["--files", "\x1b[2K"]):
        assert "\x1b" not in run(project, *words).output


# Passed reviews


def test_a_review_is_marked_as_passed_and_left_out(project: ReviewProject):
    first, *others = parse_ids(run(project).stdout)

    marked = run(project, "mark-passed", first)

    assert (marked.exit_code, first in marked.stdout) == (0, True)
    assert parse_ids(run(project).stdout) == others
    assert run(project).stdout.splitlines()[-1].startswith("1 review was left out")
    assert run_json(project)["passed_before"] == 1
    assert parse_ids(run(project, "--again").stdout) == [first, *others]


def test_several_reviews_are_marked_in_one_call(project: ReviewProject):
    marked = run_json(project, "mark-passed", *parse_ids(run(project).stdout))

    assert len(marked["passed"]) == 3
    assert run(project).stdout.startswith("Nothing is left to review: the 3 reviews that apply have passed")


def test_an_unknown_review_cannot_be_marked(project: ReviewProject):
    get_error(project, "mark-passed", "rv_000000000000", kind=NotFound)


# For pipelines


def test_the_exit_code_of_check_shows_whether_a_review_is_due(project: ReviewProject):
    assert run(project).exit_code == 0
    assert run(project, "--check").exit_code == 1
    assert run(project, "--check", "--json").exit_code == 1
    run(project, "mark-passed", *parse_ids(run(project).stdout))
    assert run(project, "--check").exit_code == 0
    assert run(project, "--check", "--again").exit_code == 1
    assert run(project, "--check", "--files", "none").exit_code == 0


def test_check_has_a_different_exit_code_when_a_rule_is_broken(project: ReviewProject):
    project.write_rules("sub", bad=1)

    assert run(project, "--check").exit_code == 2
    assert run(project).exit_code == 0


@pytest.mark.parametrize("words", [["--base-ref", "nowhere"], ["--files", "../x"]])
def test_check_distinguishes_errors_from_answers(project: ReviewProject, words: list[str]):
    ran = run(project, "--check", *words)

    assert ran.exit_code == 2
    assert ran.stderr.startswith("Error: ")
    assert ran.stdout == ""


def test_check_outside_a_repository_is_an_error(tmp_path: Path):
    assert run(ReviewProject(tmp_path), "--check").exit_code == 2
    get_error(ReviewProject(tmp_path), kind=GitError)


def test_exit_codes_reach_the_shell(project: ReviewProject):
    assert run_deepwork(project.root, "review", "--check").code == 1
    assert run_deepwork(project.root, "review", "--check", "--base-ref", "nowhere").code == 2
    refused = run_deepwork(project.root, "review", "--base-ref", "nowhere", "--json")
    assert (refused.code, json.loads(refused.err)["code"]) == (1, "INVALID_INPUT")


# Rules


def test_rules_are_listed_with_their_files(project: ReviewProject):
    ran = run(project, "rules")

    assert ran.exit_code == 0
    assert [line.split() for line in ran.stdout.splitlines()[2:4]] == [
        ["python", ".deepreview:2", "What", "the", "rule", "is", "for."],
        ["docs", ".deepreview:17", "What", "the", "rule", "is", "for."],
    ]


def test_rules_that_match_a_file_are_listed(project: ReviewProject):
    def matching(*files: str) -> list[str]:
        words = [word for file in files for word in ("--matching", file)]
        return [row["name"] for row in run_json(project, "rules", *words)["rules"]]

    assert matching("any.py") == ["python"]
    assert matching("any.py", "y.md") == ["python", "docs"]
    assert matching("none") == []
    assert run(project, "rules", "--matching", "none").stdout == "There are no rules.\n"


def test_a_broken_rule_is_printed_with_file_and_line_and_fails(project: ReviewProject):
    project.write_rules("sub", bad=make_rule_data("/x"))

    ran = run(project, "rules")

    assert ran.exit_code == 1
    assert (
        "sub/.deepreview:6: bad -> match -> include -> 0: the pattern '/x' starts with a slash; "
        in ran.stdout
    )
    assert len(run_json(project, "rules")["problems"]) == 1


def test_options_apply_before_and_after_the_subcommand(project: ReviewProject):
    def told(*words: str) -> str:
        ran = CliRunner(env={"COLUMNS": "200"}).invoke(review, list(words))
        assert ran.exit_code == 0, ran.output
        return ran.stdout

    [first, *_] = parse_ids(run(project).stdout)
    at = ("--path", str(project.root))
    assert told(*at, "rules") == told("rules", *at)
    assert told(*at, "--json", "rules") == told("rules", *at, "--json")
    assert told(*at, "mark-passed", first) == told("mark-passed", first, *at)


def test_an_option_that_does_not_apply_is_refused(project: ReviewProject):
    for words in (["--files", "a.py"], ["--check"], ["--again"], ["--base-ref", "x"], ["--platform", "x"]):
        ran = CliRunner().invoke(review, [*words, "rules", "--path", str(project.root)])
        assert ran.exit_code == 2
        assert f"{words[0]} does not apply to rules." in ran.output


def test_listing_rules_writes_nothing(project: ReviewProject):
    run(project, "rules")

    assert not (project.root / ".deepwork").exists()
