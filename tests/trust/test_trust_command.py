"""`deepwork trust`, and what other commands say about settings that nobody trusted."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from deepwork import create_server
from deepwork.edge.cli.trust import CommittedChecks, print_checks
from deepwork.gates.checks.models import Check, CheckFile
from deepwork.kernel.user_settings import Pins
from setup.sandbox import Sandbox

CONFIG = """\
database: postgresql://ada:secret@db.example/work?pass%77ord=hidden&sslmode=require
transport: http
additional_jobs_folders: ["/srv/\\e[31mjobs"]
"""
KEYS = "transport, database, additional_jobs_folders"
SHOWN_URL = "postgresql://ada:***@db.example/work?pass%77ord=***&sslmode=require"


@pytest.fixture
def hostile(sandbox: Sandbox) -> Sandbox:
    sandbox.write(".deepwork/config.yml", CONFIG)
    return sandbox


def test_without_a_terminal_nothing_is_trusted_unless_yes_is_given(hostile: Sandbox):
    refused = hostile.run("trust")

    assert refused.code == 1
    assert SHOWN_URL in refused.out
    assert "not a terminal" in refused.err
    assert "deepwork trust --yes" in refused.err
    assert hostile.run("trust", "--list").out == "You trust no project yet.\n"

    assert hostile.run("trust", "--yes").code == 0
    assert hostile.run("trust", "--list", "--json").json["projects"][0]["settings"] == sorted(
        KEYS.split(", ")
    )
    assert "You trust all of this already." in hostile.run("trust").out


def test_it_shows_every_value_without_passwords_and_control_characters(hostile: Sandbox):
    shown = hostile.run("trust", "--yes").out
    answer = hostile.run("trust", "--json").json

    assert [word for word in ("secret", "hidden", "\x1b") if word in shown] == []
    assert answer["settings"] == [
        {"key": "transport", "value": "http", "trusted": True},
        {"key": "database", "value": SHOWN_URL, "trusted": True},
        {"key": "additional_jobs_folders", "value": ["/srv/\x1b[31mjobs"], "trusted": True},
    ]
    assert answer["changed"] is False


def test_it_shows_the_commands_that_prepare_trees_word_by_word(sandbox: Sandbox):
    sandbox.write(
        ".deepwork/config.yml", 'workspace: {setup: [[uv, sync, --frozen], [sh, -c, "./x \\u202e"]]}\n'
    )

    shown = sandbox.run("trust", "--yes").out
    [setting] = sandbox.run("trust", "--json").json["settings"]

    assert "\n  workspace.setup  uv sync --frozen\n                   sh -c './x \\u202e'\n" in shown
    assert setting["value"] == [["uv", "sync", "--frozen"], ["sh", "-c", "./x \u202e"]]


def test_trust_can_be_revoked(hostile: Sandbox):
    hostile.run("trust", "--yes")

    assert "is trusted any more" in hostile.run("trust", "--revoke").out
    assert hostile.run("trust", "--revoke", "--json").json["changed"] is False
    assert KEYS in hostile.run("status").out


def test_a_project_without_acting_settings_needs_no_trust(sandbox: Sandbox):
    sandbox.write(".deepwork/config.yml", "lease_seconds: 30\n")

    assert "needs trust" in sandbox.run("trust").out
    assert sandbox.run("trust", "--json").json == {
        "project": str(sandbox.project), "settings": [], "checks": [], "changed": False,
    }  # fmt: skip


def test_an_invalid_value_is_named_and_not_trusted(sandbox: Sandbox):
    sandbox.write(".deepwork/config.yml", "port: many\n")

    assert "`port` in .deepwork/config.yml is 'many'" in sandbox.run("trust", "--yes").err


@pytest.mark.parametrize(
    ("words", "stream"), [("status", "out"), ("doctor", "out"), ("jobs list", "err"), ("init", "err"), ("db info", "err")]
)  # fmt: skip
def test_commands_say_in_one_line_what_is_ignored(hostile: Sandbox, words: str, stream: str):
    ran = hostile.run(*words.split())

    lines = [line for line in (ran.out + ran.err).splitlines() if "deepwork trust" in line]
    assert len(lines) == 1
    assert KEYS in lines[0]
    assert lines[0] in getattr(ran, stream)
    assert "secret" not in ran.out + ran.err


def test_status_and_doctor_name_the_keys_for_programs(hostile: Sandbox):
    assert hostile.run("status", "--json").json["untrusted_settings"] == KEYS.split(", ")
    assert KEYS in hostile.run("doctor", "--json").json["problems"][0]


def test_doctor_reports_a_trust_file_that_others_may_write(hostile: Sandbox):
    hostile.run("trust", "--yes")
    (hostile.home / ".config/deepwork/trust.json").chmod(0o666)

    assert "trust.json is a link, or another user owns it or may write it" in hostile.run("doctor").out


def test_init_trusts_nothing_that_was_in_the_file_before(hostile: Sandbox):
    assert ".deepwork/config.yml" in hostile.run("init", "--json").json["kept"]

    assert hostile.run("status", "--json").json["untrusted_settings"] == KEYS.split(", ")


def test_what_init_writes_needs_no_trust(sandbox: Sandbox):
    sandbox.run("init", "--example-job")

    assert sandbox.run("trust", "--json").json["settings"] == []


@pytest.mark.parametrize(
    ("answer", "code", "said"), [(b"y\n", 0, b"Trusted."), (b"n\n", 1, b"Nothing was trusted.")]
)
def test_at_a_terminal_it_asks(tmp_path: Path, answer: bytes, code: int, said: bytes):
    (tmp_path / ".deepwork").mkdir()
    (tmp_path / ".deepwork" / "config.yml").write_text("port: 9000\n")
    ours, theirs = pty.openpty()
    os.write(ours, answer)

    ran = subprocess.run(
        [sys.executable, "-P", "-m", "deepwork", "trust"], cwd=tmp_path, stdin=theirs, capture_output=True,
        check=False, timeout=100, env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")},
    )  # fmt: skip

    os.close(ours)
    os.close(theirs)
    assert ran.returncode == code
    assert b"Do you trust them?" in ran.stderr
    assert said in ran.stdout + ran.stderr


def test_an_embedded_server_logs_what_is_ignored(hostile: Sandbox, caplog: pytest.LogCaptureFixture):
    server = create_server(hostile.project)

    assert KEYS in caplog.text
    assert server


def test_every_key_of_a_check_is_shown_to_who_trusts_it(capsys: pytest.CaptureFixture[str]):
    definition = Check("a", ("true",), needs=("src/**",), retries=2).to_dict() | {"key_of_tomorrow": "web"}
    pins = {"a": Pins("/bin/true", {"PATH": "/bin"})}

    print_checks(CommittedChecks("c0ffee", CheckFile(), {"a": definition}, ("a",), pins))

    [line] = [line for line in capsys.readouterr().out.splitlines() if "program" in line]
    assert line.strip().split("; ") == [
        "program /bin/true", "timeout in seconds 600", "needs 'src/**'", "retries 2", "key_of_tomorrow web",
    ]  # fmt: skip
