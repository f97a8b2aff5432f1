"""All working trees of a repository share one store; nothing else chooses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from application import ask, make_app
from deepwork.config import Settings, load_settings
from workspaces.make_workspaces import git, repository, workflow


def settings(folder: Path) -> Settings:
    return load_settings(folder, environment={})


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return repository(tmp_path / "shop")


def test_whoever_works_in_a_worktree_sees_the_plans_of_the_repository(shop: Path):
    git(shop, "worktree", "add", "-q", "../tree")
    main, tree = make_app(shop, ""), make_app(shop.parent / "tree", "")
    id, _ = workflow(main)

    assert ask(tree, "workflow_get", id=id)["repository_path"] == str(shop)
    other, _ = workflow(tree)
    assert ask(main, "workflow_get", id=other)["repository_path"] == str(shop)
    assert not (shop.parent / "tree/.deepwork").exists()
    main.close()
    tree.close()


def test_a_worktree_with_relative_notes_is_found_too(shop: Path):
    git(shop, "worktree", "add", "-q", "../tree")
    tree = shop.parent / "tree"
    (tree / ".git").write_text("gitdir: ../shop/.git/worktrees/tree\n")
    (shop / ".git/worktrees/tree/gitdir").write_text("../../../../tree/.git\n")

    assert settings(tree).repository_root == shop


@pytest.mark.parametrize(
    "planted", ["gitdir: {shop}/.git/worktrees/tree", "gitdir: {shop}/.git", "gitdir: /nowhere", "what?", ""]
)
def test_a_git_file_that_git_does_not_know_chooses_nothing(shop: Path, planted: str):
    git(shop, "worktree", "add", "-q", "../tree")
    stranger = shop.parent / "stranger"
    stranger.mkdir()
    (stranger / ".git").write_text(planted.format(shop=shop))

    assert settings(stranger).repository_root == stranger
    assert settings(stranger).database_location == str(stranger / ".deepwork/deepwork.db")


def test_a_submodule_is_a_repository_of_its_own(shop: Path):
    git(shop, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(shop), "inner")

    assert settings(shop / "inner").repository_root == shop / "inner"


def test_a_plain_repository_and_a_plain_folder_are_themselves(shop: Path):
    assert settings(shop).repository_root == shop
    assert settings(shop.parent).repository_root == shop.parent
