"""Where the programs of agents are, and which versions they have; none of them is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deepwork.delivery.runner.profiles import AgentProfile, find_program, read_version, require_program
from deepwork.kernel.errors import NotAllowed
from deepwork.kernel.vendors import AGENT_KINDS
from setup.sandbox import Sandbox

POISON = "#!/bin/sh\necho started > {}\n"


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    return Sandbox(tmp_path, monkeypatch)


def write_program(path: Path, traces: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(POISON.format(traces))
    path.chmod(0o755)
    return path


def install_package(folder: Path, name: str, package: str, version: str) -> Path:
    """Install a program as npm does: a link to a file of a package."""
    script = write_program(folder / "lib" / "node_modules" / package / "bin" / "cli.js", folder / "traces")
    manifest = folder / "lib" / "node_modules" / package / "package.json"
    manifest.write_text(json.dumps({"name": package, "version": version}))
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / name).symlink_to(script)
    return folder / "bin" / name


def test_the_version_is_read_from_the_package(tmp_path: Path):
    program = install_package(tmp_path, "claude", "@anthropic-ai/claude-code", "2.1.197")

    assert read_version(AGENT_KINDS["claude"], program) == "2.1.197"
    assert read_version(AGENT_KINDS["codex"], program) is None


def test_the_version_is_read_from_the_path_of_a_native_installation(tmp_path: Path):
    program = write_program(tmp_path / "share" / "claude" / "versions" / "2.0.14", tmp_path / "traces")
    (tmp_path / "claude").symlink_to(program)

    assert read_version(AGENT_KINDS["claude"], tmp_path / "claude") == "2.0.14"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": "opencode-ai", "version": "1\\u001b[2J"}'])
def test_a_package_without_a_usable_version_has_none(tmp_path: Path, text: str):
    program = install_package(tmp_path, "opencode", "opencode-ai", "1.0.0")
    (program.resolve().parent.parent / "package.json").write_text(text)

    assert read_version(AGENT_KINDS["opencode"], program) is None


def test_a_missing_program_is_named(tmp_path: Path):
    environment = {"PATH": str(tmp_path)}

    for profile, name in (
        (AgentProfile("fast", "codex"), "codex"),
        (AgentProfile("x y", "command", run=("x",)), "x"),
    ):
        with pytest.raises(NotAllowed, match=f"no program '{name}' on the PATH"):
            require_program(profile, environment)
    write_program(tmp_path / "codex", tmp_path / "traces")
    require_program(AgentProfile("fast", "codex"), environment)
    require_program(AgentProfile("mine", "command", run=("./in-the-tree", "x")), environment)
    assert find_program(AgentProfile("fast", "codex"), environment) == tmp_path / "codex"


def test_doctor_names_the_programs_and_their_versions_and_starts_none(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    [tested] = AGENT_KINDS["claude"].tested_versions
    install_package(tmp_path, "claude", "@anthropic-ai/claude-code", tested)
    install_package(tmp_path, "gemini", "@google/gemini-cli", "0.0.1")
    write_program(tmp_path / "bin" / "codex", tmp_path / "traces")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")

    shown = sandbox.run("doctor", "--json").json["facts"]["agents"]

    assert shown.split(", ")[0] == f"claude {tested}"
    assert f"codex of an unknown version (tested: {AGENT_KINDS['codex'].tested_versions[0]})" in shown
    assert "gemini 0.0.1 (tested: " in shown
    assert not (tmp_path / "traces").exists()


def test_doctor_reports_what_is_wrong_with_agents(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch):
    folder = sandbox.project.parent / "own" / "deepwork"
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent))
    sandbox.write(".deepwork/config.yml", "run: {chain: night}\nworkspace: {setup: [[./payload]]}\n")

    def list_problems(text: str) -> str:
        (folder / "agents.yml").write_text(text)
        (folder / "agents.yml").chmod(0o600)
        return "\n".join(sandbox.run("doctor", "--json").json["problems"])

    wrong = list_problems("agents: {a: {kind: cloud}}")
    missing = list_problems("agents: {mine: {kind: command, run: [no-such-agent]}}")

    assert "agents.yml:1: agents -> a -> kind: 'cloud' is not known" in wrong
    assert "The agent 'mine' cannot be started: there is no program 'no-such-agent' on the PATH" in missing
    assert "`run.chain`: There is no chain 'night'; known: default" in missing
    assert "until you run `deepwork trust`: workspace.setup" in missing
