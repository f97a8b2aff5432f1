"""Shell completion, called as a shell calls it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from application import call_tool, make_app
from cli.run import run_deepwork

HEAVY = {"pydantic", "sqlalchemy", "fastmcp", "rich", "psycopg", "asyncio"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / ".deepwork" / "jobs" / "report").mkdir(parents=True)
    (folder / ".deepwork" / "jobs" / "report" / "job.yml").write_text("name: report\n")
    (folder / ".deepwork" / "tmp").mkdir()
    (folder / ".deepwork" / "tmp" / "session_ab12cd34.json").write_text("{}")
    app = make_app(folder, str(folder / ".deepwork" / "deepwork.db"))
    agent = call_tool(app, "agent_register", name="Ada\n\x1b[2J", runtime="codex")["id"]
    plan = call_tool(app, "workflow_create", name="Login", source_type="prompt", source_content="x")["id"]
    call_tool(
        app,
        "workflow_set_plan",
        id=plan,
        plan={"summary": "s", "tasks": [{"name": "a", "description": "", "sequence": 1}]},
    )
    [task] = [each["id"] for each in call_tool(app, "workflow_get", id=plan, include_tasks=True)["tasks"]]
    call_tool(app, "template_create", name="login", from_workflow_id=plan)
    call_tool(app, "template_create", name="$(touch oops)", from_workflow_id=plan)
    app.close()
    (folder / "ids").write_text(f"{agent} {plan} {task}")
    return folder


def complete_with_bash(project: Path, *lines: str) -> list[list[str]]:
    """Return what a real bash offers when TAB is pressed after each of these lines."""
    asked = "\n".join(
        f'COMP_LINE="{line}"; read -ra COMP_WORDS <<< "$COMP_LINE"; [[ "$COMP_LINE" == *" " ]] && COMP_WORDS+=("")\n'
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()\n"
        '_deepwork_completion deepwork "${COMP_WORDS[COMP_CWORD]}" ""\n'
        'echo "offered:${COMPREPLY[*]}"'
        for line in lines
    )
    bin = Path(sys.executable).parent
    ran = subprocess.run(
        ["bash", "--norc", "-c", f'eval "$(deepwork completion bash)"\ncomplete -p deepwork\n{asked}'],
        cwd=project, capture_output=True, text=True, check=True,
        env={**os.environ, "PATH": f"{bin}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert "-F _deepwork_completion deepwork" in ran.stdout
    return [
        line.removeprefix("offered:").split()
        for line in ran.stdout.splitlines()
        if line.startswith("offered:")
    ]


@pytest.mark.needs("bash")
def test_bash_completes_commands_options_values_and_ids(project: Path):
    agent, plan, task = (project / "ids").read_text().split()

    offered = complete_with_bash(
        project,
        "deepwork se",
        "deepwork tasks cl",
        "deepwork agents list --st",
        "deepwork agents list --status o",
        "deepwork plans show --limit 3 wf",
        "deepwork tasks claim tk",
        f"deepwork tasks claim {task} ",
        "deepwork sessions show ",
        "deepwork jobs show r",
        "deepwork templates apply ",
    )

    assert [sorted(each) for each in offered] == [
        ["serve", "sessions", "setup"],
        ["claim"],
        ["--status"],
        ["offline", "online"],
        [plan],
        [task],
        [agent],
        ["ab12cd34"],
        ["report"],
        ["bugfix", "feature", "login", "refactor"],
    ]
    assert not (project / "oops").exists()


def test_completion_imports_nothing_heavy_and_changes_nothing(project: Path):
    before = sorted(path.name for path in (project / ".deepwork").iterdir())
    code = (
        "import sys; from deepwork.edge.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        f"print('heavy:', sorted({HEAVY} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=project, capture_output=True, text=True, check=True,
        env={**os.environ, "_DEEPWORK_COMPLETE": "zsh_complete", "COMP_WORDS": "deepwork agents get ", "COMP_CWORD": "3"},
    )  # fmt: skip

    kind, id, name, heavy = ran.stdout.splitlines()
    assert (kind, heavy) == ("plain", "heavy: []")
    assert id.startswith("ag_")
    assert name == r"Ada\n\x1b[2J"
    assert sorted(path.name for path in (project / ".deepwork").iterdir()) == before


def test_without_a_store_nothing_is_offered_or_created(tmp_path: Path):
    asked = {"_DEEPWORK_COMPLETE": "bash_complete", "COMP_WORDS": "deepwork agents get a", "COMP_CWORD": "3"}

    for words in ((), ("--db", "postgresql://nowhere.invalid/x")):
        typed = " ".join(["deepwork", "agents", "get", *words, "a"])
        ran = run_deepwork(
            tmp_path, environment={**asked, "COMP_WORDS": typed, "COMP_CWORD": str(3 + len(words))}
        )
        assert (ran.code, ran.out.strip(), ran.err) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(tmp_path: Path, shell: str):
    from click.testing import CliRunner

    from deepwork.edge.cli.shell_completion import completion

    script = CliRunner().invoke(completion, [shell])

    assert script.exit_code == 0
    assert f"_DEEPWORK_COMPLETE={shell}_complete" in script.stdout
    assert script.stdout.startswith("# Put this into ~/.")
