"""A small real program that stands in for `claude`: what it does is chosen by a file, what it saw is kept.

`CLAUDE_FAKE_FOLDER` names a folder of its own. In it `plan.json` lists a behaviour for each call; the last one
goes on for ever. Each call leaves `call-<n>.json`: its arguments, what came by standard input, and when, by a clock
that all processes share and that nobody sets.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    folder = Path(os.environ["CLAUDE_FAKE_FOLDER"])
    number = _number(folder)
    plan = json.loads((folder / "plan.json").read_text())
    call: dict[str, Any] = {
        "arguments": sys.argv[1:],
        "stdin": sys.stdin.read(),
        "pid": os.getpid(),
        "began": time.monotonic(),
    }
    call["environment"] = sorted(os.environ)
    _keep(folder, number, call)
    behave(plan[min(number, len(plan) - 1)], folder)
    _keep(folder, number, call | {"ended": time.monotonic()})


def behave(behaviour: Any, folder: Path) -> None:
    """One call; a behaviour is a word, or a verdict to give."""
    if isinstance(behaviour, dict):
        if "after_calls" in behaviour:
            wait_for_calls(folder, behaviour.pop("after_calls"))
        if "seconds" in behaviour:
            time.sleep(behaviour.pop("seconds"))
        answer(behaviour)
    else:
        BEHAVIOURS[behaviour](folder)


def wait_for_calls(folder: Path, count: int) -> None:
    """Go on only when so many calls have begun; not for ever, or a test would have nothing to compare."""
    deadline = time.monotonic() + 60
    while len(list(folder.glob("call-*.json"))) < count and time.monotonic() < deadline:
        time.sleep(0.01)


def answer(verdict: Any) -> None:
    print(
        json.dumps({"type": "result", "is_error": False, "result": "", "structured_output": verdict}),
        flush=True,
    )


def hang(folder: Path) -> None:
    _start_a_child(folder)
    time.sleep(600)


def leave_a_child(folder: Path) -> None:
    """Answers, and leaves behind a child that holds its standard output."""
    _start_a_child(folder)
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


def _start_a_child(folder: Path) -> None:
    """A child that outlives us; whoever sees its number in the folder sees all of it."""
    child = subprocess.Popen(["sleep", "600"])
    beside = folder / ".child.pid"
    beside.write_text(str(child.pid))
    beside.rename(folder / "child.pid")


def _number(folder: Path) -> int:
    with (folder / "count").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        number = int(file.read() or 0)
        file.truncate(0)
        file.write(str(number + 1))
    return number


def _keep(folder: Path, number: int, call: dict[str, Any]) -> None:
    beside = folder / f".call-{number}"
    beside.write_text(json.dumps(call))
    beside.rename(folder / f"call-{number}.json")


if __name__ == "__main__":
    main()
