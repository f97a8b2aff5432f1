"""`run` and `workspace` in config.yml: choices and numbers, and commands that need trust."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deepwork.delivery.runner.models import RunOptions
from deepwork.delivery.runner.runner import build_run_options
from deepwork.delivery.runner.workspace_setup import (
    WorkspaceSettings,
    build_workspace_settings,
    list_untrusted_setup,
    require_trusted_setup,
)
from deepwork.kernel.config import Settings, find_unknown_keys, load_settings
from deepwork.kernel.errors import DefinitionError, NotAllowed
from trust.make import trust_settings, write_config


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))


def test_without_settings_both_have_the_same_defaults(tmp_path: Path):
    settings = Settings(tmp_path)

    assert build_run_options(settings, {}) == RunOptions()
    assert build_workspace_settings(settings) == WorkspaceSettings()


def test_all_of_them_are_read_from_the_file(tmp_path: Path):
    root = write_config(
        tmp_path,
        "run: {chain: night, agents: 4, minutes: 90, stall_minutes: 0.5, wait_at_limit: 60,\n"
        "      resumes: 3, land: true, max_unreviewed: 5}\n"
        "workspace: {setup: [[uv, sync], [make, deps]], copy: [.env, web/node_modules], ports: 10}\n",
    )
    trust_settings(root)

    settings = load_settings(root)

    assert (settings.run_chain, settings.run_agents) == ("night", 4)
    assert build_run_options(settings, {}) == RunOptions(
        minutes=90, stall_minutes=0.5, wait_at_limit=60, resumes=3, land=True, max_unreviewed=5
    )
    assert build_run_options(settings, {"resumes": 1, "max_usd": 2.0}) == RunOptions(
        2.0, minutes=90, stall_minutes=0.5, wait_at_limit=60, resumes=1, land=True, max_unreviewed=5
    )
    assert build_workspace_settings(settings) == WorkspaceSettings(
        (("uv", "sync"), ("make", "deps")), (".env", "web/node_modules"), 10
    )


def test_commands_in_a_variable_are_lines_and_need_no_trust(tmp_path: Path):
    lines = "uv sync --frozen\n\n# comment\nsh -c 'a b'\n"

    settings = load_settings(tmp_path, environment={"DEEPWORK_WORKSPACE_SETUP": lines})

    assert settings.workspace_setup == (("uv", "sync", "--frozen"), ("sh", "-c", "a b"))
    assert list_untrusted_setup(settings) == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("run: {chain: 'sh -c id'}", "`run.chain` .* it must be the name of a chain"),
        ("run: {chain: '{prompt_file}'}", "`run.chain`"),
        ("run: {agents: 0}", "`run.agents` .* is 0; it must be a whole number from 1 to 64"),
        ("run: {agents: 1.5}", "`run.agents`"),
        ("run: {stall_minutes: 0}", "`run.stall_minutes` .* it must be minutes, from 0.01"),
        ("run: {minutes: true}", "`run.minutes`"),
        ("run: {minutes: nan}", "`run.minutes`"),
        ("run: {land: later}", "`run.land`"),
        ("workspace: {setup: [uv sync]}", "`workspace.setup` .* it must be a list of commands, each a list"),
        ("workspace: {setup: [[]]}", "`workspace.setup`"),
        ("workspace: {setup: [['', x]]}", "`workspace.setup`"),
        ("workspace: {setup: [[uv, 1]]}", "`workspace.setup`"),
        ("workspace: {setup: {a: b}}", "`workspace.setup`"),
        ("workspace: {copy: {a: b}}", "`workspace.copy`"),
        ("workspace: {ports: -1}", "`workspace.ports`"),
    ],
)
def test_a_bad_value_is_one_clear_sentence(tmp_path: Path, text: str, problem: str):
    with pytest.raises(DefinitionError, match=problem):
        load_settings(write_config(tmp_path, text), environment={})


@pytest.mark.parametrize("written", [{"run": {"agent": 1}}, {"workspace": {"setpu": []}}])
def test_a_misspelt_key_in_a_group_is_found(tmp_path: Path, written: dict[str, Any]):
    [(group, keys)] = written.items()
    root = write_config(tmp_path, f"{group}: {keys}\nquality_gate: {{timeout: 5}}\n")

    assert find_unknown_keys(root) == [f"{group}.{key}" for key in keys]


def test_a_run_does_not_start_until_its_set_up_is_trusted(tmp_path: Path):
    root = write_config(tmp_path, "workspace: {setup: [[./payload]], copy: [.env]}\n")
    settings = load_settings(root)

    assert build_workspace_settings(settings) == WorkspaceSettings(copy=(".env",))
    assert list_untrusted_setup(settings) == ("workspace.setup",)
    with pytest.raises(NotAllowed, match=r"was not started.*workspace\.setup") as refused:
        require_trusted_setup(settings)
    assert "deepwork trust" in refused.value.suggestion

    trust_settings(root)

    require_trusted_setup(load_settings(root))


def test_a_key_that_is_gone_is_named_and_ignored(tmp_path: Path):
    root = write_config(tmp_path, "run: {agents: 2, orphan: keep}\n")

    assert load_settings(root).run_agents == 2
    assert find_unknown_keys(root) == ["run.orphan"]
