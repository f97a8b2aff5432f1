"""A program that stands in for `claude`: a file selects its behaviour, and it records each call.

`CLAUDE_FAKE_FOLDER` names a folder of its own. In it `plan.json` lists a behaviour for each call; the last one
is repeated. Each call writes `call-<n>.json`: its arguments, its standard input, and its start and end by the
monotonic clock, which all processes share.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    folder = Path(os.environ["CLAUDE_FAKE_FOLDER"])
    number = _take_number(folder)
    plan = json.loads((folder / "plan.json").read_text())
    call: dict[str, Any] = {
        "arguments": sys.argv[1:],
        "stdin": sys.stdin.read(),
        "pid": os.getpid(),
        "began": time.monotonic(),
    }
    call["environment"] = sorted(os.environ)
    _save_call(folder, number, call)
    behave(plan[min(number, len(plan) - 1)], folder)
    _save_call(folder, number, call | {"ended": time.monotonic()})


def behave(behaviour: Any, folder: Path) -> None:
    """Perform one call; a behaviour is a word, or a verdict to return."""
    if isinstance(behaviour, dict):
        if "after_calls" in behaviour:
            wait_for_calls(folder, behaviour.pop("after_calls"))
        if "seconds" in behaviour:
            time.sleep(behaviour.pop("seconds"))
        answer(behaviour)
    else:
        BEHAVIOURS[behaviour](folder)


def wait_for_calls(folder: Path, count: int) -> None:
    """Wait until this many calls have started, for at most a minute."""
    deadline = time.monotonic() + 60
    while len(list(folder.glob("call-*.json"))) < count and time.monotonic() < deadline:
        time.sleep(0.01)


def answer(verdict: Any) -> None:
    print(
        json.dumps({"type": "result", "is_error": False, "result": "", "structured_output": verdict}),
        flush=True,
    )


def hang(folder: Path) -> None:
    _start_child(folder)
    time.sleep(600)


def leave_a_child(folder: Path) -> None:
    """Answers, and leaves behind a child that holds its standard output."""
    _start_child(folder)
    answer({"passed": True, "feedback": "fine"})


def flood(_: Path) -> None:
    while True:
        os.write(1, b"x" * 65536)


def complain(_: Path) -> None:
    print("quota exceeded", file=sys.stderr, flush=True)
    sys.exit(1)


BEHAVIOURS = {
    "pass": lambda _: answer({"passed": True, "feedback": "fine"}),
    "nonsense": lambda _: print("I think it is good!"),
    "no object": lambda _: print("[1, 2]"),
    "is_error": lambda _: print(json.dumps({"is_error": True, "result": "credit is used up"})),
    "no verdict": lambda _: print(json.dumps({"is_error": False, "result": "good"})),
    "exit 1": complain,
    "hang": hang,
    "flood": flood,
    "leave a child": leave_a_child,
}


def _start_child(folder: Path) -> None:
    """Start a daemon that outlives this process and ignores SIGTERM, and write its pid atomically.

    It is in a session of its own and has no parent, so it is not in the process group of this process.
    """
    if (child := os.fork()) != 0:
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    beside = folder / f".child-{os.getpid()}"  # reviewers run at the same time
    beside.write_text(str(os.getpid()))
    beside.rename(folder / "child.pid")
    os.execvp("sleep", ["sleep", "600"])


def _take_number(folder: Path) -> int:
    with (folder / "count").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        number = int(file.read() or 0)
        file.truncate(0)
        file.write(str(number + 1))
    return number


def _save_call(folder: Path, number: int, call: dict[str, Any]) -> None:
    beside = folder / f".call-{number}"
    beside.write_text(json.dumps(call))
    beside.rename(folder / f"call-{number}.json")


if __name__ == "__main__":
    main()
