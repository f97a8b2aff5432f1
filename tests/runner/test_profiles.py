"""The agents that a user can start: built in, and in agents.yml of the user's own folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deepwork.delivery.runner.adapters import KINDS
from deepwork.delivery.runner.profiles import (
    AgentProfile,
    ProfileCatalog,
    build_agent_environment,
    load_catalog,
)
from deepwork.kernel.errors import InvalidInput, StorageError
from deepwork.kernel.files.problems import InvalidDefinition
from deepwork.kernel.vendors import AGENT_KINDS

KNOWN = ", ".join(AGENT_KINDS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "deepwork"
    made.mkdir(mode=0o700)
    return made


def load(folder: Path, text: str | None = None, path: str = "/nowhere") -> ProfileCatalog:
    if text is not None:
        (folder / "agents.yml").write_text(text)
        (folder / "agents.yml").chmod(0o600)
    return load_catalog({"XDG_CONFIG_HOME": str(folder.parent), "PATH": path})


def install(folder: Path, *names: str) -> str:
    """Put programs with these names into a folder, and return it as a PATH."""
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return str(folder)


def test_with_nothing_written_there_is_an_agent_of_each_vendor(folder: Path):
    catalog = load(folder)

    assert [(each.name, each.kind) for each in catalog.agents.values()] == [
        (name, name) for name in AGENT_KINDS
    ]
    assert "ANTHROPIC_API_KEY" in catalog.get_agent("claude").env
    assert "GEMINI_API_KEY" in catalog.get_agent("gemini").env


@pytest.mark.parametrize(
    ("installed", "chosen"), [((), "claude"), (("gemini",), "gemini"), (("opencode", "codex"), "codex")]
)
def test_the_built_in_chain_is_the_first_agent_that_is_installed(
    folder: Path, tmp_path: Path, installed: tuple[str, ...], chosen: str
):
    catalog = load(folder, path=install(tmp_path, *installed))

    assert [each.name for each in catalog.get_chain("default")] == [chosen]


def test_agents_and_chains_are_read_from_the_file(folder: Path):
    catalog = load(
        folder,
        "agents:\n"
        "  opus: {kind: claude, model: opus, permission: acceptEdits, allow: [Read, 'Bash(make *)'], env: [GH_TOKEN]}\n"
        "  codex: {sandbox: read-only}\n"
        "  mine: {kind: command, run: [mycmd, --task, '{prompt_file}']}\n"
        "chains:\n"
        "  night: [opus, codex, mine]\n",
    )

    assert catalog.get_chain("night") == (
        AgentProfile(
            "opus", "claude", "opus", "acceptEdits", allow=("Read", "Bash(make *)"), env=("GH_TOKEN",)
        ),
        AgentProfile("codex", "codex", sandbox="read-only", env=AGENT_KINDS["codex"].env),
        AgentProfile("mine", "command", run=("mycmd", "--task", "{prompt_file}")),
    )
    assert set(catalog.chains) == {"default", "night"}


def test_the_example_of_the_page_is_valid(folder: Path):
    page = Path(__file__).parents[2] / "docs" / "howto" / "configure-agents.md"
    [example] = re.findall(r"agents\.yml\"\n(.+?)```", page.read_text(), re.DOTALL)

    catalog = load(folder, example)

    assert [each.name for each in catalog.get_chain("default")] == ["opus", "codex"]
    assert catalog.named == {"opus", "codex", "mine"}


@pytest.mark.parametrize("text", ["", "agents:\nchains:\n", "# nothing yet\n"])
def test_a_file_with_nothing_in_it_adds_nothing(folder: Path, text: str):
    assert load(folder, text) == load(folder)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("agent: {}", r"agents.yml:1: agent: the key 'agent' is unknown; did you mean 'agents'\?"),
        ("agents:\n  a: {kind: cloud}", r"agents.yml:2: agents -> a -> kind: 'cloud' is not known; did you mean"),
        ("agents:\n  a: {kind: x}", f"'x' is not known; allowed: {', '.join(map(repr, KINDS))}"),
        ("agents:\n  a: {model: opus}", "agents.yml:2: agents -> a: the key 'kind' is missing; allowed: claude,"),
        ("agents:\n  a: {kind: claude, modle: o}", "the key 'modle' is unknown; did you mean 'model'"),
        ("agents:\n  a:\n    kind: claude\n    permission: all", "agents.yml:4: .* 'all' is not known; allowed: default, acceptEdits"),
        ("agents: {a: {kind: codex, permission: plan}}", "agents of kind codex have no permission; it is for claude, gemini"),
        ("agents: {a: {kind: codex, sandbox: none}}", "'none' is not known; allowed: read-only, workspace-write"),
        ("agents: {a: {kind: claude, run: [x]}}", "agents of kind claude have no run; it is for command"),
        ("agents: {a: {kind: command}}", "the key 'run' is missing; write the command as a list of words"),
        ("agents: {a: {kind: command, run: []}}", "this list is empty"),
        ("agents: {a: {kind: command, run: mycmd x}}", "run: this must be a list, not text; write the command as a list"),
        ("agents: {a: {kind: command, run: ['', x]}}", "the program has no name"),
        ("agents: {a: {kind: claude, env: {A: b}}}", "env: this must be a list, not a mapping"),
        ("agents: {a: {kind: claude, env: [A=b]}}", "'A=b' is not allowed; write the name of a variable"),
        ("agents: {a: {kind: claude, env: [DEEPWORK_STORE_KEY]}}", "DEEPWORK_STORE_KEY belongs to deepwork"),
        ("agents: {'a b': {kind: claude}}", "the name 'a b' is not allowed; a name has letters"),
        ("chains: {night: [claude, opus]}", f"chains -> night -> 1: there is no agent 'opus'; known: {KNOWN}"),
        ("chains: {night: []}", "this chain is empty; name at least one agent"),
        ("chains: {night: [claude, claude]}", "'claude' occurs twice"),
        ("agents: [", "agents.yml:1: "),
        ("- a", "root: this must be a mapping, not a list"),
    ],
)  # fmt: skip
def test_a_mistake_names_its_line_and_what_is_allowed(folder: Path, text: str, problem: str):
    with pytest.raises(InvalidDefinition, match=problem) as refused:
        load(folder, text)

    assert str(folder / "agents.yml") in refused.value.message


def test_all_mistakes_are_reported_at_once(folder: Path):
    with pytest.raises(InvalidDefinition) as refused:
        load(folder, "agents:\n  a: {kind: command}\n  b: {kind: codex, allow: [x]}\nchains: {c: [d]}\n")

    assert [problem.line for problem in refused.value.problems] == [2, 3, 4]


def test_text_that_is_not_utf_8_is_refused(folder: Path):
    (folder / "agents.yml").write_bytes(b"agents: {}\n# \xff\n")

    with pytest.raises(InvalidDefinition, match=r"agents\.yml:2: The text is not UTF-8"):
        load(folder)


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_may_write_is_refused(folder: Path, mode: int):
    (folder / "agents.yml").write_text("agents: {}\n")
    (folder / "agents.yml").chmod(mode)

    with pytest.raises(StorageError, match="may write it"):
        load(folder)


def test_a_link_is_refused(folder: Path, tmp_path: Path):
    (tmp_path / "elsewhere.yml").write_text("agents: {}\n")
    (folder / "agents.yml").symlink_to(tmp_path / "elsewhere.yml")

    with pytest.raises(StorageError, match="is a link"):
        load(folder)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("mycmd --task {prompt_file}", ("mycmd", "--task", "{prompt_file}")),
        ("run-{prompt_file}", ("run-{prompt_file}",)),
        ("'my cmd' $(id) ; x", ("my cmd", "$(id)", ";", "x")),
        ("mycmd ", ("mycmd",)),
    ],
)
def test_a_command_line_is_an_agent_whose_name_finds_it_again(
    folder: Path, line: str, words: tuple[str, ...]
):
    catalog = load(folder)

    profile = catalog.get_agent(line)

    assert (profile.kind, profile.run, profile.env) == ("command", words, ())
    assert catalog.get_agent(profile.name) == profile


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mycmd 'x", "cannot be read: No closing quotation"),
        (" ", "names no program"),
        ("opus", f"There is no agent 'opus'; known: {KNOWN}"),
        ("", f"There is no agent ''; known: {KNOWN}"),
    ],
)
def test_what_is_neither_a_name_nor_a_command_says_what_is_known(folder: Path, text: str, problem: str):
    with pytest.raises(InvalidInput, match=problem):
        load(folder).get_agent(text)


def test_an_unknown_chain_says_which_there_are_and_where_to_add_it(folder: Path):
    with pytest.raises(InvalidInput, match="There is no chain 'night'; known: default") as refused:
        load(folder).get_chain("night")

    assert str(folder / "agents.yml") in refused.value.suggestion


def test_an_agent_gets_only_harmless_variables_and_those_that_it_names():
    environment = {
        "PATH": "/bin",
        "HOME": "/home/ada",
        "LC_ALL": "C",
        "XDG_CONFIG_HOME": "/c",
        "https_proxy": "http://proxy",
        "GH_TOKEN": "t",
        "AWS_SECRET_ACCESS_KEY": "s",
        "DEEPWORK_STORE_KEY": "k",
        "ANTHROPIC_API_KEY": "a",
    }

    got = build_agent_environment(AgentProfile("a", "claude", env=("GH_TOKEN", "UNSET")), environment)

    assert set(got) == {"PATH", "HOME", "LC_ALL", "XDG_CONFIG_HOME", "https_proxy", "GH_TOKEN"}
