"""`deepwork setup` in a sandbox: what it writes, keeps, refuses and removes."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from pathlib import Path

import pytest

from deepwork.kernel.vendors import BY_NAME
from deepwork.kernel.vendors import VENDORS as CLIENTS
from deepwork.views.hooks.protocol import CLIENTS as HOOK_CLIENTS
from setup.sandbox import Sandbox

FILES = {
    "claude-code": (".mcp.json", "~/.claude.json"),
    "codex": (".codex/config.toml", "~/.codex/config.toml"),
    "cursor": (".cursor/mcp.json", "~/.cursor/mcp.json"),
    "vscode": (".vscode/mcp.json", "~/.config/Code/User/mcp.json"),
    "gemini": (".gemini/settings.json", "~/.gemini/settings.json"),
    "opencode": ("opencode.json", "~/.config/opencode/opencode.json"),
    "windsurf": (None, "~/.codeium/windsurf/mcp_config.json"),
    "zed": (".zed/settings.json", "~/.config/zed/settings.json"),
    "claude-desktop": (None, "~/.config/Claude/claude_desktop_config.json"),
}
EVERY = [
    (name, scope)
    for name, files in FILES.items()
    for scope, file in zip(("project", "user"), files, strict=True)
    if file
]
STDIO = ("--transport", "stdio")
REMARKS = """{
  // servers of this project
  "%s": {
    "mine": {"command": "x"}, // keep

    /* and this */
    "other": {},
  },
}
"""


def find_entry(sandbox: Sandbox, client: str, scope: str) -> str:
    file = FILES[client][scope == "user"]
    assert file is not None
    return sandbox.read_files()[file]


@pytest.mark.parametrize(("client", "scope"), EVERY)
def test_setup_can_be_checked_repeated_and_removed_without_leftovers(
    sandbox: Sandbox, client: str, scope: str
):
    words = (client, "--scope", scope, "--hooks")

    before = sandbox.run("setup", *words, "--check")
    printed = sandbox.run("setup", *words, "--print")
    assert sandbox.read_files() == {}
    done = sandbox.run("setup", *words)
    after = sandbox.read_files()
    again = sandbox.run("setup", *words, "--json")
    check = sandbox.run("setup", *words, "--check", "--json")

    assert (before.code, printed.code, done.code, again.code, check.code) == (1, 0, 0, 0, 0), done.err
    assert "DEEPWORK_SETUP" in find_entry(sandbox, client, scope)
    assert {file["action"] for file in again.json["files"]} == {"unchanged"}
    assert check.json["in_order"]
    assert sandbox.read_files() == after
    assert sandbox.run("setup", client, "--scope", scope, "--remove").code == 0
    assert sandbox.read_files() == {}
    assert list(sandbox.project.iterdir()) == []


@pytest.mark.parametrize(("client", "scope"), EVERY)
def test_setup_says_every_file_that_it_writes(sandbox: Sandbox, client: str, scope: str):
    words = (client, "--scope", scope, "--hooks")
    planned = sandbox.run("setup", *words, "--print", "--json").json
    done = sandbox.run("setup", *words, "--json").json
    written = {name.replace("~", str(sandbox.home)) for name in sandbox.read_files()}
    paths = {str(sandbox.project / name) for name in written}
    again = sandbox.run("setup", *words)

    assert {file["path"] for file in done["files"]} == paths
    assert {file["path"] for file in planned["files"]} == paths
    assert all(Path(path).name in again.out for path in paths)


def test_entries_have_the_format_of_each_client(sandbox: Sandbox):
    for client, scope in EVERY:
        sandbox.run("setup", client, "--scope", scope)
    project = str(sandbox.project)

    claude = json.loads(find_entry(sandbox, "claude-code", "project"))["mcpServers"]["deepwork"]
    assert claude == {
        "type": "stdio",
        "command": "deepwork",
        "args": ["serve", "--path", ".", *STDIO],
        "env": {"DEEPWORK_SETUP": "entry"},
    }
    codex = tomllib.loads(find_entry(sandbox, "codex", "project"))["mcp_servers"]["deepwork"]
    assert codex == {
        "command": "deepwork",
        "args": ["serve", "--path", ".", *STDIO],
        "env": {"DEEPWORK_SETUP": "entry"},
    }
    opencode = json.loads(find_entry(sandbox, "opencode", "project"))["mcp"]["deepwork"]
    assert (opencode["type"], opencode["command"]) == ("local", ["deepwork", "serve", "--path", ".", *STDIO])
    vscode = json.loads(find_entry(sandbox, "vscode", "project"))["servers"]["deepwork"]
    assert (vscode["type"], vscode["args"]) == ("stdio", ["serve", "--path", "${workspaceFolder}", *STDIO])
    cursor = json.loads(find_entry(sandbox, "cursor", "project"))["mcpServers"]["deepwork"]
    assert cursor["args"] == [
        "serve",
        "--path",
        "${workspaceFolder}",
        *STDIO,
        "--toolsets",
        "jobs,reviews,tracking,agents,messages",
    ]
    assert "deepwork" in json.loads(find_entry(sandbox, "zed", "project"))["context_servers"]
    desktop = json.loads(find_entry(sandbox, "claude-desktop", "user"))["mcpServers"]["deepwork"]
    assert desktop["args"] == ["serve", "--path", project, *STDIO]
    assert Path(desktop["command"]).is_absolute()
    assert os.access(desktop["command"], os.X_OK)


@pytest.mark.parametrize("client", ["cursor", "vscode", "gemini", "opencode", "zed"])
def test_comments_order_and_other_entries_are_kept(sandbox: Sandbox, client: str):
    file = FILES[client][0]
    assert file is not None
    text = REMARKS % BY_NAME[client].section
    sandbox.write(file, text)

    sandbox.run("setup", client)
    set_up = find_entry(sandbox, client, "project")
    sandbox.run("setup", client, "--remove")

    kept = [line for line in set_up.splitlines() if line in text.splitlines()]
    assert [line for line in kept if line.strip() not in ("}", "},")] == [
        line for line in text.splitlines() if line.strip() not in ("}", "},")
    ]
    assert find_entry(sandbox, client, "project") == text


def test_setup_with_hooks_and_guidance_keeps_other_text_of_the_users_files(sandbox: Sandbox):
    mine = {
        "~/.claude.json": '{\n  "numStartups": 3,\n  "projects": {"/a": {"x": []}}\n}',
        "~/.claude/settings.json": '{\n    "hooks": {\n        "Stop": [\n            {"hooks": [{"type": "command", "command": "say done"}]}\n        ]\n    },\n    "model": "opus"\n}\n',
        "~/.claude/CLAUDE.md": "# Mine\n\nNo tabs.",
        "~/.codex/config.toml": 'model = "o5" # best\n\n[projects."/a"]\ntrust_level = "trusted"',
        "~/.gemini/settings.json": '{"theme": "Dark", "mcpServers": {"a": {"command": "b"}}}',
        "~/.gemini/GEMINI.md": "Answer in rhymes.\r\n",
    }
    for name, text in mine.items():
        sandbox.write(name, text)

    for client in ("claude-code", "codex", "gemini"):
        assert sandbox.run("setup", client, "--scope", "user", "--hooks").code == 0
    changed = sandbox.read_files()
    for client in ("claude-code", "codex", "gemini"):
        assert sandbox.run("setup", client, "--scope", "user", "--remove").code == 0

    left = sandbox.read_files()
    assert all(changed[name] != text for name, text in mine.items())
    assert {name: text.rstrip() for name, text in left.items()} == {
        name: text.rstrip() for name, text in mine.items()
    }


def test_an_entry_written_by_hand_is_left_alone_unless_forced(sandbox: Sandbox):
    text = '{"mcpServers": {"deepwork": {"command": "/my/own/deepwork"}}}\n'
    sandbox.write(".mcp.json", text)

    refused = sandbox.run("setup", "claude-code", "--json")
    removed = sandbox.run("setup", "claude-code", "--remove")
    untouched = sandbox.read_files()
    forced = sandbox.run("setup", "claude-code", "--force")

    assert refused.code == 1
    assert json.loads(refused.err)["code"] == "INVALID_STATE"
    assert "--force" in refused.err
    assert "it stays" in removed.out
    assert untouched == {".mcp.json": text}
    assert forced.code == 0
    assert (
        json.loads(find_entry(sandbox, "claude-code", "project"))["mcpServers"]["deepwork"]["command"]
        == "deepwork"
    )


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_user_changes_to_our_entry_survive_the_next_setup(sandbox: Sandbox, client: str):
    sandbox.run("setup", client, "--toolsets", "plans,agents")
    file = FILES[client][0]
    assert file is not None
    text = sandbox.read_files()[file].replace('"plans,agents"', '"plans,agents", "--read-only"')
    text = text.replace('"env": {', '"timeout": 9000,\n      "env": {\n        "MINE": "1",').replace(
        "env = {", 'startup_timeout_sec = 9\nenv = { MINE = "1",'
    )
    sandbox.write(file, text)

    again = sandbox.run("setup", client, "--absolute")

    new = sandbox.read_files()[file]
    assert again.code == 0
    assert '"plans,agents"' in new
    assert '"--read-only"' in new
    assert "MINE" in new
    assert "9" in new
    assert f'"{sandbox.bin}' not in text


def test_cursor_gets_at_most_forty_tools_and_a_note_about_the_others(sandbox: Sandbox):
    usual = sandbox.run("setup", "cursor")
    answer = sandbox.run("setup", "cursor", "--json").json
    everything = sandbox.run("setup", "cursor", "--toolsets", "all")
    kept = sandbox.run("setup", "cursor", "--json").json

    assert "Left out, because Cursor shows at most 40 tools: plans, workspaces, templates." in usual.out
    assert "--toolsets" in usual.out
    assert answer["tools"] <= 40
    assert "Cursor shows 40 across all servers" in everything.out
    assert kept["left_out"] == []
    assert kept["tools"] > 40


def test_toolsets_of_the_project_config_are_used(sandbox: Sandbox):
    sandbox.write(".deepwork/config.yml", "toolsets: [jobs, plans]\n")

    answer = sandbox.run("setup", "cursor", "--json").json

    assert (answer["toolsets"], answer["left_out"]) == (["jobs", "plans"], [])
    assert "--toolsets" not in find_entry(sandbox, "cursor", "project")


def test_setup_says_what_the_tools_cost_in_every_session(sandbox: Sandbox):
    everything = sandbox.run("setup", "claude-code", "--print", "--json").json
    few = sandbox.run("setup", "claude-code", "--print", "--json", "--toolsets", "plans,agents").json

    assert 0 < few["tokens"] < everything["tokens"]
    assert few["tokens"] < 100 * few["tools"] * 2


def test_a_project_with_only_plans_is_offered_few_tools(sandbox: Sandbox):
    (sandbox.project / "plan.yml").write_text(
        "name: Hotel\nsummary: s\ntasks: [{name: Export, description: Write it.}]\n"
    )
    assert sandbox.run("plans", "create", "--file", "plan.yml").code == 0

    plans = sandbox.run("setup", "claude-code", "--print", "--json").json
    chosen = sandbox.run("setup", "claude-code", "--print", "--json", "--toolsets", "all").json
    assert sandbox.run("track", "start", "Login", "People log in").code == 0
    more = sandbox.run("setup", "claude-code", "--print", "--json").json

    assert sorted(plans["toolsets"]) == ["agents", "plans"]
    assert {"jobs", "tracking"} <= set(plans["left_out"])
    assert (chosen["left_out"], more["left_out"]) == ([], [])


def test_an_unknown_toolset_or_client_is_named_in_the_error(sandbox: Sandbox):
    toolset = sandbox.run("setup", "codex", "--toolsets", "nonsense")
    client = sandbox.run("setup", "nonsense")
    scope = sandbox.run("setup", "windsurf", "--scope", "project")
    bare = sandbox.run("setup", "--remove")

    assert (toolset.code, client.code, scope.code, bare.code) == (2, 2, 1, 2)
    assert "There is no toolset 'nonsense'" in toolset.err
    assert "claude-code" in client.err
    assert "--scope user" in scope.err
    assert "needs a CLIENT" in bare.err
    assert sandbox.read_files() == {}


BROKEN = [
    ("claude-code", ".mcp.json", '{\n  "mcpServers": {\n', 2),
    ("claude-code", ".mcp.json", '{\n  // no remarks here\n  "mcpServers": {}}', 2),
    ("claude-code", "CLAUDE.md", "a\n<!-- deepwork:begin -->\nb\n", 2),
    ("codex", ".codex/config.toml", "a = 1\nb = \n", 2),
    ("codex", ".codex/config.toml", 'x = 1\nmcp_servers = { a = { command = "b" } }\n', 2),
    ("gemini", ".gemini/settings.json", '{"mcpServers": [],\n}', 1),
    ("zed", ".zed/settings.json", '{\n\n"a": nope}', 3),
]


@pytest.mark.parametrize(("client", "file", "text", "line"), BROKEN)
def test_an_unreadable_file_is_reported_with_its_line_and_not_changed(
    sandbox: Sandbox, client: str, file: str, text: str, line: int
):
    path = sandbox.write(file, text)

    refused = sandbox.run("setup", client)

    assert refused.code == 2
    assert f"{path}:{line}: " in refused.err
    assert "nothing was changed" in refused.err
    assert sandbox.read_files() == {file: text}


def test_a_file_that_is_not_utf_8_is_not_changed(sandbox: Sandbox):
    path = sandbox.project / ".mcp.json"
    path.write_bytes(b'{"a":\n "\xff"}')

    refused = sandbox.run("setup", "claude-code")

    assert f"{path}:2: The text is not UTF-8." in refused.err
    assert path.read_bytes() == b'{"a":\n "\xff"}'


def test_links_are_followed_and_permissions_are_kept(sandbox: Sandbox):
    target = sandbox.write("~/dotfiles/claude.json", '{"a": 1}')
    target.chmod(0o664)
    (sandbox.home / ".claude.json").symlink_to(target)
    (sandbox.project / "AGENTS.md").write_text("Ours.\n")
    (sandbox.project / "CLAUDE.md").symlink_to("AGENTS.md")

    sandbox.run("setup", "claude-code", "--scope", "user")
    sandbox.run("setup", "claude-code")
    sandbox.run("setup", "codex")

    assert (sandbox.home / ".claude.json").is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o664
    assert "deepwork" in target.read_text()
    assert (sandbox.project / "CLAUDE.md").is_symlink()
    assert (sandbox.project / "AGENTS.md").read_text().count("deepwork:begin") == 1
    assert stat.S_IMODE((sandbox.home / ".claude" / "CLAUDE.md").stat().st_mode) == 0o600


def test_the_target_of_a_link_is_emptied_but_not_deleted(sandbox: Sandbox):
    (sandbox.project / "CLAUDE.md").symlink_to("shared.md")
    (sandbox.project / ".mcp.json").symlink_to(sandbox.write("~/dotfiles/servers.json", ""))
    (sandbox.home / ".dotclaude").mkdir()
    (sandbox.project / ".claude").symlink_to(sandbox.home / ".dotclaude")

    sandbox.run("setup", "claude-code", "--hooks", "--force")
    made = sandbox.read_files()
    removed = sandbox.run("setup", "claude-code", "--remove", "--force")

    assert removed.code == 0
    assert "deepwork:begin" in made["shared.md"]
    assert "deepwork" in made["~/dotfiles/servers.json"]
    assert "deepwork hook" in made["~/.dotclaude/settings.json"]
    links = {name: sandbox.project / name for name in ("CLAUDE.md", ".mcp.json", ".claude")}
    assert all(link.is_symlink() and link.exists() for link in links.values())
    assert set(sandbox.read_files().values()) == {""}
    assert "~/dotfiles/servers.json" in sandbox.read_files()
    assert list((sandbox.home / ".dotclaude").iterdir()) == []


@pytest.mark.parametrize("link", [".mcp.json", "CLAUDE.md", ".claude"])
def test_a_link_of_a_project_out_of_it_is_not_followed(sandbox: Sandbox, link: str):
    target = sandbox.write("~/outside/settings.json", "{}").parent
    (sandbox.project / link).symlink_to(target if link == ".claude" else target / "settings.json")

    refused = sandbox.run("setup", "claude-code", "--hooks")

    assert refused.code == 1
    assert "outside the project" in refused.err
    assert sandbox.read_files()["~/outside/settings.json"] == "{}"


def test_what_a_clone_added_to_our_entry_is_named(sandbox: Sandbox):
    sandbox.run("setup", "claude-code")
    entry = json.loads(sandbox.read_files()[".mcp.json"])
    entry["mcpServers"]["deepwork"]["args"] += ["--transport=http", "--db", "postgresql://evil.example/x"]
    entry["mcpServers"]["deepwork"]["env"]["LD_PRELOAD\x1b"] = "./evil.so"
    sandbox.write(".mcp.json", json.dumps(entry))

    again = sandbox.run("setup", "claude-code")

    assert "added to it: --db, LD_PRELOAD?." in again.out
    assert "http" not in json.loads(sandbox.read_files()[".mcp.json"])["mcpServers"]["deepwork"]["args"]


@pytest.mark.parametrize("client", ["cursor", "gemini"])
def test_a_file_with_only_comments_keeps_them(sandbox: Sandbox, client: str):
    file = FILES[client][0]
    assert file is not None
    sandbox.write(file, "// servers of this project")

    done = sandbox.run("setup", client, "--no-guidance", "--hooks")
    check = sandbox.run("setup", client, "--no-guidance", "--hooks", "--check")
    removed = sandbox.run("setup", client, "--remove")

    assert (done.code, check.code, removed.code) == (0, 0, 0), done.err
    assert sandbox.read_files() == {file: "// servers of this project\n"}


def test_guidance_used_by_another_client_is_kept(sandbox: Sandbox):
    sandbox.run("setup", "codex")
    sandbox.run("setup", "cursor")

    first = sandbox.run("setup", "codex", "--remove")
    between = sandbox.read_files()
    second = sandbox.run("setup", "cursor", "--remove")

    assert "stays: Cursor uses it too" in first.out
    assert "deepwork:begin" in between["AGENTS.md"]
    assert second.code == 0
    assert sandbox.read_files() == {}


def test_shared_guidance_covers_the_tools_of_every_client(sandbox: Sandbox):
    sandbox.run("setup", "codex")
    sandbox.run("setup", "cursor")

    assert "`workflow_list`" in sandbox.read_files()["AGENTS.md"]
    assert sandbox.run("setup", "codex", "--check").code == 0
    assert sandbox.run("setup", "cursor", "--check").code == 0


def test_no_guidance_leaves_guidance_files_unchanged(sandbox: Sandbox):
    sandbox.write("AGENTS.md", "Ours.\n")

    sandbox.run("setup", "codex", "--no-guidance")

    assert sandbox.read_files()["AGENTS.md"] == "Ours.\n"


def test_hooks_are_written_only_for_clients_that_support_them(sandbox: Sandbox):
    for client in CLIENTS:
        ran = sandbox.run("setup", client.name, "--hooks")
        assert ("none were written" in ran.out) == (client.hooks is None)

    files = sandbox.read_files()
    for name, file in (
        ("claude-code", ".claude/settings.json"),
        ("codex", ".codex/hooks.json"),
        ("gemini", ".gemini/settings.json"),
    ):
        hooks = json.loads(files[file])["hooks"]
        for ours, theirs in HOOK_CLIENTS[name].events.items():
            [group] = hooks[theirs]
            [hook] = group["hooks"]
            assert hook["command"] == f"deepwork hook {ours} --client {name}"
    assert {client.name for client in CLIENTS if client.hooks} == set(HOOK_CLIENTS)


def test_other_hooks_are_kept_and_ours_are_updated_with_the_command(sandbox: Sandbox):
    text = '{\n  "hooks": {\n    "PostToolUse": [\n      {"matcher": "Edit", "hooks": [{"type": "command", "command": "fmt"}]}\n    ]\n  }\n}\n'
    sandbox.write(".claude/settings.json", text)

    sandbox.run("setup", "claude-code", "--hooks")
    sandbox.run("setup", "claude-code", "--absolute")
    moved = json.loads(sandbox.read_files()[".claude/settings.json"])["hooks"]
    sandbox.run("setup", "claude-code", "--remove")

    assert [len(moved[event]) for event in ("PostToolUse", "SessionStart", "Stop")] == [2, 1, 1]
    assert moved["Stop"][0]["hooks"][0]["command"].startswith("/")
    assert sandbox.read_files()[".claude/settings.json"] == text


def test_a_group_with_only_our_hooks_is_removed_and_other_lists_are_kept(sandbox: Sandbox):
    ours = {"type": "command", "command": "deepwork hook stop --client claude-code", "timeout": 10}
    group = {"matcher": "*", "hooks": [ours, ours]}
    sandbox.write(".claude/settings.json", json.dumps({"hooks": {"Stop": [group]}, "model": "opus"}))
    assert sandbox.run("setup", "claude-code", "--remove").code == 0
    assert json.loads(sandbox.read_files()[".claude/settings.json"]) == {"model": "opus"}

    text = '{\n  "hooks": {\n    "Stop": [\n      {"hooks": []}\n    ]\n  }\n}\n'
    sandbox.write(".claude/settings.json", text)
    sandbox.run("setup", "claude-code", "--hooks")
    sandbox.run("setup", "claude-code", "--absolute")
    moved = json.loads(sandbox.read_files()[".claude/settings.json"])["hooks"]
    sandbox.run("setup", "claude-code", "--remove")
    assert {event: len(groups) for event, groups in moved.items()} == {
        "SessionStart": 1,
        "PostToolUse": 1,
        "Stop": 2,
    }
    assert sandbox.read_files()[".claude/settings.json"] == text


@pytest.mark.parametrize(
    ("added", "told"),
    [
        (["--global"], "--global"),
        (["--db", "/my data/it's.db", "--read-only"], "--db '/my data/it'\"'\"'s.db'"),
        (["--read-only", "--db=postgresql://db/deepwork?sslmode=require", "--global"],
         "--db 'postgresql://db/deepwork?sslmode=require' --global"),
    ],
)  # fmt: skip
def test_hooks_use_the_store_of_their_entry(sandbox: Sandbox, added: list[str], told: str):
    def commands() -> list[str]:
        hooks = json.loads(sandbox.read_files()[".claude/settings.json"])["hooks"]
        return [hook["command"] for groups in hooks.values() for group in groups for hook in group["hooks"]]

    sandbox.run("setup", "claude-code", "--hooks", "--no-guidance")
    before = sandbox.read_files()
    entry = json.loads(before[".mcp.json"])
    entry["mcpServers"]["deepwork"]["args"] += added
    sandbox.write(".mcp.json", json.dumps(entry))

    assert sandbox.run("setup", "claude-code", "--no-guidance", "--check").code == 1
    sandbox.run("setup", "claude-code", "--no-guidance")
    assert commands() == [
        f"deepwork hook {event} --client claude-code {told}"
        for event in ("session-start", "tool-use", "stop")
    ]
    assert sandbox.run("setup", "claude-code", "--no-guidance", "--check").code == 0

    sandbox.write(".mcp.json", before[".mcp.json"])
    sandbox.run("setup", "claude-code", "--no-guidance")
    assert sandbox.read_files() == before
    sandbox.write(".mcp.json", json.dumps(entry))
    sandbox.run("setup", "claude-code", "--no-guidance")
    sandbox.run("setup", "claude-code", "--remove")
    assert ".claude/settings.json" not in sandbox.read_files()


def test_an_extended_hook_command_belongs_to_the_user(sandbox: Sandbox):
    command = "deepwork hook stop --client claude-code --global && say done"
    text = json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}})
    sandbox.write(".claude/settings.json", text)

    sandbox.run("setup", "claude-code", "--remove")

    assert sandbox.read_files() == {".claude/settings.json": text}


def test_without_deepwork_on_the_path_the_entry_has_an_absolute_command(sandbox: Sandbox):
    (sandbox.bin / "deepwork").unlink()

    ran = sandbox.run("setup", "claude-code")

    entry = json.loads(find_entry(sandbox, "claude-code", "project"))["mcpServers"]["deepwork"]
    assert "`deepwork` is not on PATH" in ran.out
    assert Path(entry["command"]).is_absolute()


def test_clients_are_detected_by_their_programs_and_folders(sandbox: Sandbox):
    sandbox.install("codex")
    (sandbox.home / ".codeium" / "windsurf").mkdir(parents=True)
    sandbox.write(".vscode/mcp.json", "{oops")
    (sandbox.project / ".mcp.json").mkdir()
    sandbox.run("setup", "codex")

    found = {row["client"]: row for row in sandbox.run("setup", "--detect", "--json").json["clients"]}
    alone = sandbox.run("setup")

    assert set(found) == {"codex", "windsurf", "vscode"}
    assert (found["codex"]["project"], found["codex"]["user"]) == ("yes", "no")
    assert found["vscode"]["project"] == "unreadable at line 1"
    assert str(sandbox.bin / "codex") in found["codex"]["found"]
    assert all(client.name in alone.out for client in CLIENTS)
    assert "deepwork setup CLIENT" in alone.out


def test_config_folders_from_the_environment_are_used(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch):
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(sandbox.home / variable))

    for client in ("claude-code", "codex", "gemini", "opencode"):
        sandbox.run("setup", client, "--scope", "user", "--no-guidance")

    assert set(sandbox.read_files()) == {
        "~/CLAUDE_CONFIG_DIR/.claude.json",
        "~/CODEX_HOME/config.toml",
        "~/GEMINI_CLI_HOME/.gemini/settings.json",
        "~/XDG_CONFIG_HOME/opencode/opencode.json",
    }


def test_opencode_keeps_the_existing_file_name(sandbox: Sandbox):
    sandbox.write("opencode.jsonc", "{\n  // mine\n}\n")

    sandbox.run("setup", "opencode", "--no-guidance")

    assert list(sandbox.read_files()) == ["opencode.jsonc"]


def test_folders_and_files_in_the_wrong_place_are_reported(sandbox: Sandbox):
    (sandbox.project / ".mcp.json").mkdir()
    (sandbox.project / ".codex").write_text("")

    folder = sandbox.run("setup", "claude-code")
    blocked = sandbox.run("setup", "codex", "--no-guidance")

    assert "is not a regular file" in folder.err
    assert blocked.code == 1
    assert "Cannot write" in blocked.err
