"""An answer means "on disk": in the trace of a real server, no answer comes before its flush."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from chaos.strace import attach
from chaos.strace_oracle import CALLS, Reply, find_replies
from deepwork.edge.server.mcp_service import KEY
from protocol.stdio_server import StdioServer
from quick import PLAIN

WRITE = '7 pwrite64(9</p/d.db-wal>, "..."..., 4096, 56) = 4096'
FLUSH = "7 fdatasync(9</p/d.db-wal>) = 0"
REPLY = '8 write(4<pipe:[11]>, "{\\"jsonrpc\\":\\"2.0\\",\\"id\\":3,\\"result\\""..., 90) = 90'


def check_lines(*lines: str) -> list[Reply]:
    return find_replies("\n".join(lines), "pipe:[11]", "-wal")


def test_an_answer_after_its_flush_is_safe():
    assert check_lines(WRITE, WRITE, FLUSH, REPLY) == [Reply(3, 2, is_safe=True)]


@pytest.mark.parametrize(
    "lines",
    [
        (WRITE, REPLY),
        (WRITE, REPLY, FLUSH),
        (FLUSH, WRITE, REPLY),
        (WRITE, FLUSH, WRITE, REPLY),
        (WRITE, "7 fdatasync(9</p/d.db-wal>) = -1 EIO (Input/output error)", REPLY),
        (WRITE, "7 fdatasync(9</p/d.db>) = 0", REPLY),
        (WRITE, "7 fdatasync(9</p/d.db-wal> <unfinished ...>", REPLY, "7 <... fdatasync resumed>) = 0"),
        (
            '7 pwrite64(9</p/d.db-wal>, "..."..., 4096, 56 <unfinished ...>',
            "9 fdatasync(9</p/d.db-wal>) = 0",
            "7 <... pwrite64 resumed>) = 4096",
            REPLY,
        ),
    ],
)
def test_an_answer_before_its_flush_is_detected(lines: tuple[str, ...]):
    assert [reply.is_safe for reply in check_lines(*lines)] == [False]


def test_a_flush_that_another_thread_interrupted_counts_from_its_end():
    begun, ended = "7 fdatasync(9</p/d.db-wal> <unfinished ...>", "7 <... fdatasync resumed>) = 0"

    assert check_lines(WRITE, begun, ended, REPLY) == [Reply(3, 1, is_safe=True)]


def test_only_writes_to_the_client_count_as_answers():
    assert check_lines(WRITE, REPLY.replace("pipe:[11]", "pipe:[12]")) == []


@pytest.mark.needs("strace")
def test_every_answer_of_a_real_server_comes_after_its_flush(tmp_path: Path):
    trace = tmp_path / "trace"
    with StdioServer(tmp_path, command=PLAIN) as wire:
        assert wire.process.stdout is not None
        pipe = f"pipe:[{os.fstat(wire.process.stdout.fileno()).st_ino}]"
        with attach(wire.process.pid, trace, "-s", "64", "-e", f"trace={CALLS}"):
            mutations = call_all_writing_tools(wire)
            wire.call("agent_list")

    answered = find_replies(trace.read_text(), pipe, "deepwork.db-wal")
    assert len(answered) == mutations + 1
    assert [reply for reply in answered if not reply.is_safe] == []
    # Each call wrote something, so none passed for lack of a write; and a read wrote nothing.
    assert all(reply.writes > 0 for reply in answered[:-1])
    assert answered[-1].writes == 0


def call_all_writing_tools(wire: StdioServer) -> int:
    """Call every tool that writes, with a key and without; return the number of calls."""
    count = 0

    def call(tool: str, **arguments: Any) -> Any:
        nonlocal count
        count += 1
        answer = wire.call(tool, arguments, **({KEY: f"key {count}"} if count % 2 else {}))
        assert "code" not in answer, answer
        return answer

    for _ in range(3):
        ada, bob = (call("agent_register", name=name, runtime="custom")["id"] for name in ("Ada", "Bob"))
        call("agent_heartbeat", agent_id=ada)
        call("agent_update", id=bob, status="busy", metadata={"x": "y" * 10_000})
        sent = call("message_send", sender_id=ada, recipient_id=bob, message_type="query", body="hello")
        call("message_broadcast", sender_id=bob, message_type="notification", body="to all")
        call("message_mark_read", message_ids=[sent["id"]])
        call("message_archive", message_ids=[sent["id"]])
        call("agent_unregister", id=ada)
    return count
