from __future__ import annotations

import errno
import os
import re
from typing import Any

import pytest

from deepwork.views.observability.calls import CallLog

LINE = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO deepwork\.calls: tool=x outcome=ok\n")


def test_a_line_has_the_format_of_the_text_log():
    reading, writing = os.pipe()

    CallLog(writing).write("tool=x outcome=ok")

    assert LINE.fullmatch(os.read(reading, 1000))


def refuse_flag(*_: Any) -> int:
    raise OSError(errno.EOPNOTSUPP, "not on this system")


@pytest.mark.parametrize("is_supported", [True, False])
def test_a_pipe_that_nobody_reads_blocks_no_call_and_the_loss_is_counted(
    monkeypatch: pytest.MonkeyPatch, is_supported: bool
):
    if not is_supported:
        monkeypatch.setattr(os, "pwritev", refuse_flag)
    reading, writing = os.pipe()
    log = CallLog(writing)

    for _ in range(2000):  # more than a pipe holds
        log.write("tool=x outcome=ok")
    kept = os.read(reading, 1_000_000)
    log.write("tool=x outcome=ok")

    lost = 2000 - kept.count(b"outcome=ok")
    assert lost > 0
    assert os.read(reading, 1000).count(b"%d lines were dropped" % lost) == 1


@pytest.mark.parametrize("message", ["tool=\ud800", "tool=" + "é" * 10_000])
def test_unusual_lines_are_written_too(message: str):
    reading, writing = os.pipe()

    CallLog(writing).write(message)

    assert b"tool=" in os.read(reading, 100_000)


def test_a_closed_standard_error_fails_no_call():
    reading, writing = os.pipe()
    os.close(reading)
    log = CallLog(writing)

    log.write("tool=x")
    os.close(writing)
    log.write("tool=x")
