"""Templates from a terminal."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cli.run import run_deepwork

RELEASE = """\
name: release
description: How we release.
variables:
  - name: version
    description: What to release
tasks:
  - name: Build {{version}}
  - name: Ship
    sequence: 2
    depends_on: ["Build {{ version }}"]
"""


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))


def test_templates_are_listed_as_text_and_as_json(tmp_path: Path):
    folder = tmp_path / ".deepwork" / "templates"
    folder.mkdir(parents=True)
    (folder / "release.yml").write_text(RELEASE)
    (folder / "broken.yml").write_text("tasks:\n  - nmae: x\n")

    ran = run_deepwork(tmp_path, "templates", "list")

    assert "release   2      version" in ran.out
    assert "feature   9      feature, [details], [test_command]" in ran.out
    assert ".deepwork/templates/broken.yml:2:" in ran.out
    listed = run_deepwork(tmp_path, "templates", "list", "--json").json
    assert listed["total"] == 4
    assert listed["errors"][0]["line"] == 2


def test_a_template_is_shown_with_its_variables_and_its_tasks(tmp_path: Path):
    ran = run_deepwork(tmp_path, "templates", "show", "bugfix")

    assert "bug           What goes wrong, in a sentence" in ran.out
    assert "  1. ┌ ○ Reproduce the bug\n" in ran.out
    assert "    Deliver: " in ran.out
    assert len(run_deepwork(tmp_path, "templates", "show", "bugfix", "--json").json["templates"]) == 1
    assert run_deepwork(tmp_path, "templates", "show", "none").code == 1


def test_a_template_is_created_from_a_file_and_applied(tmp_path: Path):
    (tmp_path / "r.yml").write_text(RELEASE)

    kept = run_deepwork(tmp_path, "templates", "create", "ours", "r.yml", "--json")
    made = run_deepwork(
        tmp_path, "templates", "apply", "ours", "Release 2", "--var", "version=2.0 = new", "--max-parallel-tasks", "2",
        "--json",
    )  # fmt: skip

    assert kept.json["id"].startswith("tmpl_")
    shown = run_deepwork(tmp_path, "plans", "show", made.json["workflow_id"], "--json").json
    assert [task["name"] for task in shown["tasks"]] == ["Build 2.0 = new", "Ship"]
    assert (shown["plan_summary"], shown["max_parallel_tasks"]) == ("Applied template: ours", 2)
    [ours] = run_deepwork(tmp_path, "templates", "show", "ours", "--json").json["templates"]
    assert ours["description"] == "How we release."
    assert "Build {{version}}" in run_deepwork(tmp_path, "templates", "show", "ours").out


def test_a_template_is_created_from_a_workflow(tmp_path: Path):
    workflow = run_deepwork(tmp_path, "templates", "apply", "bugfix", "W", "--var", "bug=x", "--json").json[
        "workflow_id"
    ]

    kept = run_deepwork(
        tmp_path, "templates", "create", "ours", "--from-workflow-id", workflow, "--description", "d"
    )

    assert kept.code == 0, kept.err
    assert (
        run_deepwork(tmp_path, "templates", "show", "ours", "--json").json["templates"][0]["description"]
        == "d"
    )


def test_problems_are_reported(tmp_path: Path):
    (tmp_path / "r.yml").write_text("tasks:\n  - name: a\nvariables:\n  - name: 3\n")

    assert "r.yml:4: `variables[0].name` must be a string" in (
        run_deepwork(tmp_path, "templates", "create", "ours", "r.yml").err
    )
    assert "'version' is not of the form name=value" in (
        run_deepwork(tmp_path, "templates", "apply", "feature", "W", "--var", "version").err
    )
    missing = run_deepwork(tmp_path, "templates", "apply", "refactor", "W")
    assert (missing.code, "needs a value for 'target', 'goal'" in missing.err) == (1, True)
    assert "Pass exactly one of them." in run_deepwork(tmp_path, "templates", "create", "ours").err


def test_template_files_reach_git(tmp_path: Path):
    run_deepwork(tmp_path, "templates", "list")
    folder = tmp_path / ".deepwork" / "templates"
    folder.mkdir(parents=True)
    (folder / "release.yml").write_text(RELEASE)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"],
        cwd=tmp_path, check=True, capture_output=True, text=True,
    )  # fmt: skip

    assert ".deepwork/templates/release.yml" in listed.stdout.split()
