"""The command line of `deepwork hook`, and how it finds the project of an event."""

from __future__ import annotations

from pathlib import Path

import pytest

from deepwork.kernel.config import load_settings
from deepwork.views.hooks.entrypoint import BadUsage, find_event_project, parse_arguments


def test_arguments_select_the_store():
    url = "postgresql://team@example.org/deepwork"

    asked = parse_arguments(["stop", "--client", "codex", "--global", "--db", url])

    assert (asked.event, asked.client, asked.path) == ("stop", "codex", "")
    assert asked.flags == {"database": url, "global_store": True}
    assert parse_arguments(["stop", "--client=codex", f"--db={url}"]).flags == {
        "database": url,
        "global_store": None,
    }


def test_omitted_arguments_fall_back_to_the_settings(tmp_path: Path):
    asked = parse_arguments(["stop", "--client", "codex", "--path", str(tmp_path)])

    settings = load_settings(asked.path, asked.flags, {"DEEPWORK_GLOBAL": "1"})

    assert settings.global_store
    assert settings.project_root == tmp_path.resolve()


@pytest.mark.parametrize("words", ["--global=1", "stop --client codex --globe", "--global"])
def test_invalid_arguments_are_refused(words: str):
    with pytest.raises(BadUsage):
        parse_arguments(words.split())


def made(*folders: Path) -> Path:
    for folder in folders:
        folder.mkdir(parents=True)
    return folders[0]


def test_a_repository_inside_a_project_belongs_to_the_project(tmp_path: Path):
    project, inside = tmp_path / "project", tmp_path / "project" / "vendor" / "library"
    made(project / ".git", project / ".deepwork", inside / ".git", inside / "src")

    assert find_event_project(inside / "src") == project


def test_a_repository_inside_a_project_may_be_its_own_project(tmp_path: Path):
    project, inside = tmp_path / "project", tmp_path / "project" / "library"
    made(project / ".deepwork", inside / ".deepwork", inside / ".git")

    assert find_event_project(inside) == inside


def test_without_a_deepwork_folder_the_innermost_repository_is_the_project(tmp_path: Path):
    made(tmp_path / "outer" / ".git", tmp_path / "outer" / "inner" / ".git", tmp_path / "outer/inner/src")

    assert find_event_project(tmp_path / "outer" / "inner" / "src") == tmp_path / "outer" / "inner"


def test_a_worktree_inside_its_main_tree_is_its_own_project(tmp_path: Path):
    tree = tmp_path / "trees" / "one"
    notes = made(tmp_path / ".git" / "worktrees" / "one", tmp_path / ".deepwork", tree / "src")
    (notes / "gitdir").write_text(f"{tree / '.git'}\n")
    (tree / ".git").write_text(f"gitdir: {notes}\n")

    assert find_event_project(tree / "src") == tree
    assert load_settings(tree, environment={}).store_folder == tmp_path / ".deepwork"
