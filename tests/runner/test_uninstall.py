"""`deepwork uninstall` removes what deepwork wrote, after a dry run; never what is not merged, nor the store unasked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.run import CommandResult, run_deepwork
from runner.endings import finish, plan
from runner.person_checkout import take_fingerprint
from runner.run_project import RunProject
from runner.test_cleaning import list_branches, list_trees, run_plan
from runner.test_run_command import run
from workspaces.make import run_git

MakeProject = Callable[..., RunProject]
CLIENTS = ("claude-code", "codex", "gemini-cli")


def list_files(folder: Path) -> set[str]:
    paths = (each.relative_to(folder) for each in folder.rglob("*") if each.is_file())
    return {str(each) for each in paths if each.parts[0] != ".git"}


def list_names(answer: CommandResult, key: str, kind: str) -> list[str]:
    found: list[dict[str, Any]] = answer.json[key]
    return [each["name"] for each in found if each["kind"] == kind]


def test_a_project_is_as_before_it_was_set_up(tmp_path: Path):
    folder, environment = (
        tmp_path / "project",
        {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "c")},
    )
    folder.mkdir()
    run_git(folder, "init", "-q")
    (folder / "CLAUDE.md").write_text("# Ours\n")
    (folder / "GEMINI.md").symlink_to(tmp_path / "elsewhere.md")
    (tmp_path / "elsewhere.md").write_text("# Of somebody else\n")

    def call(*words: str) -> CommandResult:
        return run_deepwork(folder, *words, environment=environment)

    call("init")
    for client in CLIENTS:
        call("setup", client, "--hooks", "--no-guidance" if client == "gemini-cli" else "--hooks")
    call("agents", "register", "Ada", "custom")
    before = list_files(folder)
    shown = call("uninstall", "--delete-store", "--json")
    assert (list_files(folder), shown.json["is_removed"]) == (before, False)

    careful = call("uninstall", "--yes", "--json")
    assert "deepwork.db" in {Path(each["name"]).name for each in careful.json["kept"]}
    assert (folder / ".deepwork" / "deepwork.db").is_file()

    assert call("uninstall", "--delete-store", "--yes").code == 0
    assert list_files(folder) == {"CLAUDE.md", "GEMINI.md"}
    assert (folder / "CLAUDE.md").read_text() == "# Ours\n"
    assert not (folder / ".deepwork").exists()


def test_one_file_that_cannot_be_read_does_not_keep_the_others(tmp_path: Path):
    environment = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "c")}
    run_deepwork(tmp_path, "setup", "codex", environment=environment)
    (tmp_path / ".mcp.json").write_text("{ not json")

    answer = run_deepwork(tmp_path, "uninstall", "--yes", "--json", environment=environment)

    assert any(".codex/config.toml" in each for each in list_names(answer, "removable", "settings"))
    assert any("setup claude-code" in each["kept"] for each in answer.json["kept"])
    assert (tmp_path / ".mcp.json").read_text() == "{ not json"


def test_what_is_not_merged_stays_also_without_the_store(make_project: MakeProject):
    project = make_project()
    run_plan(project)
    branches, trees = list_branches(project), list_trees(project)

    answer = run(project, "uninstall", "--delete-store", "--yes", "--json")

    assert (list_branches(project), list_trees(project)) == (branches, trees)
    assert branches <= set(list_names(answer, "kept", "branch"))
    assert list_names(answer, "kept", "state") == [".deepwork/config.yml", ".deepwork/worktrees"]
    assert not (project.folder / ".deepwork" / "deepwork.db").exists()


def test_what_landed_and_was_merged_goes(make_project: MakeProject):
    project = make_project()
    run_plan(project)
    assert run(project, "land", project.plan, "--json").code == 0
    run_git(project.folder, "merge", "-q", f"deepwork/integration/{project.plan}")
    project.fingerprint = take_fingerprint(project.folder)
    shown = run(project, "uninstall", "--json").json["removable"]

    answer = run(project, "uninstall", "--yes", "--json")

    assert answer.json["removable"] == shown
    assert (list_branches(project), list_trees(project)) == (set(), [])
    assert (project.folder / "alpha.txt").exists()


def test_nothing_is_removed_under_an_open_run(make_project: MakeProject):
    project = make_project()
    plan(project, "Work", finish("work"), approval=["after"])
    assert run(project, "run", project.plan, "--agent", "claude", "--json").code == 3
    runs = run(project, "runs", "list", "--json").json["runs"]
    with project.app.database.transaction() as tx:
        tx.execute("UPDATE runner_runs SET status = 'active', ended_at = NULL")

    shown = run(project, "uninstall", "--delete-store", "--json")
    refused = run(project, "uninstall", "--delete-store", "--yes")

    assert shown.json["open_runs"] == [runs[0]["id"]]
    assert refused.code == 1
    assert f"deepwork runs stop {runs[0]['id']} --now" in refused.err
    assert (project.folder / ".deepwork" / "deepwork.db").is_file()
