"""`deepwork hook` as clients run it: in its own process, and without ever disturbing the agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deepwork.kernel.files.lock import FileLock
from deepwork.views.hooks.failure_log import MAX_LOG, get_log_path, read_last_failure, record_failure
from deepwork.views.hooks.protocol import CLIENTS, EVENTS, MAX_INPUT
from hooks.make import Project, build_event
from protocol.stdio_server import StdioServer

COMMAND = [sys.executable, "-P", "-m", "deepwork", "hook"]
COMMAND_WITHOUT_TIMEOUT = [
    sys.executable, "-P", "-c",
    "import sys; from deepwork.views.hooks import entrypoint as e; e.TIMEOUT_SECONDS = 100; e.main(sys.argv[1:])",
]  # fmt: skip
"""The same with a longer timeout, for tests that are not about time: this machine may be busy."""
PATIENCE_SECONDS = 110


def run_hook(
    folder: Path, words: str, content: bytes, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND_WITHOUT_TIMEOUT, *words.split()], input=content, cwd=folder, capture_output=True, check=False,
        timeout=PATIENCE_SECONDS, env={**os.environ, **environment},
    )  # fmt: skip


def is_silent(done: subprocess.CompletedProcess[bytes]) -> bool:
    """Whether the hook printed nothing and succeeded."""
    return (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def read_failures(folder: Path) -> str:
    return read_last_failure(folder / ".deepwork")[1]


@contextmanager
def hold_lock(lock: Path) -> Iterator[None]:
    """Hold the store's lock, as another process would."""
    held = FileLock(lock)
    with held.hold():
        yield
    held.close()


@pytest.fixture
def root(file_project: Project) -> Path:
    return file_project.app.settings.project_root


def test_hooks_follow_a_session_from_its_first_call_to_its_end(file_project: Project, root: Path):
    """Beside a server on the same file, from a folder below the project."""
    below = root / "src" / "deep"
    below.mkdir(parents=True)
    with StdioServer(root) as wire:
        agent = wire.call("agent_register", {"name": "Ada", "runtime": "codex"})
        [task, _] = file_project.create_plan()
        claim = {"task_id": task, "agent_id": agent["id"]}
        said = wire.call("task_claim", claim)
        content = [{"type": "text", "text": json.dumps(said)}]
        learnt = run_hook(
            below, "tool-use --client codex",
            build_event(
                cwd=str(below), tool_name="mcp__deepwork__task_claim", tool_input=claim,
                tool_response={"content": content, "isError": False},
            ),
        )  # fmt: skip
        begun = run_hook(below, "session-start --client codex", build_event(cwd=str(below), source="compact"))
        ended = run_hook(below, "stop --client codex", build_event(cwd=str(below), stop_hook_active=False))

    assert is_silent(learnt)
    assert task in json.loads(begun.stdout)["hookSpecificOutput"]["additionalContext"]
    assert json.loads(ended.stdout)["decision"] == "block"
    assert read_failures(root) == ""


def test_hooks_do_not_create_a_store(tmp_path: Path):
    done = run_hook(tmp_path, "session-start --client claude-code", build_event(cwd=str(tmp_path)))

    assert is_silent(done)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "content", "said"),
    [
        ("tool-use --client claude-code", b"{", "not JSON"),
        ("stop --client gemini", b"", "not JSON"),
        ("session-start --client codex", build_event(cwd="/does/not/exist"), "does not exist"),
    ],
)
def test_unreadable_input_is_logged_and_not_printed(tmp_path: Path, words: str, content: bytes, said: str):
    (tmp_path / ".deepwork").mkdir()
    (tmp_path / "below").mkdir()

    assert is_silent(run_hook(tmp_path / "below", words, content))
    assert said in read_failures(tmp_path)


@pytest.mark.parametrize(
    "words", ["before-lunch --client claude-code", "stop --client vi", "stop", "stop --again"]
)
def test_invalid_arguments_do_not_block_the_agent(tmp_path: Path, words: str):
    done = run_hook(tmp_path, words, build_event(cwd=str(tmp_path)))

    assert (done.returncode, done.stdout) == (0, b"")
    assert b"Usage: deepwork hook" in done.stderr


def test_a_deleted_working_directory_causes_no_error(file_project: Project, root: Path):
    _, task = file_project.start_task()
    gone, words = root / "gone", "session-start --client claude-code"

    def from_nowhere(content: bytes) -> subprocess.CompletedProcess[bytes]:
        gone.mkdir()
        script = 'rmdir "$PWD" && exec "$@"'
        return subprocess.run(
            ["sh", "-c", script, "sh", *COMMAND_WITHOUT_TIMEOUT, *words.split()], input=content,
            cwd=gone, capture_output=True, timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip

    assert is_silent(from_nowhere(build_event(source="compact")))
    assert task in from_nowhere(build_event(cwd=str(root), source="compact")).stdout.decode()


def test_an_argument_cannot_forge_a_log_line(root: Path):
    (root / ".deepwork").mkdir(exist_ok=True)

    subprocess.run(
        [*COMMAND_WITHOUT_TIMEOUT, "stop\n2026-01-01 all is well"],
        input=b"",
        cwd=root,
        check=True,
        capture_output=True,
    )

    count, line = read_last_failure(root / ".deepwork")
    assert count == 1
    assert "stop 2026-01-01 all is well: BadUsage" in line


def test_the_store_can_be_chosen(file_project: Project, root: Path):
    _, task = file_project.start_task()
    file_project.app.close()
    (root / ".deepwork" / "deepwork.db").rename(root / "elsewhere.db")

    words = "session-start --client claude-code"
    assert is_silent(run_hook(root, words, build_event(cwd=str(root), source="compact")))
    told = run_hook(root, f"{words} --db elsewhere.db", build_event(cwd=str(root), source="compact"))

    assert task in told.stdout.decode()


def test_the_installed_command_answers_like_the_module(file_project: Project, root: Path):
    _, task = file_project.start_task()

    def run(*words: str) -> subprocess.CompletedProcess[bytes]:
        script = f"import sys; from deepwork.edge.cli.main import main; sys.argv = ['deepwork', 'hook', *{words!r}]; main()"
        return subprocess.run(
            [sys.executable, "-P", "-c", script], input=build_event(cwd=str(root), source="compact"), cwd=root,
            capture_output=True, timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip

    assert task in run("session-start", "--client", "claude-code").stdout.decode()
    wrong = run("before-lunch", "--client", "claude-code")
    assert (wrong.returncode, wrong.stdout) == (0, b"")  # 2 would keep the agent from going on


def test_a_very_long_event_is_processed(file_project: Project, root: Path):
    agent, _ = file_project.start_task()
    file_project.execute("UPDATE agents SET last_heartbeat = last_heartbeat - 40000 WHERE id = :id", id=agent)
    before = file_project.fetch_value("SELECT last_heartbeat FROM agents WHERE id = :id", id=agent)

    done = run_hook(
        root, "tool-use --client claude-code",
        build_event(cwd=str(root), tool_name="Read", tool_response="x" * (3 * MAX_INPUT)),
    )  # fmt: skip

    assert is_silent(done)
    assert file_project.fetch_value("SELECT last_heartbeat FROM agents WHERE id = :id", id=agent) > before


def test_a_locked_store_is_not_waited_for(file_project: Project, root: Path):
    agent, _ = file_project.start_task()
    file_project.execute("UPDATE agents SET last_heartbeat = last_heartbeat - 40000 WHERE id = :id", id=agent)
    file_project.app.close()

    with hold_lock(root / ".deepwork" / "deepwork.db.lock"):
        told = run_hook(
            root, "session-start --client claude-code", build_event(cwd=str(root), source="compact")
        )
        renewed = run_hook(
            root, "tool-use --client claude-code", build_event(cwd=str(root), tool_name="Bash")
        )

    assert agent in told.stdout.decode()  # reading waits for nobody
    assert is_silent(renewed)
    assert "was not free within 0.2 s" in read_failures(root)


def test_a_store_of_a_newer_version_is_left_alone(file_project: Project, root: Path):
    file_project.start_task()
    file_project.execute("UPDATE alembic_version SET version_num = '9999'")
    file_project.app.close()

    assert is_silent(
        run_hook(root, "session-start --client claude-code", build_event(cwd=str(root), source="compact"))
    )
    assert "schema 9999" in read_failures(root)


def test_a_store_file_that_is_not_a_database_is_left_alone(root: Path):
    (root / ".deepwork").mkdir(exist_ok=True)
    (root / ".deepwork" / "deepwork.db").write_bytes(b"not a database, surely" * 100)

    assert is_silent(run_hook(root, "session-start --client gemini", build_event(cwd=str(root))))
    assert "not a database" in read_failures(root)
    assert (root / ".deepwork" / "deepwork.db").read_bytes().startswith(b"not a database")


def test_an_unwritable_record_folder_does_not_disturb_the_agent(file_project: Project, root: Path):
    agent = file_project.register_agent()
    (root / ".deepwork" / "hooks").write_text("A file is in the way.")
    given: dict[str, Any] = {"agent_id": agent}

    done = run_hook(
        root, "tool-use --client claude-code",
        build_event(
            cwd=str(root), tool_name="mcp__deepwork__agent_heartbeat", tool_input=given,
            tool_response={"success": True},
        ),
    )  # fmt: skip

    assert is_silent(done)


def test_an_unreachable_database_server_is_logged_and_does_not_block(tmp_path: Path):
    (tmp_path / ".deepwork").mkdir()
    url = "postgresql://nobody@127.0.0.1:1/none"

    done = run_hook(
        tmp_path, "session-start --client codex", build_event(cwd=str(tmp_path)), DEEPWORK_DATABASE_URL=url
    )

    assert is_silent(done)
    assert "cannot be reached" in read_failures(tmp_path)


def test_a_hook_times_out_if_the_client_sends_nothing(root: Path):
    (root / ".deepwork").mkdir(exist_ok=True)
    process = subprocess.Popen(
        [*COMMAND, "stop", "--client", "codex"], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin
    assert process.stdout

    assert process.wait(timeout=PATIENCE_SECONDS) == 0  # though its input is still open
    assert process.stdout.read() == b""
    assert "HookTimeout" in read_failures(root)
    process.stdin.close()
    process.stdout.close()


def test_a_kill_at_any_moment_leaves_a_working_store(file_project: Project, root: Path):
    agent, task = file_project.start_task()
    for moment in range(8):
        file_project.execute("UPDATE agents SET last_heartbeat = 1 WHERE id = :id", id=agent)
        process = subprocess.Popen(
            [*COMMAND, "tool-use", "--client", "claude-code"], cwd=root, stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdin
        process.stdin.write(build_event(cwd=str(root), tool_name="Bash"))
        process.stdin.close()
        time.sleep(0.03 * moment)
        process.send_signal(signal.SIGKILL)
        process.wait()

    file_project.execute("UPDATE agents SET last_heartbeat = 1 WHERE id = :id", id=agent)
    assert is_silent(
        run_hook(root, "tool-use --client claude-code", build_event(cwd=str(root), tool_name="Bash"))
    )
    assert file_project.fetch_value("SELECT last_heartbeat FROM agents WHERE id = :id", id=agent) > 1
    assert file_project.fetch_value("SELECT who FROM leases WHERE what = :id", id=task) == agent
    assert file_project.fetch_value("PRAGMA quick_check") == "ok"


def test_hooks_import_nothing_heavy(file_project: Project, root: Path):
    file_project.start_task()
    heavy = {
        "pydantic",
        "click",
        "fastmcp",
        "mcp",
        "sqlalchemy",
        "alembic",
        "yaml",
        "psycopg",
        "rich",
        "asyncio",
        "hashlib",
        "deepwork.kernel.database.tables",
        "deepwork.delivery",
    }
    script = (
        "import os, sys\n"
        "def end(code):\n"
        f"    found = sorted({heavy!r} & set(sys.modules))\n"
        "    os.write(2, f'{found} {len(sys.modules)}'.encode()); os.kill(os.getpid(), 9)\n"
        "os._exit = end\n"
        "sys.argv = ['deepwork', 'hook', 'session-start', '--client', 'claude-code']\n"
        "from deepwork.__main__ import main; main()\n"
    )

    done = subprocess.run(
        [sys.executable, "-P", "-c", script], input=build_event(cwd=str(root), source="compact"), cwd=root,
        capture_output=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip

    found, _, modules = done.stderr.decode().rpartition(" ")
    assert b"You hold task" in done.stdout
    assert found == "[]"
    assert int(modules) < 200


def test_a_hook_without_a_held_task_imports_no_agents():
    script = (
        "import sys, deepwork.views.hooks.session_events; print('deepwork.work.agents.models' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_the_failure_log_is_bounded_and_keeps_the_newest_lines(tmp_path: Path):
    for number in range(3000):
        record_failure(tmp_path, "stop --client codex", ValueError(f"number {number}\nwith a second line"))

    count, newest = read_last_failure(tmp_path)
    assert get_log_path(tmp_path).stat().st_size <= MAX_LOG + 1000
    assert 0 < count < 3000
    assert "ValueError: number 2999 with a second line" in newest


def test_help_names_every_client_and_event():
    done = subprocess.run(
        [*COMMAND, "--help"], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )

    assert done.returncode == 0
    assert all(name in done.stdout for name in (*CLIENTS, *EVENTS))
