"""A sender that is killed with a message on its way: the next one tells it, with the same id, and nobody is forgotten."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from application import Clock, make_app
from approvals.make import ask
from deepwork.edge.server.application import Application
from deepwork.gates.approvals.models import ApprovalKind, ApprovalRequest
from deepwork.views.notifications.store import CLAIM_MS
from notifications.make import Receiver, make_channel, make_file, make_sender, save
from overview.make import make_plan
from patience import wait_until

ROOT = Path(__file__).parents[2]
SEND = """
import sys
from pathlib import Path
from application import Clock, make_app
from notifications.make import make_file, make_sender

folder, location, now = sys.argv[1:]
clock = Clock()
clock.now = int(now)
app = make_app(Path(folder), location, clock)
sender = make_sender(app, make_file(Path(folder)))
assert sender.lock("store") is not None
print("began", flush=True)
sender.work()
print("ended", flush=True)
"""


def start(folder: Path, location: str, clock: Clock) -> subprocess.Popen[str]:
    path = os.pathsep.join(map(str, (ROOT / "tests", ROOT, ROOT / "src")))
    return subprocess.Popen(
        [sys.executable, "-c", SEND, str(folder), location, str(clock.now)],
        env=os.environ | {"PYTHONPATH": path}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.differs
def test_a_message_whose_sender_was_killed_is_sent_again_with_the_same_id(
    app: Application, clock: Clock, location: str, tmp_path: Path
):
    plan, tasks = make_plan(app)
    file = make_file(tmp_path)
    with Receiver(hold=threading.Event()) as receiver:
        save(file, make_channel(receiver, added_at=clock.now))
        ask(app, ApprovalRequest(ApprovalKind.TASK, tasks["ship"], plan, {"name": "ship"}))
        killed = start(tmp_path, location, clock)
        try:
            wait_until(lambda: receiver.got or killed.poll() is not None, "the first message")
            other = make_sender(app, file)
            assert other.lock("store") is None  # it lives, and is the sender
        finally:
            killed.send_signal(signal.SIGKILL)
            killed.communicate(timeout=60)
        assert killed.returncode == -signal.SIGKILL
        assert receiver.hold is not None
        receiver.hold.set()

        lock = other.lock("store")  # the kernel released it
        before = other.work()
        clock.advance(seconds=CLAIM_MS // 1000 + 1)
        after = [other.work(), other.work()]

    assert lock is not None
    assert (before, after) == (0, [1, 0])
    first, second = receiver.got
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.said["things"] == second.said["things"]


def test_a_sender_that_ends_by_itself_told_it_once(
    app: Application, clock: Clock, location: str, tmp_path: Path
):
    plan, tasks = make_plan(app)
    file = make_file(tmp_path)
    with Receiver() as receiver:
        save(file, make_channel(receiver, added_at=clock.now))
        ask(app, ApprovalRequest(ApprovalKind.TASK, tasks["ship"], plan, {"name": "ship"}))
        for _ in range(2):
            ended = start(tmp_path, location, clock)
            said, _ = ended.communicate(timeout=300)
            assert (ended.returncode, said.split()) == (0, ["began", "ended"])

    assert len(receiver.got) == 1
    again = make_app(tmp_path, location, clock)
    assert make_sender(again, file).work() == 0
    again.close()
