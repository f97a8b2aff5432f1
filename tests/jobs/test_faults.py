"""Sessions where things break: kills, full disks, damaged files. The old state or the new, and never in silence."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from application import skip_or_fail
from chaos.strace import attach
from deepwork.edge.server.application import Application
from deepwork.kernel.errors import Code, StateError, StorageError
from deepwork.work.jobs.sessions.files import SessionFiles
from jobs.project import make_step, write_files, write_job
from jobs.runs import call_job_tool, finish_step, get_session, get_session_file, open_app, start_job

CHANGES = "openat,write,fsync,link,linkat,rename,renameat,renameat2,unlink,unlinkat,close"
_CALL = re.compile(r"^\d+\s+(\w+)\(")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_files(tmp_path, "a.md", "b.md", "c.md")
    write_job(tmp_path, "chain", [make_step("a"), make_step("b"), make_step("c")])
    return tmp_path


@pytest.fixture
def app(root: Path) -> Iterator[Application]:
    made = open_app(root)
    yield made
    made.close()


# W4, J13: kill -9 at every call that changes a file


class Saver:
    """A process that waits for a line, then finishes step a of a session."""

    def __init__(self, root: Path, id: str) -> None:
        code = (
            # Ubuntu lets a process be watched by its parents alone, unless it says that anybody may.
            "import ctypes; ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)  # PR_SET_PTRACER\n"
            f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
            "from pathlib import Path\nfrom jobs.runs import *\n"
            f"app = open_app(Path({str(root)!r}))\nget_session(app, {id!r})\n"
            "from deepwork.work.jobs.sessions import state\n"
            "from deepwork.work.jobs.sessions.files import SessionFiles\n"
            f"files = SessionFiles(Path({str(root)!r}) / '.deepwork' / 'tmp'); loaded = files.load({id!r})\n"
            "completed = state.complete_step(loaded, 'a', {'a.md': 'a.md'}, None, state.format_now())\n"
            "changed = state.advance(completed, state.format_now())\n"
            "print('ready', flush=True); sys.stdin.readline()\n"
            "files.save(changed)\nprint('saved', flush=True)\n"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"

    def go(self) -> int:
        """Let it save; how it ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"\n")
        code = self.process.wait(timeout=60)
        self.process.stdin.close()
        self.process.stdout.close()
        return code


@pytest.mark.thorough
@pytest.mark.needs("strace")
@pytest.mark.timeout(1200)  # a process for each call
def test_w4_a_kill_at_any_system_call_leaves_the_old_session_or_the_new(
    root: Path, app: Application, tmp_path: Path
):
    trace = tmp_path / "trace"
    id = start_job(app)
    saver = Saver(root, id)
    with attach(saver.process.pid, trace, "-e", f"trace={CHANGES}"):
        assert saver.go() == 0
    lines = [line for line in trace.read_text().splitlines() if "session_" in line or ".tmp" in line]
    assert any("rename" in line for line in lines)
    calls = Counter(found[1] for line in trace.read_text().splitlines() if (found := _CALL.match(line)))
    points = [(call, number) for call, count in calls.items() for number in range(1, count + 1)]
    steps: Counter[str] = Counter()

    for call, number in points:
        id = start_job(app)
        before = get_session_file(root, id).read_bytes()
        saver = Saver(root, id)
        with attach(
            saver.process.pid, trace, "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}"
        ):
            saver.go()

        kept = SessionFiles(root / ".deepwork" / "tmp").load(id)
        assert kept.current_step_id in {"a", "b"}, (call, number)
        if kept.current_step_id == "a":
            assert get_session_file(root, id).read_bytes() == before, (call, number)
            finish_step(app, "a.md", session_id=id)
        steps[kept.current_step_id] += 1
        assert finish_step(app, "b.md", session_id=id)["begin_step"]["step_id"] == "c"

    print(
        f"killed at {len(points)} calls {dict(calls)}: {steps['a']} times as before, {steps['b']} times as after"
    )
    assert steps["a"] > 3


# disk full


@pytest.fixture
def small_disk(root: Path) -> Iterator[Path]:
    """`.deepwork/tmp` on a disk of its own, of one megabyte."""
    folder = root / ".deepwork" / "tmp"
    folder.mkdir(parents=True)
    if os.geteuid() != 0:
        skip_or_fail("only root can mount a small disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if (mounted := subprocess.run(mount, capture_output=True, text=True, check=False)).returncode:
        skip_or_fail(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return ballast


def test_w4_a_full_disk_refuses_the_step_and_changes_nothing(root: Path, small_disk: Path, app: Application):
    id = start_job(app)
    before = get_session_file(root, id).read_bytes()
    ballast = fill(small_disk)

    for work in (lambda: finish_step(app, "a.md"), lambda: start_job(app)):
        with pytest.raises(StorageError) as full:
            work()
        assert full.value.code is Code.STORAGE_FULL

    assert get_session_file(root, id).read_bytes() == before
    assert call_job_tool(app, "get_workflows")["stack"] == [{"workflow": "chain/main", "step": "a"}]
    ballast.unlink()
    assert finish_step(app, "a.md")["begin_step"]["step_id"] == "b"
    assert [path.name for path in small_disk.glob(".*.tmp")] == []


# damaged files


def test_every_truncated_session_file_is_detected_as_damaged(root: Path, app: Application):
    id = start_job(app)
    finish_step(app, "a.md")
    whole, files = get_session_file(root, id).read_bytes(), SessionFiles(root / ".deepwork" / "tmp")

    for length in range(len(whole)):
        get_session_file(root, id).write_bytes(whole[:length])
        assert files.peek(id) is None, length

    get_session_file(root, id).write_bytes(whole)
    assert files.peek(id) is not None


def test_a_flipped_bit_anywhere_in_a_session_file_is_detected(root: Path, app: Application):
    id = start_job(app)
    whole, chance = get_session_file(root, id).read_bytes(), random.Random(4)
    files = SessionFiles(root / ".deepwork" / "tmp")

    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << chance.randrange(8)
        get_session_file(root, id).write_bytes(bytes(damaged))
        assert files.peek(id) is None, (place, bytes(damaged[max(0, place - 5) : place + 5]))


@pytest.mark.parametrize("damage", [b"", b"{}", b"null", b"[" * 100_000, b"\xff\xfe", b'{"schema": 1}\n'])
def test_a_damaged_session_is_reported_set_aside_and_can_be_restored(
    root: Path, app: Application, damage: bytes
):
    other = start_job(app)
    id = start_job(app)
    finish_step(app, "a.md")
    get_session_file(root, id).write_bytes(damage)

    # Once more by its id: what was put aside is still known as damaged, not as never there.
    for given in ({}, {"session_id": id}):
        with pytest.raises(StateError) as refused:
            finish_step(app, "b.md", **given)
        assert refused.value.code is Code.SESSION_DAMAGED

    [aside] = root.glob(".deepwork/tmp/*.damaged-*")
    assert aside.read_bytes() == damage
    assert aside.name in refused.value.message
    previous = get_session_file(root, id).with_name(f"session_{id}.json.prev")
    assert previous.name in refused.value.suggestion
    assert get_session(app, other)["current_step_id"] == "a"
    assert finish_step(app, "a.md")["begin_step"]["session_id"] == other

    previous.rename(get_session_file(root, id))
    assert finish_step(app, "a.md", session_id=id)["begin_step"]["step_id"] == "b"


def test_a_file_of_an_earlier_version_with_one_key_per_line_is_read(root: Path, app: Application):
    id = start_job(app)
    file = get_session_file(root, id)
    data = json.loads(file.read_bytes())
    del data["sha256"]
    body = ",\n".join(f'  "{key}": {json.dumps(value)}' for key, value in data.items())
    digest = hashlib.sha256(body.encode()).hexdigest()
    file.write_text(f'{{\n{body},\n  "sha256": "{digest}"\n}}\n')

    assert finish_step(app, "a.md", session_id=id)["begin_step"]["step_id"] == "b"


def test_reading_the_stack_does_not_move_a_damaged_file(root: Path, app: Application):
    id = start_job(app)
    get_session_file(root, id).write_bytes(b"damage")

    assert call_job_tool(app, "get_workflows")["stack"] == []
    assert app.job_stack.get_stack("local") == []

    assert get_session_file(root, id).read_bytes() == b"damage"


def test_a_damaged_file_does_not_hide_other_sessions_after_a_restart(root: Path, app: Application):
    damaged, whole = start_job(app), start_job(app)
    get_session_file(root, damaged).write_bytes(b"damage")
    restarted = open_app(root)

    with pytest.raises(StateError, match=whole):
        finish_step(restarted, "a.md")

    restarted.close()


def test_a_pipe_or_a_link_in_the_place_of_a_session_hides_no_other_and_stops_nobody(
    root: Path, app: Application
):
    pipe, link, whole = start_job(app), start_job(app), start_job(app)
    get_session_file(root, pipe).unlink()
    os.mkfifo(get_session_file(root, pipe))
    get_session_file(root, link).rename(root / "elsewhere")
    get_session_file(root, link).symlink_to(root / "elsewhere")

    listed = SessionFiles(root / ".deepwork" / "tmp").list_all()

    assert [session.session_id for session in listed] == [whole]


def test_a_step_is_not_overwritten_by_a_call_whose_lock_was_removed(root: Path, app: Application):
    id = start_job(app)
    folder = get_session_file(root, id).parent
    slow, fast = SessionFiles(folder), SessionFiles(folder)

    with slow.lock(id):
        before = slow.load(id)
        for lock in folder.glob("*.lock*"):
            lock.unlink()
        with fast.lock(id):
            saved = fast.save(fast.load(id))
        with pytest.raises(StorageError) as refused:
            slow.save(before)

    assert refused.value.recoverable
    assert SessionFiles(folder).load(id) == saved


def test_a_linked_folder_of_sessions_is_refused_before_anything_is_written(tmp_path: Path):
    """A link can come with a clone and lead to files of the user."""
    (tmp_path / "outside").mkdir()
    (tmp_path / ".deepwork").mkdir()
    (tmp_path / ".deepwork" / "tmp").symlink_to(tmp_path / "outside")

    with (
        pytest.raises(StorageError, match="tmp is a link"),
        SessionFiles(tmp_path / ".deepwork" / "tmp").lock_creation(),
    ):
        pass

    assert list((tmp_path / "outside").iterdir()) == []
