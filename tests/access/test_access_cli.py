"""`deepwork tokens` and `deepwork audit`, as a person runs them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from access.make import run_sql
from application import make_app
from cli.run import run_deepwork
from deepwork.gates.access.models import parse_token


def get_database_path(project: Path) -> str:
    return str(project / ".deepwork" / "deepwork.db")


def test_a_token_is_created_listed_and_revoked(tmp_path: Path):
    made = run_deepwork(tmp_path, "tokens", "create", "ci", "--scope", "work", "--expires", "30")
    assert re.fullmatch(r"dw_[0-9a-z]{12}_[\w-]{43}\n", made.out)
    assert "not shown again" in made.err

    listed = run_deepwork(tmp_path, "tokens", "list")
    parts = parse_token(made.out.strip())
    assert parts is not None
    assert "ci" in listed.out
    assert parts[1] not in listed.out

    assert run_deepwork(tmp_path, "tokens", "revoke", "ci", "--json").json["name"] == "ci"
    [token] = run_deepwork(tmp_path, "tokens", "list", "--json").json["tokens"]
    assert token["status"] == "revoked"


def test_a_failing_token_command_reports_its_error(tmp_path: Path):
    run_deepwork(tmp_path, "tokens", "create", "ci", "--scope", "read")

    taken = run_deepwork(tmp_path, "tokens", "create", "ci", "--scope", "read")
    unknown = run_deepwork(tmp_path, "tokens", "revoke", "nobody", "--json")
    missing = run_deepwork(tmp_path, "tokens", "create", "x")
    unscoped = run_deepwork(tmp_path, "tokens", "create", "x", "--scope", "root")

    assert (taken.code, unknown.code, unscoped.code, missing.code) == (1, 1, 2, 2)
    assert "--person" in missing.err
    assert "deepwork tokens revoke ci" in taken.err
    assert '"code": "INVALID_STATE"' in unknown.err


def test_a_persons_token_has_the_scope_work_and_is_marked_in_the_list(tmp_path: Path):
    run_deepwork(tmp_path, "tokens", "create", "anna", "--person")
    run_deepwork(tmp_path, "tokens", "create", "agent", "--scope", "work")

    tokens = run_deepwork(tmp_path, "tokens", "list", "--json").json["tokens"]
    assert [(each["name"], each["scope"], each["is_person"]) for each in tokens] == [
        ("anna", "work", True),
        ("agent", "work", False),
    ]
    reading = run_deepwork(tmp_path, "tokens", "create", "eve", "--person", "--scope", "read")
    assert (reading.code, "--person" in reading.err) == (1, True)


def test_the_audit_log_is_listed_filtered_and_verified(tmp_path: Path):
    run_deepwork(tmp_path, "agents", "register", "Ada", "codex")
    run_deepwork(tmp_path, "tokens", "create", "ci", "--scope", "read")
    run_deepwork(tmp_path, "agents", "list")

    everything = run_deepwork(tmp_path, "audit", "--json").json["calls"]
    assert [call["tool"] for call in everything] == ["token_create", "agent_register"]
    assert everything[1]["arguments"] == {"name": None, "runtime": None}
    for narrowed, count in [
        (("--tool", "agent_register"), 1), (("--account", "ci"), 0), (("--account", "local"), 2),
        (("--limit", "1"), 1), (("--since", "1h"), 2), (("--since", "2199-01-01"), 0),
    ]:  # fmt: skip
        assert len(run_deepwork(tmp_path, "audit", *narrowed, "--json").json["calls"]) == count
    assert "agent_register" in run_deepwork(tmp_path, "audit").out

    whole = run_deepwork(tmp_path, "audit", "verify", "--json")
    assert (whole.code, whole.json["intact"], whole.json["rows"]) == (0, True, 2)


def test_a_changed_audit_log_exits_with_code_1_and_names_the_row(tmp_path: Path):
    for name in ("Ada", "Bob", "Eve"):
        run_deepwork(tmp_path, "agents", "register", name, "codex")
    app = make_app(tmp_path, get_database_path(tmp_path))
    run_sql(app, "UPDATE audit SET account = 'eve' WHERE seq = 2")
    app.close()

    broken = run_deepwork(tmp_path, "audit", "verify")

    assert broken.code == 1
    assert "row 2 was changed after it was written" in broken.out
    assert run_deepwork(tmp_path, "audit", "verify", "--json").json["bad_row"] == 2


@pytest.mark.parametrize("when", ["yesterday", "", "5", "1y", "2026-13-01"])
def test_an_invalid_time_is_refused(tmp_path: Path, when: str):
    refused = run_deepwork(tmp_path, "audit", "--since", when)

    assert refused.code == 2
    assert "is not a point in time" in refused.err


def test_an_empty_audit_log_says_so(tmp_path: Path):
    assert run_deepwork(tmp_path, "audit").out == "No calls are recorded.\n"
    assert run_deepwork(tmp_path, "audit", "verify").code == 0
