"""Which files are reviewed: those that changed, in whatever state the project is, or those that are named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from application import call_tool, make_app
from deepwork.kernel.errors import GitError, InvalidInput
from git.changes_project import create_project
from reviews.make import (
    ReviewProject,
    make_project,
    make_rule_data,
    parse_ids,
    parse_names,
    read_instructions,
)

CallInProject = Callable[..., Any]

ALL = make_rule_data()
TOGETHER = make_rule_data(strategy="matches_together")


@pytest.fixture
def call_in_project(tmp_path: Path) -> CallInProject:
    """Call a tool of a server of the given project."""

    def call(root: Path, tool: str = "get_review_instructions", **arguments: Any) -> Any:
        app = make_app(root, str(tmp_path / "elsewhere.db"))
        try:
            return call_tool(app, tool, **arguments)
        finally:
            app.close()

    return call


def list_reviewed_files(text: str) -> list[str]:
    return [name.removeprefix("every review of ") for name in parse_names(text)]


# What changed


def test_committed_staged_unstaged_and_untracked_files_are_reviewed(
    tmp_path: Path, call_in_project: CallInProject
):
    project = make_project(tmp_path / "project", every=ALL)
    project.commit("kept", "gone", "unstaged")
    project.git("branch", "-f", "main")
    project.commit("committed")
    project.stage("staged")
    project.write("unstaged", "untracked", content="otherwise\n")
    project.remove("gone")

    assert list_reviewed_files(call_in_project(project.root)) == [
        "committed",
        "staged",
        "unstaged",
        "untracked",
    ]


def test_ignored_files_are_not_reviewed(tmp_path: Path, call_in_project: CallInProject):
    project = make_project(tmp_path / "project", every=ALL)
    project.write(".gitignore", content="*.log\nbuild/\n")
    project.write("x.log", "build/y", "z")

    assert list_reviewed_files(call_in_project(project.root)) == [".gitignore", "z"]


def test_files_written_by_deepwork_are_not_reviewed(tmp_path: Path, call_in_project: CallInProject):
    project = make_project(tmp_path / "project", every=ALL)
    project.write("a", ".deepwork/jobs/mine/job.yml")

    first, second = call_in_project(project.root), call_in_project(project.root)

    assert (project.root / ".deepwork/.gitignore").exists()
    assert list_reviewed_files(first) == list_reviewed_files(second) == [".deepwork/jobs/mine/job.yml", "a"]


def test_w21_odd_names_are_reviewed(tmp_path: Path, call_in_project: CallInProject):
    odd = [
        "é.py",
        'q"uote.py',
        "sp ace.py",
        "tab\t.py",
        "new\nline.py",
        "-dash.py",
        "*.py",
        "日本.py",
        "@at.py",
    ]
    project = make_project(tmp_path / "project", every=make_rule_data("*.py"))
    project.write(*odd)

    text = call_in_project(project.root)

    assert sorted(list_reviewed_files(text)) == sorted(odd)
    assert all(
        (project.root / ".deepwork/tmp/review_instructions" / f"{id}.md").exists() for id in parse_ids(text)
    )


def test_w21_a_name_that_is_not_utf_8_is_reviewed_and_shown(tmp_path: Path, call_in_project: CallInProject):
    project = make_project(tmp_path / "project", every=make_rule_data("*.py"))
    Path(os.fsdecode(os.fsencode(project.root) + b"/caf\xe9.py")).write_text("x")

    text = call_in_project(project.root)

    assert list_reviewed_files(text) == [r"caf\xe9.py"]
    assert r"- @caf\xe9.py" in read_instructions(project.root, text)[0]


def test_w22_paths_are_relative_to_a_project_in_a_subdirectory(
    tmp_path: Path, call_in_project: CallInProject
):
    whole = make_project(tmp_path / "whole", every=ALL)
    whole.write_rules("app", every=make_rule_data("src/*.py"))
    whole.commit()
    whole.git("branch", "-f", "main")
    whole.write("src/outside.py", "app/src/inside.py", "app/other/x.py")

    text = call_in_project(whole.root / "app")

    assert list_reviewed_files(text) == ["src/inside.py"]
    assert "policy in .deepreview:2;" in read_instructions(whole.root / "app", text)[0]


def test_w23_before_the_first_commit_every_file_is_a_change(tmp_path: Path, call_in_project: CallInProject):
    create_project(tmp_path / "project")
    project = ReviewProject(tmp_path / "project")
    project.write_rules(every=ALL)
    project.write("a")

    assert list_reviewed_files(call_in_project(project.root)) == [".deepreview", "a"]


def test_w23_without_a_repository_the_error_has_a_suggestion(tmp_path: Path, call_in_project: CallInProject):
    project = ReviewProject(tmp_path / "project")
    project.write_rules(every=ALL)

    with pytest.raises(GitError) as refused:
        call_in_project(project.root)

    assert refused.value.message.endswith("project is not a git repository.")
    assert refused.value.suggestion.startswith("Name the files to review, or run `git init`")


def test_without_a_repository_the_given_files_are_reviewed(tmp_path: Path, call_in_project: CallInProject):
    project = ReviewProject(tmp_path / "project")
    project.write_rules(every=TOGETHER | {"match": {"include": ["*.py"]}})
    project.write("a.py", "b.py")

    assert list_reviewed_files(call_in_project(project.root, files=["a.py"])) == ["a.py"]


def test_a_worktree_is_reviewed_as_its_own_project(tmp_path: Path, call_in_project: CallInProject):
    project = make_project(tmp_path / "project", every=ALL)
    project.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    project.write("here")
    ReviewProject(tmp_path / "side").write("there")

    assert list_reviewed_files(call_in_project(tmp_path / "side")) == ["there"]
    assert list_reviewed_files(call_in_project(project.root)) == ["here"]


def make_project_with_submodule(tmp_path: Path) -> ReviewProject:
    library = create_project(tmp_path / "library")
    library.commit("x")
    project = make_project(tmp_path / "project", every=ALL)
    project.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library.root), "lib")
    project.commit()
    project.git("branch", "-f", "main")
    return project


def test_a_submodule_is_one_path_and_changes_with_its_content(tmp_path: Path, call_in_project: CallInProject):
    project = make_project_with_submodule(tmp_path)
    assert call_in_project(project.root) == "No changed files detected: nothing differs from main."
    project.below("lib").commit("new")

    first = call_in_project(project.root)
    project.below("lib").commit("newer")
    second = call_in_project(project.root)

    assert list_reviewed_files(first) == list_reviewed_files(second) == ["lib"]
    assert parse_ids(first) != parse_ids(second)
    assert parse_ids(call_in_project(project.root)) == parse_ids(second)


def test_a_submodule_can_be_given_as_a_file(tmp_path: Path, call_in_project: CallInProject):
    project = make_project_with_submodule(tmp_path)

    assert list_reviewed_files(call_in_project(project.root, files=["lib"])) == ["lib"]
    assert list_reviewed_files(call_in_project(project.root, files=["lib/x"])) == ["lib/x"]


@pytest.mark.parametrize("links", [1, 2])
def test_w20_a_link_to_the_project_itself_does_not_duplicate_rules(
    tmp_path: Path, call_in_project: CallInProject, links: int
):
    project = make_project(tmp_path / "project", every=TOGETHER)
    for number in range(links):
        (project.root / f"loop{number}").symlink_to(".")
    project.write("a")

    [name] = parse_names(call_in_project(project.root))
    [configured] = call_in_project(project.root, "get_configured_reviews")

    assert name == f"every review of {links + 1} files"
    assert configured["defining_file"] == ".deepreview:2"


# Files that are named


@pytest.fixture
def project(tmp_path: Path) -> ReviewProject:
    project = make_project(tmp_path / "project", every=ALL)
    project.commit("a.py", "src/b.py", "src/deep/c.py")
    (project.root / "empty").mkdir()
    (project.root / "link").symlink_to("src")
    (project.root / "out").symlink_to(tmp_path)
    return project


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["a.py"], ["a.py"]),
        (["./a.py"], ["a.py"]),
        (["src/../a.py"], ["a.py"]),
        (["src//deep/./c.py"], ["src/deep/c.py"]),
        (["{root}/a.py"], ["a.py"]),
        (["link/b.py"], ["src/b.py"]),
        (["a.py", "./a.py", "a.py", "{root}/a.py"], ["a.py"]),
        (["src/b.py", "a.py"], ["a.py", "src/b.py"]),
        (["src"], ["src/b.py", "src/deep/c.py"]),
        (["src/", "src/b.py"], ["src/b.py", "src/deep/c.py"]),
        (["."], [".deepreview", "a.py", "link", "out", "src/b.py", "src/deep/c.py"]),
        (["link"], ["link"]),
        (["../project/a.py"], ["a.py"]),
    ],
)
def test_files_can_be_given_in_any_path_notation(
    project: ReviewProject, call_in_project: CallInProject, given: list[str], meant: list[str]
):
    named = [file.format(root=project.root) for file in given]

    assert list_reviewed_files(call_in_project(project.root, files=named)) == meant


@pytest.mark.parametrize("outside", ["../x", "/etc/passwd", "..", "src/../../x", "out/x", "", " "])
def test_a_file_outside_the_project_is_refused(
    project: ReviewProject, call_in_project: CallInProject, outside: str
):
    for tool, parameter in [
        ("get_review_instructions", "files"), ("get_configured_reviews", "only_rules_matching_files"),
    ]:  # fmt: skip
        with pytest.raises(InvalidInput) as refused:
            call_in_project(project.root, tool, **{parameter: ["a.py", outside]})

        assert refused.value.code == "PATH_OUTSIDE_PROJECT"


@pytest.mark.parametrize("missing", ["none.py", "empty", "a.py/x", "x" * 300, "y/" * 3000 + "z"])
def test_a_missing_file_is_reported_and_the_others_are_reviewed(
    project: ReviewProject, call_in_project: CallInProject, missing: str
):
    text = call_in_project(project.root, files=["a.py", missing])

    assert text.startswith(f"Left out, because they do not exist in this project: {missing}")
    assert list_reviewed_files(text) == ["a.py"]


def test_many_missing_files_are_truncated_and_counted(project: ReviewProject, call_in_project: CallInProject):
    text = call_in_project(project.root, files=[f"none{number:02}" for number in range(30)])

    assert text.startswith("Left out, because they do not exist in this project: none00, ")
    assert ", none19, 10 more.\n\nNo changed files detected." in text


def test_a_given_file_may_be_unchanged_or_ignored_by_git(
    project: ReviewProject, call_in_project: CallInProject
):
    project.write(".gitignore", content="x.log\n")
    project.write("x.log")

    assert list_reviewed_files(call_in_project(project.root, files=["x.log", "a.py"])) == ["a.py", "x.log"]


def test_given_files_count_as_all_changed_files(project: ReviewProject, call_in_project: CallInProject):
    project.write_rules(every=make_rule_data("*.py", strategy="all_changed_files"))

    text = call_in_project(project.root, files=["a.py", "src/b.py"])

    assert parse_names(text) == ["every review of 2 changed files"]


# What cannot be used


def test_broken_rules_are_reported_first_and_the_others_are_applied(
    project: ReviewProject, call_in_project: CallInProject
):
    project.write_rules(every=ALL, bad=make_rule_data("/x"))

    text = call_in_project(project.root, files=["a.py"])

    assert text.startswith(
        "Warning: these rules cannot be used and are left out:\n"
        "- .deepreview:18: bad -> match -> include -> 0: the pattern '/x' starts with a slash; "
    )
    assert list_reviewed_files(text) == ["a.py"]


def test_if_every_rule_is_broken_the_answer_says_so(project: ReviewProject, call_in_project: CallInProject):
    project.write_rules(bad=make_rule_data("/x"))

    text = call_in_project(project.root, files=["a.py"])

    assert text.splitlines()[-1] == "No review rule can be used until the files above are fixed."


def test_twenty_broken_rules_are_named_and_the_others_counted(
    project: ReviewProject, call_in_project: CallInProject
):
    project.write_rules(**{f"bad{number}": 1 for number in range(25)})

    text = call_in_project(project.root, files=["a.py"])

    assert text.count("\n- .deepreview:") == 20
    assert "\n- and 5 more\n" in text
