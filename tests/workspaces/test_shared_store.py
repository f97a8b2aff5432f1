"""All working trees of a repository share one store; nothing else chooses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from application import call_tool, make_app
from deepwork.kernel.config import Settings, load_settings
from workspaces.make import create_plan, create_repository, run_git


def build_settings(folder: Path) -> Settings:
    return load_settings(folder, environment={})


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return create_repository(tmp_path / "shop")


def test_a_worktree_sees_the_plans_of_its_repository(shop: Path):
    run_git(shop, "worktree", "add", "-q", "../tree")
    main, tree = make_app(shop, ""), make_app(shop.parent / "tree", "")
    id, _ = create_plan(main)

    assert call_tool(tree, "workflow_get", id=id)["repository_path"] == str(shop)
    other, _ = create_plan(tree)
    assert call_tool(main, "workflow_get", id=other)["repository_path"] == str(shop)
    assert not (shop.parent / "tree/.deepwork").exists()
    main.close()
    tree.close()


def test_a_worktree_with_relative_git_paths_is_recognised(shop: Path):
    run_git(shop, "worktree", "add", "-q", "../tree")
    tree = shop.parent / "tree"
    (tree / ".git").write_text("gitdir: ../shop/.git/worktrees/tree\n")
    (shop / ".git/worktrees/tree/gitdir").write_text("../../../../tree/.git\n")

    assert build_settings(tree).repository_root == shop


@pytest.mark.parametrize(
    "planted", ["gitdir: {shop}/.git/worktrees/tree", "gitdir: {shop}/.git", "gitdir: /nowhere", "what?", ""]
)
def test_a_forged_git_file_does_not_choose_the_store(shop: Path, planted: str):
    run_git(shop, "worktree", "add", "-q", "../tree")
    stranger = shop.parent / "stranger"
    stranger.mkdir()
    (stranger / ".git").write_text(planted.format(shop=shop))

    assert build_settings(stranger).repository_root == stranger
    assert build_settings(stranger).database_location == str(stranger / ".deepwork/deepwork.db")


def test_a_submodule_is_its_own_repository(shop: Path):
    run_git(shop, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(shop), "inner")

    assert build_settings(shop / "inner").repository_root == shop / "inner"


def test_a_plain_repository_or_folder_is_its_own_repository_root(shop: Path):
    assert build_settings(shop).repository_root == shop
    assert build_settings(shop.parent).repository_root == shop.parent
