"""The tools from a terminal."""

from __future__ import annotations

from pathlib import Path

from cli.run import run_deepwork


def register(project: Path, name: str) -> str:
    id: str = run_deepwork(project, "agents", "register", name, "custom", "--json").json["id"]
    return id


def test_agents_can_exchange_messages_from_a_terminal(tmp_path: Path):
    ada, bob = register(tmp_path, "Ada"), register(tmp_path, "Bob")

    sent = run_deepwork(
        tmp_path, "messages", "send", ada, bob, "query", "up?", "--priority", "HIGH", "--json"
    ).json
    listed = run_deepwork(tmp_path, "messages", "list", bob)
    read = run_deepwork(tmp_path, "messages", "mark-read", sent["id"], "msg_x", "--json").json

    assert "up?" in listed.out
    assert "high" in listed.out
    assert read == {"success": True, "unknown": ["msg_x"]}
    assert run_deepwork(tmp_path, "messages", "count-unread", bob, "--json").json["count"] == 0


def test_options_take_lists_objects_flags_and_numbers(tmp_path: Path):
    run_deepwork(
        tmp_path, "agents", "register", "Ada", "codex", "--capabilities", "python", "--capabilities", "sql",
        "--metadata", '{"model": "x"}',
    )  # fmt: skip

    [agent] = run_deepwork(tmp_path, "agents", "list", "--status", "online", "--limit", "5", "--json").json[
        "agents"
    ]

    assert (agent["capabilities"], agent["metadata"]) == (["python", "sql"], {"model": "x"})


def test_a_message_can_be_shown_without_marking_it_read(tmp_path: Path):
    ada, bob = register(tmp_path, "Ada"), register(tmp_path, "Bob")
    sent = run_deepwork(tmp_path, "messages", "send", ada, bob, "query", "up?", "--json").json

    assert (
        run_deepwork(tmp_path, "messages", "get", sent["id"], "--no-mark-read", "--json").json["status"]
        == "unread"
    )


def test_an_error_has_a_message_and_a_suggestion(tmp_path: Path):
    register(tmp_path, "Ada")

    ran = run_deepwork(tmp_path, "agents", "get", "ag_unknown")

    assert ran.code == 1
    assert ran.out == ""
    assert ran.err == (
        "Error: There is no agent 'ag_unknown'.\nList agents with `deepwork agents list`, or register one.\n"
    )


def test_an_error_can_be_printed_as_json(tmp_path: Path):
    ran = run_deepwork(tmp_path, "agents", "get", "ag_unknown", "--json")

    assert (ran.code, '"AGENT_NOT_FOUND"' in ran.err) == (1, True)


def test_invalid_arguments_are_usage_errors(tmp_path: Path):
    assert "Missing argument 'RUNTIME'" in run_deepwork(tmp_path, "agents", "register", "Ada").err
    assert "not JSON" in run_deepwork(tmp_path, "agents", "register", "Ada", "codex", "--metadata", "{").err
    assert "'cobol' is not one of" in run_deepwork(tmp_path, "agents", "register", "Ada", "cobol").err
    assert run_deepwork(tmp_path, "agents", "fly").code == 2


def test_a_repeated_command_with_one_key_has_one_effect(tmp_path: Path):
    words = ("agents", "register", "Ada", "codex", "--idempotency-key", "k1", "--json")

    assert run_deepwork(tmp_path, *words).json == run_deepwork(tmp_path, *words).json
    assert run_deepwork(tmp_path, "agents", "list", "--json").json["total"] == 1


def test_control_characters_are_escaped(tmp_path: Path):
    ada, bob = register(tmp_path, "Ada"), register(tmp_path, "Bob")
    run_deepwork(tmp_path, "messages", "send", ada, bob, "query", "\x1b[2Jgone\u202e")

    listed = run_deepwork(tmp_path, "messages", "list", bob).out

    assert "\\x1b[2Jgone\\u202e" in listed
    assert "\x1b" not in listed


def test_every_verb_has_help(tmp_path: Path):
    for words in (("agents",), ("messages",), ("agents", "register"), ("messages", "send"), ("serve",)):
        ran = run_deepwork(tmp_path, *words, "--help")
        assert (ran.code, ran.err) == (0, "")
        assert "Usage: deepwork" in ran.out
    assert list(tmp_path.iterdir()) == []


def test_another_database_can_be_chosen(tmp_path: Path, postgres_url: str):
    register(tmp_path, "Ada")

    run_deepwork(tmp_path, "agents", "register", "Bob", "codex", "--db", "other.db")
    elsewhere = run_deepwork(tmp_path, "agents", "list", "--db", "other.db", "--json")
    team = run_deepwork(
        tmp_path, "agents", "list", "--json", environment={"DEEPWORK_DATABASE_URL": postgres_url}
    )

    assert [agent["name"] for agent in elsewhere.json["agents"]] == ["Bob"]
    assert team.code == 0
    assert (tmp_path / "other.db").exists()


def test_a_password_on_the_command_line_is_refused_and_not_printed(tmp_path: Path):
    ran = run_deepwork(tmp_path, "agents", "list", "--db", "postgresql://ada:geheim@host/db")

    assert ran.code == 2
    assert "DEEPWORK_DATABASE_URL" in ran.err
    assert "geheim" not in ran.err


def test_only_definitions_and_settings_reach_git(tmp_path: Path):
    import subprocess

    register(tmp_path, "Ada")
    (tmp_path / ".deepwork" / "jobs" / "a").mkdir(parents=True)
    (tmp_path / ".deepwork" / "jobs" / "a" / "job.yml").write_text("name: a")
    (tmp_path / ".deepwork" / "config.yml").write_text("version: '1.0'")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )

    assert set(listed.stdout.split()) == {".deepwork/config.yml", ".deepwork/jobs/a/job.yml"}


def test_a_word_of_several_can_be_written_with_hyphens(tmp_path: Path):
    assert run_deepwork(tmp_path, "agents", "register", "Ada", "claude-code").code == 0

    assert '"runtime":"claude_code"' in run_deepwork(tmp_path, "agents", "list", "--json").out.replace(
        " ", ""
    )
