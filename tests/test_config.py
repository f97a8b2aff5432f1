from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from application import call_tool
from deepwork.edge.server.application import Application
from deepwork.kernel.config import Settings, find_unknown_keys, load_settings
from deepwork.kernel.config_options import OPTIONS, PLATFORMS
from deepwork.kernel.environment import build_child_environment, get_user_folder
from deepwork.kernel.errors import DefinitionError


def write_config(root: Path, text: str) -> Path:
    (root / ".deepwork").mkdir(exist_ok=True)
    (root / ".deepwork" / "config.yml").write_text(text)
    return root


def test_every_setting_can_be_given_in_every_source():
    assert {field.name for field in fields(Settings)} == {option.name for option in OPTIONS} | {
        "project_root",
        "untrusted_keys",
        "is_database_from_file",
    }


def test_a_project_without_settings_has_the_defaults(tmp_path: Path):
    settings = load_settings(tmp_path, environment={})

    assert (settings.toolsets, settings.transport, settings.lease_seconds) == (("all",), "stdio", 90)
    assert settings.database_location == str(tmp_path / ".deepwork" / "deepwork.db")


def test_flags_override_the_environment_which_overrides_the_file(tmp_path: Path):
    root = write_config(tmp_path, "lease_seconds: 10\nlog_level: error\ntoolsets: [agents]\n")

    settings = load_settings(
        root, {"toolsets": "messages"}, {"DEEPWORK_LEASE_SECONDS": "20", "DEEPWORK_TOOLSETS": "all"}
    )

    assert (settings.toolsets, settings.lease_seconds, settings.log_level) == (("messages",), 20, "error")


def test_the_platform_can_be_named_as_in_setup(tmp_path: Path):
    assert load_settings(tmp_path, {"platform": "claude-code"}, environment={}).platform == "claude"


def test_nested_keys_and_platforms_are_read_from_the_file(tmp_path: Path):
    root = write_config(
        tmp_path,
        'version: "1.0"\nplatforms: [gemini, claude]\nquality_gate:\n  enabled: false\n  max_attempts: 5\n',
    )

    settings = load_settings(root, environment={})

    assert settings.platform == "gemini"
    assert (settings.quality_gate, settings.quality_gate_max_attempts) == (False, 5)


@pytest.mark.parametrize(
    ("flags", "environment", "file", "said"),
    [
        (
            {},
            {"DEEPWORK_LEASE_SECONDS": "soon"},
            "",
            "DEEPWORK_LEASE_SECONDS is 'soon'; it must be a whole number",
        ),
        ({"transport": "pigeon"}, {}, "", "--transport is 'pigeon'; it must be stdio, sse or http"),
        (
            {},
            {},
            "read_only: maybe",
            "`read_only` in .deepwork/config.yml is 'maybe'; it must be true or false",
        ),
        ({"platform": "clade"}, {}, "", f"--platform is 'clade'; it must be {', '.join(PLATFORMS[:-1])} or"),
        (
            {},
            {"DEEPWORK_PLATFORM": "emacs"},
            "",
            f"DEEPWORK_PLATFORM is 'emacs'; it must be {PLATFORMS[0]}, ",
        ),
        ({}, {}, "platforms: [claude, clade]", "`platforms` in .deepwork/config.yml is ['claude', 'clade']"),
        ({}, {}, "quality_gate: {timeout: 0}", "`quality_gate.timeout` in .deepwork/config.yml is 0"),
        ({}, {}, "toolsets: {a: 1}", "`toolsets` in .deepwork/config.yml"),
        ({}, {}, "- a list", "must be a mapping"),
        ({}, {}, "a: 1\na: 2", "config.yml:2"),
    ],
)
def test_a_bad_value_is_one_clear_sentence(
    tmp_path: Path, flags: dict[str, Any], environment: dict[str, str], file: str, said: str
):
    root = write_config(tmp_path, file)

    with pytest.raises(DefinitionError) as refused:
        load_settings(root, flags, environment)

    assert said in refused.value.message


def test_a_missing_project_is_named_in_the_error(tmp_path: Path):
    with pytest.raises(DefinitionError, match="nowhere"):
        load_settings(tmp_path / "nowhere", environment={})


def test_an_empty_variable_is_ignored(tmp_path: Path):
    assert load_settings(tmp_path, environment={"DEEPWORK_LEASE_SECONDS": ""}).lease_seconds == 90


def test_a_database_may_be_a_file_a_url_or_shared(tmp_path: Path):
    def location(**flags: Any) -> str:
        return load_settings(tmp_path, flags, environment={}).database_location

    assert location(database="sub/x.db") == str(tmp_path / "sub" / "x.db")
    assert location(database="postgresql://h/d") == "postgresql://h/d"
    assert location(global_store=True) == str(Path.home() / ".deepwork" / "deepwork.db")


@pytest.mark.parametrize(
    "database", ["mysql://h/db", "sqlite:///x.db", "postgresql+psycopg://h/db", ":memory:"]
)
def test_a_database_of_another_kind_is_refused(tmp_path: Path, database: str):
    with pytest.raises(DefinitionError, match="--database is …; it must be a file path or a postgresql"):
        load_settings(tmp_path, {"database": database}, environment={})


def test_the_project_config_file_cannot_set_network_or_token_settings(tmp_path: Path):
    root = write_config(
        tmp_path, "host: 0.0.0.0\nallowed_hosts: [evil.example]\ntoken: aaaaaaaaaaaaaaaaaaaa\nrate_limit: 0\n"
    )

    settings = load_settings(root, environment={})

    assert (settings.host, settings.allowed_hosts, settings.token, settings.rate_limit) == (
        "127.0.0.1",
        (),
        "",
        50,
    )
    assert "host" in find_unknown_keys(root)


@pytest.mark.parametrize("policy", ["warn", "refuse", "ignore"])
def test_the_config_file_sets_the_file_conflicts_of_new_plans(tmp_path: Path, policy: str):
    root = write_config(tmp_path, f"file_conflicts: {policy}\n")
    app = Application(load_settings(root, environment={}))

    plan = call_tool(app, "workflow_create", name="p", source_type="prompt", source_content="x")

    assert call_tool(app, "workflow_get", id=plan["id"])["file_conflicts"] == policy
    app.close()


def test_unknown_keys_are_reported(tmp_path: Path):
    assert find_unknown_keys(write_config(tmp_path, "toolset: [agents]\nversion: 1\n")) == ["toolset"]


def test_child_processes_get_no_secrets():
    seen = build_child_environment(
        {
            "PATH": "/bin",
            "LC_ALL": "C",
            "DEEPWORK_DATABASE_URL": "x",
            "PGPASSWORD": "x",
            "ANTHROPIC_API_KEY": "x",
        }
    )

    assert seen == {"PATH": "/bin", "LC_ALL": "C"}


def test_the_users_folder_follows_xdg_but_not_into_the_working_folder(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ada"))

    assert get_user_folder({"XDG_CONFIG_HOME": "/etc/ada"}) == Path("/etc/ada/deepwork")
    assert get_user_folder({}) == Path("/home/ada/.config/deepwork")
    assert get_user_folder({"XDG_CONFIG_HOME": "settings"}) == Path("/home/ada/.config/deepwork")


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/tty", "../private.yml"])
def test_a_link_out_of_the_project_is_not_read_as_its_settings(tmp_path: Path, target: str):
    """A clone can bring one; an error message would show parts of the file."""
    (tmp_path / "private.yml").write_text("lease_seconds: secret\n")
    root = tmp_path / "clone"
    (root / ".deepwork").mkdir(parents=True)
    (root / ".deepwork" / "config.yml").symlink_to(root / target)

    with pytest.raises(
        DefinitionError, match=r"config\.yml (is a link out of the repository|cannot be read)"
    ):
        load_settings(root, environment={})


def test_a_link_within_the_project_is_followed(tmp_path: Path):
    root = write_config(tmp_path, "")
    (root / "shared.yml").write_text("lease_seconds: 7\n")
    (root / ".deepwork" / "config.yml").unlink()
    (root / ".deepwork" / "config.yml").symlink_to("../shared.yml")

    assert load_settings(root, environment={}).lease_seconds == 7
